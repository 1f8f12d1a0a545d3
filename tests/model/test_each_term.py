"""Every figure of the kernel model isolated: a kernel that waits for it alone, and one that does not ask for it."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.kernel_time import BlockTime, CodeFigures, kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.processor import CYCLES, FIGURES
from tests.model.test_kernel_time import DEVICE, core, product, with_variables

SIXTEEN_LANES = Path(__file__).resolve().parents[2] / "benchmarks" / "fidelity" / "data" / "xeon_avx512" / "device.yaml"
"""A processor with longer vectors than :data:`DEVICE` has."""
SLOW = 1e-4
"""Seconds that whatever else a kernel does are short beside."""


def elementwise(value: str, size: int = 64, piece: int = 64) -> Spec:
    """An elementwise Einsum whose lanes run along rows, or along pieces of so many elements of all rows in turn."""
    return mapped(
        f"{{rank_sizes: {{M: {size}, N: {size}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = {value}']}}",
        "[A, Z]",
        f"- !Temporal {{rank_variable: n, tile_shape: {piece}}}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


def scalars(rows: int, columns: int, *, registers: bool) -> Spec:
    """A product without lanes, whose sums take turns in memory or in registers."""
    held = "- !Storage {tensors: [Z], component: Register}\n  " if registers else ""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: {columns}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: n, tile_shape: 1}}\n  {held}- !Temporal {{rank_variable: k, tile_shape: 1}}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}",
    )


def columns(rows: int, deep: int, lanes: int = 8) -> Spec:
    """A product whose lanes run down the columns of what it reads: lanes are filled one by one."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: 8, K: {deep}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: {lanes}}}\n  - !Temporal {{rank_variable: n, tile_shape: 1}}\n"
        "  - !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
    )


def far_rows(rows: int = 2048, length: int = 4096) -> Spec:
    """A sum over the rows of a matrix of which one column after another is walked down."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: {length}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m] = sum(A[m, n])']}}",
        "[A, Z]",
        "- !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}",
    )


def far_sums(rows: int = 2048, length: int = 4096) -> Spec:
    """Sums in memory that are added to down one column after another."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: {length}, K: 2}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[k, m] * B[k, n]']}}",
        "[A, B, Z]",
        "- !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}",
    )


def reduced(value: str, rows: int = 512) -> Spec:
    """A reduction down the columns of a matrix by one accumulator on lanes."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: 8}}, bits_per_value: {{All: 32}}, einsums: ['Z[n] = {value}']}}",
        "[A, Z]",
        "- !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: m, tile_shape: 1}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


def drained(rows: int = 24, pitch: int = 1024, deep: int = 4) -> Spec:
    """A product whose lanes are rows of the result, pages apart: a tile of so many rows by four columns is stored lane by lane."""
    return mapped(
        f"{{rank_sizes: {{M: {rows * 4}, N: {pitch}, K: {deep}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[k, m] * B[k, n]']}}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: {rows}}}\n  - !Temporal {{rank_variable: n, tile_shape: 4}}\n"
        "  - !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
    )


def lanes_apart(lanes: int, rows: int = 64) -> Spec:
    """An elementwise Einsum whose lanes are rows: each is loaded from a line of its own, and stored to one."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: 64}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = 2 * A[m, n]']}}",
        "[A, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: {lanes}}}\n  - !Temporal {{rank_variable: n, tile_shape: 1}}\n"
        "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
    )


def one_by_one(value: str = "2 * A[m, n]") -> Spec:
    """An elementwise Einsum without lanes, whose neighbours are rows."""
    return mapped(
        f"{{rank_sizes: {{M: 64, N: 64}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = {value}']}}",
        "[A, Z]",
        "- !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}",
    )


def over_groups() -> Spec:
    """The same whose neighbours are next to one another, its rows on two groups."""
    return mapped(
        "{rank_sizes: {M: 64, N: 64}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = 2 * A[m, n]']}",
        "[A, Z]",
        "- !Spatial {rank_variable: m, tile_shape: 32, component: Core, name: core}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}",
    )


