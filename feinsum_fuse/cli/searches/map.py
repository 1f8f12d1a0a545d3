"""``map``: the best LoopTree for a workload on an architecture, by the model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ... import SpecError
from ..console import check_places, draw, emit, emit_json, note, passing
from ..inputs import check_variables, device_file
from ..options import DeviceOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, TopKeyOption, picture_option, variables
from .answers import Standing, data, flipped, mapping_file, text
from .curves import show_curves

if TYPE_CHECKING:
    from ...formats.spec import Spec

ObjectiveOption = Annotated[
    str | None,
    typer.Option("--objective", metavar="NAME", help="energy, latency or edp (their product); else as a mapper key says, or energy."),
]
TopOption = Annotated[int, typer.Option("--top", metavar="K", min=1, help="The K best mappings instead of one.")]
ParetoOption = Annotated[
    str | None, typer.Option("--pareto", metavar="AXES", help="A front over some of energy,latency,usage instead of one mapping.")
]
FusedOption = Annotated[str | None, typer.Option("--fused", metavar="N", help="At most N fused loops, or ffmr for that rule.")]
ImperfectOption = Annotated[bool, typer.Option("--imperfect", help="Tiles need not divide.")]
EvenOption = Annotated[bool, typer.Option("--even", help="What a memory holds for an Einsum stands in two places among its loops.")]
FlipOption = Annotated[bool, typer.Option("--flip/--no-flip", help="Operands may change the roles input and weight.")]
HeadFirstOption = Annotated[bool, typer.Option("--head-first", help="Fused loops begin with a rank called head, then batch.")]
FootprintOption = Annotated[
    str, typer.Option("--footprint", metavar="HOW", help="exact, or sum: working sets of Einsums that share loops add up.")
]
HeadsFuseOption = Annotated[
    bool,
    typer.Option(
        "--head-is-tiled-fusion/--no-head-is-tiled-fusion", help="With --footprint sum: loops over heads alone add up, too, or not."
    ),
]
JobsOption = Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="Processes that search; the result is the same.")]
CacheOption = Annotated[Path | None, typer.Option("--cache", metavar="FOLDER", help="Keep tables there for later searches.")]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume", metavar="FILE", help="Keep there what each stage finds; go on from what FILE already has.")
]
ToleranceOption = Annotated[float, typer.Option("--tolerance", metavar="E", min=0.0, help="Stop within this fraction of the optimum.")]
SecondsOption = Annotated[float | None, typer.Option("--seconds", metavar="S", help="Stop then, with the best so far and its gap.")]
RowsOption = Annotated[
    int | None, typer.Option("--max-rows", metavar="N", min=1, help="Hold so many partial mappings at once (20 million).")
]
CurveOption = Annotated[
    str | None, typer.Option("--curve", metavar="MEMORY", help="Instead: least traffic against the size of this memory.")
]
AgainstOption = Annotated[str, typer.Option("--against", metavar="WHAT", help="With --curve: traffic or energy.")]
SvgOption = Annotated[Path | None, picture_option("Draw the curves, or the best LoopTree")]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the best mapping as YAML, for run.")]


def command(
    files: FilesArgument,
    objective: ObjectiveOption = None,
    top: TopOption = 1,
    pareto: ParetoOption = None,
    fused: FusedOption = None,
    imperfect: ImperfectOption = False,
    even: EvenOption = False,
    flip: FlipOption = True,
    head_first: HeadFirstOption = False,
    footprint: FootprintOption = "exact",
    head_is_tiled_fusion: HeadsFuseOption = True,
    jobs: JobsOption = 1,
    cache: CacheOption = None,
    resume: ResumeOption = None,
    tolerance: ToleranceOption = 0.0,
    seconds: SecondsOption = None,
    max_rows: RowsOption = None,
    curve: CurveOption = None,
    against: AgainstOption = "traffic",
    svg: SvgOption = None,
    output: OutputOption = None,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    top_key: TopKeyOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the mapping that the model finds best, and say whether that is proved.

    FILES hold workload and arch; a mapping in them is ignored. Without an arch the device file of --device is taken (see `calibrate`).
    Where an opencl key says what the arch is on a device, only mappings that `run` can run are looked at, within the limits of --device.
    Ctrl-C ends the search with the best mapping so far. Exit code 1 says that no mapping is legal, and why.
    """
    asked = _chosen(
        objective=objective,
        pareto=_axes(pareto),
        fused=_fused(fused),
        top=top,
        imperfect=imperfect,
        even=even,
        flip=flip,
        head_first=head_first,
        footprint=footprint,
        head_is_tiled_fusion=head_is_tiled_fusion,
        jobs=jobs,
        cache=_text(cache),
        resume=_text(resume),
        tolerance=tolerance,
        seconds=seconds,
        max_rows=max_rows,
    )
    check_places(cache, svg, output, resume)
    _check_together(asked, curve, against, is_front=pareto is not None, top=top)
    spec = _asked(files, variables(set_), device, include_dir, top_key)
    if curve is not None:
        show_curves(spec, curve, against, svg, output, as_json)
    else:
        _search(spec, asked, svg, output, as_json)


