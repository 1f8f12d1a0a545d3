"""Kernels that measure how far caches see ahead of a core: how many rows side by side they follow, how wide steps, and how short pieces.

What caches do not foresee shows in what a line takes: of few rows walked side by side as little as of one, of many as much as of a line
that nobody asked for; of lines behind one another as little, of lines that lie apart as much; of long pieces of rows as little, of short
ones as much. The figure lies where the time is halfway between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np

from ...codegen.executable import Executable
from ..runtime.loaded_executable import Loaded, queue_of
from .probes import Bench, Probe, source_of

ROWS_BESIDE = (4, 8, 16, 32, 64, 128)
"""Rows that are walked side by side, a line of each in turn."""
WALKED_STEPS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Bytes from one to the next of the lines of a walk: the first one goes from line to line."""
PIECES = (1, 4, 16, 64)
"""Lines that lie behind one another, before a gap as long and a line longer."""
_BODIES = {
    **{
        f"{rows}_rows": f"for (int i = 0; i < n; ++i) for (int j = 0; j < {rows}; ++j) a0 += x[(size_t) j * PITCH({rows}) + i * SPAN];"
        for rows in ROWS_BESIDE
    },
    **{
        f"{step}_bytes": f"for (int j = 0; j < ({step} + LINE - 1) / LINE; ++j)"
        f" for (int i = 0; i < n; ++i) a0 += x[(size_t) i * STEP({step}) + j * SPAN];"
        for step in WALKED_STEPS
    },
    **{
        f"{lines}_lines": f"for (int i = 0; i < n; ++i)"
        f" for (int j = 0; j < {lines}; ++j) a0 += x[(size_t) i * {2 * lines + 1} * SPAN + j * SPAN];"
        for lines in PIECES
    },
}
_HEAD = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_%s(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC u = x[0], a0 = u;
    for (int r = 0; r < repeats; ++r) { %s }
    y[get_global_id(0)] = a0;
}
"""


class ForesightBench:
    """Makes these probes; ``outside``: bytes that no cache holds."""

    def __init__(self, bench: Bench, outside: int) -> None:
        self.bench = bench
        self.outside = outside

    def probes(self) -> Iterator[tuple[str, Probe]]:
        """(name, probe); a unit of work is a line."""
        line = self.bench.line
        for rows in ROWS_BESIDE:
            lines = self.outside // rows // line - 1
            yield f"{rows}_rows", self.bench.probe(self._loaded, f"probe_{rows}_rows", 1, lines, rows * lines, self.outside)
        for step in WALKED_STEPS:
            lines = self.outside // (step + line) - 1
            work = -(-step // line) * lines
            yield f"{step}_bytes", self.bench.probe(self._loaded, f"probe_{step}_bytes", 1, lines, work, self.outside)
        for piece in PIECES:
            pieces = self.outside // line // (2 * piece + 1)
            yield f"{piece}_lines", self.bench.probe(self._loaded, f"probe_{piece}_lines", 1, pieces, piece * pieces, self.outside)

    @cached_property
    def _loaded(self) -> Loaded:
        bench, line = self.bench, self.bench.line
        width = bench.lanes * np.dtype(bench.dtype).itemsize
        vectors = max(1, line // width)
        # Rows an odd number of lines apart lie in all sets of a cache.
        words = {
            "SPAN": str(vectors),
            "PITCH(rows)": f"(({self.outside // line} / (rows) - 1 | 1) * {vectors})",
            "STEP(bytes)": f"(((bytes) > {WALKED_STEPS[0]} ? (bytes) / {line} + 1 : 1) * {vectors})",
        }
        text = "".join(f"#define {name} {meaning}\n" for name, meaning in words.items()) + "".join(_HEAD % item for item in _BODIES.items())
        source = source_of(text, bench.dtype, bench.lanes, bench.group, line)
        return Loaded(Executable(source, ("-cl-mad-enable",), (), ()), queue_of(bench.device).context)


def figures(seconds: Callable[[str], float], line: int) -> dict[str, float]:
    """Name in ``arch.variables`` -> what these probes say, given the seconds of a line of so many bytes of each."""
    foreseen = seconds(f"{WALKED_STEPS[0]}_bytes")
    apart = [piece for piece in PIECES if seconds(f"{piece}_lines") > (seconds(f"{PIECES[0]}_lines") + foreseen) / 2]
    return {
        "foreseen_bytes": 2.0 * line * max(apart, default=0),
        "followed_rows": halfway({rows: seconds(f"{rows}_rows") for rows in ROWS_BESIDE}),
        "far_bytes": halfway({step: seconds(f"{step}_bytes") for step in WALKED_STEPS}),
    }


def halfway(times: Mapping[int, float]) -> float:
    """Where times that rise with a number are halfway between those of the first and the last, on a line between logarithms."""
    known = list(times.items())
    middle = (known[0][1] + known[-1][1]) / 2
    for (less, before), (more, after) in pairwise(known):
        if before <= middle <= after and before < after:
            part = (middle - before) / (after - before)
            return math.exp(math.log(less) + part * (math.log(more) - math.log(less)))
    return float(known[-1][0])
