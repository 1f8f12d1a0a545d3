"""``export``: a kernel as files that run without this package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ... import Error
from ..console import check_places, emit, emit_json, fail, note, progress
from ..inputs import specs
from ..options import DeviceOption, DtypeOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, dtypes, variables


def command(
    files: FilesArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write; made if it is not there.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the files are called.")] = "program",
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the verified kernel of one mapping as OpenCL C, a C header and host, a Python file, and a README that says how to run them.

    They need OpenCL and nothing of feinsum_fuse. Without a mapping in FILES, the default one is taken, as `run` does.
    """
    import feinsum_fuse as ff

    from ...cascades.joining import shapes_before
    from ...device.catalogue import find_device
    from ...device.program.export import check_name
    from ...device.timing.outcome import KernelError

    check_places(output)
    check_name(name)
    chosen = find_device(device)
    given = specs(files, variables(set_), device=chosen, dtypes=dtypes(dtype), include_dirs=include_dir)
    found = given.specs
    if len(found) > 1:
        raise Error(f"FILES have {len(found)} mappings, {', '.join(found)}; a program has one", hint="Export them one by one.")
    ((label, spec),) = found.items()
    try:
        program = ff.compile(spec, chosen, progress=progress)
    except KernelError as error:
        fail(f"{error}")
        raise typer.Exit(3) from None
    # Who calls the files has arrays of the workload, whose axes the default mapping may have joined.
    program = replace(program, executable=program.executable.shaped(shapes_before(ff.cascade(given.written), program.cascade)))
    written = program.export(output, name)
    if as_json:
        emit_json({"files": list(written), "device": program.device.name, "inputs": program.input_shapes, "outputs": program.output_shapes})
        return
    emit("\n".join(map(str, written)))
    note(f"{label}, verified on {program.device.name}; {output / 'README.rst'} says how to run it")
