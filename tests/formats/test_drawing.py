"""Pictures: well-formed SVG with the shapes and colours that users of LoopTrees know."""

from __future__ import annotations

from xml.etree import ElementTree

import feinsum_fuse as ff
from feinsum_fuse.formats.writing.drawing import COMPUTE_COLOUR, LOOP_COLOUR, SPLIT_COLOUR, STORAGE_COLOUR, TOLL_COLOUR
from tests.formats.cases import WHOLE, document
from tests.formats.test_arch import FULL, arch
from tests.formats.test_mapping import MATVECS, TREE

NAMESPACE = "{http://www.w3.org/2000/svg}"


def shapes(svg: str) -> list[tuple[str, str]]:
    """(element, fill) of every filled shape."""
    root = ElementTree.fromstring(svg)
    return [(item.tag.removeprefix(NAMESPACE), item.get("fill", "")) for item in root.iter() if item.get("fill", "none") != "none"]


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
    assert drawn.count(("ellipse", STORAGE_COLOUR)) == 7
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
