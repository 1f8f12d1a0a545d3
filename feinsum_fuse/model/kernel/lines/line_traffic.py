"""Lines that each block of a kernel fetches from beyond a cache of a given size.

A least-recently-used cache keeps what one iteration of a loop touches until the next iteration if all that the iteration touches fits. So
a loop whose body fits fetches every line that it touches once each time it is entered; where the body does not fit, its parts fetch theirs
in every iteration, and so do copies of what is written out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from constantdict import constantdict

from ....formats.affine import Affine
from ....number_types import bytes_of
from ....schedule.loop_trips import average_trips, part_of_whole
from ....schedule.statement import Place
from ....schedule.tree.nest import For, Nest, NestItem, statements
from ...processor import CROWDED_SETS, MANY_RUNS
from ..basic_blocks import is_written_out, shape, stored, strides
from ..machine import Machine, MemoryLevel
from .own_caches import CoreArrays, lost_parts
from .walk import Walk, walk

UNKNOWN_SIZE = 1 << 60
"""Elements along an axis whose size is not known."""
_new = tuple.__new__  # as for affine expressions


class _Visited(NamedTuple):
    """Where in a nest lines are counted."""

    above: tuple[For, ...] = ()
    times: float = 1.0
    """How often a core comes there; copies of what is written out are not counted."""
    crowds: Mapping[str, float] = constantdict()
    """Written array -> the part of its lines that others of its rows drive out of their set meanwhile."""
    copies: Mapping[str, float] = constantdict()
    """Loops above that are written out -> their copies, on average."""
    parts: Mapping[str, float] = constantdict()
    """Array -> the part of what is touched of it that no loop above has kept; all of one that is not named."""

    def part(self, of: Mapping[str, float]) -> _Visited:
        """The same with so much of each array that is left to be fetched there."""
        parts = {name: self.parts.get(name, 1.0) * part for name, part in of.items()}
        return _Visited(self.above, self.times, self.crowds, self.copies, parts)


class TouchedRegion(NamedTuple):
    """What a piece of a kernel touches of one array."""

    source: str
    lines: float
    run: float
    """Bytes that lie next to one another."""
    claimed: float
    """Bytes of a cache that it takes, more than its lines where they meet in few sets."""
    written: bool
    crowd: float = 0.0  # the part of its lines that others of its rows drive out of their set of a core's first cache


class Span(NamedTuple):
    """What is touched along an axis: pieces of elements that follow one another.

    A reduction in parts reads the same place of several parts one after another: ``X[141*part + p]`` with two parts below the loop over
    ``p`` touches two elements, not the 142 from the first to the last.
    """

    piece: int
    pieces: int = 1
    apart: int = 0
    """Elements from one piece to the next; 0 for one piece."""

    @property
    def length(self) -> int:
        """Elements from the first to the last."""
        return self.piece + (self.pieces - 1) * self.apart

    @classmethod
    def of(cls, moves: Sequence[tuple[int, int]], size: int) -> Span:
        """What loops touch of an axis of so many elements; each moves along it by so many of them, so many times."""
        piece, pieces, apart = 1, 1, 0
        for factor, times in sorted(moves) if len(moves) > 1 else moves:
            if not apart and factor <= piece:
                piece += factor * times
            elif not apart:
                pieces, apart = times + 1, factor
            else:
                pieces *= times + 1
        return _new(cls, (piece, pieces, apart) if piece + (pieces - 1) * apart <= size else (min(size, piece * pieces), 1, 0))

    def joined(self, other: Span) -> Span:
        """What both touch together, of one place."""
        if self.apart == other.apart:
            return Span(max(self.piece, other.piece), max(self.pieces, other.pieces), self.apart)
        return Span(max(self.length, other.length))


class Fetched(NamedTuple):
    """Lines of an array that a block fetches."""

    lines: float
    run: float
    written: bool
    walk: Walk
    """How a core goes to them."""
    crowd: float = 0.0
    """The part of the lines that drive one another out of a core's first cache since they meet in few of its sets."""
    streamed: bool = False  # written past the caches
    array: str = ""


class _Rows(NamedTuple):
    """Rows of bytes that are touched of an array, whatever caches there are."""

    source: str
    """A name by which it is touched."""
    lines: float
    run: float
    """Bytes of a row."""
    runs: float
    distance: int
    """Bytes from one row to the next."""
    written: bool


_Moving = tuple[tuple[tuple[str, int], ...], ...]
"""What moves a window outside, along each stored axis."""
_Window = tuple[str, _Moving, list[Span]]
"""An array, what moves a window of it outside, and what is touched along each stored axis."""
_Windows = dict[_Moving, tuple[str, list[Span]]]
"""What moves a window of one array outside -> the name by which it is touched last, and what is touched along each stored axis."""


