"""``map``: the best LoopTree for a workload on an architecture, by the model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ... import SpecError
from ..console import check_places, draw, emit, emit_json, note, progress
from ..inputs import check_variables, device_file
from ..options import DeviceOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, TopKeyOption, variables

if TYPE_CHECKING:
    from ...formats.spec import Spec
    from ...mapper import Found, Result
    from ...mapper.curves import Curve, Point
    from ...progress import Progress

UNITS = {"energy": "J", "latency": "s", "edp": "J s"}
SOON = 1.0
"""Seconds of a search before it says where it is."""


def command(
    files: FilesArgument,
    objective: Annotated[
        str | None,
        typer.Option("--objective", metavar="NAME", help="energy, latency or edp (their product); else as a mapper key says, or energy."),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="K", min=1, help="The K best mappings instead of one.")] = 1,
    pareto: Annotated[
        str | None, typer.Option("--pareto", metavar="AXES", help="A front over some of energy,latency,usage instead of one mapping.")
    ] = None,
    fused: Annotated[str | None, typer.Option("--fused", metavar="N", help="At most N fused loops, or ffmr for that rule.")] = None,
    imperfect: Annotated[bool, typer.Option("--imperfect", help="Tiles need not divide.")] = False,
    flip: Annotated[bool, typer.Option("--flip/--no-flip", help="Operands may change the roles input and weight.")] = True,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="Processes that search; the result is the same.")] = 1,
    cache: Annotated[Path | None, typer.Option("--cache", metavar="FOLDER", help="Keep tables there for later searches.")] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", metavar="E", min=0.0, help="Stop within this fraction of the optimum.")] = 0.0,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", help="Stop then, with the best so far and its gap.")] = None,
    curve: Annotated[
        str | None, typer.Option("--curve", metavar="MEMORY", help="Instead: least traffic against the size of this memory.")
    ] = None,
    against: Annotated[str, typer.Option("--against", metavar="WHAT", help="With --curve: traffic or energy.")] = "traffic",
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the curves, or the best LoopTree.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the best mapping as YAML, for run.")] = None,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    top_key: TopKeyOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the mapping that the model finds best, and say whether that is proved.

    FILES hold workload and arch; a mapping in them is ignored. Without an arch the device file of --device is taken (see `calibrate`).
    Where an opencl key says what the arch is on a device, only mappings that `run` can run are looked at. Ctrl-C ends the search with the
    best mapping so far. Exit code 1 says that no mapping is legal, and why.
    """
    import feinsum_fuse as ff

    check_places(None, svg, output)
    if curve is None and against != "traffic":
        raise typer.BadParameter("it says what --curve is of: give --curve MEMORY, too", param_hint="--against")
    if pareto is not None and top > 1:
        raise typer.BadParameter("a front has all of its mappings: leave out --top or --pareto", param_hint="--top")
    if curve is not None:
        searching = {"--objective": objective, "--pareto": pareto, "--fused": fused, "--seconds": seconds, "--output": output}
        searching |= {"--jobs": jobs > 1, "--cache": cache, "--no-flip": not flip}
        _refuse({**searching, "--top": top > 1, "--imperfect": imperfect, "--tolerance": tolerance > 0})
    axes = None if pareto is None else [axis.strip() for axis in pareto.split(",")]
    spec = _asked(files, variables(set_), device, include_dir, top_key)
    if curve is not None:
        _curves(spec, curve, against, svg, as_json)
        return
    result = ff.search(
        spec,
        objective,  # type: ignore[arg-type]
        top=top,
        pareto=axes,
        fused=_fused(fused),
        imperfect=imperfect,
        flip=flip,
        jobs=jobs,
        cache=None if cache is None else str(cache),
        tolerance=tolerance,
        seconds=seconds,
        progress=_report,
    )
    if axes is None and top == 1 and len(result.front) > 1:
        axes = ["the metrics of the mapper key"]
    emit_json(_data(result, spec)) if as_json else emit(_text(result, axes, tolerance))
    if names := flipped(result, spec):
        note(f"input and weight have changed places in {', '.join(names)}; --no-flip leaves them as the files say")
    if output is not None:
        draw(output, _mapping_file(result, tolerance, flipped(result, spec)))
    if svg is not None:
        draw(svg, result.front[0].mapping._repr_svg_())


def _refuse(searching: Mapping[str, object]) -> None:
    """Options of a search, whichever is given, say nothing to curves."""
    for option, value in searching.items():
        if value is not None and value is not False:
            raise typer.BadParameter("curves do not take it: leave out this option or --curve", param_hint=option)


