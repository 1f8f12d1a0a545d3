"""The Spec: everything a user says, typed, frozen and validated."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import TypedDict, Unpack

from constantdict import constantdict

from .. import presentation
from ..arguments import PATH, described, expect
from ..errors import SpecError
from .arch import Arch
from .mapper import MapperSettings
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


class SpecFields(TypedDict, total=False):
    """What :meth:`Spec.replace` takes."""

    workload: Workload
    arch: Arch | None
    mapping: Mapping | None
    renames: tuple[EinsumRename, ...]
    opencl: OpenCL | None
    variables: constantdict[str, float]
    mapper: MapperSettings | None


@dataclass(frozen=True)
class Spec:
    """A workload with, optionally, an architecture, a mapping and OpenCL bindings."""

    workload: Workload
    arch: Arch | None = None
    mapping: Mapping | None = None
    renames: tuple[EinsumRename, ...] = ()
    opencl: OpenCL | None = None
    variables: constantdict[str, float] = field(default_factory=constantdict)
    mapper: MapperSettings | None = None
    """What the ``mapper`` key asks of :func:`feinsum_fuse.search`."""

    def __post_init__(self) -> None:
        for name, kind in _FIELDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise SpecError(f"the {name} of a Spec is to be {_named(kind)}, not {described(value)}")

    def replace(self, **changes: Unpack[SpecFields]) -> Spec:
        """A copy with some parts replaced, validated again; :class:`MappingError` for a mapping that does not fit."""
        from .checking.mapping_check import check_mapping
        from .checking.opencl_check import check_opencl
        from .checking.workload_check import check_ranks

        result = dataclasses.replace(self, **changes)
        check_ranks(result.workload)
        if result.mapping is not None:
            check_mapping(result.mapping, result.workload, result.arch)
        if result.opencl is not None:
            check_opencl(result.opencl, result.arch)
        return result

    def to_yaml(self) -> str:
        """YAML that loads back to an equal Spec: templates are rendered, renames and numbers resolved."""
        return presentation.yaml(self)

    def save_mapping(self, path: str | Path) -> None:
        """Replace the ``mapping`` block of a user's file by this Spec's; everything else in the file stays as it is.

        The file is written only if it still loads. A file without the block gets it at its end.
        """
        from .writing.saving import save_block

        expect(path, PATH, "the file of a mapping", SpecError)
        if self.mapping is None:
            raise SpecError("The Spec has no mapping to save.")
        save_block(presentation.yaml(self.mapping), Path(path))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = [str(self.workload)]
        parts += [str(part) for part in (self.arch, self.mapping, self.opencl) if part is not None]
        return "\n\n".join(parts)

    def _repr_svg_(self) -> str:
        return presentation.svg(self)


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "workload": Workload,
    "arch": (Arch, NoneType),
    "mapping": (Mapping, NoneType),
    "opencl": (OpenCL, NoneType),
    "mapper": (MapperSettings, NoneType),
}


def _named(kind: type | tuple[type, ...]) -> str:
    return f"a {kind.__name__}" if isinstance(kind, type) else f"a {kind[0].__name__} or None"


def expect_spec(value: object) -> Spec:
    """The value, which must be a Spec; raises :class:`~feinsum_fuse.errors.SpecError` otherwise."""
    if not isinstance(value, Spec):
        raise SpecError(f"a Spec is expected, not {type(value).__name__}", hint="ff.load reads one from files, ff.spec makes one.")
    return value
