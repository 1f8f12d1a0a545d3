"""Kernels that tell what a compiler makes of sums: of those over scalars, and of those that short loops go on with.

One that takes additions for exact joins scalars to vectors and adds up their lanes at the end. One that writes out short loops before it
looks for sums to keep finds a place of its own for each, and keeps it in a register. Besides, whether a loop that asks for a group's index
becomes vectors, and whether neighbouring work-items that loop do, and neighbours that stand one behind another in the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from ...codegen.executable import Executable
from ...formats.language.functions import FUNCTIONS
from ...model.kernel.value_operations import is_call
from ...model.processor import BOTH_TURNS
from ..runtime.loaded_executable import Loaded, queue_of
from .core_probes import BOTH_TURNED, LONELY, PROBES
from .probes import Bench, Probe, source_of

CALLED = tuple(name for name in LONELY if name != "exp" and name in FUNCTIONS and is_call(name))
"""Functions of several instructions."""
SUMMED = 256
"""Neighbours that a sum is of."""
ADDED_UP = 16
"""Elements of a sum that is hardly more than its lanes."""
SUMS = 16
"""Of the same length one after another."""
KEPT_SUMS = (8, 16, 32)
"""Sums of vectors that a short loop goes on with, each time it is entered."""
OWN_STEPS = (32, 48, 64)
"""Elements of a sum that each iteration of a loop around has for itself."""
OWN_PLACES = 64
"""Iterations of that loop."""
APART_STEPS = (64, 128, 256)
"""Elements of a sum of which one operand's lie apart: as many as a compiler may write out."""
APART = 17
"""Elements from one of these to the next: lines of 64 bytes never meet."""
PARTS = (2, 5)
"""Steps of a longer sum that a compiler may write out at a time, where a whole number of parts are the sum."""
PARTS_A_SUM = 293
"""A prime number of them, so that there is no other part; more steps than are written out whole."""
PARTED_APART = 9
"""Elements from one to the next in these, of which so many lie in caches."""
GROUP_PLACES = 1024
"""Neighbours that a loop moves, at places which depend on a group's index."""
NEIGHBOURS = 16
"""Sums that lie side by side, written as vectors, and one behind another."""
NEIGHBOUR_STEPS = 64
"""Elements of each of them."""
SUMMING_ITEMS = 64
"""Work-items of a group, each of which sums for itself."""
ITEM_STEPS = 1024
"""Additions of each: so many that a core does not see the next work-item's beside them."""
ENTERED = 64
BYTES = 64 << 10
"""Of the probes' memory, which the nearest cache holds as far as it is touched."""
_HEAD = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_%s(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    __global REAL *q = (__global REAL *) y;
    for (int r = 0; r < repeats; ++r)
    {
        // Another place each time, so that no sum is the one before.
        __global REAL const *p = (__global REAL const *) x + (r & 3) * 16;
        %s
    }
}
"""
ARGUMENT = "(p[j * 16 + i] - p[8192])"
"""What functions are called of in sums: another number for each neighbour."""
_SUM = "for (int j = 0; j < n; ++j) {{ REAL s = 0; for (int i = 0; i < {}; ++i) s += {}; q[j] += s; }}"
_OWN = (
    "for (int j = 0; j < n; ++j) for (int k = 0; k < {1}; ++k)"
    " {{ REAL s = 0; for (int i = 0; i < {0}; ++i) s += p[{1} * i + k] * p[j * 16 + i + 8192]; q[(j & 3) * {1} + k] = s; }}"
)
_PLACES = "for (int i = 0; i < n; ++i) q[{0} + i] = p[{0} + i] * p[8192];"
_ITEMS = "REAL s = p[get_local_id(0)]; for (int i = 0; i < n; ++i) s = s * p[i + 64] + p[i + 80]; q[get_local_id(0)] = s;"
_KEPT = "for (int k = 0; k < n; ++k) for (int j = 0; j < {}; ++j) y[j] = y[j] + p[j * 64 + k] * x[k];"


class SumBench:
    """Makes these probes for the vectors of a bench, and for scalars."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.scalars = Bench(bench.device, bench.dtype, 1, bench.group)
        self.items = Bench(bench.device, bench.dtype, 1, SUMMING_ITEMS)

    def operations(self) -> Iterator[tuple[str, Probe]]:
        """(name, probe) of what has a time in the model."""
        for name, each in (("summed", SUMMED), ("exp_summed", SUMMED), ("folded_sum", 1)):
            yield name, self.scalars.probe(self._sums, f"probe_{name}", 1, SUMS, SUMS * each, BYTES)
        yield "gathered", self._apart(APART_STEPS[0])

    def calls(self) -> Iterator[tuple[str, Probe]]:
        """The same of sums of other functions than ``exp``, for which a compiler that makes vectors of sums has its own, too."""
        for name in (*CALLED, BOTH_TURNS):
            yield f"{name}_summed", self.scalars.probe(self._calls, f"probe_{name}_summed", 1, SUMS, SUMS * SUMMED, BYTES)

    def lengths(self) -> Iterator[tuple[str, Probe]]:
        """(name, probe) of what tells how much is written out."""
        yield from ((f"copies {count}", self._kept(count)) for count in KEPT_SUMS)
        yield from ((f"own {count}", self._own(count)) for count in OWN_STEPS)
        yield from ((f"steps {count}", self._apart(count)) for count in APART_STEPS[1:])
        yield from ((f"parts {part}", self._parted(part)) for part in PARTS)
        loaded = self._loaded(self.items, {"items": _ITEMS})
        yield "items", self.items.probe(loaded, "probe_items", 1, ITEM_STEPS, ITEM_STEPS, BYTES)
        for index in ("known", "asked"):
            yield f"index {index}", self.scalars.probe(self._sums, f"probe_index_{index}", 1, GROUP_PLACES, GROUP_PLACES, BYTES)
        for what in ("elements", "vectors"):
            steps = NEIGHBOUR_STEPS
            yield f"neighbour {what}", self.bench.probe(self._vectors, f"probe_neighbour_{what}", 1, steps, steps, BYTES)

    def _apart(self, count: int) -> Probe:
        return self.scalars.probe(self._sums, f"probe_apart_{count}", 1, SUMS, SUMS * count, BYTES)

    def _own(self, count: int) -> Probe:
        return self.scalars.probe(self._sums, f"probe_own_{count}", 1, SUMS, SUMS * OWN_PLACES * count, BYTES)

    def _parted(self, part: int) -> Probe:
        return self.scalars.probe(self._sums, f"probe_parts_{part}", 1, SUMS, SUMS * part * PARTS_A_SUM, 2 * BYTES)

    def _kept(self, count: int) -> Probe:
        return self.bench.probe(self._vectors, f"probe_kept_{count}", 1, ENTERED, ENTERED * count, BYTES)

    @cached_property
    def _sums(self) -> Loaded:
        near, *apart = "p[j * 16 + i] * p[i + 4096]", *(f"p[i] * p[j + i * {step} + 4096]" for step in (APART, PARTED_APART))
        bodies = {"summed": _SUM.format(SUMMED, near), "folded_sum": _SUM.format(ADDED_UP, near)}
        bodies["exp_summed"] = _SUM.format(SUMMED, f"exp({ARGUMENT})")
        bodies |= {f"apart_{count}": _SUM.format(count, apart[0]) for count in APART_STEPS}
        bodies |= {f"own_{count}": _OWN.format(count, OWN_PLACES) for count in OWN_STEPS}
        bodies |= {f"parts_{part}": _SUM.format(part * PARTS_A_SUM, apart[1]) for part in PARTS}
        group = "(int) get_group_id(0)"
        bodies |= {"index_known": f"int g = {group}; {_PLACES.format('g')}", "index_asked": _PLACES.format(group)}
        return self._loaded(self.scalars, bodies)

    @cached_property
    def _calls(self) -> Loaded:
        values = {name: PROBES[name].format(ARGUMENT, call=FUNCTIONS[name].opencl) for name in CALLED}
        values[BOTH_TURNS] = BOTH_TURNED.format(ARGUMENT, sin="sin", cos="cos")
        sums = {name: f"REAL w = p[0]; {_SUM.format(SUMMED, value)}" for name, value in values.items()}
        return self._loaded(self.scalars, {f"{name}_summed": text for name, text in sums.items()})

    @cached_property
    def _vectors(self) -> Loaded:
        bodies = {f"kept_{count}": _KEPT.format(count) for count in KEPT_SUMS}
        bodies["neighbour_vectors"] = _side_by_side("VEC", "(x + (r & 3))", "y", max(1, NEIGHBOURS // self.bench.lanes))
        bodies["neighbour_elements"] = _side_by_side("REAL", "p", "q", NEIGHBOURS)
        return self._loaded(self.bench, bodies)

    def _loaded(self, bench: Bench, bodies: dict[str, str]) -> Loaded:
        text = "".join(_HEAD % item for item in bodies.items())
        source = source_of(text, bench.dtype, bench.lanes, bench.group, bench.line)
        return Loaded(Executable(source, ("-cl-mad-enable",), (), ()), queue_of(bench.device).context)


def _side_by_side(kind: str, source: str, target: str, count: int) -> str:
    """Sums of a kind that lie side by side, each with a name of its own, of elements two such rows apart."""
    texts = (f"{kind} s{{0}} = 0;", f"s{{0}} += {source}[{2 * count} * j + {{0}}];", f"{target}[{{0}}] += s{{0}};")
    begun, added, done = (" ".join(text.format(number) for number in range(count)) for text in texts)
    return f"{begun} for (int j = 0; j < n; ++j) {{ {added} }} {done}"


def figures(seconds: Callable[[str], float], known: Mapping[str, float]) -> dict[str, float]:
    """What these probes say: of a sum in vectors what each element takes, adding up the lanes left out; how many sums a compiler keeps in
    registers that it writes out itself, how long a loop is that it writes out, and how long a part of a longer one (1 if none); how many
    times as long a loop takes that asks for a group's index, and neighbours that are written one behind another as one vector of them; how
    many work-items are a vector.

    ``seconds``: of one update, or of one step; ``known``: ``<name>_seconds`` of operations, those of this module among them.
    """
    whole, lanes, gathered = (known[f"{name}_seconds"] for name in ("summed", "folded_sum", "gathered"))
    update, latency = (known[f"{name}_seconds"] for name in ("vector_memory_update", "multiply_add_latency"))
    summed = max(0.0, SUMMED * whole - lanes) / (SUMMED - ADDED_UP)
    # Kept in registers they take half of what memory does, or less; what is between the two is noise.
    kept = [count for count in KEPT_SUMS if seconds(f"copies {count}") < update / 1.5]
    # As vectors they take a sixteenth or an eighth of what a sum alone does, one after another a third at the least.
    own = [count for count in OWN_STEPS if seconds(f"own {count}") < latency / 5]
    # Of sums that keep their order a core that sees ahead overlaps no more than two, which take half of that.
    steps = [count for count in APART_STEPS if (gathered if count == APART_STEPS[0] else seconds(f"steps {count}")) < latency / 2]
    parts = [part for part in PARTS if seconds(f"parts {part}") < latency / 2]
    longest = {"sums": kept, "own_sums": own, "steps": steps, "parts": parts}
    written_out = {f"written_out_{name}": float(max(found, default=1)) for name, found in longest.items()}
    # Multiply-adds that wait for one another: of all work-items as many at once as are a vector.
    together = max(1.0, SUMMING_ITEMS * latency / seconds("items"))
    found = {"summed_seconds": summed, "group_index_times": max(1.0, seconds("index asked") / seconds("index known"))}
    found["neighbour_times"] = max(1.0, seconds("neighbour elements") / seconds("neighbour vectors"))
    calls = {name: value for name, value in known.items() if name.endswith("_summed_seconds")}
    found |= {name: max(0.0, value - lanes / SUMMED) for name, value in calls.items()}
    return written_out | found | {"items_in_a_vector": float(min(SUMMING_ITEMS, 2 ** round(math.log2(together))))}
