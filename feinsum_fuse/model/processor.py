"""What both cost models take a processor for: measured where the architecture says so, else assumed, each figure with where it is from.

The formulas of the tree (:mod:`.hardware`) and the terms of a kernel (:mod:`.kernel`) read the same figures. Those that
one processor has and another has not come from ``arch.variables``, where ``calibrate`` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..formats.arch import Arch
from ..schedule.target import Target


@dataclass(frozen=True)
class Assumed:
    """A figure for architectures that do not say, and its source or the measurement that gave it."""

    value: float
    source: str


CROWDED_SETS = 4
"""In so many sets of a first cache the lines meet whose rate a calibration measures: those in fewer take as long, those in more less."""
COLUMN_BYTES = 2048
"""From row to row of the matrices whose columns a calibration walks down."""
SPILLED_COLUMNS = 3
"""Vectors of the register tile of too many sums that a calibration measures: one row's number is held beside them."""
ENTRY_OPERATIONS = 10
"""Around a loop: where it begins in each array, its first and last values, and the loop outside. Eight to 14 in what PoCL makes of five."""
SHORT_COPY = 3
"""Iterations at the most of a loop of known length of whose copies compilers make no vectors: the shortest have four numbers of 32 bits."""
SHORTEST_VECTOR = 4
"""Elements of 32 bits that a unit which divides takes in the time of a scalar (DIVPS and DIVSS of 16 bytes, SQRTPS and SQRTSS: the same in
Fog's Instruction tables from Nehalem to Zen 4)."""
SAMPLE_SECONDS = 2e-3
"""A warm sample lasts so long at the least, and holds the mean of as many runs as it takes (``device.timing.timing.SHORTEST_SAMPLE``)."""
LOST_BETWEEN_RUNS = "last_cache_lost_"
"""What it is called in ``arch.variables`` that runs fetch again, with how many follow one another and percents of the last cache behind."""
OWN_LOST = "own_cache_lost_"
"""What it is called there that cores fetch again of what they touched before, with percents of the largest of their own caches behind."""
MANY_RUNS = 8
"""Runs in which a last cache comes to keep most of what it can: on a Zen 4, of 34 MB beside 32 MiB, the first found a tenth of the lines,
the last half of them, and what is missing is a quarter less with each run."""
WHOLLY_KEPT, WHOLLY_LOST = 50.0, 400.0
"""Percents of the last cache within which all is kept, if no probe went over so little, and from which on nothing is. Where probes did,
all is kept of half of the least that they went over."""
ASSUMED_LOST = {
    1: {75.0: 0.52, 100.0: 0.70, 150.0: 0.86, 200.0: 0.93},
    MANY_RUNS: {75.0: 0.37, 100.0: 0.49, 150.0: 0.68, 200.0: 0.81},
}
"""Runs that follow one another -> percents of the last cache -> the part lost between runs, for device files that do not say: between what
a Zen 4 of a cloud lost while its other guests were busy (at its cache's size 0.89 and 0.57) and while they were not (0.51 and 0.41)."""

