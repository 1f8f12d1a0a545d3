"""Arrays of tile shapes give what single predictions give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from feinsum_fuse import ModelError, predict, predict_many
from feinsum_fuse.formats.mapping import Mapping, Nested, Node, Sequential, Temporal
from feinsum_fuse.formats.spec import Spec
from tests.model.specs import chain

Place = tuple[int, ...]


def loops(spec: Spec) -> dict[Place, Temporal]:
    assert spec.mapping is not None
    return {placed.position: placed.node for path in spec.mapping.paths() for placed in path if isinstance(placed.node, Temporal)}


def retiled(spec: Spec, shapes: dict[Place, int]) -> Spec:
    """The spec with other tile shapes in its mapping, written out as a user would."""

    def walk(nodes: tuple[Node, ...], at: Place) -> tuple[Node, ...]:
        return tuple(change(node, (*at, number)) for number, node in enumerate(nodes))

    def change(node: Node, at: Place) -> Node:
        if isinstance(node, Sequential | Nested):
            return type(node)(walk(node.nodes, at))
        if isinstance(node, Temporal) and at in shapes:
            assert isinstance(node.rank_variable, str)
            return Temporal(node.rank_variable, shapes[at])
        return node

    assert spec.mapping is not None
    return spec.replace(mapping=Mapping(walk(spec.mapping.nodes, ())))


def test_arrays_agree_with_single_predictions() -> None:
    spec = chain(3, split=True)
    places = [place for place, loop in loops(spec).items() if loop.tile_shape > 1][:4]
    grid = list(itertools.product([1, 2, 4, 8], repeat=len(places)))[::5]
    many = predict_many(spec, {place: np.array([shapes[i] for shapes in grid]) for i, place in enumerate(places)})
    for number, shapes in enumerate(grid):
        single = predict(retiled(spec, dict(zip(places, shapes, strict=True))))
        assert many.legal[number]
        assert many.latency[number] == pytest.approx(single.latency, rel=1e-12)
        assert many.energy[number] == pytest.approx(single.energy, rel=1e-12)
        assert {name: bits[number] for name, bits in many.peak.items()} == dict(single.peak)


def test_chunks_do_not_show() -> None:
    spec = chain(1, split=True)
    place = next(place for place, loop in loops(spec).items() if loop.variable("T1") == "m")
    shapes = np.tile([1, 2, 4, 8, 16], 2000)
    many = predict_many(spec, {place: shapes})
    assert len(many) == 10_000
    assert np.array_equal(many.latency[:5], many.latency[-5:])


def test_overflow_and_growing_tiles_are_masked() -> None:
    spec = chain(1, split=True, buffer="1000")
    place = next(place for place, loop in loops(spec).items() if loop.variable("T1") == "m")
    many = predict_many(spec, {place: [1, 2, 16, 32, 0]})
    assert many.legal.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    "shapes", [{(99,): [1, 2]}, {}, {(2,): [1.5]}, {(2,): [[1]]}], ids=["no loop", "nothing", "not whole", "two-dimensional"]
)
def test_wrong_arrays_are_refused(shapes: dict[Place, list[float]]) -> None:
    with pytest.raises(ModelError):
        predict_many(chain(1), shapes)


def test_prints_itself() -> None:
    text = repr(predict_many(chain(1, split=True), {(2,): [1, 4]}))
    assert "2 predictions, 2 legal" in text
