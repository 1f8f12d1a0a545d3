"""Which of the given files are mappings to be compared, and where the architecture comes from if no file has one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from constantdict import constantdict

from .. import LoweringError, MappingError, SpecError
from ..formats.language.expressions import nearest
from ..formats.opencl import OpenCL
from ..formats.reading.files import MAX_FILE
from .console import note, passing, progress

if TYPE_CHECKING:
    import pyopencl as cl

    from ..formats.spec import Spec

_TOP_KEY = r"^{}\s*:"
_TEMPLATES = {"{{": "}}", "{%": "%}"}
_TEMPLATE_WORDS = {"and", "assert", "default", "do", "elif", "else", "endfor", "endif", "endmacro", "endset", "false", "for", "if", "in"}
_TEMPLATE_WORDS |= {"int", "is", "join", "length", "list", "loop", "macro", "max", "min", "not", "or", "range", "round", "set", "true"}
"""What stands in templates and is no variable of the user's."""


def has_top_key(file: Path, key: str) -> bool:
    """Whether a file's text has this top key; false for a file that cannot be read, which loading reports."""
    try:
        return re.search(_TOP_KEY.format(key), _beginning(file), re.MULTILINE) is not None
    except OSError:
        return False


def _beginning(file: Path) -> str:
    """What a file holds, up to what loading takes of it: some have no end (``/dev/zero``)."""
    with file.open(errors="replace") as stream:
        return stream.read(MAX_FILE + 1)


def _templates(text: str) -> Iterator[str]:
    """What stands in double braces and statements; a text is walked over once, however many of them are not closed."""
    for begin, end in _TEMPLATES.items():
        start = text.find(begin)
        while start >= 0 and (stop := text.find(end, start)) >= 0:
            yield text[start:stop]
            start = text.find(begin, stop)


def check_variables(files: Sequence[Path], names: Iterable[str]) -> None:
    """Refuse a template variable that no file has, since a misspelt one would change nothing and say nothing.

    Files that include others may pass it on: then nothing is said. Raises :class:`~feinsum_fuse.errors.SpecError`.
    """
    names = list(names)
    if not names:
        return
    texts = [_beginning(file) for file in files if file.is_file()]
    templates = " ".join(part for text in texts for part in _templates(text))
    known = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", templates))
    if len(texts) < len(files) or "include" in templates or any("!include" in text for text in texts):
        return
    for name in names:
        if name not in known:
            hint = nearest(name, [word for word in known if word not in _TEMPLATE_WORDS]) if known else ""
            raise SpecError(f"No file has a template variable {name}.", hint=hint)


def variants(files: Sequence[Path]) -> tuple[list[Path], dict[str, list[Path]]]:
    """(Files that all variants share, label -> files of this variant alone).

    Several files with a mapping are as many variants, called by what distinguishes their names; otherwise there is one.
    """
    mappings = [file for file in dict.fromkeys(files) if has_top_key(file, "mapping")]
    shared = [file for file in files if file not in mappings]
    if len(mappings) < 2:
        label = _label(mappings[0]) if mappings else "default mapping"
        return shared, {label: list(mappings)}
    labels = [_label(file) for file in mappings]
    if len(set(labels)) < len(labels):
        labels = [str(file) for file in mappings]
    return shared, {label: [file] for label, file in zip(labels, mappings, strict=True)}


def _label(file: Path) -> str:
    """``mapping_fused.yaml`` -> ``fused``."""
    return file.stem.removeprefix("mapping_") or file.stem


class Inputs(NamedTuple):
    """What the files hold."""

    specs: dict[str, Spec]
    """Label -> Spec of each variant, each with a mapping if there is any."""
    have_arch: bool
    """Whether the architecture is the user's own."""
    written: Spec
    """The first of them as it was written: the default mapping may be of a rewritten workload."""


