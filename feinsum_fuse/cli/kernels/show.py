"""``show``: what a mapping becomes on the way to OpenCL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import CascadeError, MappingError, ScheduleError
from ...progress import Stage
from ..console import draw, emit, emit_json, note, passing, progress
from ..inputs import check_variables, specs, with_dtypes
from ..options import DeviceOption, DtypeOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, dtypes, picture_option, variables

if TYPE_CHECKING:
    from ...formats.spec import Spec
    from ...schedule.schedule import Schedule
    from ...schedule.target import Target

GENERATED = ("schedule", "kernel", "raised", "source", "binary", "model")
"""The parts that need an architecture and a mapping."""


def command(
    files: FilesArgument,
    cascade: Annotated[bool, typer.Option("--cascade", help="The Einsums and tensors.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="The LoopTree.")] = False,
    schedule: Annotated[bool, typer.Option("--schedule", help="The schedule, one step a line.")] = False,
    kernel: Annotated[bool, typer.Option("--kernel", help="The loopy kernel.")] = False,
    raised: Annotated[bool, typer.Option("--raised", help="The LoopTree of that kernel, read from the kernel.")] = False,
    source: Annotated[bool, typer.Option("--source", help="The OpenCL source.")] = False,
    binary: Annotated[bool, typer.Option("--binary", help="What the innermost loops of the machine code consist of.")] = False,
    model: Annotated[bool, typer.Option("--model", help="The LoopTree as the model sees it, with the caches that hardware fills.")] = False,
    upto: Annotated[int | None, typer.Option("--upto", metavar="N", min=0, help="Apply only the first N steps.")] = None,
    cold: Annotated[bool, typer.Option("--cold", help="With --model: caches are empty at first.")] = False,
    svg: Annotated[Path | None, picture_option("Draw the LoopTree (without a mapping: the cascade)")] = None,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cascade, LoopTree, schedule, loopy kernel or OpenCL source; without a choice, cascade, LoopTree and schedule.

    Without an arch in FILES, schedules are for the device file of --device, as `run` has it. Without a mapping, it is the default one for
    that device: what `run` runs.
    """
    import feinsum_fuse as ff

    flags = {"cascade": cascade, "tree": tree, "schedule": schedule, "kernel": kernel, "raised": raised, "source": source}
    flags |= {"binary": binary, "model": model}
    wanted = [name for name, flag in flags.items() if flag]
    given = variables(set_)
    check_variables(files, given)
    spec = with_dtypes(ff.load(*files, variables=given, include_dirs=include_dir or (), progress=passing), dtypes(dtype))
    chosen = wanted or ([] if svg is not None else ["cascade", "tree", "schedule"])
    if any(name in GENERATED for name in chosen) or (spec.mapping is None and "tree" in chosen):
        without = spec
        try:
            (spec,) = specs(files, given, device=device, dtypes=dtypes(dtype), include_dirs=include_dir).specs.values()
            if spec.mapping is None:
                what = "there is no mapping, and the default one does not fit the architecture"
                raise MappingError(what, hint="Give one: `feinsum-fuse map` finds it.")
        except (CascadeError, MappingError) as error:
            if wanted or without.mapping is not None:
                raise
            note(f"warning: {error}")
            spec, chosen = without, ["cascade"]
        if without.mapping is None and spec.mapping is not None:
            note("no file has a mapping: this is the default one, which run takes")
    if svg is not None:
        from ...pages.raster import drawn

        draw(svg, drawn((spec.mapping if spec.mapping is not None else spec)._repr_svg_(), svg))
    _print(_parts(spec, chosen, device, upto, cold), as_json)


def _parts(spec: Spec, wanted: list[str], device: str | None, upto: int | None, cold: bool) -> dict[str, object]:
    """Name -> what prints itself, in the order in which it comes about."""
    parts: dict[str, object] = {}
    if "cascade" in wanted:
        parts["cascade"] = str(spec.workload)
    if "tree" in wanted:
        parts["tree"] = str(spec.mapping)
    if "model" in wanted:
        from ...model.hardware.placement import place_caches

        parts["model"] = str(place_caches(spec, cold=cold).mapping)
    if any(name in GENERATED for name in wanted if name != "model"):
        steps = _schedule(spec, device, upto)
        if "schedule" in wanted:
            parts["schedule"] = steps
        if {"kernel", "raised", "source"} & set(wanted):
            parts |= _generated(spec, steps, wanted, _target(device))
        if "binary" in wanted:
            parts["binary"] = _binary(spec, steps, device)
    return parts


def _schedule(spec: Spec, device: str | None, upto: int | None) -> Schedule:
    """The schedule of this mapping, cut after ``upto`` steps, as it comes back from its JSON."""
    import feinsum_fuse as ff

    from ...schedule.schedule import Schedule

    with Stage("lowering", progress):
        schedule = ff.lower(spec, target=_target(device))
    again = Schedule.from_json(schedule.to_json())
    if again != schedule:
        raise ScheduleError("the schedule does not survive its own JSON", hint="This is a defect of feinsum_fuse: please report it.")
    return again if upto is None else again.upto(upto)


def _target(device: str | None) -> Target:
    """That of the device that is named, else the neutral one."""
    from ...device.catalogue import find_device, target
    from ...schedule.target import ANY_DEVICE

    return target(find_device(device)) if device else ANY_DEVICE


def _generated(spec: Spec, steps: Schedule, wanted: list[str], target: Target) -> dict[str, object]:
    import feinsum_fuse as ff

    from ...codegen.generation import executable

    with Stage("applying the schedule", progress):
        cascade = ff.cascade(spec)
        transformed = steps.apply(cascade.kernel(), target=target)
        parts: dict[str, object] = {}
        if "kernel" in wanted:
            parts["kernel"] = str(transformed)
        if "raised" in wanted:
            parts["raised"] = str(ff.raise_mapping(transformed, target=target).mapping)
        if "source" in wanted:
            parts["source"] = executable(transformed, target=target).source
    return parts


def _binary(spec: Spec, steps: Schedule, device: str | None) -> str:
    """The innermost loops of the machine code that a device's compiler makes."""
    import feinsum_fuse as ff

    from ...codegen.generation import executable
    from ...device.catalogue import find_device, target
    from ...device.program.instruction_mix import machine_loops, mix_table

    found = find_device(device)
    with Stage("compiling", progress):
        kernel = steps.apply(ff.cascade(spec).kernel(), target=target(found))
        return mix_table(machine_loops(executable(kernel, target=target(found)), found))


def _print(parts: dict[str, object], as_json: bool) -> None:
    from ...schedule.schedule import Schedule

    if as_json:
        emit_json({name: json.loads(part.to_json()) if isinstance(part, Schedule) else part for name, part in parts.items()})
        return
    for number, (name, part) in enumerate(parts.items()):
        if len(parts) > 1:
            emit(("\n" if number else "") + name.upper())
        emit(part)
