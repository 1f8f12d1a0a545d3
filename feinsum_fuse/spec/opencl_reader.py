"""Reading the ``opencl`` key: what memories and fanouts are on a device, and the element types that run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from constantdict import constantdict

from ..errors import SpecError
from .arch import Arch, Memory
from .document import Document, Path
from .expressions import nearest
from .inputs import OpenCLInput, read_input
from .opencl import DTYPES, FANOUT_KINDS, MEMORY_KINDS, OpenCL
from .sets import resolve
from .workload import Workload

K = TypeVar("K", bound=str)


def read_opencl(document: Document, workload: Workload, arch: Arch | None) -> OpenCL:
    """The bindings; names are checked against the architecture and the workload."""
    path: Path = ("opencl",)
    given = read_input(OpenCLInput, document.root["opencl"].plain() or {}, document, path)
    memories, fanouts = _bindable(arch) if arch else (None, None)
    result = OpenCL(
        memories=_chosen(document, (*path, "memories"), given.memories, MEMORY_KINDS, memories, "memory"),
        fanouts=_chosen(document, (*path, "fanouts"), given.fanouts, FANOUT_KINDS, fanouts, "fanout"),
        dtypes=constantdict(given.dtypes),
        accumulate=constantdict(given.accumulate),
    )
    for field, table in (("dtypes", result.dtypes), ("accumulate", result.accumulate)):
        for key, name in table.items():
            if name not in DTYPES:
                raise document.error((*path, field, key), f"There is no element type {name!r}.", nearest(name, DTYPES))
        for einsum in workload.einsums:
            with document.blame((*path, field)):
                resolve(table, workload, einsum.name)
    return result


def _bindable(arch: Arch) -> tuple[list[str], list[str]]:
    memories = [leaf.name for leaf in arch.components if isinstance(leaf, Memory)]
    fanouts: list[str] = []
    owners = [(name, [fanout.name for fanout in spatial]) for name, spatial in arch.fanouts.items()]
    for name, dimensions in owners:
        fanouts += [name] if len(dimensions) == 1 else []
        fanouts += [f"{name}.{dimension}" for dimension in dimensions]
    return memories, fanouts


def _chosen(
    document: Document, path: Path, given: dict[str, str], kinds: tuple[K, ...], known: Iterable[str] | None, what: str
) -> constantdict[str, K]:
    result: dict[str, K] = {}
    for name, kind in given.items():
        if known is not None and name not in known:
            hint = nearest(name, known) or f"The architecture has no {what}."
            raise document.error((*path, name), f"The architecture has no {what} {name}.", hint, key=True)
        chosen = next((k for k in kinds if k == kind), None)
        if chosen is None:
            raise document.error((*path, name), f"{kind!r} is no binding of a {what}.", f"Bindings are {', '.join(kinds)}.")
        result[name] = chosen
    taken: dict[str, str] = {}
    for name, kind in result.items():
        if kind.startswith(("group", "local.")) and kind in taken:
            with document.blame((*path, name)):
                raise SpecError(f"{taken[kind]} and {name} are both bound to {kind}.", hint="Each index of a device has one fanout.")
        taken[kind] = name
    return constantdict(result)
