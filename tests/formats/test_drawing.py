"""Pictures: well-formed SVG with the shapes and colours that users of LoopTrees know."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import feinsum_fuse as ff
from feinsum_fuse.formats.writing.drawing import (
    COMPUTE_COLOUR,
    INPUT_COLOUR,
    LOOP_COLOUR,
    OUTPUT_COLOUR,
    SPLIT_COLOUR,
    STORAGE_COLOUR,
    TOLL_COLOUR,
)
from tests.formats.cases import WHOLE, document
from tests.formats.test_arch import FULL, arch
from tests.formats.test_mapping import MATVECS, TREE

NAMESPACE = "{http://www.w3.org/2000/svg}"


def shapes(svg: str) -> list[tuple[str, str]]:
    """(element, fill) of every filled shape, the legend's left out."""
    root = ElementTree.fromstring(svg)
    filled = [item for item in root.iter() if item.get("fill", "none") != "none" and item.get("class") != "key"]
    return [(item.tag.removeprefix(NAMESPACE), item.get("fill", "")) for item in filled]


def labels(svg: str) -> list[str]:
    return [item.text or "" for item in ElementTree.fromstring(svg).iter(f"{NAMESPACE}text")]


def test_a_looptree_has_the_known_shapes() -> None:
    spec = ff.loads(MATVECS + TREE)
    svg = spec._repr_svg_()
    drawn = shapes(svg)
    assert drawn.count(("rect", LOOP_COLOUR)) == 3
    assert drawn.count(("path", STORAGE_COLOUR)) == 5
    assert drawn.count(("ellipse", COMPUTE_COLOUR)) == 2
    assert drawn.count(("polygon", SPLIT_COLOUR)) == 1
    shown = labels(svg)
    assert [label for label in shown if label.startswith("for ")] == [
        "for nA in [0..8) shape=1", "for nI in [0..6) shape=1", "for nB in [0..10) shape=1",
    ]  # fmt: skip
    assert shown.count("WA") == 2
    assert "Unit computes A" in shown


def test_without_a_workload_loops_have_no_counts() -> None:
    mapping = ff.loads(MATVECS + TREE).mapping
    assert mapping is not None
    assert "for nA shape=1" in labels(mapping._repr_svg_())


def test_spatial_loops_name_their_dimension() -> None:
    assert "S-X-for m in [0..4) shape=1" in labels(ff.loads(WHOLE)._repr_svg_())


def test_everything_lies_inside_the_picture() -> None:
    root = ElementTree.fromstring(ff.loads(MATVECS + TREE)._repr_svg_())
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for item in root.iter(f"{NAMESPACE}text"):
        assert 0 <= float(item.get("x", -1)) <= width
        assert 0 <= float(item.get("y", -1)) <= height


def test_a_cascade_shows_tensors_einsums_and_subscripts() -> None:
    svg = ff.loads(document("three_matmuls.yaml"))._repr_svg_()
    drawn, shown = shapes(svg), labels(svg)
    assert [drawn.count(("ellipse", colour)) for colour in (INPUT_COLOUR, STORAGE_COLOUR, OUTPUT_COLOUR)] == [4, 2, 1]
    assert drawn.count(("rect", COMPUTE_COLOUR)) == 3
    assert "T0 128 x 128" in shown
    assert "Matmul1: T1[m, n1] = T0[m, n0] * W0[n0, n1]" in shown


def test_an_architecture_shows_tolls_and_forks() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        drawn = shapes(arch(FULL)._repr_svg_())
    assert ("polygon", TOLL_COLOUR) in drawn
    assert drawn.count(("path", STORAGE_COLOUR)) == 3


def test_texts_are_escaped() -> None:
    text = TREE.replace("mapping:\n", "mapping:\n  title: a < b & c\n")
    assert "a < b & c" in labels(ff.loads(MATVECS + text)._repr_svg_())


BLOCK = (
    *(f"{t}I[h, m, e] = X[m, d] * W{t}I[h, d, e]" for t in "QKV"),
    "SI[h, m, p] = QI[h, m, e] * KI[h, M: p, e]",
    "EI[h, m, p] = exp(SI[h, m, p])",
    "AI[h, m, e] = EI[h, m, p] * VI[h, M: p, e]",
    "OI[m, d] = AI[h, m, e] * WOI[h, e, d]",
    "RI[m, d] = OI[m, d] + X[m, d]",
    "FI[m, f] = RI[m, d] * WFI[d, f]",
    "GI[m, d] = FI[m, f] * WGI[f, d]",
)
"""A block of a transformer; X is what it reads, I its number."""


def test_no_edge_of_a_large_cascade_runs_behind_a_box() -> None:
    lines = [line.replace("X[", f"{x}[").replace("I[", f"{n}[") for n, x in (("1", "x"), ("2", "G1")) for line in BLOCK]
    text = "workload:\n  rank_sizes: {H: 2, M: 4, P: 4, E: 4, D: 8, F: 8}\n  bits_per_value: {All: 8}\n  einsums:\n"
    root = ElementTree.fromstring(ff.loads(text + "".join(f"  - '{line}'\n" for line in lines)).workload._repr_svg_())
    rects = [item for item in root.iter(f"{NAMESPACE}rect") if not item.get("class")]
    boxes = [tuple(float(item.get(name, 0)) for name in ("x", "y", "width", "height")) for item in rects]
    for item in root.iter(f"{NAMESPACE}ellipse"):
        cx, cy, rx, ry = (float(item.get(name, 0)) for name in ("cx", "cy", "rx", "ry"))
        boxes.append((cx - rx, cy - ry, 2 * rx, 2 * ry))
    edges = [[tuple(map(float, place.split(","))) for place in (e.get("points") or "").split()] for e in root.iter(f"{NAMESPACE}polyline")]
    assert len(boxes) == 20 + 33 and len(edges) == 2 * 29
    crossings = [
        (edge, box)
        for edge in edges
        for (x1, y1), (x2, y2) in pairwise(edge)
        for k in range(1, 40)
        for box in boxes
        if box[0] < x1 + (x2 - x1) * k / 40 < box[0] + box[2] and box[1] + 0.5 < y1 + (y2 - y1) * k / 40 < box[1] + box[3] - 0.5
    ]
    assert crossings == []


def test_a_recurrence_has_an_edge_back() -> None:
    einsum = '{einsum: "H[m, p] = H[M: m-1, p] * A[m, p]", operations: {populate: 1}}'
    text = f"workload:\n  rank_sizes: {{M: 8, P: 8}}\n  bits_per_value: {{All: 8}}\n  einsums:\n  - {einsum}\n"
    assert ff.loads(text).workload._repr_svg_().count("stroke-dasharray") == 1


def test_einsums_that_need_each_other_are_drawn() -> None:
    lines = "".join(f"  - '{line}'\n" for line in ("A[m] = B[m] * X[m]", "B[m] = A[m] * X[m]"))
    text = f"workload:\n  rank_sizes: {{M: 4}}\n  bits_per_value: {{All: 8}}\n  einsums:\n{lines}"
    assert ff.loads(text).workload._repr_svg_().count("stroke-dasharray") == 1


def test_an_architecture_says_its_rates_and_fanouts() -> None:
    spec = ff.loads(WHOLE)
    assert spec.arch is not None
    svg = spec.arch._repr_svg_()
    assert any("/s" in label for label in labels(svg)) and any(label.count(": x") for label in labels(svg))
    assert {"Architecture", "memory", "fanout", "compute"} <= set(labels(svg))
