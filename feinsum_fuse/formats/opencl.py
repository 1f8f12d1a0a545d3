"""What an architecture's components are on an OpenCL device: the ``opencl`` key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from constantdict import constantdict

from .. import presentation
from ..errors import SpecError
from ..number_types import BFLOAT16

MemoryKind = Literal["global", "cache", "local", "private", "distributed"]
AddressSpace = Literal["global", "local", "private"]
ADDRESS_SPACES: tuple[AddressSpace, ...] = ("private", "local", "global")
"""Those of OpenCL that arrays lie in, nearest to a work-item first; each is also a kind of memory."""
Level = Literal["group", "local", "vector", "unroll", "loop"]
"""What runs the iterations of a fanout: at once work-groups, the work-items of a group or the lanes of a vector; or one after another,
written out or in a loop.
"""


@dataclass(frozen=True)
class OpenCLMemory:
    """What a memory of an architecture is on an OpenCL device; :data:`MEMORIES` is the only place that knows."""

    address_space: AddressSpace
    """Of the arrays of its tiles."""
    hidden_from: frozenset[Level] = frozenset()
    """Across which levels a tile is not seen: each group, work-item or lane has one of its own."""
    holds_copies: bool = True
    """Whether a tensor that another memory backs is copied into it; otherwise it is read and written where it is backed."""
    is_register: bool = False
    """Whether what fits lies in registers."""
    is_distributed: bool = False
    """Whether each work-item holds a part of a tile, although its address space is each work-item's own."""
    is_cache: bool = False
    """Whether the hardware keeps it: no code, and what it backs lies in the nearest address space that all users see."""

    def is_hidden_from(self, fanout: str) -> bool:
        """Whether a tile is not seen across a loop that is bound to this (:data:`FanoutKind`, such as ``local.0``)."""
        return level_of(fanout) in self.hidden_from

    @property
    def is_shared_by_items(self) -> bool:
        """Whether there is one tile for each group, which all of its work-items see."""
        return "group" in self.hidden_from and "local" not in self.hidden_from and not self.is_distributed


MEMORIES: Mapping[str, OpenCLMemory] = MappingProxyType(
    {
        "global": OpenCLMemory("global", holds_copies=False),
        "cache": OpenCLMemory("global", holds_copies=False, is_cache=True),
        "local": OpenCLMemory("local", frozenset({"group"})),
        "private": OpenCLMemory("private", frozenset({"group", "local"}), is_register=True),
        "distributed": OpenCLMemory("private", frozenset({"group"}), is_register=True, is_distributed=True),
    }
)
"""``private``: each work-item's own; ``distributed``: those of all work-items of a group together, each of which holds what it uses."""
MEMORY_KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
PRIVATE_KINDS: frozenset[MemoryKind] = frozenset(kind for kind in MEMORY_KINDS if MEMORIES[kind].is_register)
"""Memories that lie in registers, if a tile fits."""
CACHE_KINDS: frozenset[MemoryKind] = frozenset(kind for kind in MEMORY_KINDS if MEMORIES[kind].is_cache)
"""Memories that the hardware fills."""
SHARED_KINDS: frozenset[MemoryKind] = frozenset(kind for kind in MEMORY_KINDS if not MEMORIES[kind].hidden_from)
"""Memories that all work-groups see."""
GROUP_KINDS: frozenset[MemoryKind] = frozenset(kind for kind in MEMORY_KINDS if MEMORIES[kind].is_shared_by_items)
"""Memories of which each work-group has one."""
MAIN_KINDS: frozenset[MemoryKind] = SHARED_KINDS - CACHE_KINDS
"""Memories that hold the arrays of a kernel."""
FanoutKind = Literal["group.0", "group.1", "group.2", "local.0", "local.1", "local.2", "vector", "unroll", "loop"]


@dataclass(frozen=True)
class OpenCLFanout:
    """What a fanout of an architecture is on an OpenCL device; :data:`FANOUTS` is the only place that knows."""

    level: Level
    axis: int | None = None
    """Of the device, for work-groups and work-items."""

    @property
    def is_axis(self) -> bool:
        """Whether its iterations are work-groups or work-items."""
        return self.axis is not None


FANOUTS: Mapping[str, OpenCLFanout] = MappingProxyType(
    {
        "group.0": OpenCLFanout("group", 0),
        "group.1": OpenCLFanout("group", 1),
        "group.2": OpenCLFanout("group", 2),
        "local.0": OpenCLFanout("local", 0),
        "local.1": OpenCLFanout("local", 1),
        "local.2": OpenCLFanout("local", 2),
        "vector": OpenCLFanout("vector"),
        "unroll": OpenCLFanout("unroll"),
        "loop": OpenCLFanout("loop"),
    }
)
FANOUT_KINDS: tuple[FanoutKind, ...] = get_args(FanoutKind)


def nearest_space(fanouts: Collection[str]) -> AddressSpace:
    """The address space nearest to a work-item in which an array is seen across all of these fanouts."""
    return next(space for space in ADDRESS_SPACES if not any(map(MEMORIES[space].is_hidden_from, fanouts)))


def level_of(fanout: str) -> Level:
    """What runs the iterations of a fanout: ``local`` of ``local.0``; at ``loop`` and ``unroll`` nothing is hidden.

    Raises :class:`~feinsum_fuse.errors.SpecError` for what is no binding, as Python objects may have it that nobody has checked.
    """
    if fanout not in FANOUTS:
        raise SpecError(f"{fanout!r} is no binding of a fanout", hint=f"Bindings are {', '.join(FANOUT_KINDS)}.")
    return FANOUTS[fanout].level


@dataclass(frozen=True)
class OpenCL:
    """Bindings of memories and fanouts, and the element types that run.

    ``fanouts`` keys are ``Component`` or ``Component.Dimension``; ``dtypes`` and ``accumulate`` map set expressions to NumPy type names;
    ``dtypes`` may say ``int4``, or ``int4/64`` for groups of 64, for inputs that are given in four bits.
    """

    memories: constantdict[str, MemoryKind] = field(default_factory=constantdict)
    fanouts: constantdict[str, FanoutKind] = field(default_factory=constantdict)
    dtypes: constantdict[str, str] = field(default_factory=constantdict)
    accumulate: constantdict[str, str] = field(default_factory=constantdict)

    def fanout(self, component: str, dimension: str) -> FanoutKind:
        """What a dimension of a component's fanout is; an ordinary loop if nothing is said. Raises as :func:`level_of`."""
        found = self.fanouts.get(f"{component}.{dimension}", self.fanouts.get(component, "loop"))
        level_of(found)
        return found

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return presentation.text(self)


DTYPES = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    BFLOAT16,
)
"""NumPy names of the element types that a file may name; what a device supports is checked when a kernel is made."""
