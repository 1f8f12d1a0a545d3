"""Reading the ``opencl`` key: what memories and fanouts are on a device, and the element types that run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from constantdict import constantdict

from ..arch import Arch
from ..checking.opencl_check import problems
from ..opencl import FANOUT_KINDS, MEMORY_KINDS, OpenCL
from ..validation.complaints import Path
from ..workload import Workload
from .document import Document
from .fields import OpenCLInput, read_input

K = TypeVar("K", bound=str)


def read_opencl(document: Document, workload: Workload, arch: Arch | None) -> OpenCL:
    """The bindings, checked against the architecture and the workload."""
    path: Path = ("opencl",)
    given = read_input(OpenCLInput, document.root["opencl"].plain() or {}, document, path)
    tables = {"memories": given.memories, "fanouts": given.fanouts, "dtypes": given.dtypes, "accumulate": given.accumulate}
    for problem in problems(tables, workload, arch):
        raise document.error((*path, *problem.path), problem.message, problem.hint, key=problem.key)
    return OpenCL(
        memories=_typed(given.memories, MEMORY_KINDS),
        fanouts=_typed(given.fanouts, FANOUT_KINDS),
        dtypes=constantdict(given.dtypes),
        accumulate=constantdict(given.accumulate),
    )


def _typed(table: Mapping[str, str], kinds: tuple[K, ...]) -> constantdict[str, K]:
    by_name = {str(kind): kind for kind in kinds}
    return constantdict({name: by_name[kind] for name, kind in table.items()})
