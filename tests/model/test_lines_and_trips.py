"""Lines that runs touch, and iterations of loops under limits, against counting them one by one."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from pathlib import Path
from random import Random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.model import processor
from feinsum_fuse.model.kernel.basic_blocks import blocks, in_registers, split
from feinsum_fuse.model.kernel.kernel_time import floor_lines, kernel_time, nest_time, seconds_a_line, streamed_lines
from feinsum_fuse.model.kernel.lines.line_traffic import Fetched, LineTraffic, Span, touched
from feinsum_fuse.model.kernel.lines.walk import Walk
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.loop_trips import average_trips
from feinsum_fuse.schedule.target import ANY_DEVICE
from feinsum_fuse.schedule.tree.nest import For, Nest
from feinsum_fuse.tuning.candidate import Preferred
from tests.model.test_each_term import elementwise, far_sums, mapped
from tests.model.test_kernel_time import DEVICE, product, with_variables

DEVICE_FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "fidelity" / "data" / "xeon_avx512" / "device.yaml"


@pytest.mark.parametrize(("run", "apart"), [(4, 4), (64, 64), (64, 4), (64, 16), (72, 8), (200, 8), (256, 64), (32, 32), (1000, 4)])
def test_lines_of_runs_that_start_anywhere(run: int, apart: int) -> None:
    counted = [len({(start + byte) // 64 for byte in range(run)}) for start in range(0, 64, apart)]
    assert touched(run, 64, apart) == pytest.approx(statistics.fmean(counted))


@pytest.mark.parametrize("seed", range(6))
def test_iterations_under_limits_are_counted(seed: int) -> None:
    random = Random(seed)
    names, extents = ["a", "b"], [random.randint(1, 9), random.randint(1, 30)]
    outer = [For(name, extent, ()) for name, extent in zip(names, extents, strict=True)]
    limits = tuple(
        Affine.of({"x": random.choice((-3, -1, 0, 2)), "a": random.randint(-3, 3), "b": random.randint(-2, 2)}, random.randint(-4, 20))
        for _ in range(3)
    )
    found = average_trips(For("x", 7, (), limits), outer)
    points = [dict(zip(names, at, strict=True)) for at in itertools.product(*map(range, extents))]

    def runs(values: dict[str, int]) -> int:
        return sum(all(sum(f * values[n] for n, f in k.terms) + k.constant >= 0 for k in limits) for values["x"] in range(7))

    assert found == pytest.approx(statistics.fmean(map(runs, points)))


def _machine(**more: float) -> Machine:
    """A measured processor, with further figures."""
    machine = Machine.of(with_variables(ff.loads(DEVICE_FILE.read_text()), **more))
    assert machine is not None
    return machine


def test_lines_that_nobody_foresaw_take_a_core_longer() -> None:
    machine = _machine()
    own, *_, shared = machine.levels
    alone, foreseen = Fetched(1.0, 64, False, Walk(1.0)), Fetched(1.0, 64, False, Walk())
    assert seconds_a_line(machine, shared, alone) == machine.seconds("lone_line") > seconds_a_line(machine, shared, foreseen)
    assert seconds_a_line(machine, own, alone) == seconds_a_line(machine, own, foreseen)


def test_lines_that_go_past_the_caches_are_written_once_and_take_no_room() -> None:
    spec = elementwise("2 * A[m, n]", 2048, 2048)
    target = dataclasses.replace(ANY_DEVICE, last_cache_bytes=1 << 20)
    past, through = (lower(spec, target=one).nest(unscheduled(spec).kernel) for one in (target, ANY_DEVICE))
    slow = machine_of(with_variables(spec, streamed_line_seconds=1e-7))
    lines = 2048 * 2048 * 4 / 64
    assert streamed_lines(past, slow, past.body) and not streamed_lines(through, slow, through.body)
    (found,) = nest_time(past, slow).parts
    assert found.lines["Main"] - lines == pytest.approx(LineTraffic(past, slow, frozenset()).regions(past.body)["A"].lines)
    assert "Z" not in LineTraffic(past, slow, frozenset()).regions(past.body)
    assert found.memory["Main"] > lines * 1e-7
    usual = machine_of(spec)  # calibrated before there was a probe: as any line that is written
    assert nest_time(past, usual).seconds == pytest.approx(nest_time(through, usual).seconds, rel=0.2)
    assert floor_lines(past, usual) == floor_lines(through, usual)


def test_lines_of_rows_that_meet_in_few_sets_come_one_after_another() -> None:
    """Calibrated were rows 2 KiB apart, and rows that meet nowhere: those that meet in one set take twice the difference."""
    machine = _machine(apart_lone_line_seconds=1e-7, lone_line_seconds=2e-7, crowded_own_line_seconds=1e-7)
    _, own, shared, _ = machine.levels
    apart, crowded = (Fetched(1.0, 64, False, Walk(1.0, how)) for how in (0.0, 2.0))
    assert seconds_a_line(machine, shared, apart) == pytest.approx(1e-7)
    assert seconds_a_line(machine, shared, crowded) == pytest.approx(3e-7)
    near = seconds_a_line(machine, own, apart)
    assert seconds_a_line(machine, own, crowded) == pytest.approx(near + 2 * (1e-7 - near))
    measured = _machine(apart_lone_line_seconds=1e-7, lone_line_seconds=2e-7, set_lone_line_seconds=2.2e-7)
    assert seconds_a_line(measured, shared, crowded) == pytest.approx(2.2e-7)
    between = Fetched(1.0, 64, False, Walk(1.0, 1.5))
    assert seconds_a_line(measured, shared, between) == pytest.approx(2.1e-7)


def test_rows_a_page_apart_meet_in_one_set() -> None:
    machine = _machine()
    ways = machine.levels[0].size / 4096
    assert machine.crowding([(2048, 1000)]) == 1 and machine.crowding([(4096, 1000)]) == 2 and machine.crowding([(4096 * 3, 1000)]) == 2
    assert machine.crowding([(4096, int(ways))]) == 0, "a set has room for them"
    assert machine.crowding([(4096 + 64, 1000)]) == machine.crowding([(4000, 1000)]) == machine.crowding([]) == 0


@pytest.mark.parametrize("seed", range(6))
def test_what_loops_touch_along_an_axis(seed: int) -> None:
    """Parts of a reduction lie apart: what is between two of them is not touched."""
    random = Random(seed)
    inner, outer = random.randint(2, 5), random.randint(2, 4)
    apart = random.randint(1, 30)
    points = {i + apart * o for i in range(inner) for o in range(outer)}
    span = Span.of([(apart, outer - 1), (1, inner - 1)], 1000)
    assert span.length == max(points) + 1 and span.piece * span.pieces == len(points)
    assert Span.of([(1, inner - 1)], 1000) == Span(inner)
    assert span.joined(Span(3)).length == max(span.length, 3)


def test_parts_of_a_reduction_side_by_side_fetch_their_own_rows() -> None:
    """Two parts in turns read as many lines as one after the other, not all rows between them each time."""
    machine = Machine.of(ff.loads(DEVICE_FILE.read_text()))
    assert machine is not None
    cascade = SplitReduction("Z", "p", 16).apply(ff.cascade(["Z[f] = N[p] * V[p, f]"], sizes={"P": 8192, "F": 64}))
    family = Family(default_space(cascade))
    chooser = Given({"budget": 0, "groups": False, "second of Z_part": "p_part", "down of Z_part": 2, "vectors of Z_part": 2})
    spec = family.spec.replace(mapping=family.mapping(chooser))
    time = nest_time(lower(spec).nest(unscheduled(spec).kernel), machine, cold=True)
    lines = sum(part.lines[machine.levels[1].name] for part in time.parts if part.einsum == "Z_part")
    whole = 8192 * 64 * 4 / machine.figure("line_bytes")
    assert whole <= lines < 2 * whole


@pytest.mark.parametrize(("share", "is_warm"), [(0.2, True), (0.7, False)])
def test_what_another_kernel_touches_is_in_the_way(share: float, is_warm: bool) -> None:
    """Two kernels whose operands fit a cache one at a time find them there only if both fit."""
    machine = Machine.of(ff.loads(DEVICE_FILE.read_text()))
    assert machine is not None
    *_, shared, memory = machine.levels
    rows = int(share * shared.size * machine.figure("cache_share") / (4 * 1024))
    sizes = {"M": rows, "N": 1024, "K": 1024}
    cascade = ff.cascade(["Y[m] = A[m, k] * X[k]", "Z[n] = B[n, m] * Y[m]"], sizes=sizes)
    family = Family(default_space(cascade))
    spec = family.spec.replace(mapping=family.mapping(Given({"budget": 0})))
    time = nest_time(lower(spec).nest(unscheduled(spec).kernel), machine)
    updates = [part for part in time.parts if part.role == "update"]
    assert len(updates) == 2
    for part in updates:
        assert (part.lines[memory.name] == 0) == is_warm


LOST = {f"last_cache_lost_{runs}_{percent}": lost for runs in (1, 8) for percent, lost in ((75, 0.2), (100, 0.4), (200, 1.0))}


@pytest.mark.parametrize(("size", "part"), [(0.4, 0.0), (0.7, 0.16), (1.0, 0.4), (1.5, 0.7), (5.0, 1.0)])
def test_of_what_nearly_fits_the_last_cache_a_part_is_left_from_the_run_before(size: float, part: float) -> None:
    """As much as a calibration found, on lines between sizes: nothing of half the cache is lost, all of four times that."""
    machine = Machine.of(with_variables(ff.loads(DEVICE_FILE.read_text()), **LOST))
    assert machine is not None
    *_, shared, memory = machine.levels
    rows = int(size * shared.size / (2 * 4 * 1024))
    time = nest_time(doubled(rows), machine)
    lines = sum(block.lines[memory.name] for block in time.parts) * machine.figure("line_bytes")
    assert lines == pytest.approx(part * 2 * rows * 4096, rel=0.02, abs=1)


@pytest.mark.parametrize(("size", "part"), [(0.1, 0.0), (0.25, 0.3), (0.4, 0.24), (0.5, 0.2), (0.6, 0.2), (1.0, 0.4)])
def test_of_less_than_half_of_a_cache_that_others_use_a_part_is_lost(size: float, part: float) -> None:
    """Where probes went over a quarter and half of it; of half of the least that they went over all counts as kept."""
    others = {f"last_cache_lost_{runs}_{percent}": lost for runs in (1, 8) for percent, lost in ((25, 0.3), (50, 0.2))}
    machine = Machine.of(with_variables(ff.loads(DEVICE_FILE.read_text()), **others, **LOST))
    assert machine is not None
    *_, shared, memory = machine.levels
    rows = int(size * shared.size / (2 * 4 * 1024))
    time = nest_time(doubled(rows), machine)
    lines = sum(block.lines[memory.name] for block in time.parts) * machine.figure("line_bytes")
    assert lines == pytest.approx(part * 2 * rows * 4096, rel=0.02, abs=1)


@pytest.mark.parametrize(("shortest_sample", "part"), [(1e-9, 0.4), (10.0, 0.1)])
def test_the_more_runs_a_sample_has_the_less_they_fetch(monkeypatch: pytest.MonkeyPatch, shortest_sample: float, part: float) -> None:
    """Samples of one run, and of many; what is timed cold finds nothing."""
    monkeypatch.setattr(processor, "SAMPLE_SECONDS", shortest_sample)
    machine = Machine.of(with_variables(ff.loads(DEVICE_FILE.read_text()), last_cache_lost_1_100=0.4, last_cache_lost_8_100=0.1))
    assert machine is not None
    *_, shared, memory = machine.levels
    nest = doubled(int(shared.size / (2 * 4 * 1024)))
    found, cold = (sum(block.lines[memory.name] for block in nest_time(nest, machine, cold=is_cold).parts) for is_cold in (False, True))
    assert found == pytest.approx(part * cold, rel=0.02)


def doubled(rows: int) -> Nest:
    """Each element of so many rows of 1,024 times two."""
    cascade = ff.cascade(["Z[m, n] = 2 * A[m, n]"], sizes={"M": rows, "N": 1024})
    family = Family(default_space(cascade))
    spec = family.spec.replace(mapping=family.mapping(Given({"budget": 0})))
    return lower(spec).nest(unscheduled(spec).kernel)


def test_where_no_calibration_says_ever_more_is_lost_of_ever_more() -> None:
    """Of device files that were written before that was measured; and the more runs follow one another the less."""
    machine = Machine.of(ff.loads(DEVICE_FILE.read_text()))
    assert machine is not None
    for runs in (1, 3, 8, 50):
        lost = [machine.lost_between_runs(times, runs) for times in (0.5, 0.7, 1, 1.4, 2, 3, 4, 8)]
        assert lost == sorted(lost) and lost[0] == 0 and lost[-2:] == [1, 1] and 0 < lost[2] < 1
    of_runs = [machine.lost_between_runs(1, runs) for runs in (1, 2, 4, 8, 50)]
    assert of_runs == sorted(of_runs, reverse=True) and of_runs[-1] == of_runs[-2] < of_runs[0]


@pytest.mark.parametrize("piece", [600, 1000])
def test_the_rest_of_a_ragged_tile_has_fewer_lines(piece: int) -> None:
    """Rows of 1,000 in pieces of 600 and 400 are as many lines as whole ones, but for those in which two pieces meet."""
    spec = elementwise("2 * A[m, n]", 1000, piece)
    machine = Machine.of(spec)
    assert machine is not None
    time = nest_time(lower(spec).nest(unscheduled(spec).kernel), machine, cold=True)
    lines = sum(part.lines["Main"] for part in time.parts)
    assert lines == pytest.approx(2 * 1000 * 1000 * 4 / 64, rel=0.05)


@pytest.mark.parametrize(("pitch", "piece"), [(3, 1), (10, 1), (10, 5), (16, 1), (17, 1), (19, 8), (20, 8), (24, 8), (40, 8), (64, 16)])
def test_pieces_of_short_rows_share_lines(pitch: int, piece: int) -> None:
    """A column of a matrix of ten columns has elements 40 bytes apart: 67 of them lie in 42 lines."""
    rows = 67
    spec = mapped(
        f"{{rank_sizes: {{M: {rows}, N: {pitch}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = 2 * A[m, n]']}}",
        "[A, Z]",
        f"- !Temporal {{rank_variable: n, tile_shape: {piece}}}\n  - !Temporal {{rank_variable: m, tile_shape: 1}}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}",
    )
    machine = Machine.of(spec)
    assert machine is not None
    nest = lower(spec).nest(unscheduled(spec).kernel)
    tiles = next(node for node in nest.body if isinstance(node, For))
    found = LineTraffic(nest, machine, in_registers(nest)).regions(tiles.body)["A"].lines
    starts = range(0, pitch - piece + 1, piece)
    counted = [len({4 * (m * pitch + start + n) // 64 for m in range(rows) for n in range(piece)}) for start in starts]
    assert found == pytest.approx(statistics.fmean(counted), abs=1)


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_blocks_entries_are_all_of_them(seed: int) -> None:
    """Tiles of tiles that do not divide: every case is counted as often as it is entered, and in all every iteration once."""
    random = Random(seed)
    sizes = {rank: random.randint(7, 90) for rank in "MNK"}
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes=sizes)
    family = Family(default_space(cascade))
    tiles = {"tile of Z": random.choice((16, 32)), "down of Z": random.choice((3, 4, 6)), "vectors of Z": random.choice((2, 3, 4))}
    wanted = {"width": 1, "sums": False, "block of Z": 32, "second of Z": "m", "along of Z": "n", **tiles}
    spec = family.spec.replace(mapping=family.mapping(Preferred(wanted)))
    nest = lower(spec).nest(unscheduled(spec).kernel)
    points = 0.0
    for block in blocks(nest, nest.body):
        cases = list(block.cases())
        assert sum(part for part, _ in cases) == pytest.approx(1)
        for part, case in cases:
            updates = sum(line.copies for line in case.lines if line.statement.role == "update")
            points += part * updates * case.trips * case.entries
    assert points == pytest.approx(sizes["M"] * sizes["N"] * sizes["K"])


def written(rows: int, length: int) -> list[Fetched]:
    """What the first cache lacks of sums in memory, a column of so many rows after another."""
    spec = far_sums(rows, length)
    machine = Machine.of(spec)
    assert machine is not None
    nest = lower(spec, machine.limits).nest(unscheduled(spec).kernel)
    beyond = LineTraffic(nest, machine, in_registers(nest)).beyond(nest.body, machine.levels[0], warm=True)
    return [one for some in beyond.values() for one in some if one.written]


def test_rows_that_meet_in_few_sets_of_the_first_cache_drive_one_another_out() -> None:
    """Columns of 64 rows 4 KiB apart lie in one set, a quarter of those of a calibration's lines; of rows a line longer in all of them."""
    assert {length: max(one.crowd for one in written(64, length)) for length in (1024, 1040)} == {1024: 4.0, 1040: 0.0}