def pieces(rows: int = 8) -> Spec:
    """Products on lanes that are rows, of a column of so many rows at a time: a tile that is filled element by element and read twice."""
    return mapped(
        "{rank_sizes: {M: 256, N: 64, K: 2}, bits_per_value: {All: 32}, einsums: ['Z[k, m, n] = B[k] * A[m, n]']}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: {rows}}}\n  - !Temporal {{rank_variable: n, tile_shape: 1}}\n"
        "  - !Storage {tensors: [A], component: Local}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
    )


def copied_first() -> Spec:
    """A sum of exponentials whose argument goes through a tile of one element."""
    return mapped(
        "{rank_sizes: {M: 64, N: 64}, bits_per_value: {All: 32}, einsums: ['Z[m] = sum(exp(A[m, n]))']}",
        "[A, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}\n"
        "  - !Storage {tensors: [A], component: Local}",
    )


def scalar_sums() -> Spec:
    """Sums of exponentials one after another, as compilers leave them: they add in the order of the loop."""
    return with_variables(
        mapped(
            "{rank_sizes: {M: 64, N: 64}, bits_per_value: {All: 32}, einsums: ['Z[m] = sum(exp(A[m, n]))']}",
            "[A, Z]",
            "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}",
        ),
        exp_loop_seconds=1e-12,
    )


def joined_sums(length: int, value: str = "A[m, n] * B[n]", bits: int = 32) -> Spec:
    """Sums over so many neighbours, which a compiler makes vectors of that takes additions for exact."""
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: 64, N: {length}}}, bits_per_value: {{All: {bits}}}, einsums: ['Z[m] = {value}']}}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}",
        ),
        launch_seconds=1e-9,
        summed_seconds=1e-13,
        folded_sum_seconds=1e-13,
    )


def apart_sums(length: int = 128) -> Spec:
    """The same where one operand's elements lie apart."""
    figures = {"written_out_sums": 32, "written_out_steps": 256, "gathered_seconds": 1e-12}
    return with_variables(joined_sums(length, "A[n, m] * B[n]"), **figures)


def own_sums() -> Spec:
    """Sums of 48 steps that each iteration of a loop has for itself."""
    loops = "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Storage {tensors: [Z], component: Register}\n"
    loops += "  - !Temporal {rank_variable: k, tile_shape: 1}"
    sums = mapped("{rank_sizes: {M: 64, K: 48}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[k, m] * B[k]']}", "[A, B, Z]", loops)
    return with_variables(sums, written_out_sums=32)


