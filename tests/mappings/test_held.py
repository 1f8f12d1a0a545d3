"""What fused Einsums hand on stays in registers, where a register tile of rows and lanes is all that the next one needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.target import ANY_DEVICE, Target

GRADIENT = ("T[r, e, i] = S[r, j, i] * U[e, j]", "D[x, e, i] = G[x, r, e] * T[r, e, i]")

FACES = ("T[e, f, i] = L[f, j, i] * U[f, e, j]", "D[e, i] = G[f, e] * T[e, f, i]")


def gradient(cells: int = 4099, nodes: int = 20, axes: int = 3, dtype: str = "float32") -> Cascade:
    sizes = {"E": cells, "I": nodes, "J": nodes, "R": axes, "X": axes}
    return ff.cascade(GRADIENT, sizes=sizes, dtypes={"All": dtype})


def faces(cells: int = 4099, nodes: int = 35, count: int = 4, points: int = 15, dtype: str = "float32") -> Cascade:
    return ff.cascade(FACES, sizes={"E": cells, "I": nodes, "F": count, "J": points}, dtypes={"All": dtype})


def tile(cascade: Cascade, vectors: int, down: int, **others: object) -> Given:
    """Groups of cells, lanes along nodes, and a shared register tile of so many vectors and rows."""
    names = [einsum.name for einsum in cascade.einsums]
    about = "+".join(names)
    given = {"rows": dict.fromkeys(names, "e"), "lane": "i", "layout": dict.fromkeys(names, "i"), "held": True}
    return Given({**given, f"vectors of {about}": vectors, f"down of {about}": down, **others})


def held(cascade: Cascade) -> list[bool]:
    """What the rules choose, wherever there is a choice."""
    return [bool(choice.usual) for choice in Family(default_space(cascade)).choices() if choice.kind == "held"]


def test_a_small_sum_over_what_another_has_just_added_up() -> None:
    """Both loops that the Einsums share go around the tile; all of its sums are added up at once, and read where they are."""
    family = Family(default_space(gradient()))
    assert str(family.mapping(Given({"vectors of T+D": 2, "down of T+D": 1}))) == "\n".join(
        [
            "LoopTree",
            "│ MainMemory holds S U G D",
            "│ for e in tiles of 256",
            "│ spatial for e in tiles of 128, over Core.core",
            "│ for e in tiles of 1",
            "│ for i in tiles of 16",
            "│ Register holds T",
            "│ one after another:",
            "├─┐ 1",
            "│ │ for j in tiles of 1",
            "│ │ for r in tiles of 1",
            "│ │ for i in tiles of 8",
            "│ │ spatial for i in tiles of 1, over Lane.lane",
            "│ └ MAC computes T",
            "└─┐ 2",
            "  │ Register holds D",
            "  │ for r in tiles of 1",
            "  │ for x in tiles of 1",
            "  │ for i in tiles of 8",
            "  │ spatial for i in tiles of 1, over Lane.lane",
            "  └ MAC computes D",
        ]
    )


def test_no_array_that_a_loop_indexes() -> None:
    """Loops over what is read from registers are written out, also those that lie around a reduction and around other statements."""
    cascade = gradient(61, 7)
    family = Family(default_space(cascade))
    spec = family.spec.replace(mapping=family.mapping(tile(cascade, 1, 2, copied=())))
    text = str(ff.lower(spec).nest(cascade.kernel()))
    unrolled = {line.split()[1].split("_")[0] for line in text.splitlines() if "[unroll]" in line and "D." in line}
    assert unrolled == {"e", "r", "x"}
    source = ff.compile(spec, "pocl").source
    assert "__local" not in source.replace("__local float const *at", "")
    assert "T_private[6 * " not in source and "T_private_at" not in source


@pytest.mark.parametrize(
    ("cascade", "vectors", "down"),
    [
        (gradient(61, 7), 1, 3),
        (gradient(47, 35), 2, 1),
        (gradient(101, 19, 2), 2, 3),
        (gradient(23, 5, 2, "float64"), 1, 4),
        (gradient(1, 13, 1), 1, 1),
        (
            ff.cascade(
                ["T[e, i] = A[e, j] * B[j, i]", "V[e, i] = T[e, i] * T[e, i] + C[i]", "Z[e, i] = exp(0.1 * V[e, i]) * T[e, i]"],
                sizes={"E": 53, "I": 29, "J": 11},
            ),
            2,
            2,
        ),
    ],
    ids=["7", "35", "plane", "float64", "one", "three"],
)
def test_at_sizes_that_no_tile_divides(cascade: Cascade, vectors: int, down: int) -> None:
    """Each is verified when it is compiled."""
    family = Family(default_space(cascade))
    mapping = family.mapping(tile(cascade, vectors, down))
    assert f"Register holds {cascade.einsums[0].name}" in str(mapping)
    assert ff.compile(family.spec.replace(mapping=mapping), "pocl").example.expected


@pytest.mark.parametrize(
    ("lines", "sizes", "usual"),
    [
        (GRADIENT, {"E": 4099, "I": 20, "J": 20, "R": 3, "X": 3}, [True]),
        (GRADIENT, {"E": 4099, "I": 60, "J": 60, "R": 3, "X": 3}, [False]),  # S does not stay in the nearest cache
        (("T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]"), {"M": 4099, "N": 20, "K": 20, "P": 20}, []),  # lanes are added up
        (("T[e, r, i] = S[r, j, i] * U[e, j]", "D[e, i] = G[r, e] * T[e, r, i]"), {"E": 4099, "I": 9, "J": 9, "R": 70}, []),  # too many
    ],
    ids=["gradient", "far", "chain", "many"],
)
def test_where_it_is_possible_and_pays(lines: tuple[str, ...], sizes: dict[str, int], usual: list[bool]) -> None:
    assert held(ff.cascade(lines, sizes=sizes)) == usual


def test_of_tiles_that_cost_hardly_more_the_smallest() -> None:
    """Six rows save a few loads, four leave registers for what is loaded ahead."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
    usual = {choice.name: choice.usual for choice in Family(default_space(gradient(1 << 16, 10), target=target), target).choices()}
    assert (usual["vectors of T+D"], usual["down of T+D"]) == (1, 4)