def beside_a_column(columns: int) -> dict[str, float]:
    """Lines that a product fetches from beyond a core's second cache for a tile of its first operand, which lies there, and for columns of
    the second one."""
    spec = ff.loads(
        f"""{DEVICE_FILE.read_text()}
workload:
  rank_sizes: {{M: 512, K: 1024, N: {columns}}}
  bits_per_value: {{All: 32}}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
mapping:
  nodes:
    - !Storage {{tensors: [A, B, Z], component: MainMemory}}
    - !Temporal {{rank_variable: m, tile_shape: 128}}
    - !Spatial {{rank_variable: m, tile_shape: 64, name: core, component: Core}}
    - !Storage {{tensors: [A], component: Scratchpad}}
    - !Temporal {{rank_variable: n, tile_shape: 4}}
    - !Storage {{tensors: [Z], component: Register}}
    - !Temporal {{rank_variable: k, tile_shape: 1}}
    - !Temporal {{rank_variable: n, tile_shape: 1}}
    - !Temporal {{rank_variable: m, tile_shape: 8}}
    - !Spatial {{rank_variable: m, tile_shape: 1, name: lane, component: Lane}}
    - !Compute {{einsum: Z, component: MAC}}
"""
    )
    machine = Machine.of(spec)
    assert machine is not None
    nest = lower(spec, machine.limits).nest(unscheduled(spec).kernel)
    found = LineTraffic(nest, machine, in_registers(nest)).beyond(nest.body, machine.levels[1], warm=True)
    (sums,) = (statement for _, statement in nest.points if statement.role == "update")
    return dict(zip("AB", (one.lines for one in found[id(sums)]), strict=True))


