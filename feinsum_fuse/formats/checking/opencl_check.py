"""Whether OpenCL bindings fit an architecture and a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...errors import SpecError, UnsupportedTypeError
from ...quantization import INT4, group_of
from ..arch import Arch, Memory
from ..language.expressions import nearest
from ..opencl import DTYPES, FANOUT_KINDS, FANOUTS, MEMORY_KINDS, OpenCL
from ..sets import resolve
from ..workload import Workload

OpenCLTables = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Misfit:
    """One thing that does not fit: where in the ``opencl`` block, and whether its key or its value is at fault."""

    path: tuple[str, ...]
    message: str
    hint: str = ""
    key: bool = False


def problems(tables: OpenCLTables, workload: Workload, arch: Arch | None) -> Iterator[Misfit]:
    """What is wrong with ``memories``, ``fanouts``, ``dtypes`` and ``accumulate``; names need an architecture to be checked."""
    yield from binding_problems(tables["memories"], tables["fanouts"], arch)
    for field in ("dtypes", "accumulate"):
        for key, name in tables[field].items():
            known = (*DTYPES, INT4) if field == "dtypes" else DTYPES
            try:
                is_known = name in known or (field == "dtypes" and group_of(name) is not None)
            except UnsupportedTypeError as error:
                yield Misfit((field, key), f"There is no element type {name!r}: {error.message}.", error.hint or "")
                continue
            if not is_known:
                yield Misfit((field, key), f"There is no element type {name!r}.", nearest(name, known))
        for einsum in workload.einsums:
            try:
                resolve(tables[field], workload, einsum.name)
            except SpecError as error:
                yield Misfit((field,), error.message, error.hint)


def binding_problems(memories: Mapping[str, str], fanouts: Mapping[str, str], arch: Arch | None) -> Iterator[Misfit]:
    """What is wrong with the bindings of memories and fanouts."""
    known = None if arch is None else [leaf.name for leaf in arch.components if isinstance(leaf, Memory)]
    yield from _table_problems("memories", "memory", memories, MEMORY_KINDS, known)
    yield from _table_problems("fanouts", "fanout", fanouts, FANOUT_KINDS, None if arch is None else bindable_fanouts(arch))


def bindable_fanouts(arch: Arch) -> list[str]:
    """``Component.Dimension`` for every fanout, and ``Component`` alone where it has only one."""
    names: list[str] = []
    for name, spatial in arch.fanouts.items():
        names += [name] if len(spatial) == 1 else []
        names += [f"{name}.{fanout.name}" for fanout in spatial]
    return names


def _table_problems(field: str, what: str, table: Mapping[str, str], kinds: tuple[str, ...], known: list[str] | None) -> Iterator[Misfit]:
    taken: dict[str, str] = {}
    for name, kind in table.items():
        if known is not None and name not in known:
            hint = nearest(name, known) or f"The architecture has no {what}."
            yield Misfit((field, name), f"The architecture has no {what} {name}.", hint, key=True)
        if kind not in kinds:
            yield Misfit((field, name), f"{kind!r} is no binding of a {what}.", f"Bindings are {', '.join(kinds)}.")
        if kind in FANOUTS and FANOUTS[kind].is_axis and kind in taken:
            yield Misfit((field, name), f"{taken[kind]} and {name} are both bound to {kind}.", "Each index of a device has one fanout.")
        taken[kind] = name


def check_opencl(opencl: OpenCL, arch: Arch | None) -> None:
    """:class:`SpecError` for the first binding that does not fit; element types are the cascade's to check."""
    for problem in binding_problems(opencl.memories, opencl.fanouts, arch):
        raise SpecError(f"opencl.{'.'.join(problem.path)}: {problem.message}", hint=problem.hint)
