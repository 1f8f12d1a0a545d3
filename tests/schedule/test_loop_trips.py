"""Iterations of loops inside others, counted one by one and by NumPy."""

from __future__ import annotations

from itertools import product
from random import Random

from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.schedule.loop_trips import OuterLoop, _at_once, _numbered, _one_by_one, _rows, _sampled


def test_few_combinations_are_counted_as_many_are() -> None:
    random = Random(3)

    def limit(names: list[str]) -> Affine:
        return Affine.of({name: random.randint(-9, 9) for name in names if random.random() < 0.7}, random.randint(-20, 60))

    for _ in range(500):
        names = [f"i{depth}" for depth in range(random.randint(0, 3))]
        space: tuple[OuterLoop, ...] = tuple(
            (name, random.randint(1, 6), tuple(limit(names[:depth]) for _ in range(random.choice((0, 0, 1, 2)))))
            for depth, name in enumerate(names)
        )
        limits = tuple(limit([*names, "k", "size"]) for _ in range(random.randint(1, 3)))
        points = list(product(*(_sampled(extent, len(space)) for _, extent, _ in space)))
        extent = random.randint(1, 20)
        outer, places = _numbered(space)
        rows = _rows(limits, places, "k")
        assert _one_by_one(extent, rows, outer, points) == _at_once(extent, rows, outer)


def test_names_make_no_difference() -> None:
    def asked(own: str, outer: str) -> object:
        space = ((outer, 5, ()),)
        numbered, places = _numbered(space)
        return numbered, _rows((Affine.of({own: -1, outer: -6}, 27),), places, own)

    assert asked("m", "z") == asked("z", "m")