def _check_together(asked: Mapping[str, object], curve: str | None, against: str, *, is_front: bool, top: int) -> None:
    """Refuse options that exclude one another."""
    if curve is not None and asked:
        option = f"--{next(iter(asked)).replace('_', '-')}"
        raise typer.BadParameter("curves do not take it: leave out this option or --curve", param_hint=option)
    if curve is None and against != "traffic":
        raise typer.BadParameter("it says what --curve is of: give --curve MEMORY, too", param_hint="--against")
    if is_front and top > 1:
        raise typer.BadParameter("a front has all of its mappings: leave out --top or --pareto", param_hint="--top")


def _chosen(**options: Any) -> dict[str, Any]:
    """The arguments of ``ff.search`` that are not what it takes by itself."""
    import feinsum_fuse as ff

    known = inspect.signature(ff.search).parameters
    return {name: value for name, value in options.items() if value is not None and value != known[name].default}


def _search(spec: Spec, asked: Mapping[str, Any], svg: Path | None, output: Path | None, as_json: bool) -> None:
    """Search, print and write."""
    import feinsum_fuse as ff

    standing = Standing()
    try:
        result = ff.search(spec, **asked, progress=standing)
    finally:
        standing.clear()
    axes, tolerance, changed = asked.get("pareto"), asked.get("tolerance", 0.0), flipped(result, spec)
    if axes is None and "top" not in asked and len(result.front) > 1:
        axes = ["the metrics of the mapper key"]
    emit_json(data(result, spec)) if as_json else emit(text(result, axes, tolerance))
    if changed:
        note(f"input and weight have changed places in {', '.join(changed)}; --no-flip leaves them as the files say")
    if output is not None:
        draw(output, mapping_file(result, tolerance, changed))
    if svg is not None:
        from ...pages.raster import drawn

        draw(svg, drawn(result.front[0].mapping._repr_svg_(), svg))


def _asked(
    files: Sequence[Path], given: dict[str, Any], device: str | None, include_dirs: Sequence[Path] | None, top_keys: Sequence[str] | None
) -> Spec:
    """The Spec to search: of kernels alone where the architecture is a device's."""
    import feinsum_fuse as ff

    from ...mapper.device import lowerable

    check_variables(files, given)
    dirs, keys = include_dirs or (), tuple(top_keys or ())
    spec = ff.load(*files, variables=given, include_dirs=dirs, top_keys=keys, progress=passing)
    if not spec.workload.einsums:
        raise SpecError("No file has a workload.", hint="Give one with the top key workload.")
    if spec.arch is not None and device is None:
        return lowerable(spec) if spec.opencl is not None and spec.opencl.memories else spec
    from ...device.catalogue import find_device, target

    chosen = find_device(device)
    if spec.arch is None:
        keys = (*keys, "arch", "opencl") if keys else ()
        spec = ff.load(*files, device_file(chosen), variables=given, include_dirs=dirs, top_keys=keys, progress=passing)
    return lowerable(spec, target(chosen).limits)


def _axes(text: str | None) -> list[str] | None:
    return None if text is None else [axis.strip() for axis in text.split(",")]


def _fused(text: str | None) -> int | str | None:
    """``ffmr``, a number, or none."""
    if text is None or text == "ffmr":
        return text
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a number nor ffmr", param_hint="--fused")
    return int(text)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