def test_rows_that_meet_in_few_sets_drive_no_other_array_out() -> None:
    """Rows of 1,024 columns lie a page apart, and 1,024 of them do not fit into their sets; rows a line longer do."""
    crowded, spread = beside_a_column(1024), beside_a_column(1040)
    assert crowded["B"] > 3 * spread["B"] and crowded["A"] == spread["A"]


def test_of_one_line_more_than_a_set_holds_none_is_kept() -> None:
    """Where nine take turns in a set of eight each is gone before its turn comes again: a row's line for each of its 16 elements."""
    eight, nine = (sum(one.lines for one in written(rows, 4096)) / rows for rows in (8, 9))
    assert nine == 3 * 4096 > 10 * eight


def test_lines_in_one_set_take_what_such_lines_were_measured_at() -> None:
    """And in two of four that a calibration's other lines meet in a third of the way there."""
    machine = _machine(crowded_line_seconds=1e-7, crowded_set_line_seconds=4e-7)
    found = [seconds_a_line(machine, machine.levels[1], Fetched(1.0, 4, True, Walk(), crowd)) for crowd in (0.5, 1, 2, 4)]
    assert found == pytest.approx([0.5e-7, 1e-7, 2e-7, 4e-7])


@pytest.mark.parametrize(("pitch", "part"), [(64, 0.0), (65, 7 / 16), (66, 3 / 8), (68, 1 / 4)])
def test_vectors_that_lie_in_two_lines(pitch: int, part: float) -> None:
    """Rows of 65 elements start at any element: vectors of 32 bytes cross a line at 7 of 16 of them."""
    spec = elementwise("2 * A[m, n]", pitch, pitch)
    nest = lower(spec).nest(unscheduled(spec).kernel)
    _, statement = next(point for point in nest.points if point[1].operands)
    lane = next(loop.name for loops, _ in nest.points for loop in loops if loop.binding == "vector")
    assert split(nest, statement.operands[0], lane, 32, 64) == part