def short_sums(rows: int = 8) -> Spec:
    """A product whose sums are vectors in memory, so many rows of which a short loop goes on with."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: 64, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
        "[A, B, Z]",
        "- !Temporal {rank_variable: n, tile_shape: 8}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


def shifted() -> Spec:
    """Windows of three elements: vectors that are read start anywhere, those that are written with a line."""
    return mapped(
        "{rank_sizes: {M: 64, N: 64, P: 66, R: 3}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, P: n + r] * F[r]']}",
        "[A, F, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: r, tile_shape: 1}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


@functools.cache
def mapped(workload: str, tensors: str, loops: str) -> Spec:
    head = DEVICE.partition("workload:")[0]
    text = f"workload: {workload}\nmapping:\n  nodes:\n  - !Storage {{tensors: {tensors}, component: Main}}\n  {loops}\n"
    return ff.loads(f"{head}{text}  - !Compute {{einsum: Z, component: MAC}}\n")


REGISTER_TILE = product(4, 2)
"""Multiply-adds alone."""
CASES: dict[str, tuple[Spec, Spec | None]] = {
    "load": (REGISTER_TILE, None),
    "store": (product(2, 1, registers=False), None),
    "mixed_addition": (REGISTER_TILE, None),
    "split_load": (shifted(), REGISTER_TILE),
    "split_store": (elementwise("2 * A[m, n]", 60, 60), shifted()),
    "narrow_store": (scalars(16, 16, registers=False), REGISTER_TILE),
    "addition_latency": (reduced("sum(A[m, n])"), product(1, 1)),
    "multiply_add_latency": (product(1, 1), product(2, 1, registers=False)),
    "memory_chain": (scalars(16, 16, registers=False), REGISTER_TILE),
    "vector_memory_chain": (product(2, 1, registers=False), REGISTER_TILE),
    "vector_memory_update": (product(2, 1, registers=False), REGISTER_TILE),
    "pack": (columns(64, 64), REGISTER_TILE),
    "lane_store": (lanes_apart(8), REGISTER_TILE),
    "narrow_lane_store": (lanes_apart(4), lanes_apart(8)),
    "summed": (joined_sums(1024), REGISTER_TILE),
    "gathered": (with_variables(apart_sums(), multiply_add_latency_seconds=1e-6), joined_sums(128)),
    "folded_sum": (with_variables(joined_sums(16), multiply_add_latency_seconds=1e-6), REGISTER_TILE),
    "scattered": (one_by_one(), REGISTER_TILE),
    "forwarded": (pieces(), columns(64, 64)),
    "access": (REGISTER_TILE, None),
    "issue": (scalars(16, 16, registers=False), None),
    "crowded_line": (far_sums(), far_rows()),
    "crowded_set_line": (far_sums(), far_rows()),
    "lone_line": (far_rows(), REGISTER_TILE),
    "lone_memory_line": (far_rows(), REGISTER_TILE),
    "apart_lone_line": (far_rows(2048, 4080), REGISTER_TILE),
    "apart_lone_memory_line": (far_rows(2048, 4080), REGISTER_TILE),
    "spilled": (product(16, 2), product(6, 2)),
    "running_max_chain_vector": (reduced("max(A[m, n])"), reduced("sum(A[m, n])")),
    "exp_vector": (elementwise("exp(A[m, n])"), elementwise("2 * A[m, n]")),
    "exp_chain_vector": (elementwise("exp(log(A[m, n]))"), elementwise("exp(A[m, n])")),
    "log_chain_vector": (elementwise("exp(2 + log(A[m, n]))"), elementwise("exp(A[m, n]) + log(A[m, n])")),
    "exp_scalar": (scalar_sums(), with_variables(one_by_one("exp(A[m, n])"), exp_loop_seconds=1e-12)),
    "exp_loop": (with_variables(one_by_one("exp(A[m, n])"), exp_scalar_seconds=1e-3), scalar_sums()),
    "div_vector": (elementwise("1 / A[m, n]"), elementwise("2 * A[m, n]")),
}
"""Figure -> a kernel whose time follows it, and one whose time does not ask for it; ``None`` where every kernel does."""

FIGURE_CASES: dict[str, tuple[Spec, float, float]] = {
    "vector_registers": (product(8, 2), 16, 32),
    "cache_share": (product(4, 2, size=256), 0.1, 1.0),
    "times_lost": (far_rows(16384, 256), 1.1, 8),
    "far_bytes": (product(4, 2, size=512), 4096, 1024),
    "foreseen_bytes": (elementwise("2 * A[m, n]", 1024, 64), 0, 8192),
    "followed_rows": (product(4, 2, size=512), 512, 1),
    "overlap_loss": (product(4, 2, size=2048), 0, 1),
    "pack_loss": (with_variables(columns(64, 64), pack_seconds=1e-6), 0, 1),
    "wake_seconds": (product(4, 2), 0, 1e-5),
    "line_bytes": (far_rows(16384, 256), 64, 128),
    "lookahead_operations": (product(1, 1), 64, 512),
    "written_out_sums": (short_sums(), 1, 32),
    "written_out_own_sums": (own_sums(), 1, 48),
    "written_out_steps": (apart_sums(), 1, 256),
    "written_out_parts": (apart_sums(365), 1, 5),
    "group_index_times": (over_groups(), 1, 16),
    "neighbour_times": (scalars(16, 16, registers=True), 1, 16),
    "waiting_power": (product(4, 2), 1, 8),
    "store_queue": (with_variables(drained(), crowded_line_seconds=1e-8), 1, 1000),
    "first_cache_sets": (with_variables(far_sums(), crowded_line_seconds=1e-6), 64, 1),
}
"""Figure -> a kernel whose time it changes, and two values."""


def seconds(spec: Spec, **more: float) -> float:
    """The time of the kernel."""
    spec = with_variables(spec, **more)
    machine = Machine.of(spec)
    assert machine is not None
    return kernel_time(spec, machine).seconds


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_follows_its_term(name: str) -> None:
    asks, another = CASES[name]
    assert seconds(asks, **{f"{name}_seconds": SLOW}) > 10 * seconds(asks, **{f"{name}_seconds": 1e-12})
    if another is not None:
        assert seconds(another, **{f"{name}_seconds": SLOW}) == seconds(another, **{f"{name}_seconds": 1e-12})


def test_every_operation_is_isolated() -> None:
    assert set(CYCLES) <= set(CASES)


@pytest.mark.parametrize("name", FIGURE_CASES)
def test_a_kernel_follows_its_figure(name: str) -> None:
    spec, *values = FIGURE_CASES[name]
    one, other = (seconds(spec, **{name: value}) for value in values)
    assert one != other


def test_every_figure_is_isolated() -> None:
    assert set(FIGURES) - set(FIGURE_CASES) == {"least_groups_at_once", "most_groups_at_once"}, "those of test_groups_over_threads"


def test_the_page_names_tests_that_exist() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "doc" / "model.rst").read_text()
    found = re.findall(r"``(test_\w+)``", page)
    assert len(found) > 20
    files = (file for folder in ("model", "raising") for file in (root / "tests" / folder).glob("test_*.py"))
    text = "".join(file.read_text() for file in files)
    assert [name for name in found if f"def {name}(" not in text] == []


def test_the_page_has_every_figure() -> None:
    page = (Path(__file__).resolve().parents[2] / "doc" / "model.rst").read_text()
    assert [name for name in CYCLES if f"``{name}_..." not in page] == []
    assert [name for name in FIGURES if name not in page] == []


def test_half_vectors_take_what_they_were_measured_at() -> None:
    """Units that are half as wide as registers start two operations on half a vector in the time of one on a whole."""
    sooner = {"narrow_multiply_add_seconds": 1e-13, "narrow_load_seconds": 1e-13}
    narrow = with_variables(scalars(16, 16, registers=True), multiply_add_latency_seconds=1e-13, issue_seconds=1e-13)
    for name in sooner:
        assert seconds(narrow, **{name: SLOW}) == seconds(narrow), "no slower than whole vectors"
    assert seconds(narrow, **sooner) < 0.6 * seconds(narrow)
    assert seconds(REGISTER_TILE, **sooner) == seconds(REGISTER_TILE)
    scalar = product(1, 1, size=64)
    assert seconds(scalar, load_seconds=SLOW, narrow_load_seconds=1e-13) < 0.6 * seconds(scalar, load_seconds=SLOW), "for all lanes"
    filled = with_variables(columns(64, 64), pack_seconds=1e-13, issue_seconds=1e-13)
    assert seconds(filled, narrow_load_seconds=1e-13) < seconds(filled), "lanes are filled by loads of elements"


def test_lanes_of_whole_vectors_are_filled_on_the_ports_of_arithmetic() -> None:
    """A vector of eight takes seven moves and a multiply-add, here as long: twice as long as either where they share ports."""
    short = {"multiply_add_latency_seconds": 1e-13, "issue_seconds": 1e-13, "load_seconds": 1e-13, "access_seconds": 1e-13}
    whole, half = (with_variables(columns(64, 64, lanes), **short) for lanes in (8, 4))
    machine = Machine.of(whole)
    assert machine is not None
    beside = {f"{name}_seconds": 1 / machine.rate / moves for name, moves in (("pack", 7), ("cut_pack", 7))}
    apart, together = (core(with_variables(whole, **beside, pack_loss=loss)) for loss in (0, 1))
    assert together == pytest.approx(2 * apart, rel=0.05)
    hidden, shown = (core(with_variables(half, **beside, pack_loss=loss)) for loss in (0, 1))
    assert hidden == shown, "half vectors have a port more"


def test_lanes_that_share_a_line_leave_together() -> None:
    """Of rows of one element the lanes are neighbours; of rows of 64 each has a line of its own."""
    pairs = mapped(
        "{rank_sizes: {M: 64, N: 2}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = 2 * A[m, n]']}",
        "[A, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 8}\n  - !Temporal {rank_variable: n, tile_shape: 1}\n"
        "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
    )
    near, far = (seconds(spec, lane_store_seconds=1e-3) / count for spec, count in ((pairs, 128), (lanes_apart(8), 4096)))
    assert near == pytest.approx(far * 8 / 64, rel=0.01)


def test_lanes_without_an_element_are_not_stored() -> None:
    """The last of nine vectors of 8 rows has one."""
    whole, cut = (seconds(lanes_apart(8, rows), lane_store_seconds=1e-6) for rows in (72, 65))
    assert cut == pytest.approx(whole * 65 / 72, rel=0.01)


def three_factors(sums: str) -> Spec:
    """``T[k]*B[r]*C[k, s]`` in a tile of four by three vectors: products ``T*B`` are vectors (``"r"`` on lanes), or one for each row."""
    outer, lanes = ("s", "r") if sums == "r" else ("r", "s")
    sizes = {outer: 4, lanes: 24}
    return mapped(
        f"{{rank_sizes: {{R: {sizes['r']}, S: {sizes['s']}, K: 512}}, bits_per_value: {{All: 32}},"
        " einsums: ['Z[r, s] = T[k] * B[r] * C[k, s]']}",
        "[T, B, C, Z]",
        f"- !Storage {{tensors: [Z], component: Register}}\n  - !Temporal {{rank_variable: k, tile_shape: 1}}\n"
        f"  - !Temporal {{rank_variable: {outer}, tile_shape: 1}}\n  - !Temporal {{rank_variable: {lanes}, tile_shape: 8}}\n"
        f"  - !Spatial {{rank_variable: {lanes}, tile_shape: 1, component: Lane, name: lane}}",
    )


def test_divisions_are_done_beside_functions() -> None:
    """The longer of both counts; a result that waits for one function and a division is no function of a function."""
    spec = elementwise("exp(A[m, n]) / (1 + A[m, n])")
    calls, both, divisions = (seconds(spec, exp_vector_seconds=e, div_vector_seconds=d) for e, d in ((2e-6, 0), (2e-6, 1e-6), (0, 1e-6)))
    assert calls == both > 1.5 * divisions
    assert seconds(elementwise("1 / (1 + exp(A[m, n]))"), div_chain_vector_seconds=1) < 0.1


def test_quarters_of_vectors_are_divided_as_scalars() -> None:
    """A unit divides 16 bytes in the time of a scalar, where half a vector is longer; a function is operations of any length alike."""
    taken = {"vector": 4e-9, "half_vector": 2e-9, "scalar": 1e-9}
    figures = {f"{name}_{of}_seconds": seconds for name in ("div", "exp") for of, seconds in taken.items()}
    wide = Machine.of(with_variables(ff.loads(SIXTEEN_LANES.read_text()), **figures))
    narrow = Machine.of(with_variables(elementwise("1 / A[m, n]"), **figures))
    assert wide is not None and narrow is not None and (wide.lanes, narrow.lanes) == (16, 8)
    assert [wide.function("div", lanes) for lanes in (16, 8, 4, 2)] == pytest.approx([4e-9, 2e-9, 1e-9, 1e-9])
    assert [wide.function("exp", lanes) for lanes in (16, 8, 4, 2)] == pytest.approx([4e-9, 2e-9, 2e-9, 2e-9])
    assert narrow.function("div", 4) == pytest.approx(2e-9), "that is what was measured"


def test_the_largest_so_far_takes_an_addition() -> None:
    """Of vectors; ``max`` of two values of a map takes more, since one of them may be no number."""
    sums, values = (seconds(spec, max_vector_seconds=SLOW) for spec in (reduced("max(A[m, n])"), elementwise("max(A[m, n], 1)")))
    assert sums < 0.1 * values


def test_memory_hides_less_than_caches() -> None:
    """The level counts of which most is not hidden, whichever is the slowest."""
    spec = product(4, 2, size=2048)
    assert seconds(spec, overlap_loss_Main=1) > seconds(spec) == seconds(spec, overlap_loss_L1=1)
    code = CodeFigures(8, 1, 1, 1, 0)

    def of(cache: float, **losses: float) -> float:
        return BlockTime("Z", "update", 4.0, {"L2": cache, "Main": 2.0}, {"L2": 0.0, "Main": 0.0} | losses, code, {}).seconds

    assert of(1.0, Main=0.5) == of(3.0, Main=0.5) == 4.0 + 0.5 * 2
    assert of(3.0, Main=0.5, L2=0.5) == 4.0 + 0.5 * 3


def shared_row(columns: int, held: str = "Local") -> Spec:
    """A product whose row of sums, of so many columns, takes its vectors in turn: in a tile of the group, or in main memory."""
    storage = f"- !Storage {{tensors: [Z], component: {held}}}\n  " if held else ""
    return mapped(
        "{rank_sizes: {M: 8, N: 64, K: 256}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: 1}}\n  - !Temporal {{rank_variable: n, tile_shape: {columns}}}\n  {storage}"
        "- !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


def test_a_loop_over_two_vectors_of_sums_is_written_out() -> None:
    """Two sums of a tile are in registers; four take turns in memory, and so do two in an array of the caller's."""

    def waits(spec: Spec) -> bool:
        return seconds(spec, vector_memory_update_seconds=SLOW) > 10 * seconds(spec)

    assert [waits(shared_row(16)), waits(shared_row(32)), waits(shared_row(16, held=""))] == [False, True, True]


