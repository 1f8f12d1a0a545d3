"""What cores find in their own caches when a kernel comes to an array again."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.model.kernel.kernel_time import nest_time
from feinsum_fuse.model.kernel.lines.own_caches import CoreArrays, lost_parts, same_core
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.tree.nest import Nest
from tests.model.test_kernel_time import with_variables
from tests.model.test_lines_and_trips import DEVICE_FILE, doubled

LOST = {f"own_cache_lost_{percent}": lost for percent, lost in ((50, 0.0), (100, 0.25), (150, 0.75), (200, 1.0))}


def lines_beyond(nest: Nest, machine: Machine, *, cold: bool = False) -> float:
    """Bytes of lines that come from beyond the cores' own caches."""
    shared = next(level for level in machine.levels if level.shared)
    return sum(block.lines[shared.name] for block in nest_time(nest, machine, cold=cold).parts) * machine.figure("line_bytes")


@pytest.mark.parametrize(("size", "part"), [(0.4, 0.0), (0.75, 0.125), (1.0, 0.25), (1.25, 0.5), (3.0, 1.0)])
def test_of_what_nearly_fits_the_cores_own_caches_a_part_is_left_from_the_run_before(size: float, part: float) -> None:
    """As much as a calibration found, of what each core has of arrays that groups share."""
    machine = Machine.of(with_variables(ff.loads(DEVICE_FILE.read_text()), **LOST))
    assert machine is not None and machine.measured_own is not None and machine.cores > 1
    rows = int(size * machine.cores * machine.measured_own.size / (2 * 4 * 1024))
    assert lines_beyond(doubled(rows), machine) == pytest.approx(part * 2 * rows * 4096, rel=0.05, abs=4096)


def test_where_no_calibration_says_nothing_is_left_of_what_does_not_fit_one_core() -> None:
    """As device files of before were read: of what all cores touch a core's own cache has all if all of it fits, else nothing."""
    machine = Machine.of(ff.loads(DEVICE_FILE.read_text()))
    assert machine is not None and machine.measured_own is None
    own = [level for level in machine.levels if not level.shared][-1]
    small, large = (int(size * own.size / (2 * 4 * 1024)) for size in (0.5, 1.0))
    assert lines_beyond(doubled(small), machine) == 0
    assert lines_beyond(doubled(large), machine) == pytest.approx(2 * large * 4096, rel=0.05)


def test_a_cold_run_finds_nothing_in_the_cores_own_caches() -> None:
    machine = Machine.of(with_variables(ff.loads(DEVICE_FILE.read_text()), **LOST))
    assert machine is not None
    assert lines_beyond(doubled(64), machine, cold=True) == pytest.approx(2 * 64 * 4096, rel=0.05)


def lost(times: float) -> float:
    """Nothing of half a cache, all of one and a half."""
    return min(1.0, max(0.0, times - 0.5))


def kernel(cores: int = 2, **arrays: tuple[float, tuple[int, ...]]) -> CoreArrays:
    """A kernel by its arrays: bytes of each core, axes along which groups go."""
    return CoreArrays({name: size for name, (size, _) in arrays.items()}, {name: axes for name, (_, axes) in arrays.items()}, cores)


def test_what_the_kernel_before_touched_is_nearer_than_what_the_run_before_did() -> None:
    """X was touched a run ago, with 100 bytes since; Z only since half of both kernels."""
    kernels = [kernel(X=(40.0, (0,)), Z=(20.0, (0,))), kernel(Z=(20.0, (0,)), Y=(40.0, (0,)))]
    assert lost_parts(kernels, 1, 100.0, lost) == pytest.approx({"Z": 0.1, "Y": 0.5})
    assert lost_parts(kernels, 0, 100.0, lost) == pytest.approx({"X": 0.5, "Z": 0.1})


def test_what_other_groups_had_lies_with_other_cores() -> None:
    """Of columns that groups had, those that share rows find their halves of halves; of what each core has all of, all."""
    rows, columns, whole = kernel(A=(10.0, (0,))), kernel(A=(10.0, (1,))), kernel(A=(20.0, ()))
    assert same_core(rows, rows, "A") == 1
    assert same_core(rows, columns, "A") == same_core(rows, whole, "A") == 0.5
    assert same_core(whole, rows, "A") == same_core(whole, whole, "A") == 1
    assert same_core(kernel(1, A=(20.0, ())), rows, "A") == 0.5, "one core wrote it alone"
    assert lost_parts([rows, columns], 1, 100.0, lost) == {"A": 0.5}