def usual(cascade: Cascade, target: Target = ANY_DEVICE) -> dict[str, object]:
    """What the rules choose, by a decision's name."""
    return {choice.name: choice.usual for choice in Family(default_space(cascade, target=target), target).choices()}


WIDE = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)


def test_sums_over_faces_go_on_in_registers_face_by_face() -> None:
    """Of what is handed on registers hold one face, so that a tile has more rows, which share the loads of its vectors."""
    family = Family(default_space(faces(), target=WIDE), WIDE)
    assert str(family.mapping()) == "\n".join(
        [
            "LoopTree",
            "│ MainMemory holds L U G D",
            "│ for e in tiles of 128",
            "│ spatial for e in tiles of 64, over Core.core",
            "│ Scratchpad holds L",
            "│ for e in tiles of 4",
            "│ Register holds D",
            "│ for f in tiles of 1",
            "│ Register holds T",
            "│ one after another:",
            "├─┐ 1",
            "│ │ for j in tiles of 1",
            "│ │ for e in tiles of 1",
            "│ │ for i in tiles of 16",
            "│ │ spatial for i in tiles of 1, over Lane.lane",
            "│ └ MAC computes T",
            "└─┐ 2",
            "  │ for e in tiles of 1",
            "  │ for i in tiles of 16",
            "  │ spatial for i in tiles of 1, over Lane.lane",
            "  └ MAC computes D",
        ]
    )


