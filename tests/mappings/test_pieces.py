"""What is read and written in pieces of lines, far apart: rows of a group and of a register tile, and what is copied above other loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Given, Noted
from feinsum_fuse.mappings.default_mapping import default_mapping, default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE, DeviceLimits, Target

TARGET = replace(
    ANY_DEVICE,
    units=2,
    vector_bytes=64,
    vector_registers=32,
    core_cache_bytes=1 << 20,
    limits=DeviceLimits(local_bytes=1 << 20),
)


def taken(cascade: Cascade, target: Target = TARGET) -> dict[str, object]:
    """What the default mapping decides."""
    noted = Noted()
    Family(default_space(cascade, None, target), target, outputs=cascade.outputs).mapping(noted)
    return noted.taken


def permuted(a: int, b: int, c: int, d: int, e: int) -> Cascade:
    """A contraction of which both operands are packed first."""
    cascade = ff.cascade(["Z[a,b,c,d] = X[c,e,a] * Y[d,b,e]"], sizes={"A": a, "B": b, "C": c, "D": d, "E": e})
    return suited(cascade, TARGET)


def test_rows_of_a_register_tile_are_written_near_one_another() -> None:
    """Of a result of 12 MB rows along ``a`` are 240 KB apart, each a line; of a small one it does not matter, and ``a`` is the longest."""
    assert taken(permuted(48, 40, 32, 48, 36))["second of Z"] == "c"
    assert taken(permuted(48, 4, 16, 48, 36))["second of Z"] == "a"


HALVES = ["T[i,n,s] = C[m,i] * E[m,n,s]", "H[i,j,s] = D[n,j] * T[i,n,s]"]


def halves(m: int, s: int, i: int) -> Cascade:
    return ff.cascade(HALVES, sizes={"M": m, "N": m, "S": s, "I": i, "J": i})


def test_a_register_tile_is_as_wide_as_a_piece_from_memory() -> None:
    """Groups take 64 columns of each of 2,500 far rows: 256 bytes, which narrower tiles would read by and by."""
    assert taken(halves(50, 2500, 14))["vectors of T"] == 4
    assert taken(halves(50, 2500, 14))["vectors of H"] == 2  # what it reads is near
    assert taken(halves(20, 600, 14))["vectors of T"] != 4  # it stays in a core's cache
    assert taken(halves(50, 2500, 140))["vectors of T"] != 4  # it is computed with more than it is waited for


def test_wide_register_tiles_compute_the_same() -> None:
    cascade = halves(41, 701, 5)
    generator = np.random.default_rng(3)
    arrays = {name: generator.random(cascade.fixed_shape(name)).astype("float32") for name in cascade.inputs}
    expected = np.einsum("nj,mi,mns->ijs", arrays["D"], arrays["C"], arrays["E"], optimize=True)
    np.testing.assert_allclose(ff.compile(cascade, "pocl")(**arrays)["H"], expected, rtol=1e-4)


def test_groups_do_not_cut_the_lines_of_a_large_result() -> None:
    decided = taken(permuted(48, 40, 32, 48, 36))
    assert decided["rows of Y_packed+Z"] == {"Y_packed": "b", "Z": "b"}


def test_what_little_is_turned_does_not_make_shares_of_cores_uneven() -> None:
    """Of 19 rows two groups take 10 and 9, not 16 and 3, although rows lie together in what is copied, which is a 100th of the work."""
    line, sizes = "Z[a,b,c,d] = X[c,e,b] * Y[d,e,a]", {"A": 19, "B": 144, "C": 12, "D": 228, "E": 19}
    assert taken(suited(ff.cascade([line], sizes=sizes), TARGET))["tile of Y_packed+Z"] == 10
    line, sizes = "Z[b,a,d,c] = X[d,e,b] * Y[e,c,a]", {"A": 144, "B": 19, "C": 12, "D": 228, "E": 19}
    assert taken(suited(ff.cascade([line], sizes=sizes), TARGET))["tile of Y_packed+Z"] == 16  # nine groups of whole vectors: a tenth


def test_groups_that_take_a_part_of_each_line_read_all_lines() -> None:
    """Of 32 columns eight groups would take four each, and read as many lines as one that takes all."""
    sizes = {"I": 96, "J": 96, "K": 90, "C": 32}
    cascade = ff.cascade(["Z[i,j,c] = A[i,k,c] * B[j,k,c]"], sizes=sizes)
    assert taken(cascade, replace(TARGET, units=8))["rows of Z"] == {"Z": "i"}


@pytest.mark.parametrize(("columns", "tile"), [(37, 16), (40, 16), (30, 16), (16, 8)])
def test_lanes_of_a_group_are_not_cut_while_every_core_has_one(columns: int, tile: int) -> None:
    lines = ["U[d] = X[n,d]", "E[n,d] = X[n,d] - U[d]", "A[d] = E[n,d] * E[n,d]", "Z[d] = A[d] - U[d]"]
    cascade = ff.cascade(lines, sizes={"N": 3001, "D": columns})
    assert [tile for name, tile in taken(cascade).items() if name.startswith("tile of")] == [tile]


PATCHES = ["Y[b,p,q,d] = X[b, c, H: 8*p+i, W: 8*q+j] * K[d,c,i,j]", "Z[b,p,q,d] = Y[b,p,q,d] + e[p,q,d]"]


def patches(p: int = 12, q: int = 13, d: int = 150) -> Cascade:
    return ff.cascade(PATCHES, sizes={"B": 4, "P": p, "Q": q, "D": d, "C": 3, "I": 8, "J": 8, "H": 8 * p, "W": 8 * q})


def test_an_operand_is_turned_once_above_the_loops_that_do_not_index_it() -> None:
    """Lanes are ``d``, whose elements lie 192 apart in ``K``; each image and each column of patches uses it again."""
    text = str(default_mapping(patches(), target=TARGET)).splitlines()
    above = [line for line in text[: text.index("│ │ for c in tiles of 1")] if "K" in line or " b " in line]
    assert [line.strip("│ ") for line in above] == ["MainMemory holds X K e Z", "Scratchpad holds K", "for b in tiles of 1"]


def test_what_is_turned_once_leaves_room_for_what_einsums_hand_on() -> None:
    tight = replace(TARGET, limits=DeviceLimits(local_bytes=256 << 10))
    assert "Scratchpad holds K" not in str(default_mapping(patches(), target=tight))


@pytest.mark.parametrize("scope", ["outer", "block"])
def test_the_result_is_the_same_wherever_it_is_turned(scope: str) -> None:
    """At sizes that no tile divides."""
    cascade = patches(5, 7, 37)
    family = Family(default_space(cascade, None, TARGET), TARGET)
    mapping = family.mapping(Given({"rows": {"Y": "q", "Z": "q"}, "copied": ("K",), "scope": scope}))
    program = ff.compile(family.spec.replace(mapping=mapping), "pocl")
    generator = np.random.default_rng(3)
    arrays = {name: generator.normal(size=shape).astype("float32") for name, shape in program.input_shapes.items()}
    windows = arrays["X"].reshape(4, 3, 5, 8, 7, 8).astype("float64")
    expected = np.einsum("bcpiqj,dcij->bpqd", windows, arrays["K"]) + arrays["e"]
    np.testing.assert_allclose(program(**arrays)["Z"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("cache", "room", "tile"), [(2 << 20, 1 << 20, 16), (4 << 20, 1 << 20, 8), (2 << 20, 128 << 10, 8)], ids=["far", "near", "no room"]
)
def test_groups_take_whole_lines_of_what_lies_beyond_a_core_s_caches(cache: int, room: int, tile: int) -> None:
    """Of 294 columns groups of 8 leave the cores equal shares, but two of them read each line of 3.6 MB. Groups of 16 hand on 195 KB."""
    sizes = {"A": 277, "B": 8, "C": 294, "D": 11}
    limits = replace(TARGET.limits, local_bytes=room)
    target = replace(TARGET, vector_bytes=32, vector_registers=16, core_cache_bytes=cache, far_line_cost=5.7, limits=limits)
    cascade, rows = suited(ff.cascade(["Z[b,c,a] = A[a,d,c] * B[d,b]"], sizes=sizes), target), {"A_packed": "c", "Z": "c"}
    noted = Noted(Given({"rows of A_packed+Z": rows}))
    Family(default_space(cascade, None, target), target, outputs=cascade.outputs).mapping(noted)
    assert noted.taken["tile of A_packed+Z"] == tile
    assert tile < 16 or taken(cascade, target)["rows of A_packed+Z"] == rows
