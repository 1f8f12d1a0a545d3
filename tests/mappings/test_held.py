"""What fused Einsums hand on stays in registers, where a register tile of rows and lanes is all that the next one needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.target import ANY_DEVICE

GRADIENT = ("T[r, e, i] = S[r, j, i] * U[e, j]", "D[x, e, i] = G[x, r, e] * T[r, e, i]")


def gradient(cells: int = 4099, nodes: int = 20, axes: int = 3, dtype: str = "float32") -> Cascade:
    sizes = {"E": cells, "I": nodes, "J": nodes, "R": axes, "X": axes}
    return ff.cascade(GRADIENT, sizes=sizes, dtypes={"All": dtype})


def tile(cascade: Cascade, vectors: int, down: int) -> Given:
    """Groups of cells, lanes along nodes, and a shared register tile of so many vectors and rows."""
    names = [einsum.name for einsum in cascade.einsums]
    about = "+".join(names)
    given = {"rows": dict.fromkeys(names, "e"), "lane": "i", "layout": dict.fromkeys(names, "i"), "held": True}
    return Given({**given, f"vectors of {about}": vectors, f"down of {about}": down})


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
    spec = family.spec.replace(mapping=family.mapping(tile(cascade, 1, 2)))
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