@pytest.mark.parametrize(
    ("cascade", "expected"),
    [
        (faces(), True),
        (faces(points=30), True),
        (faces(nodes=20, points=4), False),  # sums are short: each step waits for the last additions of the one before
        (gradient(1 << 16, 20), False),  # registers would hold three sums for each that is handed on
        (faces(count=1), False),
    ],
    ids=["15", "30", "short", "gradient", "one"],
)
def test_step_by_step_where_tiles_cost_less_so(cascade: Cascade, expected: bool) -> None:
    assert usual(cascade, WIDE).get(f"stepwise of {'+'.join(e.name for e in cascade.einsums)}", False) is expected


@pytest.mark.parametrize(
    "lines",
    [
        ("T[e, i] = L[j, i] * U[e, j]", "D[e, i] = G[e] * T[e, i]"),  # nothing is added up of what is handed on
        ("T[e, f, i] = L[f, j, i] * U[f, e, j]", "D[e, i] = T[e, f, i] * T[e, F: 3-f, i]"),  # a step reads another one, too
        ("V[e, i] = W[e, i] * C[i]", "T[e, f, i] = L[f, i] * V[e, i]", "D[e, i] = G[f, e] * T[e, f, i]"),  # the first has no such loop
    ],
    ids=["none", "beyond", "first"],
)
def test_only_along_a_loop_of_all(lines: tuple[str, ...]) -> None:
    found = usual(ff.cascade(lines, sizes={"E": 4099, "F": 4, "I": 35, "J": 15}), WIDE)
    assert any(name.startswith("held of ") for name in found)
    assert not any(name.startswith("stepwise of ") for name in found)


@pytest.mark.parametrize(
    ("cascade", "vectors", "down"),
    [
        (faces(61, 7, 3, 5), 1, 3),
        (faces(301, 35, 4, 15), 2, 1),
        (faces(101, 19, 2, 1), 3, 2),
        (faces(23, 5, 2, 3, "float64"), 1, 4),
        (
            ff.cascade(
                ["V[e, f, i] = W[f, j, i] * U[e, j]", "T[e, F: g, i] = L[F: g, i] * V[e, F: g, i]", "D[e, i] = max(G[f, e] * T[e, f, i])"],
                sizes={"E": 53, "F": 3, "I": 29, "J": 11},
            ),
            2,
            2,
        ),
    ],
    ids=["7", "35", "one point", "float64", "three"],
)
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "in place"])
def test_step_by_step_at_sizes_that_no_tile_divides(cascade: Cascade, vectors: int, down: int, copied: bool) -> None:
    """Each is verified when it is compiled."""
    family = Family(default_space(cascade))
    about = "+".join(einsum.name for einsum in cascade.einsums)
    shared = (cascade.einsums[0].operands[0].tensor,) if copied else ()
    mapping = family.mapping(tile(cascade, vectors, down, **{f"stepwise of {about}": True, f"copied of {about}": shared}))
    assert ("Scratchpad holds" in str(mapping)) is copied
    assert str(mapping).index("Register holds D") < str(mapping).index("one after another")
    assert ff.compile(family.spec.replace(mapping=mapping), "pocl").example.expected


@pytest.mark.parametrize(
    ("cascade", "target", "expected"),
    [
        (gradient(1 << 16, 20), WIDE, ("S",)),
        (gradient(1 << 16, 16), WIDE, ()),  # rows begin with lines
        (gradient(1 << 16, 4), WIDE, ()),  # of which each holds several whole rows
        (faces(320), WIDE, ()),  # groups have few rows
        (gradient(1 << 16, 20), ANY_DEVICE, ()),  # vectors are half a line; the last four of a row are a vector
        (gradient(1 << 16, 19), ANY_DEVICE, ("S",)),  # the last three of a row are loaded as two and two
    ],
    ids=["across", "lines", "short", "few", "halves", "apart"],
)
def test_vectors_that_take_several_loads_are_copied(cascade: Cascade, target: Target, expected: tuple[str, ...]) -> None:
    assert usual(cascade, target)["copied of T+D"] == expected