def _asked(
    files: Sequence[Path], given: dict[str, Any], device: str | None, include_dirs: Sequence[Path] | None, top_keys: Sequence[str] | None
) -> Spec:
    """The Spec to search: of kernels alone where the architecture is a device's."""
    import feinsum_fuse as ff

    from ...mapper.device import lowerable

    check_variables(files, given)
    dirs, keys = include_dirs or (), tuple(top_keys or ())
    spec = ff.load(*files, variables=given, include_dirs=dirs, top_keys=keys)
    if not spec.workload.einsums:
        raise SpecError("No file has a workload.", hint="Give one with the top key workload.")
    limits = None
    if spec.arch is None:
        from ...device.catalogue import find_device, target

        chosen = find_device(device)
        keys = (*keys, "arch", "opencl") if keys else ()
        spec, limits = ff.load(*files, device_file(chosen), variables=given, include_dirs=dirs, top_keys=keys), target(chosen).limits
    return lowerable(spec, limits) if spec.opencl is not None and spec.opencl.memories else spec


def _report(now: Progress) -> None:
    """Say on stderr where a search is, once it takes longer than a second."""
    if now.seconds > SOON:
        print(f"\r\x1b[K{now}", end="\r", file=sys.stderr, flush=True) if sys.stderr.isatty() else note(str(now))


def _fused(text: str | None) -> Any:
    """``ffmr``, a number, or none."""
    if text is None or text == "ffmr":
        return text
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a number nor ffmr", param_hint="--fused")
    return int(text)


def _text(result: Result, axes: Sequence[str] | None, tolerance: float) -> str:
    """The best mapping, its figures, and what is proved."""
    count = len(result.front)
    figure = f"{result.objective} {result.value:.6g} {UNITS[result.objective]}"
    what = f"front of {count} over {', '.join(axes)}" if axes else f"best {count}, from {figure}" if count > 1 else figure
    which = [f"mapping 1 of {count}; --json has the others"] if count > 1 else []
    lines = [f"{what}, {_state(result, tolerance)}", "", result.table(), "", *which, str(result.front[0].mapping)]
    if result.omitted:
        lines += ["", f"not searched: {'; '.join(result.omitted)}"]
    return "\n".join(lines)


def _state(result: Result, tolerance: float) -> str:
    """What is proved. With a tolerance a search ends before it knows more than that."""
    if not result.proved:
        return f"not proved: the floor is {result.floor:.6g}, {100 * result.gap:.3g} % below"
    if tolerance and result.value > result.floor:
        return f"proved within {100 * tolerance:.3g} % of the optimum"
    return "proved optimal"


def _mapping_file(result: Result, tolerance: float, flipped: Sequence[str]) -> str:
    """The best mapping as YAML, under a remark on what it is."""
    from ...formats.writing.presentation import yaml

    figure = f"{result.objective} {result.value:.9g} {UNITS[result.objective]}"
    remark = f"# input and weight have changed places in {', '.join(flipped)}\n" if flipped else ""
    return f"# {figure}, {_state(result, tolerance)} (feinsum-fuse map)\n{remark}{yaml(result.front[0].mapping)}"


def flipped(result: Result, spec: Spec) -> Sequence[str]:
    """The Einsums whose operands have other roles in the best mapping than in the files."""
    from ...mapper.request.flips import differing

    return differing(spec.workload, result.best.workload)


def _data(result: Result, spec: Spec) -> dict[str, object]:
    return {
        "objective": result.objective,
        "value": result.value,
        "proved": result.proved,
        "floor": result.floor,
        "gap": result.gap,
        "front": [_found(found) for found in result.front],
        "flipped": list(flipped(result, spec)),
        "omitted": list(result.omitted),
        "space": {("log10_mappings" if name == "mappings" else name): figure for name, figure in vars(result.space).items()},
        "log": [vars(stage) for stage in result.log],
    }


def _found(found: Found) -> dict[str, object]:
    from ...formats.writing.presentation import yaml

    return {"energy": found.energy, "latency": found.latency, "peak": dict(found.peak), "mapping": yaml(found.mapping)}


def _curves(spec: Spec, memory: str, against: str, svg: Path | None, as_json: bool) -> None:
    """Curves of all kinds, as text or JSON, and as one picture."""
    from ...mapper.curves import KINDS, curve
    from ...report.staircase import staircase

    curves = [curve(spec, memory, kind, against=against, progress=progress) for kind in KINDS]  # type: ignore[arg-type]
    emit_json(_curve_data(curves)) if as_json else emit("\n\n".join(map(repr, curves)))
    if svg is not None:
        draw(svg, staircase(curves))


def _curve_data(curves: Sequence[Curve]) -> dict[str, object]:
    return {"memory": curves[0].memory, "capacity": curves[0].capacity, "curves": {c.kind: [_point(p) for p in c.points] for c in curves}}


def _point(point: Point) -> dict[str, object]:
    from ...formats.writing.presentation import yaml

    return {"size": point.size, "traffic": point.traffic, "energy": point.energy, "mapping": yaml(point.spec.mapping)}
