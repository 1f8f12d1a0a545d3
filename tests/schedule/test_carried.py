"""Whether iterations of a loop depend on one another: what indices tell at sight is what integer sets find."""

from __future__ import annotations

import pytest
from constantdict import constantdict

from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.schedule.statement import Place, Statement
from feinsum_fuse.schedule.tree import polyhedra
from feinsum_fuse.schedule.tree.nest import For, Nest, Source

ROW, COLUMN = Affine.variable("i"), Affine.variable("j")


def nest(write: Affine, read: Affine, extent: int = 4) -> tuple[Nest, For]:
    """``for i in [0, 8): for j in [0, extent): Z[write] = f(Z[read])``."""
    body = Statement("Z", "map", Place("Z", (write,)), 0.0, (Place("Z", (read,)),))
    loop = For("i", 8, (For("j", extent, (body,)),))
    return Nest((loop,), constantdict({"Z": Source("Z", "Z", (64,), "float32")})), loop


CASES = {
    "the same element": (ROW, ROW, True),
    "tiles side by side": (ROW * 4 + COLUMN, ROW * 4 + COLUMN, True),
    "tiles that overlap": (ROW * 3 + COLUMN, ROW * 3 + COLUMN, False),
    "within its tile": (ROW * 4, ROW * 4 + COLUMN, True),
    "one tile on": (ROW * 4, ROW * 4 + 4, False),
    "into the next tile": (ROW * 4 + COLUMN, ROW * 4 + COLUMN + 1, False),
    "backwards": (ROW * -4 + COLUMN + 28, ROW * -4 + COLUMN + 28, True),
    "one place for all": (COLUMN, COLUMN, False),
    "another step": (ROW * 4, ROW * 5, False),
}


@pytest.mark.parametrize("case", CASES)
def test_at_sight_and_by_integer_sets(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read, apart = CASES[case]
    found, loop = nest(write, read)
    assert (polyhedra.carried(found, loop, ()) is None) is apart
    monkeypatch.setattr(polyhedra, "_keeps_apart", lambda *_: False)
    assert (polyhedra.carried(found, loop, ()) is None) is apart


def test_a_size_that_is_not_known_is_left_to_integer_sets() -> None:
    body = Statement("Z", "map", Place("Z", (ROW * 4 + COLUMN,)), 0.0)
    loop = For("i", 8, (For("j", None, (body,), (Affine.variable("n") - COLUMN - 1,)),))
    found = Nest((loop,), constantdict({"Z": Source("Z", "Z", (None,), "float32")}))
    assert polyhedra.carried(found, loop, ()) == "Z[4*i+j]"


@pytest.mark.parametrize(("end", "apart"), [(63, True), (64, False)])
def test_pieces_that_end_with_their_tile_are_told_apart_at_sight(end: int, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """``for i in [0, 8): for j in [0, 3): for k in [0, 24), 24*j + k <= 63: Z[64*i + 24*j + k] = ...``."""
    inner = COLUMN * 24 + Affine.variable("k")
    body = Statement("Z", "map", Place("Z", (ROW * 64 + inner,)), 0.0)
    loop = For("i", 8, (For("j", 3, (For("k", 24, (body,), (Affine((), end) - inner,)),)),))
    found = Nest((loop,), constantdict({"Z": Source("Z", "Z", (600,), "float32")}))
    assert (polyhedra.carried(found, loop, ()) is None) is apart
    monkeypatch.setattr(polyhedra, "relation", None)
    if apart:
        assert polyhedra.carried(found, loop, ()) is None
