"""``map --curve``: what a larger memory would bring, as text, JSON, a picture and a mapping."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..console import draw, emit, emit_json, progress

if TYPE_CHECKING:
    from ...formats.spec import Spec
    from ...mapper.curves import Curve, CurvePoint


def show_curves(spec: Spec, memory: str, against: str, svg: Path | None, output: Path | None, as_json: bool) -> None:
    """Print curves of all kinds, draw them, and write the mapping that fits the memory as it is."""
    from ...mapper.curves import CURVE_KINDS, curve

    curves = [curve(spec, memory, kind, against=against, progress=progress) for kind in CURVE_KINDS]  # type: ignore[arg-type]
    emit_json(_data(curves)) if as_json else emit("\n\n".join(map(repr, curves)))
    if output is not None:
        widest = curves[-1]
        draw(output, _mapping_file(widest, widest.at(widest.capacity)))
    if svg is not None:
        from ...pages import figures
        from ...pages.picture import charted

        draw(svg, charted(figures.curves(curves), svg))


def _data(curves: Sequence[Curve]) -> dict[str, object]:
    return {"memory": curves[0].memory, "capacity": curves[0].capacity, "curves": {c.kind: [_point(p) for p in c.points] for c in curves}}


def _point(point: CurvePoint) -> dict[str, object]:
    from ...presentation import yaml

    return {"size": point.size, "traffic": point.traffic, "energy": point.energy, "mapping": yaml(point.mapping)}


def _mapping_file(curve: Curve, point: CurvePoint) -> str:
    """A step's mapping as YAML, under a remark on what it is."""
    from ...presentation import yaml

    figures = f"traffic {point.traffic:.9g} bits, energy {point.energy_text}, {point.size:g} bits of {curve.memory}"
    return f"# {figures} (feinsum-fuse map --curve {curve.memory})\n{yaml(point.mapping)}"
