"""The architecture that raised mappings are for: a memory for each address space, a fanout for each axis of a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from constantdict import constantdict

from ..errors import LoweringError
from ..formats.arch import Action, Arch, Compute, Container, Fanout, Memory
from ..formats.opencl import FANOUT_KINDS, FANOUTS, FanoutKind, MemoryKind, OpenCL, level_of
from ..formats.spec import Spec
from ..formats.workload import Workload
from ..lowering.binding import Bindings

_MEMORIES: Mapping[str, MemoryKind] = {
    "MainMemory": "global",
    "Cache": "cache",
    "Scratchpad": "local",
    "Spread": "distributed",
    "Register": "private",
}
_FANOUTS = {"group": "Core", "local": "WorkItem", "vector": "Lane", "unroll": "Lane", "loop": "Lane"}
SINGLE = 4
"""Bytes of the elements that a calibration's work-items have."""
WIDEST = 2**30
"""Iterations that fit a fanout of no device in particular."""


@dataclass(frozen=True)
class Machinery:
    """An architecture with its bindings, by what its components are on a device."""

    arch: Arch
    opencl: OpenCL
    unit: str

    @classmethod
    def neutral(cls) -> Machinery:
        """All kinds of memories and axes, of no device in particular: energies and rates are 1."""
        actions = (Action("read", energy=1.0, throughput=1.0), Action("write", energy=1.0, throughput=1.0))
        memories = {name: Memory(name=name, actions=actions) for name in _MEMORIES}
        cores, items, lanes = (
            Container(name=name, spatial=tuple(Fanout(_dimension(kind), WIDEST) for kind in FANOUT_KINDS if _component(kind) == name))
            for name in dict.fromkeys(_FANOUTS.values())
        )
        arch = Arch(
            (
                *(memories["MainMemory"], memories["Cache"], cores, memories["Scratchpad"], memories["Spread"], items),
                *(memories["Register"], lanes, Compute(name="MAC", actions=(Action("compute", energy=1.0, throughput=1.0),))),
            )
        )
        fanouts: dict[str, FanoutKind] = {f"{_component(k)}.{_dimension(k)}": k for k in FANOUT_KINDS}
        return cls(arch, OpenCL(memories=constantdict(_MEMORIES), fanouts=constantdict(fanouts)), "MAC")

    @classmethod
    def of(cls, spec: Spec) -> Machinery:
        """That of a Spec, such as ``ff.calibrate`` writes. Raises :class:`LoweringError` if it has no architecture with a Compute."""
        unit = next((leaf.name for leaf in spec.arch.components if isinstance(leaf, Compute)), None) if spec.arch is not None else None
        if spec.arch is None or unit is None:
            raise LoweringError("a mapping is raised onto an architecture with a Compute", hint="`feinsum-fuse calibrate` writes one.")
        return cls(spec.arch, spec.opencl or OpenCL(), unit)

    def memory(self, kind: MemoryKind) -> str:
        """The outermost memory of a kind; :class:`LoweringError` if there is none."""
        if (found := next(self._memories(kind), None)) is not None:
            return found
        raise LoweringError(f"the kernel has a tile in {kind} memory, and the architecture has no such memory", hint=_HINT)

    def has_memory(self, kind: MemoryKind) -> bool:
        """Whether there is a memory of a kind."""
        return next(self._memories(kind), None) is not None

    def _memories(self, kind: MemoryKind) -> Iterator[str]:
        bindings = Bindings(Spec(Workload(()), arch=self.arch, opencl=self.opencl))
        return (leaf.name for leaf in self.arch.path(self.unit) if isinstance(leaf, Memory) and bindings.memory(leaf.name) == kind)

    def has(self, kind: FanoutKind) -> bool:
        """Whether there is such an axis."""
        return self._axis(kind) is not None

    def _axis(self, kind: FanoutKind) -> tuple[str, str] | None:
        bindings = Bindings(Spec(Workload(()), arch=self.arch, opencl=self.opencl))
        axes = ((leaf.name, fanout.name) for leaf in self.arch.path(self.unit) for fanout in leaf.spatial)
        return next((axis for axis in axes if bindings.dimension(*axis) == kind), None)

    def items_in_a_vector(self, itemsize: int) -> int:
        """How many work-items with elements of so many bytes the runtime makes a vector of, as a calibration has seen; 1: none."""
        known = int(self.arch.variables.get("items_in_a_vector", 1))
        return max(1, known * SINGLE // itemsize) if self.has("vector") else 1

    def width(self, kind: FanoutKind) -> int:
        """How many instances an axis has; :class:`LoweringError` if there is none."""
        component, dimension = self.fanout(kind)
        leaves = (leaf for leaf in self.arch.path(self.unit) if leaf.name == component)
        return next(fanout.fanout for leaf in leaves for fanout in leaf.spatial if fanout.name == dimension)

    def fanout(self, kind: FanoutKind) -> tuple[str, str]:
        """Component and dimension of an axis; :class:`LoweringError` if there is none."""
        if (found := self._axis(kind)) is not None:
            return found
        raise LoweringError(f"the kernel has a loop on {kind}, and the architecture has no such fanout", hint=_HINT)


_HINT = "Raise it without an architecture, onto one that has everything."


def _component(kind: FanoutKind) -> str:
    return _FANOUTS[level_of(kind)]


def _dimension(kind: FanoutKind) -> str:
    bound = FANOUTS[kind]
    return f"axis{bound.axis}" if bound.is_axis else bound.level
