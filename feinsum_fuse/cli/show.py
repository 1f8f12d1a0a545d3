"""``show``: what a mapping becomes on the way to OpenCL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import ScheduleError
from .console import emit, emit_json, note, progress
from .options import DeviceOption, FilesArgument, JsonOption, SetOption, variables

if TYPE_CHECKING:
    from ..cascade.cascade import Cascade
    from ..schedule.schedule import Schedule
    from ..spec.spec import Spec


def command(
    files: FilesArgument,
    cascade: Annotated[bool, typer.Option("--cascade", help="The Einsums and tensors.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="The LoopTree.")] = False,
    schedule: Annotated[bool, typer.Option("--schedule", help="The schedule, one step a line.")] = False,
    kernel: Annotated[bool, typer.Option("--kernel", help="The loopy kernel.")] = False,
    source: Annotated[bool, typer.Option("--source", help="The OpenCL source.")] = False,
    upto: Annotated[int | None, typer.Option("--upto", metavar="N", min=0, help="Apply only the first N steps.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the LoopTree (without a mapping: the cascade).")] = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cascade, LoopTree, schedule, loopy kernel or OpenCL source; without a choice, cascade, LoopTree and schedule."""
    import feinsum_fuse as ff

    spec = ff.load(*files, variables=variables(set_))
    meaning = ff.cascade(spec)
    if svg is not None:
        _draw(spec, meaning, svg)
    wanted = {"cascade": cascade, "tree": tree, "schedule": schedule, "kernel": kernel, "source": source}
    if not any(wanted.values()):
        if svg is not None:
            return
        wanted |= {"cascade": True, "tree": spec.mapping is not None, "schedule": spec.mapping is not None}
    steps = _schedule(spec, device, upto) if wanted["schedule"] or wanted["kernel"] or wanted["source"] else None
    parts: dict[str, object] = {}
    if wanted["cascade"]:
        parts["cascade"] = str(spec.workload)
    if wanted["tree"]:
        parts["tree"] = str(spec.mapping)
    if steps is not None and wanted["schedule"]:
        parts["schedule"] = steps
    if steps is not None and (wanted["kernel"] or wanted["source"]):
        with progress("applying the schedule"):
            parts |= _generated(meaning, steps, kernel=wanted["kernel"], source=wanted["source"])
    _print(parts, as_json)


def _draw(spec: Spec, meaning: Cascade, file: Path) -> None:
    drawing = spec.mapping if spec.mapping is not None else spec
    file.write_text(drawing._repr_svg_())
    note(f"wrote {file}")


def _schedule(spec: Spec, device: str | None, upto: int | None) -> Schedule:
    """The schedule of this mapping, cut after ``upto`` steps, as it comes back from its JSON."""
    import feinsum_fuse as ff

    from ..schedule.schedule import Schedule

    with progress("lowering"):
        schedule = ff.lower(spec)
    again = Schedule.from_json(schedule.to_json())
    if again != schedule:
        raise ScheduleError("the schedule does not survive its own JSON", hint="This is a defect of feinsum_fuse: please report it.")
    return again if upto is None else again.upto(upto)


def _generated(meaning: Cascade, steps: Schedule, *, kernel: bool, source: bool) -> dict[str, object]:
    from ..device.generation import executable

    transformed = steps.apply(meaning.kernel())
    parts: dict[str, object] = {}
    if kernel:
        parts["kernel"] = str(transformed)
    if source:
        parts["source"] = executable(transformed, outputs=meaning.outputs).source
    return parts


def _print(parts: dict[str, object], as_json: bool) -> None:
    import json

    from ..schedule.schedule import Schedule

    if as_json:
        emit_json({name: json.loads(part.to_json()) if isinstance(part, Schedule) else part for name, part in parts.items()})
        return
    for number, (name, part) in enumerate(parts.items()):
        if len(parts) > 1:
            emit(("\n" if number else "") + name.upper())
        emit(part)
