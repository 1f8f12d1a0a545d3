"""Loading: from users' files or text to a validated Spec."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from ...arguments import ANYTHING, HOOK, NOTHING, PATH, TEXT, checked, collection, mapping
from ...errors import ConstraintWarning, SpecError, SpecWarning
from ...progress import Hook, Stage
from ..checking.constraint_check import Violation, violations
from ..checking.mapping_check import check_mapping
from ..language.caps import one_load
from ..language.expressions import nearest
from ..language.variables import numbers_of, read_variables
from ..spec import EinsumRename, Spec
from ..workload import Workload
from .arch_reader import ArchReader
from .document import Document
from .files import read_files, read_string
from .mapping_reader import MappingReader, read_mapper, read_opencl
from .renames import check_top_level, read_top_level
from .workload_reader import WorkloadReader

TOP_KEYS = ("workload", "renames", "arch", "mapping", "opencl", "variables", "config", "mapper", "model")
MAX_VIOLATIONS = 20
"""So many broken constraints are named one by one."""
_IGNORED = ("config", "model")
_RUNS_CODE = ("expression_custom_functions", "component_models")


VARIABLES = mapping("a mapping from names of template variables to values", TEXT, ANYTHING) | NOTHING


@checked(
    SpecError,
    files=PATH,
    variables=VARIABLES,
    include_dirs=collection("a list of folders", PATH),
    top_keys=collection("a list of top keys", TEXT),
    progress=HOOK,
)
def load(
    *files: str | FilePath,
    variables: Mapping[str, object] | None = None,
    include_dirs: Sequence[str | FilePath] = (),
    top_keys: Sequence[str] = (),
    progress: Hook | None = None,
) -> Spec:
    """The Spec in one or several files, each holding some of the top keys; without a workload, what there is of the others.

    ``variables`` are what templates see. Includes stay below ``include_dirs``, and below the repository or package that a file belongs to,
    or else its own folder. With ``top_keys`` (``["arch", "variables"]``) all other top keys are passed over. ``progress`` is told when the
    reading begins and ends.
    Raises :class:`SpecError`, and :class:`MappingError` for a mapping that does not fit, with the place of what is wrong.
    """
    with Stage("reading", progress):
        return read_spec(read_files(files, variables, include_dirs, top_keys))


@checked(SpecError, variables=VARIABLES, base=PATH | NOTHING)
def loads(text: str, variables: Mapping[str, object] | None = None, base: str | FilePath | None = None) -> Spec:
    """The Spec in a text; includes need ``base``, the folder that they are relative to and stay below. Raises as :func:`load` does."""
    return read_spec(read_string(text, variables, base))


def read_spec(document: Document) -> Spec:
    """The Spec in a document."""
    with one_load():
        return _spec(document)


def _spec(document: Document) -> Spec:
    for key in document.root:
        if key not in TOP_KEYS:
            raise document.error((key,), f"{key!r} is no top key.", nearest(key, TOP_KEYS), key=True)
    _ignore(document)
    variables = read_variables(document, ("variables",), {})
    renames = read_top_level(document)
    workload = _workload(document, variables, renames)
    arch = None
    arch_reader = ArchReader(document, variables, workload)
    if "arch" in document.root:
        arch = arch_reader.read()
        arch_reader.check_constraints()
    mapping = None
    if "mapping" in document.root:
        reader = MappingReader(document)
        mapping = reader.read()
        check_mapping(mapping, workload, arch, lambda at, field: document.locate((*reader.places.get(at, ("mapping",)), *field)))
        if arch is not None and workload.einsums:
            _tell_violations(violations(mapping, workload, arch, arch_reader.variables), document, reader, arch_reader)
    opencl = read_opencl(document, workload, arch) if "opencl" in document.root else None
    mapper = read_mapper(document) if "mapper" in document.root else None
    return Spec(workload, arch, mapping, renames, opencl, numbers_of(variables), mapper)


def _tell_violations(found: Sequence[Violation], document: Document, mapping: MappingReader, arch: ArchReader) -> None:
    """One warning for each constraint that the mapping breaks, with both places."""
    for violation in found[:MAX_VIOLATIONS]:
        where = document.locate(mapping.places.get(violation.position, ("mapping",)))
        constraint = document.locate((*arch.paths.get(violation.component, ("arch",)), *violation.field))
        warnings.warn(f"{where}: {violation}\n  The constraint stands at {constraint}", ConstraintWarning, stacklevel=2)
    if len(found) > MAX_VIOLATIONS:
        message = f"The mapping breaks {len(found) - MAX_VIOLATIONS} more constraints of the architecture."
        warnings.warn(message, ConstraintWarning, stacklevel=2)


def _ignore(document: Document) -> None:
    for key in _IGNORED:
        if key not in document.root:
            continue
        content = document.root[key].content
        for field in _RUNS_CODE:
            if isinstance(content, dict) and field in content and content[field].content:
                message = f"{field} would run code from files that the document names; this is refused."
                raise document.error((key, field), message, "Remove it, and write the numbers that it would compute.", key=True)
        warnings.warn(f"The top key {key!r} is accepted and has no effect.", SpecWarning, stacklevel=2)


def _workload(document: Document, variables: Mapping[str, object], renames: tuple[EinsumRename, ...]) -> Workload:
    if "workload" not in document.root:
        if renames or any(key in document.root for key in ("arch", "mapping")):
            return Workload(())
        raise SpecError(f"{document.file} has no workload.", hint="A Spec has one of the top keys workload, arch, mapping and renames.")
    workload = WorkloadReader(document, variables, renames).read()
    check_top_level(document, renames, workload)
    return workload