@dataclass
class LineTraffic:
    """The traffic of one nest through caches."""

    nest: Nest
    machine: Machine
    registers: frozenset[str]
    """Tiles that touch no memory (:func:`~.basic_blocks.in_registers`)."""
    found: dict[int, list[Fetched]] = field(default_factory=dict)
    known: dict[tuple[float, tuple[int, ...]], dict[str, TouchedRegion]] = field(default_factory=dict)
    """The regions that were asked for, for bodies by their nodes: each cache asks for the same ones."""
    gone: dict[tuple[int, float], dict[str, float]] = field(default_factory=dict)
    """What a cache of some capacity does not keep of such regions, which stay the objects that they are."""
    rows: dict[tuple[int, ...], dict[str, list[_Rows]]] = field(default_factory=dict)
    """What of each array these are, whichever cache asks."""
    windows: dict[tuple[int | None, ...], _Window] = field(default_factory=dict)
    """A place, and the further iterations of each loop that moves it -> what is touched there."""
    walks: dict[tuple[int, tuple[int, ...], bool], Walk] = field(default_factory=dict)
    wholes: dict[tuple[int, int, tuple[int, ...]], float] = field(default_factory=dict)
    axes: dict[int, tuple[str, tuple[Affine, ...], tuple[int, ...]]] = field(default_factory=dict)
    layouts: dict[str, tuple[int, tuple[int | None, ...], tuple[int, ...]]] = field(default_factory=dict)
    near: dict[tuple[str, bool, tuple[int, ...], tuple[int, ...]], dict[int, list[Fetched]]] = field(default_factory=dict)
    """What is beyond caches if nothing is left of the run before, which is the same however many runs follow one another."""
    ways: float = 0.0
    """Lines that a set of the cache holds, where rows meet in few sets; infinite where their pages may lie in any part of it, 0 for a
    shared cache, whose sets are scattered."""
    is_last: bool = False
    """Whether what is beyond the cache is main memory."""
    kernels: Sequence[tuple[NestItem, ...]] = ()
    """The bodies of all kernels, in the order in which they run."""
    runs: float = MANY_RUNS
    """How many runs follow one another until the caches hold others' data again."""

    def beyond(
        self, body: Sequence[NestItem], cache: MemoryLevel, *, warm: bool, before: Sequence[NestItem] = ()
    ) -> dict[int, list[Fetched]]:
        """Statement (by identity) -> what it is the first to fetch, over the whole run.

        ``warm``: what all kernels touch is there from the run before, if it fits as a whole, and in a shared cache the part that it keeps;
        else what the kernel ``before`` touched is there, if both together fit.
        """
        self.ways, self.is_last = self._ways(cache), cache == self.machine.levels[-2]
        if warm and cache == self.machine.measured_own:
            return self._beyond_own(tuple(body), cache)
        lost = self._lost_between_runs(cache) if warm else 1.0
        if not lost and self._claimed(self.regions(body)) <= self._capacity(cache):
            return {}
        key = cache.name, warm, tuple(map(id, body)), tuple(map(id, before))
        if key not in self.near:
            self.near[key] = self._beyond(body, cache, warm, before)
        return _part_of(self.near[key], lost)

    def _beyond(self, body: Sequence[NestItem], cache: MemoryLevel, warm: bool, before: Sequence[NestItem]) -> dict[int, list[Fetched]]:
        """The same as if nothing were left of the run before."""
        self.found = {}
        capacity = self._capacity(cache)
        own = self.regions(body)
        if not warm or self._claimed(own) > capacity:
            self._visit(tuple(body), _Visited(), capacity)
        else:
            last = self.regions(before)
            new = {name: region for name, region in own.items() if name not in last}
            kept = self._claimed(new) + self._claimed(last) <= capacity
            self._charge(tuple(body), new if kept else own, _Visited())
        return self.found

    def _beyond_own(self, body: tuple[NestItem, ...], cache: MemoryLevel) -> dict[int, list[Fetched]]:
        """The same of a core's own cache of which a calibration found what is left there: of each array the lines that are not."""
        key = cache.name, True, tuple(map(id, body)), ()
        if key not in self.near:
            found = self._beyond(body, cache, False, ())
            kernels = self.kernels if body in self.kernels else (body,)
            own = [self._core_arrays(one) for one in kernels]
            lost = lost_parts(own, kernels.index(body), cache.size, self.machine.lost_from_own)
            every: dict[str, float] = {}
            for fetched in (one for parts in found.values() for one in parts):
                every[fetched.array] = every.get(fetched.array, 0.0) + fetched.lines
            # What a kernel fetches again by itself it lost by itself.
            first = {name: region.lines / max(region.lines, every.get(name, 0.0)) for name, region in self.regions(body).items()}
            part = {name: 1 - (1 - lost[name]) * first[name] for name in first}
            self.near[key] = {at: [f._replace(lines=f.lines * part[f.array]) for f in parts] for at, parts in found.items()}
        return self.near[key]

    def _core_arrays(self, body: tuple[NestItem, ...]) -> CoreArrays:
        """What each core touches of a kernel's arrays if groups are dealt out evenly."""
        regions, axes, dealt = self.regions(body), dict[str, int](), dict[str, tuple[int, ...]]()
        for loops, statement in statements(body):
            groups = {loop.name for loop in loops if loop.is_over_groups and loop.extent != 1}
            axes |= {loop.binding: max(axes.get(loop.binding, 1), loop.extent or 1) for loop in loops if loop.name in groups}
            for place in (*statement.operands, statement.target):
                if place.source in self.registers or (statement.streamed and place is statement.target):
                    continue
                name, indices, _ = self._axes(place)
                moved = tuple(axis for axis, index in enumerate(indices) if any(loop in groups for loop, _ in index.terms))
                dealt[name] = moved if moved and dealt.get(name, moved) else ()
        cores = min(self.machine.cores, math.prod(axes.values()))
        return CoreArrays({name: of.claimed / (cores if dealt[name] else 1) for name, of in regions.items()}, dealt, cores)

    def _capacity(self, cache: MemoryLevel) -> float:
        return cache.size * self.machine.figure("cache_share")

    @cached_property
    def is_kept_in_part(self) -> bool:
        """Whether runs find something in the last cache, but the less the fewer of them follow one another."""
        times = self._claimed(self.regions(self.nest.body)) / self.machine.levels[-2].size if len(self.machine.levels) > 1 else 0.0
        return self.machine.lost_between_runs(times, 1) > self.machine.lost_between_runs(times, MANY_RUNS)

    def _lost_between_runs(self, cache: MemoryLevel) -> float:
        """The part of what all kernels touch that is gone when the next run comes: of a core's own cache all of what does not fit, since
        other groups were there meanwhile, of a shared one as much as a calibration found."""
        whole = self._claimed(self.regions(self.nest.body))
        return self.machine.lost_between_runs(whole / cache.size, self.runs) if cache.shared else float(whole > self._capacity(cache))

    def _ways(self, cache: MemoryLevel) -> float:
        if cache.shared:
            return 0.0
        figure = self.machine.figure
        return cache.size / (figure("first_cache_sets") * figure("line_bytes")) if cache == self.machine.levels[0] else math.inf

    def _visit(self, body: tuple[NestItem, ...], at: _Visited, capacity: float) -> None:
        whole = self.regions(body)
        lost = self._lost(whole, capacity)
        self._charge(body, whole, at.part({name: 1 - part for name, part in lost.items()}))
        if not any(lost.values()):
            return
        at = at.part(lost)
        for node in body:
            mine = self.regions((node,))
            if not isinstance(node, For):
                self._charge((node,), mine, at)
                continue
            written_out = is_written_out(self.nest, node)
            lost = self._lost(mine, capacity)
            if not written_out:
                inside = self._lost(self.regions(node.body), capacity)
                lost = {name: min(part, inside.get(name, part)) for name, part in lost.items()}
            self._charge((node,), mine, at.part({name: 1 - part for name, part in lost.items()}))
            if any(lost.values()):
                turns = average_trips(node, at.above)
                crowds = {name: max(region.crowd, at.crowds.get(name, 0.0)) for name, region in mine.items() if region.written}
                times, copies = at.times * (1.0 if written_out else turns), at.copies
                copies = {**copies, node.name: turns} if written_out else copies
                self._visit(node.body, _Visited((*at.above, node), times, crowds, copies, at.part(lost).parts), capacity)

    def _lost(self, regions: dict[str, TouchedRegion], capacity: float) -> dict[str, float]:
        """Array -> the part of what is touched that a cache does not keep: nothing within its capacity, all from so many times that on.

        Rows that meet in few sets drive one another out of these, and other arrays only by as many lines as they have.
        """
        if not capacity:
            return dict.fromkeys(regions, 1.0)
        key = id(regions), capacity
        if key not in self.gone:
            self.gone[key] = self._lost_of(regions, capacity)
        return self.gone[key]

    def _lost_of(self, regions: dict[str, TouchedRegion], capacity: float) -> dict[str, float]:
        beyond, line = self.machine.figure("times_lost"), self.machine.line
        lines = {name: min(region.claimed, region.lines * line) for name, region in regions.items()}
        every = sum(lines.values())
        claims = {name: every - lines[name] + region.claimed for name, region in regions.items()}
        return {name: min(1.0, max(0.0, claimed / capacity - 1) / (beyond - 1)) for name, claimed in claims.items()}

    def _charge(self, body: tuple[NestItem, ...], regions: dict[str, TouchedRegion], at: _Visited) -> None:
        parts = at.parts
        rest = {name: region for name, region in regions.items() if parts.get(name, 1.0)}  # often nothing: all is kept, or all is lost
        for loops, statement in statements(body) if rest else ():
            for place in (*statement.operands, statement.target):
                name = self._name(place.source)
                region = rest.pop(name, None)
                if region is not None:
                    # Copies of a statement touch what none of their loops moves once.
                    times = at.times * parts.get(name, 1.0) * math.prod([at.copies[loop] for loop in at.copies.keys() & place.loops])
                    times *= self._part_of_whole(place, loops, at.above)
                    way, crowd = self._walk(place, (*at.above, *loops)), max(region.crowd, at.crowds.get(name, 0.0))
                    part = Fetched(region.lines * times, region.run, region.written, way, crowd, array=name)
                    self.found.setdefault(id(statement), []).append(part)
            if not rest:
                break

    def _walk(self, place: Place, loops: tuple[For, ...]) -> Walk:
        """How its lines are gone to, looked at once for caches that are asked alike."""
        key = id(place), tuple(map(id, loops)), self.is_last
        if key not in self.walks:
            self.walks[key] = walk(self.nest, self.machine, place, loops, far=self.is_last)
        return self.walks[key]

    def _part_of_whole(self, place: Place, loops: tuple[For, ...], above: tuple[For, ...]) -> float:
        """The same for all caches."""
        if not any(loop.limits for loop in loops):
            return 1.0
        key = id(place), len(above), tuple(map(id, (*above, *loops)))
        if key not in self.wholes:
            self.wholes[key] = part_of_whole(place, loops, above)
        return self.wholes[key]

    def _claimed(self, regions: dict[str, TouchedRegion]) -> float:
        return sum([region.claimed for region in regions.values()])

    def _name(self, source: str) -> str:
        """One name for all ways to read a tensor."""
        return source if source in self.nest.tiles else self.nest.sources[source].tensor

    def regions(self, body: Sequence[NestItem]) -> dict[str, TouchedRegion]:
        """Array -> what the body touches of it, the loops above standing still."""
        ids = tuple(map(id, body))
        key = self.ways, ids
        if key not in self.known:
            if ids not in self.rows:
                found, written = self._spans(body)
                self.rows[ids] = {name: self._rows_of(windows, name in written) for name, windows in found.items()}
            self.known[key] = {name: self._together(rows) for name, rows in self.rows[ids].items()}
        return self.known[key]

    def _rows_of(self, windows: _Windows, written: bool) -> list[_Rows]:
        """The windows of one array, and behind several of them the whole array."""
        found = [self._rows(source, sizes, written=written) for source, sizes in windows.values()]
        if len(found) > 1:
            every = [Span(UNKNOWN_SIZE if size is None else size) for size in shape(self.nest, found[0].source)]
            found.append(self._rows(found[0].source, every, written=written))
        return found

    def _together(self, rows: Sequence[_Rows]) -> TouchedRegion:
        """All windows of one array, which has no more lines than there are."""
        if len(rows) == 1:
            return self._region(rows[0])
        *found, whole = map(self._region, rows)
        lines, claimed = sum(one.lines for one in found), sum(one.claimed for one in found)
        largest = max(found, key=lambda one: one.lines)
        return largest._replace(lines=min(lines, whole.lines), claimed=min(claimed, whole.claimed))

    def _spans(self, body: Sequence[NestItem]) -> tuple[dict[str, _Windows], set[str]]:
        """Array -> what is touched of it, and the arrays that are written. Accesses whose places other loops move have windows of their
        own: of ``A[k, m]*A[k, n]`` columns of ``m`` and columns of ``n``; those that differ by constants share one."""
        found: dict[str, _Windows] = {}
        writes: set[str] = set()
        registers = self.registers
        for loops, statement in statements(tuple(body)):
            further = {loop.name: (loop.extent or 1) - 1 for loop in loops}
            for place in (*statement.operands, statement.target):
                if place.source in registers or (statement.streamed and place is statement.target):
                    continue
                # Of the loops of a body further out most do not move the place: it was looked at already then.
                key = (id(place), *map(further.get, place.loops))
                if key not in self.windows:
                    self.windows[key] = self._window(place, further)
                name, at, spans = self.windows[key]
                windows = found.get(name)
                if windows is None:
                    windows = found[name] = {}
                known = windows.get(at)
                windows[at] = place.source, spans if known is None else list(map(Span.joined, known[1], spans))
                if place is statement.target:
                    writes.add(name)
        return found, writes

    def _window(self, place: Place, further: Mapping[str, int]) -> _Window:
        """What is touched at a place by loops that take so many further iterations."""
        name, indices, most = self._axes(place)
        spans, outside = [], []
        for index, size in zip(indices, most, strict=True):
            moving, still = [], []
            for term in index.terms:
                times = further.get(term[0])
                if times is None:
                    still.append(term)
                elif times:
                    moving.append((abs(term[1]), times))
            spans.append(Span.of(moving, size))
            outside.append(tuple(still))
        return name, tuple(outside), spans

    def _axes(self, place: Place) -> tuple[str, tuple[Affine, ...], tuple[int, ...]]:
        """What an array is called, and for each stored axis the index and how many elements there are at most."""
        key = id(place)
        if key not in self.axes:
            sizes = tuple(UNKNOWN_SIZE if size is None else size for size in shape(self.nest, place.source))
            self.axes[key] = self._name(place.source), stored(self.nest, place), sizes
        return self.axes[key]

    def _layout(self, source: str) -> tuple[int, tuple[int | None, ...], tuple[int, ...]]:
        """The bytes of an element of an array, and for each stored axis its extent and the elements from one index to the next."""
        if source not in self.layouts:
            steps = tuple(step or 1 for step in strides(self.nest, source))
            self.layouts[source] = bytes_of(self.nest.dtype_of(source)), shape(self.nest, source), steps
        return self.layouts[source]

    def _rows(self, source: str, spans: Sequence[Span], *, written: bool) -> _Rows:
        width, sizes, steps = self._layout(source)
        run, runs, rows = float(width), 1.0, 0
        line = self.machine.line
        whole, apart = True, line
        for span, step, size in zip(reversed(spans), reversed(steps), reversed(sizes), strict=True):
            near = step * width
            if whole and span.pieces > 1 and span.apart * near <= line:
                span = Span(span.length)  # pieces that share lines
            pieces = ((span.pieces, span.apart * near),) if span.pieces > 1 else ()
            for count, distance in ((span.piece, near), *pieces):
                if whole:
                    run *= count
                    whole = count == size
                elif count > 1 and runs == 1 and distance - run < line:
                    run += (count - 1) * distance  # every line between pieces holds a part of one
                elif count > 1:
                    runs *= count
                    rows = rows or distance
                    apart = math.gcd(apart, distance)
        if run < rows:
            apart = math.gcd(apart, int(run))  # pieces of rows: the next one starts where this one ends
        return _Rows(source, runs * touched(run, line, apart if runs > 1 else line), run, runs, rows, written)

    def _region(self, found: _Rows) -> TouchedRegion:
        """What a cache makes of rows: those whose distance is a multiple of many lines meet in few of its sets, and those of a set that
        holds fewer drive one another out."""
        line, sets = self.machine.line, self.machine.sets
        claimed, crowd = found.lines * line, 0.0
        if self.ways and found.runs > 1 and found.distance % line == 0:
            reach = min(sets, sets // math.gcd(found.distance // line, sets) * max(1.0, found.run / line))
            few = found.lines / reach > self.ways
            claimed *= max(1.0, sets / reach if few else min(sets / reach, found.runs))
            crowd = CROWDED_SETS / reach if few and math.isfinite(self.ways) and reach < sets else 0.0
            if crowd >= 1:  # taken in turns, each line is gone before its turn comes again
                claimed = max(claimed, self.ways * sets * line * self.machine.figure("times_lost"))
        return _new(TouchedRegion, (found.source, found.lines, found.run, claimed, found.written, crowd))


def _part_of(found: dict[int, list[Fetched]], lost: float) -> dict[int, list[Fetched]]:
    """What is fetched of these lines if so much of them is lost from one run to the next."""
    if lost == 1:
        return found
    return {at: [f._replace(lines=f.lines * lost) for f in parts] for at, parts in found.items()}


def touched(run: float, line: int, apart: int) -> float:
    """Lines that a run of so many bytes touches on average, if runs start at any multiple of ``apart`` bytes, which divides ``line``.

    A run of a line's length that starts anywhere lies in two lines.
    """
    return max(1.0, 1 + (run - apart) / line)
