"""Searches over a grid of architectures."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constantdict import constantdict

from ..arguments import FLAG, HOOK, NUMBER, TEXT, checked, collection, described, mapping
from ..executors import EXECUTOR, Executor
from ..formats.arch import Arch, ArchNode, Array, Component, Fanout, Fork, Hierarchical, Memory
from ..formats.language.expressions import nearest
from ..formats.spec import Spec, expect_spec
from ..model.prediction import energy_unit
from ..presentation import table
from ..progress import Hook, Stage
from .driver import search
from .failures import NoMappingError, UnsearchedError
from .options import Objective
from .result import Found, Result, value_of
from .stocks.store import Shelf

Setting = constantdict[str, float]
"""What of the grid an architecture has: key of the grid -> value."""
NUMBERS = ("size", "leak_power", "area", "energy_scale", "throughput_scale", "leak_power_scale", "n_parallel_instances")
"""The fields of a component that a grid may vary."""


@dataclass(frozen=True)
class Explored:
    """One architecture: the best mapping, or why there is none."""

    setting: Setting
    found: Found | None
    proved: bool
    reason: str = ""


@dataclass(frozen=True)
class Exploration:
    """All architectures of a grid, in the grid's order."""

    objective: Objective
    points: tuple[Explored, ...]

    @property
    def best(self) -> Explored:
        """The best architecture by the objective; :class:`NoMappingError` if no mapping fits any."""
        found = [(value_of(self.objective, point.found), n) for n, point in enumerate(self.points) if point.found is not None]
        if not found:
            raise NoMappingError(f"No mapping fits any of {len(self.points)} architectures: {self.points[0].reason}")
        return self.points[min(found)[1]]

    @property
    def front(self) -> tuple[Explored, ...]:
        """The architectures that no other beats in both energy and latency, in order of energy."""
        rows = sorted(((p.found.energy, p.found.latency, n) for n, p in enumerate(self.points) if p.found is not None))
        kept: list[Explored] = []
        least = float("inf")
        for _, latency, n in rows:
            if latency < least:
                least = latency
                kept.append(self.points[n])
        return tuple(kept)

    def table(self) -> str:
        """One line an architecture; ``*`` marks the front."""
        names = list(self.points[0].setting) if self.points else []
        front = {id(point) for point in self.front}
        assumed = any(point.found.energies_assumed for point in self.points if point.found is not None)
        rows = []
        for point in self.points:
            figures = [f"{f.energy:.6g}", f"{f.latency:.6g}"] if (f := point.found) else [point.reason.split(".")[0], ""]
            rows.append([*(f"{point.setting[name]:g}" for name in names), *figures, "*" if id(point) in front else ""])
        return table([*names, f"energy / {energy_unit(assumed=assumed)}", "latency / s", "front"], rows, numbers=len(names) + 2)

    def __repr__(self) -> str:
        return f"{len(self.points)} architectures, {self.objective}\n{self.table()}"


