"""Kernels that measure single operations of one core: loads, updates of memory, lanes filled one by one, and functions.

Each is written as generated kernels are, with bounds that the compiler does not know where it must not unroll: what is measured is the
operation as this compiler makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from ...codegen.executable import Executable
from ...formats.language.functions import FUNCTIONS
from ...formats.language.reductions import REDUCTIONS
from ...model.processor import (
    BOTH_TURNS,
    COLUMN_BYTES,
    CROWDED_SETS,
    DIVISION,
    ENTRY_OPERATIONS,
    EXP_DIVIDED,
    FIGURES,
    OF_ZERO,
    SHORT_COPY,
    SPILLED_COLUMNS,
)
from ...schedule.kernel.definitions import definition
from ...schedule.kernel.operations import VectorOperation, Verb, c_type
from ...schedule.target import Quirks
from ..catalogue import target
from ..runtime.loaded_executable import Loaded, queue_of
from .caches import caches, own_caches
from .probes import ACCUMULATORS, Bench, Probe, source_of

PROBES = {**{f.name: f.probe for f in FUNCTIONS.values() if f.probe is not None}, DIVISION: "w / ({0} + (REAL) 1)"}
"""What cascades compute besides sums and products, each with an argument that stays in range."""
CHAINED = tuple(sorted({reduction.cost for reduction in REDUCTIONS.values() if reduction.cost is not None}))
"""Functions by which values are reduced: each call waits for the one before."""
WITH_ZERO = tuple(name + OF_ZERO for name in CHAINED)
"""The same of 0 and another number."""
RUNNING = "running_"
"""What they are called, with this before their names, where the first argument is what a reduction of vectors has so far."""
BOTH_TURNED = "{sin}({0}) + {cos}({0})"
"""The sine and the cosine of one argument."""
ZERO = "{call}(w - {0}, (REAL) 0)"
"""The greater or lesser of a number and 0."""
LONELY = tuple(name for name in PROBES if name not in CHAINED)
"""Functions of several instructions: ten calls on scalars in turns are joined to vectors (exp took 2 ns so, 4.8 in a kernel's sum)."""
MAPS = tuple(name for name in LONELY if name not in FUNCTIONS or not FUNCTIONS[name].is_periodic)
"""Those that are measured in a map of vectors, as kernels have them: of ten calls whose values stay in registers, log on PoCL took 1.5
times as long (whole vectors on a Zen 4), and on Intel's runtime 0.7 times (half vectors). Of sine and cosine a map shares what kernels do
not."""
HASH = "(REAL)((i * 1103515245 + r * 12345) >> 16 & 1023) * (REAL) 0.006 - 3"
"""An argument between -3 and 3 made of loop variables, spread as data are: libraries branch on it, and no predictor foresees where."""
LOOP = 2048
"""Calls on neighbours, which the compiler may join to vectors."""
LONE = 64
"""Calls on scalars that compilers may not join to vectors, since what they give is stored one after another, whatever that takes."""
LEAST_HALVED = 4
"""Lanes from which on half a vector is one."""
CALLS = ACCUMULATORS
"""Independent calls in an iteration: of four each waits for its own last one, which took 1.3 to 3 times as long as others fill the time."""
MAPPED = 64
"""Vectors of such a map."""
UPDATES = 16
"""Vectors that are updated in memory between two updates of one of them."""
APART_RESULTS = 192
"""Results of a loop that lie a line and an element apart; with what they are made of they fill half of a first cache of 32 KiB."""
EMPTY = 3
"""Lanes that stay empty of a vector that the last elements of a row fill."""
CROWDED_PACKS = 4
"""Such vectors of a step of a register tile whose sums have five eighths of the registers: these take longer than the tile's products."""
LANE_STORED = 16
"""Vectors that are stored lane by lane, to rows that are far from one another."""
FORWARDED = 64
"""Vectors each of which is loaded from two elements that were stored right before, and from what was there."""
SHORT_LOOPS = 64
"""Sums of two loops over two elements, one in the other, each multiplied and stored."""
SHORT_OPERATIONS = 2 * (2 * 4 + ENTRY_OPERATIONS) + ENTRY_OPERATIONS + 5
"""Operations of one of these, as the model counts them."""
COPIED_NUMBERS = 128
"""Blocks of so many rows and columns as a short copy has, each of whose elements goes to a row of its own."""
CHAIN = 160
"""Additions that wait for one another before a sum begins that waits for none of them, each of a value that is loaded, as in kernels."""
CHAIN_OPERATIONS = 2 * CHAIN + 6
"""Of such a sum: additions, loads, its first value, the sum of sums, and the loop."""
TILE_STEPS = 128
"""Steps of a register tile: 128 of three vectors of 64 bytes lie in the nearest cache with the rows."""
SPREAD_COLUMNS = 2
"""Half vectors of a register tile whose rows' numbers are put into all lanes, each for so many multiply-adds."""
ROW = COLUMN_BYTES
CROWDED_LINES = 500
"""Lines that meet in few sets of the first cache, which has no room for them there."""
SET_ROWS = 16
"""Rows a page apart that are written side by side: their lines meet in one set of the first cache, which holds 8 to 12 of them."""
TIMES_OWN = 2
"""Of a core's own caches, the size of a matrix of whose lines none is left when its columns are walked down again. As few as that: of more
pages than a processor keeps the places of it looks these up besides. Of 1,024 rows a Xeon's second cache of 2 MiB was found to keep no line
of 4 MiB (4.6 ns a line, and 4.1 on huge pages, of 16 MiB 4.1), of 4,096 pages it took 12 ns a line."""
SECOND_CACHE = 256 << 10
"""Bytes that a second cache holds and a first one does not, on devices that list no two of them (Zen 3: 512 and 32 KiB)."""
BYTES = 64 << 10
"""Of the probes' memory; what they touch of it fits into the nearest cache."""
_NO_WORDS: Mapping[str, str] = {}
_HEAD = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_%s(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    __global REAL const *p = (__global REAL const *) x;
    __global REAL *q = (__global REAL *) y;
    VEC u = x[0], w = x[1], DECLARE;
    for (int r = 0; r < repeats; ++r) { %s }
    y[get_global_id(0)] = TOTAL;
}
"""
_ANYWHERE = """
typedef VEC anywhere __attribute__((aligned(sizeof(REAL)), may_alias));
"""
_AT = "*(__global anywhere {}*) &"
_LONE = "for (int i = 0; i + CHAINS <= n; i += CHAINS) {{ {} }}"
BODIES = {
    "loads": "for (int i = 0; i + CHAINS <= n; i += CHAINS) { LOADS }",
    "products": "for (int i = 0; i + CHAINS <= n; i += CHAINS) { PRODUCTS }",
    "lookahead": "VEC s = x[r & 63]; CHAIN a0 += s;",
    "stream": "for (int i = 0; i < n; ++i) { VEC v = x[i]; COLUMN }",
    "brief_stream": "for (int i = 0; i + CHAINS / 2 <= n; i += CHAINS / 2) { TWICE }",
    "pairs": "for (int i = 0; i + CHAINS <= n; i += CHAINS) { PAIRS }",
    "sums": "for (int i = 0; i + CHAINS <= n; i += CHAINS) { SUMS }",
    "split_loads": "for (int i = 0; i + CHAINS <= n; i += CHAINS) { SPLIT_LOADS }",
    "split_stores": "u = u + (REAL) 1; for (int i = 0; i + CHAINS <= n; i += CHAINS) { SPLIT_STORES }",
    "crowded": "for (int i = 0; i < n; ++i) y[i * CROWDED] = y[i * CROWDED] + u;",
    "crowded_set": "u = u + (REAL) 1; for (int i = 0; i < n; ++i) { SET_STORES }",
    "stores": "u = u + (REAL) 1; for (int i = 0; i + CHAINS <= n; i += CHAINS) { STORES }",
    "update": "for (int i = 1; i <= n; ++i) q[i * 64] = q[i * 64] + p[r & 63] * p[i * 64];",
    "vector_update": "for (int i = 1; i <= n; ++i)"
    f" {_AT.format('')}q[i * 64] = {_AT.format('')}q[i * 64] + p[r & 63] * {_AT.format('const ')}p[i * 64];",
    "own_lone": _LONE.format("OWN_LONE"),
    "lone": _LONE.format("LONE"),
    "memory_lone": _LONE.format("MEMORY_LONE"),
    "set_lone": _LONE.format("SET_LONE"),
    "apart": _LONE.format("APART"),
    "memory_apart": _LONE.format("MEMORY_APART"),
    "scattered": "REAL s = p[r & 63]; for (int i = 0; i < n; ++i) q[i * 17] = s * p[i * 17];",
    "short": "for (int i = 0; i < n; ++i) { REAL s = 0; for (int j = 0; j < 2; ++j)"
    " for (int k = 0; k < 2; ++k) s += p[i * 16 + 128 * j + k]; q[i * 16] = s * p[i]; }",
    "short_copy": f"for (int i = 0; i < n; ++i) for (int j = 0; j < {SHORT_COPY}; ++j) for (int k = 0; k < {SHORT_COPY}; ++k)"
    f" q[i + {SHORT_COPY * COPIED_NUMBERS} * j + {COPIED_NUMBERS} * k] = p[{SHORT_COPY**2} * i + {SHORT_COPY} * j + k];",
    "forwarded": "for (int i = 0; i < n; ++i) { q[0] = p[i]; q[1] = p[i + 64]; a0 += *(__global VEC const *) q; }",
    "pack": "for (int i = 0; i < n; ++i) { int const at = i * 17; a0 += (VEC)(PACK(0)); a1 += (VEC)(PACK(8)); }",
    "pack_beside": "for (int i = 0; i < n; ++i) { int const at = i * 17; a0 += (VEC)(PACK(0)); a1 += (VEC)(PACK(8)); BESIDE }",
    "cut_pack": "for (int i = 0; i < n; ++i) { int const at = i * 17; a0 += (VEC)(CUT_PACK(0)); a1 += (VEC)(CUT_PACK(8)); }",
    "lane_stores": "for (int i = 0; i < n; ++i) { VEC v = x[i] + u; LANE_STORES }",
}
"""Indices are sums of variables times constants, as those of kernels are: with ``(j * 3 + k) * 128`` in one PoCL's compiler makes copies
that take 1.9 times as long."""


def written(dtype: str, lanes: int, quirks: Quirks) -> tuple[str, dict[str, str]]:
    """OpenCL C of the probed functions as kernels call them on scalars or vectors, and the name of each there; of vectors those by which
    reductions go on, too."""
    probed = [function for function in FUNCTIONS.values() if function.probe is not None]
    if lanes == 1:
        return "", {function.name: function.opencl for function in probed}
    each = partial(VectorOperation, Verb.FUNCTION, c_type(dtype), lanes)
    operations = {function.name: each(function=function.name) for function in probed}
    operations |= {RUNNING + name: each(function=name, is_running=True) for name in CHAINED}
    text = "".join(f"{definition(operation, quirks)}\n" for operation in operations.values())
    return text, {name: operation.name for name, operation in operations.items()}


class CoreBench:
    """Makes the probes of a core for the vectors of a bench, and for scalars."""

    def __init__(self, bench: Bench, outside: int) -> None:
        self.bench = bench
        self.outside = outside
        """Bytes that no cache holds."""
        self.scalars = Bench(bench.device, bench.dtype, 1, bench.group)
        self.halves = Bench(bench.device, bench.dtype, bench.lanes // 2, bench.group) if bench.lanes >= LEAST_HALVED else None
        """Vectors of half as many elements: what costs lanes on one processor costs operations on another."""

    def probes(self) -> Iterator[tuple[str, Probe]]:
        """(name, probe): a rate is operations a second; ``<name>_seconds`` of the model is one over it."""
        core = self._core
        count = 20 * ACCUMULATORS
        for name, kernel, n, work in (
            ("load", "loads", count, count),
            ("store", "stores", count, count),
            ("mixed_addition", "pairs", count, 2 * count),
            ("addition_latency", "sums", count, count),
            ("split_load", "split_loads", count, count),
            ("split_store", "split_stores", count, count),
            ("memory_chain", "update", 1, 1),
            ("vector_memory_chain", "vector_update", 1, 1),
            ("vector_memory_update", "vector_update", UPDATES, UPDATES),
            ("pack", "pack", 16, 2 * 16 * max(1, self.bench.lanes - 1)),
            ("pack_beside", "pack_beside", 16, 16),
            ("lane_store", "lane_stores", LANE_STORED, LANE_STORED * self.bench.lanes),
            ("scattered", "scattered", APART_RESULTS, APART_RESULTS),
            ("forwarded", "forwarded", FORWARDED, FORWARDED),
            ("issue", "short", SHORT_LOOPS, SHORT_LOOPS * SHORT_OPERATIONS),
            ("short_copy", "short_copy", COPIED_NUMBERS, COPIED_NUMBERS * SHORT_COPY**2),
        ):
            yield name, self.bench.probe(core, f"probe_{kernel}", 1, n, work, BYTES)
        if self.bench.lanes > EMPTY + 1:
            cut = 16 * (self.bench.lanes - EMPTY - 1)
            yield "cut_pack", self.bench.probe(core, "probe_cut_pack", 1, 16, 2 * cut, BYTES)
            yield "crowded_cut_pack", self.bench.probe(self._crowded_packs, "probe_crowded_cut_pack", 1, 16, CROWDED_PACKS * cut, BYTES)
        yield "lookahead", self.bench.probe(core, "probe_lookahead", 1, 1, CHAIN, BYTES)
        yield "crowded_line", self.bench.probe(core, "probe_crowded", 1, CROWDED_LINES, CROWDED_LINES, CROWDED_LINES * self._crowded)
        columns = int(FIGURES["first_cache_sets"].value)
        work = SET_ROWS * columns
        yield "crowded_set_line", self.bench.probe(core, "probe_crowded_set", 1, columns, work, work * self.bench.line)
        if self.halves is not None:
            work = LANE_STORED * self.halves.lanes
            yield "narrow_lane_store", self.halves.probe(self._core_of(self.halves), "probe_lane_stores", 1, LANE_STORED, work, BYTES)
            yield "narrow_store", self.halves.probe(self._core_of(self.halves), "probe_stores", 1, count, count, BYTES)
            yield "narrow_load", self.halves.probe(self._core_of(self.halves), "probe_loads", 1, count, count, BYTES)
            yield "narrow_multiply_add", self.halves.probe(self._core_of(self.halves), "probe_products", 1, count, count, BYTES)
            work = TILE_STEPS * self._spread_rows * (SPREAD_COLUMNS + 1)
            yield "narrow_spread", self.halves.probe(self._spread, "probe_spread", 1, TILE_STEPS, work, BYTES)
        running = tuple(RUNNING + name for name in CHAINED) if self.bench.lanes > 1 else ()
        whole = (*self.functions(self.bench), *self.chains(self.bench, (*PROBES, *running)))
        yield from ((f"{name}_vector", probe) for name, probe in whole)
        yield from ((f"{name}_vector", probe) for name, probe in self.functions(self.bench, WITH_ZERO))
        yield f"{BOTH_TURNS}_vector", self.bench.probe(self._functions(self.bench), f"probe_{BOTH_TURNS}", 1, 1, CALLS, BYTES)
        yield f"{EXP_DIVIDED}_vector", self._exp_divided(self.bench)
        if self.halves is not None:
            halved = (*self.functions(self.halves), *self.chains(self.halves, (*CHAINED, *running)))
            yield from ((f"{name}_half_vector", probe) for name, probe in halved)
            yield from ((f"{name}_half_vector", probe) for name, probe in self.functions(self.halves, WITH_ZERO))
            yield f"{EXP_DIVIDED}_half_vector", self._exp_divided(self.halves)
        yield from ((f"{name}_scalar", probe) for name, probe in self.functions(self.scalars, CHAINED))
        yield from ((f"{name}_scalar", probe) for name, probe in self.chains(self.scalars))
        for name in LONELY:
            yield f"{name}_scalar", self.scalars.probe(self._loops, f"probe_{name}_lone", 1, LONE, LONE, BYTES)
        for name in PROBES:
            yield f"{name}_loop", self.scalars.probe(self._loops, f"probe_{name}_loop", 1, LOOP, LOOP, BYTES)
        yield "spilled", self.bench.probe(self._spilled, "probe_spilled", 1, TILE_STEPS, TILE_STEPS * self._spilled_sums, BYTES)
        yield from self._columns()

    def _columns(self) -> Iterator[tuple[str, Probe]]:
        """Columns that are walked down, a line of each row: of rows that meet in two sets of the first cache or in one, and of rows that do
        not."""
        line = self.bench.line
        memory = self._memory_rows * ROW
        if self._own_rows:
            lines = self._own_rows * (ROW // line)
            yield "crowded_own_line", self.bench.probe(self._core, "probe_own_lone", 1, lines, lines, self._own_rows * ROW)
        for name, kernel, size, length in (
            ("lone_line", "lone", self._far_rows * ROW, ROW),
            ("set_lone_line", "set_lone", self._far_rows * ROW, ROW),
            ("apart_lone_line", "apart", self._far_rows * ROW, ROW - line),
            ("lone_memory_line", "memory_lone", memory, ROW),
            ("apart_lone_memory_line", "memory_apart", memory, ROW - line),
        ):
            lines = size // ROW * (length // line)
            yield name, self.bench.probe(self._core, f"probe_{kernel}", 1, lines, lines, size)

    def stream(self, size: int, *, brief: bool = False) -> Probe:
        """Vectors of so many bytes, one after another, each with ten multiply-adds: about as long as a line comes from memory, or from a
        cache that units share. ``brief``: with two, as long as one comes from a unit's own cache.
        """
        count = size // (self.bench.lanes * np.dtype(self.bench.dtype).itemsize * self.bench.group)
        return self.bench.probe(self._core, "probe_brief_stream" if brief else "probe_stream", 1, count, count, size + BYTES)

    def functions(self, bench: Bench, names: Iterable[str] = tuple(PROBES)) -> Iterator[tuple[str, Probe]]:
        """The probes of what cascades compute besides sums and products, on a bench's vectors."""
        functions = self._functions(bench)
        for name in names:
            n, work = (MAPPED, MAPPED) if name in MAPS else (1, CALLS)
            yield name, bench.probe(functions, f"probe_{name}", 1, n, work, BYTES)

    def _exp_divided(self, bench: Bench) -> Probe:
        """A number over an exponential, in such a map."""
        return bench.probe(self._functions(bench), f"probe_{EXP_DIVIDED}", 1, MAPPED, MAPPED, BYTES)

    def chains(self, bench: Bench, names: Iterable[str] = tuple(PROBES)) -> Iterator[tuple[str, Probe]]:
        """The same where each call waits for the one before, for some of the functions."""
        functions = self._functions(bench)
        for name in names:
            yield f"{name}_chain", bench.probe(functions, f"probe_{name}_chain", 1, 1, CALLS, BYTES)

    @property
    def _own(self) -> int:
        """Bytes of the largest cache that a unit has for itself."""
        return max((cache.size for cache in caches(self.bench.device) if not cache.shared), default=SECOND_CACHE)

    @property
    def _own_rows(self) -> int:
        """Rows of a matrix that a unit's second cache holds and the first one does not, a power of two; 0 without a second one."""
        found = own_caches(self.bench.device)
        return 1 << (self._own // 4 // ROW - 1).bit_length() if found is not None and found[0] < found[1] // 4 else 0

    @property
    def _far_rows(self) -> int:
        """Rows of a matrix that a unit's own caches do not hold; a power of two."""
        return 1 << (TIMES_OWN * self._own // ROW - 1).bit_length()

    @property
    def _memory_rows(self) -> int:
        """Rows of a matrix that no cache holds; a power of two."""
        return 1 << (self.outside // ROW).bit_length() - 1

    @property
    def _spilled_sums(self) -> int:
        """Sums of a register tile of half as many again as there are registers that find none."""
        registers = target(self.bench.device).vector_registers
        return registers // 2 * SPILLED_COLUMNS + SPILLED_COLUMNS + 1 - registers

    @cached_property
    def _spilled(self) -> Loaded:
        """Such a tile."""
        return self._tile(self.bench, "spilled", target(self.bench.device).vector_registers // 2, _rows_of(SPILLED_COLUMNS))

    @property
    def _spread_rows(self) -> int:
        """Rows of a tile of half vectors that needs more than half of the registers, and not all."""
        return target(self.bench.device).vector_registers * 3 // 8

    @cached_property
    def _spread(self) -> Loaded:
        assert self.halves is not None
        return self._tile(self.halves, "spread", self._spread_rows, _rows_of(SPREAD_COLUMNS))

    @cached_property
    def _crowded_packs(self) -> Loaded:
        """A tile of vectors that are filled in part, whose sums leave few registers for what filling them wants."""
        rows = target(self.bench.device).vector_registers * 5 // 8 // CROWDED_PACKS
        vectors = [f"(VEC)(CUT_PACK(8 * {column}))" for column in range(CROWDED_PACKS)]
        return self._tile(self.bench, "crowded_cut_pack", rows, vectors, _cut_pack(self.bench.lanes))

    def _tile(self, bench: Bench, name: str, rows: int, vectors: Sequence[str], words: Mapping[str, str] = _NO_WORDS) -> Loaded:
        """A register tile, as products of matrices have it: each row's number times vectors of a step."""
        columns = range(len(vectors))
        sums = [f"s{row}_{column}" for row in range(rows) for column in columns]
        loads = " ".join(f"VEC b{column} = {vectors[column]};" for column in columns)
        adds = " ".join(f"s{row}_{column} += p[{row} * {TILE_STEPS} + i] * b{column};" for row in range(rows) for column in columns)
        head = _HEAD.replace("VEC u = x[0], w = x[1], DECLARE;", f"VEC {', '.join(f'{one} = x[{k}]' for k, one in enumerate(sums))};")
        text = head.replace("TOTAL", " + ".join(sums)) % (name, f"for (int i = 0; i < n; ++i) {{ int const at = i * 17; {loads} {adds} }}")
        return self._loaded(bench, words, text)

    @property
    def _crowded(self) -> int:
        """Bytes from one to the next of lines that meet in few sets."""
        return int(FIGURES["first_cache_sets"].value) // CROWDED_SETS * self.bench.line

    @cached_property
    def _core(self) -> Loaded:
        return self._core_of(self.bench)

    def _core_of(self, bench: Bench) -> Loaded:
        """The probes' kernels on a bench's vectors."""
        lanes, width = bench.lanes, bench.lanes * np.dtype(bench.dtype).itemsize
        line = bench.line // width * lanes
        across = f"[(i + {{}}) * {line} + {line} - 1]"
        chains = range(ACCUMULATORS)
        lone = " ".join(f"a{k} += x[((i + {k}) & ({{0}} - 1)) * {{1}} + (i + {k}) / {{0}} * SPAN];" for k in chains)
        pitch, apart = ROW // width, (ROW - bench.line) // width
        words = {
            "LOADS": " ".join(f"a{k} = a{k} * u + x[i + {k}];" for k in chains),
            "PRODUCTS": " ".join(f"a{k} = a{k} * u + w;" for k in chains),
            "CHAIN": " ".join(f"s = s * u + x[{k}];" for k in range(CHAIN)),
            "SPAN": str(bench.line // width or 1),
            "CROWDED": str(self._crowded // width),
            "SET_STORES": " ".join(f"y[i * SPAN + {k * CROWDED_SETS * self._crowded // width}] = u;" for k in range(SET_ROWS)),
            "PAIRS": " ".join(f"a{k} = a{k} * u + (x[i + {k}] + w);" for k in chains),
            "SUMS": " ".join(f"a0 = a0 + x[i + {k}];" for k in chains),
            "SPLIT_LOADS": " ".join(f"a{k} = a{k} * u + {_AT.format('const ')}p{across.format(k)};" for k in chains),
            "SPLIT_STORES": " ".join(f"{_AT.format('')}q{across.format(k)} = u;" for k in chains),
            "OWN_LONE": lone.format(self._own_rows or 1, pitch),
            "LONE": lone.format(self._far_rows, pitch),
            "SET_LONE": lone.format(self._far_rows // 2, 2 * pitch),
            "MEMORY_LONE": lone.format(self._memory_rows, pitch),
            "APART": lone.format(self._far_rows, apart),
            "MEMORY_APART": lone.format(self._memory_rows, apart),
            "COLUMN": " ".join(f"a{k} += v * p[{k * 64} + (i & 63)];" for k in chains),
            "TWICE": " ".join(f"a{k} += x[i + {k // 2}] * p[{k * 64} + (i & 63)];" for k in chains),
            "STORES": " ".join(f"y[i + {k}] = u;" for k in chains),
            "PACK(from)": ", ".join(f"p[at + from + {k} * 256]" for k in range(lanes)),
            "BESIDE": " ".join(f"a{k} = a{k} * u + w;" for _ in range(beside_packs(lanes)) for k in chains[2:]),
            **_cut_pack(lanes),
            "LANE_STORES": " ".join(f"q[i + {k} * 272] = {f'v.s{k:x}' if lanes > 1 else 'v'};" for k in range(lanes)),
        }
        return self._loaded(bench, words, _ANYWHERE + "".join(_HEAD % item for item in BODIES.items()))

    def _functions(self, bench: Bench) -> Loaded:
        """Functions as kernels call them: on vectors with what the device's quirks ask for."""
        text, names = written(bench.dtype, bench.lanes, target(bench.device).quirks)
        calls = {
            name: " ".join(f"a{k} = {probe.format(f'a{k}', call=names.get(name))};" for k in range(CALLS)) for name, probe in PROBES.items()
        }
        maps = {name: PROBES[name].format("x[i]", call=names.get(name)) for name in MAPS}
        maps[EXP_DIVIDED] = PROBES[DIVISION].format(maps["exp"])
        calls |= {name: f"for (int i = 0; i < n; ++i) {{ y[i] = {value}; }}" for name, value in maps.items()}
        calls[BOTH_TURNS] = " ".join(f"a{k} = {BOTH_TURNED.format(f'a{k}', **names)};" for k in range(CALLS))
        for name in CHAINED:
            calls[name + OF_ZERO] = " ".join(f"a{k} = {ZERO.format(f'a{k}', call=names[name])};" for k in range(CALLS))
        reduced = {name for name in names if name.removeprefix(RUNNING) in CHAINED}
        for name, probe in {**PROBES, **dict.fromkeys(sorted(reduced), "")}.items():
            each = (f"{names.get(name)}(a0, x[{k}])" if name in reduced else probe.format("a0", call=names.get(name)) for k in range(CALLS))
            calls[f"{name}_chain"] = " ".join(f"a0 = {one};" for one in each)
        return self._loaded(bench, {}, text + "".join(_HEAD % item for item in calls.items()))

    @cached_property
    def _loops(self) -> Loaded:
        """Scalar loops over neighbours, each with one function."""
        arguments = {name: "s" if name in FUNCTIONS and FUNCTIONS[name].is_probed_below_zero else "(s * s)" for name in PROBES}
        _, names = written(self.scalars.dtype, 1, Quirks())
        values = {name: probe.format(arguments[name], call=names.get(name)) for name, probe in PROBES.items()}
        calls = {f"{name}_loop": f"for (int i = 0; i < n; ++i) {{ REAL s = {HASH}; q[i] = {value}; }}" for name, value in values.items()}
        alone = "*(volatile __global REAL *) (q + i)"
        calls |= {f"{name}_lone": f"for (int i = 0; i < n; ++i) {{ REAL s = {HASH}; {alone} = {values[name]}; }}" for name in LONELY}
        return self._loaded(self.scalars, {}, "".join(_HEAD % item for item in calls.items()))

    def _loaded(self, bench: Bench, words: Mapping[str, str], text: str) -> Loaded:
        text = "".join(f"#define {name} {meaning}\n" for name, meaning in words.items()) + text
        source = source_of(text, bench.dtype, bench.lanes, bench.group, bench.line)
        return Loaded(Executable(source, ("-cl-mad-enable",), (), ()), queue_of(bench.device).context)


def beside_packs(lanes: int) -> int:
    """How often each chain but two multiplies and adds beside two vectors of so many lanes that are filled one by one, which takes about as
    long: of 16 lanes 30 moves and 64 multiply-adds."""
    return max(1, lanes // 2)


def pack_loss(both: float, pack: float, multiply_add: float, lanes: int) -> float:
    """The part of the shorter of filling lanes and arithmetic that the longer does not hide, by the seconds of both, of a lane and of a
    multiply-add of vectors."""
    packing, computing = 2 * (lanes - 1) * pack, (beside_packs(lanes) * (ACCUMULATORS - 2) + 2) * multiply_add
    return min(1.0, max(0.0, (both - max(packing, computing)) / min(packing, computing)))


def _rows_of(columns: int) -> list[str]:
    """The vectors of a row of a matrix, in which a tile's step has so many."""
    return [f"x[i * {columns} + {column}]" for column in range(columns)]


def _cut_pack(lanes: int) -> dict[str, str]:
    """Elements of a vector that the last ones of a row fill."""
    return {"CUT_PACK(from)": ", ".join(f"p[at + from + {k} * 256]" if k < lanes - EMPTY else "(REAL) 0" for k in range(lanes))}
