"""``explain``: why a mapping's kernel takes as long as the model says."""

from __future__ import annotations

from ...progress import Stage
from ..console import emit, emit_json, progress
from ..inputs import specs
from ..options import DeviceOption, DtypeOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, dtypes, variables


def command(
    files: FilesArgument,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what bounds a mapping's kernel, how well it uses the processor, and which change of the mapping would help most.

    Without an arch in FILES, the device file of --device is used (see `calibrate`). Nothing is built or measured.
    """
    from ...report.explanation import explain

    found = {}
    for label, spec in specs(files, variables(set_), device=device, dtypes=dtypes(dtype), include_dirs=include_dir).specs.items():
        with Stage("explaining", progress):
            found[label] = explain(spec, progress=progress)
    if as_json:
        emit_json({label: one.to_json() for label, one in found.items()})
        return
    for label, one in found.items():
        emit(f"{label}\n{one}" if len(found) > 1 else str(one))
