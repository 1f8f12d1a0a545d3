"""Why no mapping is legal: what each constraint removes, which memories are too small, and for what."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from ..formats.arch import Memory, TensorRules, Toll
from .budget import Budget
from .einsum.constraint_counts import constraint_counts, tile_counts, without
from .einsum.einsum_space import homes, levels
from .enumeration.tables import Tables
from .failures import UnprovedError, UnsearchedError
from .joining.joins import Joins
from .joining.structures import Structures
from .problem import ENDLESS, Counted, Problem

RULES = ("keep", "may_keep", "back", "tile_shape", "no_refetch_from_above", "no_resend_to_below", "tensor_order_options")
"""The constraints under ``tensors`` that a mapping may fail to keep."""
PATIENCE_SECONDS = 2.0
"""What finding a reason may take, besides the search itself."""


def infeasible(problem: Problem) -> str:
    """Einsum by Einsum what its constraints leave and the least that each memory must hold; what the cascade needs together."""
    lines = []
    for own in problem.tables:
        if not any(tables.floors(problem.figures.floors) for tables in own):
            lines += [line for tables in own for line in _too_small(tables)]
            first = own[0].space.terms
            lines += constraint_counts(problem.spec.workload, first.einsum, first.components)
            lines += [line for tables in own[:1] for line in tile_counts(tables.space)]
    lines = [*lines, *_needless(problem)] if lines else _together(problem)
    return "\n  ".join(["No mapping fits the memories of the architecture.", *lines])


def _too_small(tables: Tables) -> Iterator[str]:
    """The memories that cannot hold even one value of every tensor that they must keep."""
    space = tables.space
    ones = np.ones((1, len(space.terms.variables)), dtype=np.int64)
    for place, m in enumerate(space.tracked):
        needs = [
            sum(
                float(space.occupied(t, m, space.terms.bounds[None] if m == 0 else ones)[0, place])
                for t in space.tensors
                if m in levels(o[t])
            )
            for o in space.options
        ]
        size = space.sizes[place]
        if needs and min(needs) > size:
            name = space.terms.einsum.name
            yield f"Einsum {name} needs at least {min(needs):g} bits of {space.memory_name(m)}, whose size is {size:g} bits."


def _together(problem: Problem) -> list[str]:
    """The least that each memory must hold for all Einsums together, against its size."""
    if apart := list(_apart(problem)):
        return apart
    sizes = {memory.name: memory.size for memory in problem.tracked}
    least = _least_peaks(problem)
    told = ", ".join(
        f"{name} has {size:g} bits" + (f" and would need {least[name]:g} if the others had no end" if name in least else "")
        for name, size in sizes.items()
    )
    short = [
        f"All Einsums together need at least {least[name]:g} bits of {name}, whose size is {size:g} bits."
        for name, size in sizes.items()
        if least.get(name, 0.0) > size
    ]
    return short or [f"Each Einsum fits alone, but not with what must stay alive for the others: {told}."]


def _apart(problem: Problem) -> Iterator[str]:
    """The tensors that Einsums share and for which no memory is the outermost in all of these."""
    for tensor in sorted(problem.spec.workload.shared):
        found: dict[str, set[str]] = {}
        for space in (tables.space for own in problem.tables for tables in own):
            for number in (t for t, access in enumerate(space.terms.accesses) if access.name == tensor):
                names = {space.memory_name(homes(option)[number]) for option in space.options}
                found.setdefault(space.terms.einsum.name, set()).update(names)
        if not set.intersection(*found.values()):
            told = ", ".join(f"{' or '.join(sorted(names))} in Einsum {einsum}" for einsum, names in found.items())
            yield f"{tensor} has no outermost memory that suits all Einsums: it would be {told}."


def _least_peaks(problem: Problem) -> dict[str, float]:
    """Memory -> the least bits that any mapping of all Einsums needs of it; empty where that takes too long to find."""

    options = dataclasses.replace(problem.options, pareto=("usage",))
    budget = Budget(problem.options.max_rows, time.perf_counter() + PATIENCE_SECONDS)
    spec = dataclasses.replace(problem.spec, arch=problem.arch.resized(lambda memory: memory.size if math.isinf(memory.size) else ENDLESS))
    free = Problem.of(spec, options, Counted(energy=False, seconds=False), budget)
    try:
        joins = Joins(Structures(free.cascade, free.pieces(free.most_fused, (math.inf, math.inf))), free.tracked, budget)
        if joins.relax(lambda figures: True) is None:
            return {}
        states = joins.forward(lambda figures: np.ones(len(figures), dtype=bool))
    except UnprovedError:
        return {}
    if states is None:
        return {}
    return dict(zip((memory.name for memory in free.tracked), map(float, states.carry.peak.min(axis=0)), strict=True))


def _needless(problem: Problem) -> Iterator[str]:
    """The constraints without each of which there would be mappings."""
    end = time.perf_counter() + PATIENCE_SECONDS
    for name, key in [(leaf.name, key) for leaf in problem.arch.components if isinstance(leaf, Memory | Toll) for key in RULES]:
        leaf = next(leaf for leaf in problem.arch.components if leaf.name == name)
        assert isinstance(leaf, Memory | Toll)
        value = getattr(leaf.tensors, key)
        if value == getattr(TensorRules(), key) or time.perf_counter() > end:
            continue
        spec = dataclasses.replace(problem.spec, arch=problem.arch.with_leaves(partial(without, name=name, key=key)))
        relaxed = Problem.of(spec, problem.options, problem.figures, Budget(problem.options.max_rows, end))
        try:
            if np.isfinite(relaxed.floors.total).all():
                yield f"Without {key} of {name} each Einsum would fit alone."
        except (UnprovedError, UnsearchedError):
            continue