def specs(
    files: Sequence[Path],
    given: Mapping[str, object],
    *,
    device: str | cl.Device | None = None,
    dtypes: Mapping[str, str] | None = None,
    measure_now: bool = False,
    include_dirs: Sequence[Path] | None = None,
    top_keys: Sequence[str] | None = None,
    rewriting: bool = True,
) -> Inputs:
    """The Specs of all variants. Without a mapping it is the default one; ``rewriting``: of the workload as it suits the device.

    An architecture that is missing comes from the device file: that of an earlier calibration, or of a quick one now if there is none or
    ``measure_now``.
    """
    from ..formats.reading.load import load

    check_variables(files, given)
    shared, mappings = variants(files)
    dirs, keys = include_dirs or (), tuple(top_keys or ())
    reading = partial(load, variables=given, include_dirs=dirs, top_keys=keys, progress=passing)
    result = {label: reading(*shared, *own) for label, own in mappings.items()}
    if not all(spec.workload.einsums for spec in result.values()):
        raise SpecError("No file has a workload.", hint="Give one with the top key workload.")
    theirs = all(spec.arch is not None for spec in result.values())
    if not theirs:
        file = device_file(device, measure_now=measure_now)
        keys = (*keys, "arch", "opencl") if keys else ()
        result = {label: reading(*shared, *own, file) for label, own in mappings.items()}
    typed = {label: with_dtypes(spec, dtypes) for label, spec in result.items()}
    mapped = {label: with_mapping(spec, device, rewriting=rewriting) for label, spec in typed.items()}
    return Inputs(mapped, theirs, next(iter(typed.values())))


def with_mapping(spec: Spec, device: str | cl.Device | None, *, rewriting: bool = True) -> Spec:
    """The Spec with the default mapping if it has none, by the choice of ``ff.compile``; a remark says what was rewritten for it.

    As it is, under a remark, where no default mapping can be lowered; and where that does not fit the Spec's architecture.
    """
    if spec.mapping is not None:
        return spec
    from ..cascades.reading.reader import cascade
    from ..device.catalogue import find_device, target
    from ..mappings.components import fitted
    from ..mappings.default_mapping import default_spec
    from ..mappings.forms.joined_axes import with_joined_axes
    from ..mappings.forms.suited import suited

    given = cascade(spec)
    chosen = find_device(device) if device is None or isinstance(device, str) else device
    taken = suited(with_joined_axes(given, target(chosen)), target(chosen)) if rewriting else given
    try:
        default = default_spec(taken, opencl=spec.opencl, target=fitted(target(chosen), spec), progress=passing)
    except LoweringError as error:
        note(f"warning: {error}")
        return spec
    try:
        if taken is given:
            return spec.replace(mapping=default.mapping)
        workload = dataclasses.replace(default.workload, n_instances=spec.workload.n_instances)
        found = spec.replace(workload=workload, mapping=default.mapping, opencl=_with_types_of(default, spec.opencl))
    except MappingError:
        return spec
    note(f"the default mapping is of the workload after {', '.join(map(str, taken.rewritings))}")
    return found


def _with_types_of(spec: Spec, opencl: OpenCL | None) -> OpenCL:
    """The bindings with the element types of this Spec's tensors, of which a rewriting has made more."""
    types = spec.opencl or OpenCL()
    return dataclasses.replace(opencl or OpenCL(), dtypes=types.dtypes, accumulate=types.accumulate)


def with_dtypes(spec: Spec, dtypes: Mapping[str, str] | None) -> Spec:
    """The Spec with these element types instead of its own; ``dtypes``: set expression -> NumPy type name."""
    if not dtypes:
        return spec
    return spec.replace(opencl=dataclasses.replace(spec.opencl or OpenCL(), dtypes=constantdict(dtypes)))


def device_file(device: str | cl.Device | None, *, measure_now: bool = False) -> Path:
    """The architecture file of a device; it is measured if that was never done, or if ``measure_now``."""
    from ..device.calibration.device_file import calibrated
    from ..device.catalogue import default_file, find_device

    chosen = find_device(device) if device is None or isinstance(device, str) else device
    file = default_file(chosen)
    if measure_now or not file.exists():
        calibrated(chosen, file, quick=True, progress=progress)
        note(f"device file: {file}")
    return file
