"""What an architecture's components are on an OpenCL device: the ``opencl`` key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from constantdict import constantdict

MemoryKind = Literal["global", "cache", "local", "private", "distributed"]
MEMORY_KINDS: tuple[MemoryKind, ...] = ("global", "cache", "local", "private", "distributed")
"""``private``: each work-item's own; ``distributed``: those of all work-items of a group together, each of which holds what it uses."""
PRIVATE_KINDS: frozenset[MemoryKind] = frozenset({"private", "distributed"})
"""Memories that lie in registers, if a tile fits."""
FanoutKind = Literal["group.0", "group.1", "group.2", "local.0", "local.1", "local.2", "vector", "unroll", "loop"]
FANOUT_KINDS: tuple[FanoutKind, ...] = ("group.0", "group.1", "group.2", "local.0", "local.1", "local.2", "vector", "unroll", "loop")


@dataclass(frozen=True)
class OpenCL:
    """Bindings of memories and fanouts, and the element types that run.

    ``fanouts`` keys are ``Component`` or ``Component.Dimension``; ``dtypes`` and ``accumulate`` map set expressions to NumPy type names.
    """

    memories: constantdict[str, MemoryKind] = field(default_factory=constantdict)
    fanouts: constantdict[str, FanoutKind] = field(default_factory=constantdict)
    dtypes: constantdict[str, str] = field(default_factory=constantdict)
    accumulate: constantdict[str, str] = field(default_factory=constantdict)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from .text_tables import opencl_text

        return opencl_text(self)

DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""NumPy names of the element types that a file may name; what a device supports is checked when a kernel is made."""
