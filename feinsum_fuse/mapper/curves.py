"""How much less a larger memory has to fetch: curves of a memory's size against the least traffic, or the least energy.

The curve of a kind of mappings is the staircase of Orojenesis (Huang et al., "Mind the Gap", ISCA 2024): left of a step no mapping of the
kind moves as little. Each step is a mapping, which can be saved and run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from ..arguments import HOOK, NUMBER, TEXT, checked, expect, instance
from ..errors import SearchError
from ..formats.arch import Action, Arch, Compute, Leaf, Memory, TensorRules
from ..formats.language.expressions import nearest
from ..formats.mapping import Mapping as LoopTree
from ..formats.spec import Spec, expect_spec
from ..model.evaluation import predict
from ..model.prediction import energy_unit, joules_text
from ..presentation import table
from ..progress import Hook, Stage
from ..whole_file import write_whole
from .driver import search
from .failures import NoMappingError, UnsearchedError
from .options import expect_among
from .problem import ENDLESS

CurveKind = Literal["unfused", "whole", "ffmr", "all"]
CURVE_KINDS: tuple[CurveKind, ...] = get_args(CurveKind)
"""Which mappings: intermediates in the outermost memory; whole in the one or the other; by the Fusion-Friendly Mapping Rule; any."""
FUSED: dict[CurveKind, int | Literal["ffmr"] | None] = {"unfused": 0, "whole": 0, "ffmr": "ffmr", "all": None}
"""Kind of a curve -> the limit on fused loops that :func:`~feinsum_fuse.search` takes."""
Against = Literal["traffic", "energy"]
CLOSE = 1e-9
"""Sums of the same terms in another order differ by less than this fraction."""


@dataclass(frozen=True)
class CurvePoint:
    """One step of a curve: a mapping, and what it needs and moves."""

    size: float
    """Bits that the memory must hold."""
    spec: Spec
    """Workload, the architecture that was given with a memory of this size, and mapping."""
    outer: str
    """The outermost memory."""

    @cached_property
    def traffic(self) -> float:
        """Bits that the outermost memory reads and writes."""
        assert self.spec.arch is not None
        return predict(self.spec.replace(arch=_priced(self.spec.arch, self.outer))).energy

    @cached_property
    def energy(self) -> float:
        """J on the architecture that was given."""
        return predict(self.spec).energy

    @property
    def energy_text(self) -> str:
        """The energy with its unit, marked where it is assumed."""
        return joules_text(self.energy, assumed=self.energies_assumed)

    @property
    def energies_assumed(self) -> bool:
        """Whether the architecture's energies are assumed, as those of a calibration are."""
        return self.spec.arch is not None and self.spec.arch.energies_assumed

    @property
    def mapping(self) -> LoopTree:
        """The LoopTree."""
        assert self.spec.mapping is not None
        return self.spec.mapping

    def save(self, path: str | Path) -> None:
        """Write :attr:`spec` as YAML, for ``feinsum-fuse run``; :class:`SearchError` if that cannot be."""
        try:
            write_whole(Path(path), self.spec.to_yaml())
        except OSError as error:
            raise SearchError(f"{path} cannot be written: {error.strerror}.") from error


@dataclass(frozen=True)
class Curve:
    """The staircase of one kind of mappings, smallest memory first."""

    memory: str
    kind: CurveKind
    against: Against
    points: tuple[CurvePoint, ...]
    capacity: float
    """Bits of the memory in the architecture that was given."""

    def at(self, size: float) -> CurvePoint:
        """The best step for a memory of so many bits; :class:`NoMappingError` where that is too small for any."""
        expect(size, NUMBER, "the size of a memory", SearchError)
        fitting = [point for point in self.points if point.size <= size]
        if not fitting:
            raise NoMappingError(
                f"No {self.kind} mapping fits {self.memory} of {size:g} bits.", hint=f"The smallest takes {self.points[0].size:g} bits."
            )
        return fitting[-1]

    def height(self, point: CurvePoint) -> float:
        """What the curve is drawn against: bits or J."""
        expect(point, instance("a point of a curve", CurvePoint), "point", SearchError)
        return point.traffic if self.against == "traffic" else point.energy

    @property
    def energies_assumed(self) -> bool:
        """Whether the architecture's energies are assumed, as those of a calibration are."""
        return any(point.energies_assumed for point in self.points)

    def __repr__(self) -> str:
        rows = [[f"{p.size:.6g}", f"{p.traffic:.6g}", f"{p.energy:.6g}"] for p in self.points]
        head = [f"{self.memory} / bits", "traffic / bits", f"energy / {energy_unit(assumed=self.energies_assumed)}"]
        return f"{self.kind} mappings, least {self.against}\n{table(head, rows)}"