@checked(
    UnsearchedError,
    grid=mapping("a mapping from names to lists of numbers", TEXT, collection("a list of numbers", NUMBER)),
    objective=TEXT,
    executor=EXECUTOR,
    progress=HOOK,
    share=FLAG,
)
def explore(
    spec: Spec,
    grid: Mapping[str, Sequence[float]],
    objective: Objective = "energy",
    *,
    executor: Executor | None = None,
    progress: Hook | None = None,
    share: bool = True,
    **options: Any,
) -> Exploration:
    """The best mapping on every architecture of a grid.

    ``spec`` needs a workload and an architecture; ``objective`` is what each search makes least, and the best of all is chosen by.
    ``grid``: ``"Memory.size"`` (bits), or another number of a component (:data:`NUMBERS`), or ``"Component.Dimension"``, a fanout, or
    ``"Component"`` where it has one dimension -> the values to try. ``executor``: anything with ``submit``; each group of architectures
    that differ in sizes alone is one task. ``progress``: a hook. ``options``: others of
    :func:`~feinsum_fuse.search`.

    A mapping that is optimal with larger memories and fits smaller ones is optimal there too, and is not searched for again. ``share``:
    architectures that one process searches share the tables of their Einsums where these are equal, as they are where architectures differ
    in figures that the objective does not count, or in a component that an Einsum has no use for; the results are the same without.

    Raises :class:`UnsearchedError` for a key that the architecture does not have. An architecture that no mapping fits says why.
    """
    bare = expect_spec(spec).replace(mapping=None)
    if bare.arch is None:
        raise UnsearchedError("An exploration needs an architecture.", hint="Give a file with the key arch.")
    changes = {key: _change(bare.arch, key) for key in grid}
    _check_values(grid)
    settings = [Setting(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    sizes = [key for key in grid if key.endswith(".size")]
    groups: dict[tuple[float, ...], list[tuple[Setting, Spec]]] = {}
    for setting in settings:
        arch = bare.arch
        for key, value in setting.items():
            arch = changes[key](arch, float(value))
        fixed = tuple(value for key, value in setting.items() if key not in sizes)
        groups.setdefault(fixed, []).append((setting, bare.replace(arch=arch)))
    # Architectures of one group differ in sizes, and so do their tables; groups of an executor run anywhere.
    cache = {"cache": Shelf()} if share and executor is None else {}
    tasks = [(group, objective, tuple(sizes), cache | options) for group in groups.values()]
    points: dict[Setting, Explored] = {}
    with Stage("architectures", progress, len(settings)) as walking:
        answers: Iterable[list[Explored]]
        if executor is None:
            answers = (_group(*task) for task in tasks)
        else:
            waiting = [executor.submit(_group, *task) for task in tasks]
            answers = (future.result() for future in waiting)
        for answer in answers:
            points |= {point.setting: point for point in answer}
            walking.advance(len(answer))
    return Exploration(objective, tuple(points[setting] for setting in settings))


def _group(group: list[tuple[Setting, Spec]], objective: Objective, sizes: tuple[str, ...], options: Mapping[str, Any]) -> list[Explored]:
    """Architectures that differ in sizes of memories, the largest first."""
    done: list[tuple[Setting, Result | None, Explored]] = []
    for setting, spec in sorted(group, key=lambda item: [-item[0][key] for key in sizes]):
        larger = [d for d in done if all(d[0][key] >= setting[key] for key in sizes)]
        impossible = next((d for d in larger if d[1] is None), None)
        fitting = next((d for d in larger if d[1] is not None and d[1].proved and _fits(d[1].front[0], setting, sizes)), None)
        if impossible is not None:
            done.append((setting, None, dataclasses.replace(impossible[2], setting=setting)))
        elif fitting is not None and fitting[1] is not None:
            best = fitting[1].front[0]
            same = dataclasses.replace(best, spec=spec.replace(mapping=best.mapping))
            done.append((setting, fitting[1], Explored(setting, same, True)))
        else:
            try:
                result = search(spec, objective, **options)
                done.append((setting, result, Explored(setting, result.front[0], result.proved)))
            except NoMappingError as error:
                done.append((setting, None, Explored(setting, None, True, error.message)))
    return [explored for _, _, explored in done]


def _fits(found: Found, setting: Setting, sizes: tuple[str, ...]) -> bool:
    return all(found.peak.get(key.partition(".")[0], 0.0) <= setting[key] for key in sizes)


def _check_values(grid: Mapping[str, Sequence[float]]) -> None:
    for key, values in grid.items():
        for value in values:
            if not value >= 0 or math.inf != value > sys.float_info.max:
                raise UnsearchedError(f"{key} is {described(value)}, and is to be a number from 0 on.")


def _change(arch: Arch, key: str) -> Callable[[Arch, float], Arch]:
    """What sets a key of the grid on an architecture."""
    name, _, part = key.partition(".")
    component = next((leaf for leaf in arch.components if leaf.name == name), None)
    fanouts = arch.fanouts.get(name, ())
    if component is None and not fanouts:
        known = [leaf.name for leaf in arch.components] + list(arch.fanouts)
        raise UnsearchedError(f"The architecture has no component {name}, which the grid varies.", hint=nearest(name, known))
    if part in NUMBERS and component is not None and (part != "size" or isinstance(component, Memory)):

        def number(arch: Arch, value: float) -> Arch:
            return dataclasses.replace(arch, nodes=_set(arch.nodes, name, lambda node: dataclasses.replace(node, **{part: value})))

        return number
    dimensions = [fanout.name for fanout in fanouts]
    chosen = part or (dimensions[0] if len(dimensions) == 1 else "")
    if chosen not in dimensions:
        known = [f"{name}.{d}" for d in dimensions] + [f"{name}.{number}" for number in NUMBERS]
        raise UnsearchedError(f"The grid varies {key}, which {name} does not have.", hint=f"It has {', '.join(known)}.")

    def spread(node: Component | Array, value: float) -> Component | Array:
        if not math.isfinite(value) or value != int(value) or value < 1:
            raise UnsearchedError(f"{key} is {value:g}; a fanout is a whole number of 1 or more.")
        spatial: tuple[Fanout, ...] = tuple(dataclasses.replace(f, fanout=int(value)) if f.name == chosen else f for f in node.spatial)
        return dataclasses.replace(node, spatial=spatial)

    return lambda arch, value: dataclasses.replace(arch, nodes=_set(arch.nodes, name, lambda node: spread(node, value)))


def _set(nodes: tuple[ArchNode, ...], name: str, change: Callable[[Any], Any]) -> tuple[ArchNode, ...]:
    """The nodes with the one of this name changed."""
    result: list[ArchNode] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array):
            node = dataclasses.replace(node, nodes=_set(node.nodes, name, change))
        named = not isinstance(node, Hierarchical | Fork) and node.name == name
        result.append(change(node) if named else node)
    return tuple(result)
