"""What each constraint on what memories hold leaves of an Einsum's storage choices."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from ...formats.arch import Leaf, Memory, TensorRules, Toll
from ...formats.workload import Workload, WorkloadEinsum
from ..errors import UnsearchedError
from .choices import Choices

MOST = 20_000
"""Storage choices beyond which they are not counted."""


def constraint_counts(workload: Workload, einsum: WorkloadEinsum, components: Sequence[Leaf]) -> list[str]:
    """Of how many storage choices those of the architecture are left, and how many each constraint alone removes."""
    given = list(_storage_rules(components))
    free = tuple(without(leaf, leaf.name, "") for leaf in components)
    every = _count(workload, einsum, free)
    left = _count(workload, einsum, components)
    result = [f"Einsum {einsum.name} has {left} of {every} storage choices."]
    for place, key, value in given:
        name = components[place].name
        alone = tuple(leaf if leaf.name == name else one for leaf, one in zip(components, free, strict=True))
        others = [other for at, other, _ in given if at == place and other != key]
        for other in others:
            alone = tuple(without(leaf, name, other) for leaf in alone)
        kept = _count(workload, einsum, alone)
        back = _count(workload, einsum, tuple(without(leaf, name, key) for leaf in components))
        result.append(f"  {key} of {name} ({value}) alone removes {_less(every, kept)}; without it there would be {back}.")
    return result


def _storage_rules(components: Sequence[Leaf]) -> Iterator[tuple[int, str, str]]:
    """(place, key, value) of each constraint on what memories hold."""
    for place, leaf in enumerate(components):
        if isinstance(leaf, Memory | Toll):
            for key in ("keep", "may_keep", "back"):
                value = getattr(leaf.tensors, key)
                if value != getattr(TensorRules(), key):
                    yield place, key, value
            if leaf.enabled != "True":
                yield place, "enabled", leaf.enabled


def without(leaf: Leaf, name: str, key: str) -> Leaf:
    """The component without one of its constraints, all of them for no key, if it is called so."""
    if leaf.name != name or not isinstance(leaf, Memory | Toll):
        return leaf
    if not key:
        return dataclasses.replace(leaf, tensors=TensorRules(), enabled="True")
    if key == "enabled":
        return dataclasses.replace(leaf, enabled="True")
    return dataclasses.replace(leaf, tensors=dataclasses.replace(leaf.tensors, **{key: getattr(TensorRules(), key)}))


def _count(workload: Workload, einsum: WorkloadEinsum, components: Sequence[Leaf]) -> str:
    """How many storage choices there are."""
    try:
        found = sum(1 for _ in itertools.islice(Choices(workload, einsum, tuple(components)).subsets(), MOST + 1))
    except UnsearchedError:
        found = MOST + 1
    return str(found) if found <= MOST else f"more than {MOST}"


def _less(every: str, kept: str) -> str:
    return str(int(every) - int(kept)) if every.isdecimal() and kept.isdecimal() else f"all but {kept}"