FIGURES: dict[str, Assumed] = {
    "line_bytes": Assumed(Target.line_bytes, "a cache line on all x86-64 and most Arm processors; calibrate writes what the system lists"),
    "vector_registers": Assumed(Target.vector_registers, "x86-64 before AVX-512, which has 32 (Intel SDM 1, 14.1 and 15.2)"),
    "times_lost": Assumed(2.0, "times the part counted on from which on nothing is kept; in between a part is; fitted, below"),
    "lookahead_operations": Assumed(256, "reorder buffer of Zen 3 (Fog, Microarchitecture, 23); 235 measured on a Zen 5"),
    "cache_share": Assumed(0.7, "part of a cache counted on, the rest lost to conflicts and streams; fitted to measured kernels, below"),
    "far_bytes": Assumed(2048, "greatest stride that a prefetcher follows (Intel Optimization Manual, Data Prefetching: IP-based stride)"),
    "foreseen_bytes": Assumed(0, "pieces of rows from memory shorter than that are not foreseen; without a probe: but for the first line"),
    "followed_rows": Assumed(32, "streams that are foreseen in turns (Intel Optimization Manual, Data Prefetching: streamer)"),
    "store_queue": Assumed(64, "stores that wait for their lines while a core goes on (Fog, Microarchitecture: Zen 3; Intel's 56 to 72)"),
    "waiting_power": Assumed(5, "of a chain of sums and the work beside it: 1.15 times either where both are as long; fitted, below"),
    "first_cache_sets": Assumed(64, "a page of 4 KiB over lines of 64 bytes: caches indexed before translation have no more sets"),
    "least_groups_at_once": Assumed(Target.group_parts[0], "groups that a thread is handed at once: the neutral target; calibrations say"),
    "most_groups_at_once": Assumed(Target.group_parts[1], "the same while many are left"),
    "wake_seconds": Assumed(0.0, "how much later than the first core the others begin with a kernel; a calibration measures it"),
    "written_out_sums": Assumed(1, "copies of a sum that a compiler makes of short loops to keep each in a register: none (LLVM 14)"),
    "written_out_own_sums": Assumed(1, "steps of the sum that each iteration of a loop around has for itself: as of those (LLVM 14)"),
    "written_out_steps": Assumed(1, "steps of a sum that a compiler writes out although some of its elements lie apart: none (LLVM 14)"),
    "written_out_parts": Assumed(5, "steps of a longer sum at a time, the same, by a compiler that writes out some: Intel's of 2026"),
    "group_index_times": Assumed(1.0, "times as long a loop over scalars takes that asks for a group's index: as without (LLVM 14)"),
    "neighbour_times": Assumed(1.0, "times as long neighbours in straight code take as one vector of them: joined to one (LLVM 14)"),
    "pack_loss": Assumed(0.0, "part of the shorter of filling lanes and arithmetic that is not hidden: ports of their own (Zen)"),
    "overlap_loss": Assumed(0.0, "part of the shorter of fetching and computing that the longer does not hide; a calibration measures it"),
}
"""Name in ``arch.variables`` -> what is assumed.

Four of them have no probe, nor does a system say them: ``cache_share``, ``times_lost``, ``store_queue`` and ``waiting_power``. A walk
through a growing set says different things of different caches (of a Zen 5's first cache all is kept, of its second three quarters), and
kernels use all of them, so that one pair of values is fitted to what kernels took. Full calibrations of a Zen 5 measured 15
``followed_rows``; on a Zen 4 nothing is foreseen but lines behind one another (``far_bytes`` 100, ``foreseen_bytes`` 8,192).
``python -m benchmarks.fidelity figures`` predicts what was measured with other values; ``doc/model.rst`` has what it said.
"""

CYCLES: dict[str, Assumed] = {
    "load": Assumed(0.5, "two loads a cycle (Fog, Instruction tables); 0.50 measured on an EPYC, 0.58 on a Xeon"),
    "store": Assumed(1.0, "one store a cycle (Fog, Instruction tables); 0.99 measured on an EPYC, 0.97 on a Xeon"),
    "mixed_addition": Assumed(0.5, "of additions and as many multiply-adds one: on ports that they share (Skylake to Golden Cove, Fog)"),
    "split_load": Assumed(1.0, "a load that lies in two lines takes the place of two (Fog, Microarchitecture); 0.97 measured on a Zen 5"),
    "split_store": Assumed(2.0, "a store that lies in two lines (Fog, Instruction tables: Skylake); 1.3 measured on a Zen 5"),
    "narrow_store": Assumed(1.0, "a store of half a vector or less: as one of a whole (Fog: Zen 3); 0.48 measured on a Zen 5"),
    "addition_latency": Assumed(3.0, "Zen 2 to Zen 4 (Fog, Instruction tables); 1.9 measured on a Zen 5"),
    "multiply_add_latency": Assumed(4.0, "Skylake to Golden Cove and Zen 3 (Fog, Instruction tables); 3.9 measured on an EPYC"),
    "memory_chain": Assumed(13.0, "a sum in memory waits for its own store; 12.9 measured on an EPYC"),
    "vector_memory_chain": Assumed(13.5, "the same on vectors; 13.8 measured on an EPYC"),
    "vector_memory_update": Assumed(2.0, "a vector in memory is changed, not waiting for the last change; 2.0 measured on an EPYC"),
    "scattered": Assumed(1.0, "a result of a loop whose results lie apart: as a store; 1.9 measured on a Zen 5, which scatters vectors"),
    "forwarded": Assumed(14.0, "a vector of what was just stored in pieces (Fog, Microarchitecture: 11 to 15); 19 measured on a Zen 5"),
    "access": Assumed(0.03, "a load or store delays whatever port is the busiest; fitted to measured kernels, below"),
    "issue": Assumed(1 / 6, "six instructions a cycle (Fog, Microarchitecture: Zen 3 and Golden Cove); 0.17 measured on a Zen 5"),
    "pack": Assumed(0.5, "a lane filled from memory; 0.57 measured on an EPYC"),
    "gathered": Assumed(1.0, "an element of a vector of sums that lies apart: as a gather's (Fog, Instruction tables: Zen 3, Skylake)"),
    "summed": Assumed(0.25, "an element of a sum in vectors, which waits for the vector before: a multiply-add's latency over 16 lanes"),
    "folded_sum": Assumed(8.0, "the lanes of a vector of sums added up, one after another; 16 of 16 measured on a Zen 5"),
    "lane_store": Assumed(1.0, "a lane stored to a line of its own: as a store; 1.03 measured on a Zen 5"),
    "narrow_lane_store": Assumed(1.0, "the same of half a vector or less; 0.56 measured on a Zen 5"),
    "spilled": Assumed(1.0, "a sum that finds no register is stored and loaded: as a store; 2.3 measured on a Zen 4"),
    "crowded_line": Assumed(
        14.0, "a written line whose few sets of the first cache are full: the latency of a second cache, stores being in order"
    ),
    "lone_line": Assumed(20.0, "a line from beyond a core's caches that nobody foresaw, others on their way; 13 to 25 measured on a Xeon"),
    "lone_memory_line": Assumed(20.0, "the same from main memory; 21 measured on an EPYC"),
}
"""``<name>_seconds`` in ``arch.variables`` -> what is assumed, in cycles: the time of two vector multiply-adds of one core.

``access`` has no probe: a register tile in the nearest cache, alone on a core, takes what its busiest port does. Measured kernels take
more, as much for each load and store whether arithmetic, loads or stores bound them; ``doc/model.rst`` has what was seen.
"""