def in_parts(part: int, size: int = 136) -> Spec:
    """A product whose sums wait in memory while a part of the reduction goes by all of them."""
    return ff.loads(
        DEVICE.replace("SIZE", str(size))
        + f"""
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z], component: Main}}
  - !Temporal {{rank_variable: k, tile_shape: {part}}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Temporal {{rank_variable: n, tile_shape: 8}}
  - !Temporal {{rank_variable: k, tile_shape: 1}}
  - !Spatial {{rank_variable: n, tile_shape: 1, component: Lane, name: lane}}
  - !Compute {{einsum: Z, component: MAC}}
"""
    )


def test_a_loop_hides_no_lines_of_sums_that_wait_in_memory() -> None:
    """They come before it and leave behind it, once for each part of the reduction, whatever it computes meanwhile."""

    def turned(part: int, size: int = 136) -> float:
        spec = in_parts(part, size)
        machine = Machine.of(spec)
        assert machine is not None
        [update] = [one for one in kernel_time(spec, machine).parts if one.role == "update"]
        assert update.core + update.turned <= update.seconds
        assert update.turned <= max(update.memory.values())
        return update.turned

    once = 136 * 136 * 4 / (8e11 / 8 / 2)
    assert [turned(64), turned(32)] == pytest.approx([4 * once, 8 * once], rel=0.1), "half of what the second cache has for both cores"
    spec = product(4, 2, size=512)
    [update] = [one for one in kernel_time(spec, machine_of(spec)).parts if one.role == "update"]
    assert update.turned == 0, "sums in a tile of registers go nowhere"
    both = dataclasses.replace(update, core=4.0, memory={"L2": 3.0}, overlap_losses={"L2": 0.0}, turned=2.0)
    assert (both.seconds, dataclasses.replace(both, memory={"L2": 7.0}).seconds) == (6.0, 7.0)


def machine_of(spec: Spec) -> Machine:
    """The processor of a Spec."""
    machine = Machine.of(spec)
    assert machine is not None
    return machine