def test_lanes_that_are_added_up_wait_for_one_another() -> None:
    """A row of one vector is eight lanes, which are added up by halves: three additions, and one to what was there."""
    spec = mapped(
        "{rank_sizes: {M: 64, N: 8}, bits_per_value: {All: 32}, einsums: ['Z[m] = sum(A[m, n])']}",
        "[A, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )
    alone = seconds(spec, lookahead_operations=0, addition_latency_seconds=SLOW)
    assert 64 * 4 * SLOW <= alone < 64 * 6 * SLOW
    assert seconds(spec, lookahead_operations=1000, addition_latency_seconds=SLOW) < alone / 4


def test_sums_in_vectors_wait_for_no_other() -> None:
    """Eight lanes: an element takes an eighth of two loads in place of the latency of an addition."""
    order = seconds(joined_sums(1024), summed_seconds=1)
    assert order > 64 * 1024 * 3e-9
    assert seconds(joined_sums(1024)) < order / 10


def test_doubles_are_summed_half_as_many_at_a_time() -> None:
    """Where vectors wait for the ones before, an element of eight bytes takes twice what one of four does."""
    single, double = joined_sums(1024), joined_sums(1024, bits=64)
    assert seconds(double, summed_seconds=9e-10) - seconds(single, summed_seconds=9e-10) == pytest.approx(64 * 1024 * 9e-10, rel=0.1)


def test_only_what_is_written_out_is_gathered() -> None:
    """Of a longer loop a compiler counts elements that lie apart against operations: one for one is not worth it."""
    assert seconds(apart_sums(127)) < seconds(apart_sums(127), written_out_steps=64) / 2
    assert seconds(apart_sums(509)) == seconds(apart_sums(509), written_out_steps=64)


def test_loops_that_call_functions_are_not_written_out() -> None:
    """So that sums of functions of elements that lie apart are none in vectors."""
    figures = {"exp_scalar_seconds": 1e-7, "exp_summed_seconds": 1e-9, "exp_vector_seconds": 1e-9}
    assert seconds(with_variables(joined_sums(128, "sum(exp(A[m, n] * B[n]))"), **figures)) < 64 * 128 * 1e-8
    spec = with_variables(joined_sums(128, "sum(exp(A[n, m] * B[n]))"), written_out_sums=32, written_out_steps=256, **figures)
    assert seconds(spec) > 64 * 128 * 9e-8


def test_functions_are_summed_in_vectors_where_a_probe_says_so() -> None:
    calls = with_variables(joined_sums(256, "sum(exp(A[m, n] * B[n]))"), exp_vector_seconds=8e-9)
    alone = seconds(calls, exp_scalar_seconds=1e-8)
    assert seconds(calls, exp_scalar_seconds=1e-8, exp_summed_seconds=1e-9) < alone / 4


def test_functions_of_such_sums_are_the_compilers_own() -> None:
    """Which may take more or less than those that kernels call on vectors."""
    figures = {"exp_scalar_seconds": 1e-8, "exp_summed_seconds": 1e-9, "log_vector_seconds": 8e-9, "log_scalar_seconds": 1e-6}
    calls = with_variables(joined_sums(256, "sum(log(A[m, n] * B[n]))"), **figures)
    own = [seconds(calls, log_summed_seconds=each) for each in (1e-8, 2e-8)]
    assert own[1] - own[0] == pytest.approx(64 * 256 * 1e-8, rel=0.01)
    assert seconds(calls, log_summed_seconds=1e-9) < seconds(calls, log_summed_seconds=1e-9, exp_summed_seconds=1) / 100


def test_sums_of_short_loops_that_are_written_out_stay_in_registers() -> None:
    """Eight rows of a vector have a register each; of 64 there are more than a compiler writes out, and those that are cut are stored."""
    assert seconds(short_sums(), written_out_sums=32) < seconds(short_sums()) / 2
    assert seconds(short_sums(64), written_out_sums=32) == seconds(short_sums(64))


def test_what_a_loop_does_not_move_is_read_again_before_sums_are_spilled() -> None:
    """Twelve sums, three products and one factor fit sixteen registers, ``B`` does not; with ``C`` on lanes ``T`` is held, too."""
    assert _spilled(three_factors("r")) == 0
    assert _spilled(three_factors("s")) == 1


def _spilled(spec: Spec) -> float:
    machine = Machine.of(spec)
    assert machine is not None
    return max(part.code.spilled for part in kernel_time(spec, machine).parts)


def test_copies_of_a_store_find_their_lines_gone() -> None:
    """Of rows a page apart 24 do not fit a set of eight lines: each store waits for its line. Eight rows do, and wait for none."""
    stores = 96 * 1024 * SLOW
    assert stores <= seconds(drained(), crowded_line_seconds=SLOW, store_queue=1e-9) < 1.1 * stores
    assert seconds(drained(8), crowded_line_seconds=SLOW, store_queue=1e-9) < 0.1 * stores


def test_stores_wait_while_the_next_tile_is_computed() -> None:
    """A tile has 96 stores: all of them wait in a queue of as many places, no longer than the sums of a tile take.

    What lines take by their bandwidth alone, an eighth here, is not waited for in a queue.
    """
    short, long = drained(deep=4), drained(deep=4096)
    few, many = {"crowded_line_seconds": 1e-8, "store_queue": 1e-9}, {"crowded_line_seconds": 1e-8, "store_queue": 96.0}
    assert seconds(long, **few) - seconds(long, **many) == pytest.approx(0.87 * 96 * 1024 * 1e-8, rel=0.02)
    assert 0 < seconds(short, **few) - seconds(short, **many) < 0.5 * 96 * 1024 * 1e-8


def test_what_a_loop_writes_changes_in_it() -> None:
    """The tile's place is one and the same in all iterations, its value is not: the function is called in each."""
    assert seconds(copied_first(), exp_scalar_seconds=SLOW) == pytest.approx(64 * 64 * SLOW, rel=0.1)


def test_a_tile_of_more_stores_than_wait_has_left_the_core() -> None:
    """Each column of eight rows is waited for; of 128 rows, more than the queue has places, none is."""
    assert seconds(pieces(), forwarded_seconds=SLOW) == pytest.approx(256 // 8 * 64 * SLOW, rel=0.1)
    assert seconds(pieces(128), forwarded_seconds=SLOW) == seconds(pieces(128), forwarded_seconds=1e-12)


def test_short_loops_are_issued_with_what_stands_around_them() -> None:
    """A loop of four operations an iteration and ten around them, twice and eight times."""
    few, many = (seconds(reduced_scalars(deep), issue_seconds=SLOW) for deep in (2, 8))
    assert few == pytest.approx(256 * (2 * 4 + 10) * SLOW, rel=0.35)
    assert many - few == pytest.approx(256 * 6 * 4 * SLOW, rel=0.05)


def reduced_scalars(deep: int) -> Spec:
    """Sums of rows of so many elements, without lanes."""
    return mapped(
        f"{{rank_sizes: {{M: 256, N: {deep}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m] = sum(A[m, n])']}}",
        "[A, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Storage {tensors: [Z], component: Register}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}",
    )
