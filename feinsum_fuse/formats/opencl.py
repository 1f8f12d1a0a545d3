"""What an architecture's components are on an OpenCL device: the ``opencl`` key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from constantdict import constantdict

from .. import presentation
from ..number_types import BFLOAT16

MemoryKind = Literal["global", "cache", "local", "private", "distributed"]
AddressSpace = Literal["global", "local", "private"]
ADDRESS_SPACES: tuple[AddressSpace, ...] = ("private", "local", "global")
"""Those of OpenCL that arrays lie in, nearest to a work-item first; each is also a kind of memory."""
Level = Literal["group", "local", "vector"]
"""Work-groups, the work-items of a group, the lanes of a vector: what runs the iterations of a fanout at once."""


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
FANOUT_KINDS: tuple[FanoutKind, ...] = ("group.0", "group.1", "group.2", "local.0", "local.1", "local.2", "vector", "unroll", "loop")


def nearest_space(fanouts: Collection[str]) -> AddressSpace:
    """The address space nearest to a work-item in which an array is seen across all of these fanouts."""
    return next(space for space in ADDRESS_SPACES if not any(map(MEMORIES[space].is_hidden_from, fanouts)))


def level_of(fanout: str) -> str:
    """The kind of a binding without its axis: ``local`` of ``local.0``; ``loop`` and ``unroll`` are levels at which nothing is hidden."""
    return fanout.partition(".")[0]


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

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return presentation.text(self)


DTYPES = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    BFLOAT16,
)
"""NumPy names of the element types that a file may name; what a device supports is checked when a kernel is made."""