@checked(UnsearchedError, memory=TEXT, kind=TEXT, against=TEXT, progress=HOOK)
def curve(spec: Spec, memory: str, kind: CurveKind = "all", *, against: Against = "traffic", progress: Hook | None = None) -> Curve:
    """The least traffic of the outermost memory, or the least energy, for every size of a memory (bits).

    ``spec`` needs a workload and an architecture with ``memory`` below its outermost one. ``kind``: which mappings (:data:`CURVE_KINDS`).
    ``against="traffic"`` prices a bit that the outermost memory reads or writes, and nothing else, on an architecture of these two
    memories: what lies between and below does not matter. ``against="energy"`` takes the energy of the whole architecture. ``progress``:
    a hook.

    Raises :class:`UnsearchedError` for a memory or a kind that is not there.
    """
    expect_among("kind", kind, CURVE_KINDS)
    expect_among("against", against, get_args(Against))
    bare = expect_spec(spec).replace(mapping=None, opencl=None)
    outer, inner, unit = _levels(bare, memory)
    given = bare.arch
    assert given is not None
    searched = _priced(Arch((outer, inner, unit)), outer.name) if against == "traffic" else given
    if kind == "unfused":
        searched = _changed(searched, outer.name, lambda leaf: dataclasses.replace(leaf, tensors=TensorRules(keep="All")))
    with Stage(f"curve of {kind} mappings", progress):
        found = search(bare.replace(arch=_sized(searched, memory, ENDLESS)), pareto=("energy", "usage"), fused=FUSED[kind])
    steps: list[CurvePoint] = []
    least = math.inf
    for one in sorted(found.front, key=lambda one: (one.peak[memory], one.energy)):
        if one.energy < least * (1 - CLOSE):
            size, least = one.peak[memory], one.energy
            steps.append(CurvePoint(size, bare.replace(arch=_sized(given, memory, size), mapping=one.mapping), outer.name))
    return Curve(memory, kind, against, tuple(steps), inner.size)


def _levels(spec: Spec, name: str) -> tuple[Memory, Memory, Compute]:
    """The outermost memory, the one whose size varies, and a compute unit."""
    if spec.arch is None:
        raise UnsearchedError("A curve needs an architecture.", hint="Give a file with the key arch.")
    memories = [leaf for leaf in spec.arch.components if isinstance(leaf, Memory)]
    units = [leaf for leaf in spec.arch.components if isinstance(leaf, Compute)]
    found = next((leaf for leaf in memories if leaf.name == name), None)
    if found is None:
        raise UnsearchedError(f"The architecture has no memory {name}.", hint=nearest(name, [leaf.name for leaf in memories]))
    if found is memories[0]:
        raise UnsearchedError(f"{name} is the outermost memory: there is nothing to fetch from.", hint="Name one of the others.")
    if not units:
        raise UnsearchedError("The architecture has no compute unit.")
    rules = TensorRules(keep="~Intermediates", may_keep="All"), TensorRules(keep=f"~{memories[0].name}", may_keep="All")
    return dataclasses.replace(memories[0], tensors=rules[0]), dataclasses.replace(found, tensors=rules[1], spatial=()), units[0]


def _priced(arch: Arch, outer: str) -> Arch:
    """The architecture with 1 J for each bit that the outermost memory reads or writes, and nothing for all else."""

    def price(leaf: Leaf) -> Leaf:
        energy = 1.0 if leaf.name == outer else 0.0
        actions = tuple(Action(action.name, energy=energy) for action in leaf.actions)
        plain = dataclasses.replace(leaf, actions=actions, leak_power=0.0, energy_scale=1.0, actions_scale=1.0)
        if isinstance(plain, Memory):
            return dataclasses.replace(plain, bits_per_action=None, values_per_action=Memory(name="").values_per_action)
        return plain

    return arch.with_leaves(price)


def _sized(arch: Arch, memory: str, size: float) -> Arch:
    """The architecture with another size of a memory."""
    return _changed(arch, memory, lambda leaf: dataclasses.replace(leaf, size=size))


def _changed(arch: Arch, memory: str, change: Callable[[Memory], Memory]) -> Arch:
    def one(leaf: Leaf) -> Leaf:
        return change(leaf) if isinstance(leaf, Memory) and leaf.name == memory else leaf

    return arch.with_leaves(one)
