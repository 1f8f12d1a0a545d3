"""The Spec: everything a user says, typed, frozen and validated."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from constantdict import constantdict

from .arch import Arch
from .mapping import Mapping
from .opencl import OpenCL
from .workload import Workload


@dataclass(frozen=True)
class EinsumRename:
    """The top-level renames of one Einsum, or of every Einsum under the name ``default``; expressions as written."""

    name: str
    tensor_accesses: tuple[tuple[str, str, int | str | None], ...] = ()
    """(new name, set expression, expected count or an expression for it)."""
    rank_variables: tuple[tuple[str, str, int | str | None], ...] = ()


@dataclass(frozen=True)
class Spec:
    """A workload with, optionally, an architecture, a mapping and OpenCL bindings."""

    workload: Workload
    arch: Arch | None = None
    mapping: Mapping | None = None
    renames: tuple[EinsumRename, ...] = ()
    opencl: OpenCL | None = None
    variables: constantdict[str, float] = field(default_factory=constantdict)

    def replace(self, **changes: Any) -> Spec:
        """A copy with some parts replaced, validated again."""
        return dataclasses.replace(self, **changes)