DIVISION = "div"
"""What a division is called beside the functions of maps, in ``arch.variables``, too."""
EXP_DIVIDED = "exp_divided"
"""What a number over an exponential is called, in ``arch.variables``: how much of a quotient a function hides that it waits for."""
BOTH_TURNS = "sin_cos"
"""What the sine and the cosine of one argument are called together, in ``arch.variables``, too: compilers may do once what they share."""
OF_ZERO = "_of_zero"
"""Behind the name of a function of two arguments one of which stands in the text, as 0 does, in ``arch.variables``, too: nothing asks
whether that is a number."""
CALL_CYCLES = 4.0
"""A function that takes more of a vector is several instructions, or a slow one."""
WAITING_CALL = 5.0
"""Times what a call takes beside others that it takes where it waits for the one before: of a polynomial's 20 to 30 operations two start
in a cycle, and each waits four for the one before. 5 to 6 measured of exp, log, tanh, erf and of divisions on a Zen 5."""
DIVISION_CYCLES = (5.0, 5.0)
"""Cycles of a division of one vector, and of one scalar (Fog, Instruction tables: Zen 2); those of functions stand in their table."""


def starting_seconds(arch: Arch, kernels: float, groups: float, working: float, *, cold: bool = False) -> float:
    """Seconds that starting kernels and work-groups adds to one run as it is measured, of a program that works for so many seconds.

    A kernel behind another costs ``warm_launch_seconds`` (``launch_seconds`` where the architecture does not say), one whose end is waited
    for ``launch_seconds``. The latter is paid once in a sample: by each run of a cold one, else by as many runs together as a sample holds.

    The host starts kernels while those before work. So they take as long as the host needs for all, or what they work and what the device
    itself needs for each of them (``busy_launch_seconds``; as much as the host where the architecture does not say).
    """
    known = arch.variables
    first = float(known.get("launch_seconds", 0.0))
    behind = min(first, float(known.get("warm_launch_seconds", first)))
    busy = min(behind, float(known.get("busy_launch_seconds", behind)))
    run = max(kernels * behind - working, kernels * busy) + groups * float(known.get("group_seconds", 0.0))
    return run + (first - busy if kernels else 0.0) * (1.0 if cold else min(1.0, (working + run) / SAMPLE_SECONDS))


def runs_in_a_sample(seconds: float) -> float:
    """How many runs of so many seconds a measurement takes one after another: a fifth more than last long enough."""
    return max(1.0, 1.2 * SAMPLE_SECONDS / seconds)


def figure(arch: Arch | None, name: str) -> float:
    """One of :data:`FIGURES`: the architecture's own, or what is assumed."""
    return float(arch.variables.get(name, FIGURES[name].value)) if arch is not None else FIGURES[name].value


def operation_seconds(arch: Arch, name: str, rate: float) -> float:
    """Seconds of one operation of :data:`CYCLES` on a core that starts ``rate`` vector multiply-adds a second."""
    return float(arch.variables.get(f"{name}_seconds", CYCLES[name].value * 2 / rate))
