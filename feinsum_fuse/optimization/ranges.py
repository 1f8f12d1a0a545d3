"""``ff.optimize_range``: one program for a range of lengths.

A schedule that is applied to a kernel with symbolic lengths gives OpenCL C that takes them as arguments. Which schedule is best depends on
the lengths: those that are chosen at a few points compete at each of them, and a call takes what was fastest at the nearest point.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import loopy as lp
import numpy as np
import pyopencl as cl
from constantdict import constantdict
from pymbolic import var

from ..archive.facts.application import FixedKernel
from ..archive.facts.question import require_legal
from ..archive.facts.trial_arrays import TrialData
from ..archive.key.device_identity import Device, described
from ..archive.key.recognition import recognised
from ..arguments import ANYTHING, COUNT, FLAG, HOOK, SECONDS, TEXT, Kind, collection, expect, mapping
from ..arguments import described as argument_text
from ..cascades.cascade import Cascade
from ..cascades.matching.match import Match, match
from ..cascades.matching.replacement import rewritten_match
from ..cascades.rewriting.rewriting import rewritings_to_json, rewritten
from ..cascades.sequence import Rewriting
from ..cascades.terms import SizeParam
from ..codegen.generation import Generated, executable, generated
from ..device.catalogue import DeviceInfo, find_device, target_of
from ..device.program.runner import AnyArray, Runner
from ..device.timing.turns import least
from ..errors import DeviceError, Error, LoweringError, MatchError
from ..mappings.default_mapping import default_schedule
from ..mappings.forms.suited import suited
from ..progress import Hook, Stage
from ..schedule.schedule import Schedule
from ..schedule.steps.explicate import Explicate
from ..tuning.tuner import tune as tuned_program
from .race import RACE_SEED
from .tile_loops import over_tiles

Sizes = tuple[int, ...]
"""One for each symbolic length, in the order of the program's names."""
_SIZES = collection("whole numbers", COUNT)
_POINTS = Kind("a whole number from 1 to 100", lambda value: COUNT.holds(value) and 1 <= value <= 100)  # type: ignore[operator]
LONGEST = 1 << 62
"""Lengths are below that."""
Ranges = Mapping[str, tuple[int, int]]
"""Symbolic length -> the least and the largest one."""
RangeChoice = tuple[tuple[Rewriting, ...], Schedule]
"""What is done to a cascade, and the schedule for what that gives."""
MOST_KEPT = 64
"""Lengths for which a program stands ready; others take its place, and cost a millisecond when they come again."""
LONGER = 4
"""Times the largest lengths, for which a mapping is chosen where none of those for shorter ones serves a range."""
CLOSER = 1.5
"""From a short length to the next, as long as the whole of it is kept in registers: what is best differs from one to another."""
ROUNDS = 1000
"""Runs of each program at a point, of which the least counts, as far as their time goes: what a few cores share out in some microseconds
takes its least time in one run of many."""
NEARLY = 1.3
"""Times the least time of a program's first rounds, up to which others may turn out to be faster."""
CHECKED_POINTS = 1 << 24
"""Points of iteration spaces up to which a kernel is verified at a length."""


@dataclass(frozen=True)
class RangePart:
    """A kernel for lengths near some points."""

    schedule: Schedule
    kernel: lp.TranslationUnit
    """The caller's after the schedule, its lengths still symbolic."""
    generated: Generated = field(repr=False)
    points: tuple[Sizes, ...] = ()
    """Where it was the fastest."""
    rewritings: tuple[Rewriting, ...] = ()
    """What was done to the cascade before the schedule."""

    def runner(self, sizes: Mapping[str, int], device: cl.Device, like: Runner | None = None, trial: TrialData | None = None) -> Runner:
        """The kernel at these lengths, which it is given with each call; on a trial's arrays if there is one."""
        program = self.generated.at(sizes) if trial is None else trial.program(self.generated.at(sizes))
        taken = {a.name for a in program.inputs}
        return Runner(program, device, like, {name: size for name, size in sizes.items() if name in taken})


class RangedProgram:
    """One program for a range of lengths, called with arrays as a :class:`~feinsum_fuse.device.program.program.Program` is."""

    def __init__(self, ranges: Ranges, kernel: lp.TranslationUnit, parts: Sequence[RangePart], device: DeviceInfo) -> None:
        self.ranges = constantdict(ranges)
        self.parts = tuple(parts)
        self.device = device
        self._device = find_device(device.name)
        self._places = _places(kernel, tuple(ranges))
        self._nearest = [(part, point) for part in self.parts for point in part.points]
        self._runners: OrderedDict[Sizes, Runner] = OrderedDict()
        self._first: dict[int, Runner] = {}
        self._lock = threading.Lock()

    def __call__(self, **arrays: AnyArray) -> dict[str, AnyArray]:
        """What the kernel writes, by name; lengths are read off the arrays.

        Raises :class:`~feinsum_fuse.errors.DeviceError` for lengths outside the ranges, and as
        :meth:`feinsum_fuse.device.program.runner.Runner.__call__`.
        """
        runner = self.ready(self.lengths(arrays))
        return runner({name: array for name, array in arrays.items() if name not in self.ranges})

    def lengths(self, arrays: Mapping[str, AnyArray]) -> Sizes:
        """The lengths that a call's arrays have; :class:`~feinsum_fuse.errors.DeviceError` where an array that tells one is missing."""
        try:
            return tuple([arrays[name].shape[axis] for name, axis in self._places])
        except (KeyError, IndexError, AttributeError):
            return self._told(arrays)

    def ready(self, sizes: Sizes) -> Runner:
        """The program at these lengths."""
        try:
            found = self._runners.get(sizes)
        except TypeError:
            found = None
        return self._made(sizes) if found is None else found

    def part(self, sizes: Sizes) -> RangePart:
        """The kernel that is used at these lengths: the one that was fastest at the nearest point, by ratios of lengths."""
        expect(sizes, _SIZES, f"lengths for {', '.join(self.ranges)}", DeviceError)
        if len(sizes) != len(self.ranges):
            raise DeviceError(f"{len(sizes)} lengths are given for {', '.join(self.ranges)}")
        for (name, (low, high)), size in zip(self.ranges.items(), sizes, strict=True):
            if not low <= size <= high:
                raise DeviceError(f"{name} is {size}, and the program is for {low} to {high}", hint="Make one for a wider range.")
        return min(self._nearest, key=lambda pair: _distance(pair[1], sizes))[0]

    def _told(self, arrays: Mapping[str, AnyArray]) -> Sizes:
        for (name, axis), length in zip(self._places, self.ranges, strict=True):
            if np.ndim(arrays.get(name, 0)) <= axis:
                raise DeviceError(f"array {name}, by whose axis {axis} the length {length} is told, is missing or has fewer axes")
        return tuple(int(np.shape(arrays[name])[axis]) for name, axis in self._places)

    def _made(self, sizes: Sizes) -> Runner:
        with self._lock:
            part = self.part(sizes)
            runner = self._runners[sizes] = part.runner(dict(zip(self.ranges, sizes, strict=True)), self._device, self._first.get(id(part)))
            self._first.setdefault(id(part), runner)
            while len(self._runners) > MOST_KEPT:
                self._runners.popitem(last=False)
            return runner

    def __repr__(self) -> str:
        ranges = ", ".join(f"{name} in [{low}, {high}]" for name, (low, high) in self.ranges.items())
        lines = [f"program for {ranges} on {self.device}"]
        for part in self.parts:
            lines.append(f"  {len(part.schedule)} steps, the fastest at {', '.join('x'.join(map(str, point)) for point in part.points)}")
        return "\n".join(lines)


def optimize_range(
    kernel: lp.TranslationUnit,
    device: Device,
    sizes: Ranges,
    *,
    points: int = 7,
    tune: bool = False,
    seconds: float = 30.0,
    progress: Hook | None = None,
) -> RangedProgram:
    """One program of a kernel with symbolic lengths, for all ``sizes``: argument -> least and largest length.

    At so many ``points``, each as many times as long as the one before, the default mappings of the kernel are chosen, as it is and with
    what it contracts packed, made pairwise or split first; with ``tune`` also what :func:`feinsum_fuse.tune` finds in so many ``seconds``
    at each. From the least lengths on it is done at more points, as long as a mapping keeps all of a short axis in registers. All that is
    chosen is applied to the kernel as it is, verified at several lengths and timed at all points. Raises
    :class:`~feinsum_fuse.errors.MatchError` for a kernel that is no cascade or has other symbolic lengths, and
    :class:`~feinsum_fuse.errors.LoweringError` where no schedule serves a range.
    """
    expect(sizes, mapping("a dict of ranges", TEXT, ANYTHING), "the sizes", MatchError)
    expect(points, _POINTS, "the number of points", MatchError)
    expect(tune, FLAG, "tune", MatchError)
    expect(seconds, SECONDS, "seconds", MatchError)
    expect(progress, HOOK, "progress", MatchError)
    info = described(device)
    with Stage("matching", progress):
        matched = recognised(kernel)
    ranges = _checked(matched, sizes)
    asked = _Range(kernel, matched, info, ranges)
    with Stage("choosing and generating", progress):
        parts, places, reasons = asked.parts(_points(ranges, points), seconds if tune else 0.0, progress)
    with Stage("verifying", progress):
        parts = [part for part in parts if asked.is_right(part, reasons)]
    if not parts:
        raise LoweringError(f"no schedule serves a range of lengths: {'; '.join(dict.fromkeys(reasons))}")
    with Stage("timing", progress):
        best = [asked.fastest(parts, point) for point in places]
    won = [(part, tuple(point for point, place in zip(places, best, strict=True) if place == k)) for k, part in enumerate(parts)]
    return RangedProgram(ranges, kernel, [replace(p, points=at) for p, at in won if at], info)


def _checked(matched: Match, sizes: Ranges) -> dict[str, tuple[int, int]]:
    """The ranges of the kernel's arguments, in its order."""
    wanted = [matched.names.sizes[name] for name in matched.cascade.size_parameters]
    if not wanted or set(wanted) != set(sizes):
        known = ", ".join(wanted) or "none"
        raise MatchError(f"ranges of {', '.join(sizes) or 'nothing'} are given, and the kernel's symbolic lengths are: {known}")
    for name, ends in sizes.items():
        are_two = isinstance(ends, Sequence) and len(ends) == 2 and all(COUNT.holds(end) for end in ends)
        if not are_two or not 1 <= ends[0] <= ends[1] < LONGEST:
            hint = "Give the least and the largest one, such as (1, 4096)."
            raise MatchError(f"{name}: {argument_text(ends)} is no range of lengths", hint=hint)
    return {name: (sizes[name][0], sizes[name][1]) for name in wanted}


def _points(ranges: Ranges, count: int) -> list[Sizes]:
    """From all least lengths to all largest ones, in equal ratios."""
    shares = [k / (count - 1) for k in range(count)] if count > 1 else [0.5]
    found = [tuple(round(low * (high / low) ** share) for low, high in ranges.values()) for share in shares]
    return list(dict.fromkeys(found))


def _distance(one: Sizes, other: Sizes) -> float:
    return math.fsum(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))


def _places(kernel: lp.TranslationUnit, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """For each length an input and its axis that is as long."""
    arrays = [a for a in kernel.default_entrypoint.args if isinstance(a, lp.ArrayArg) and a.is_input and isinstance(a.shape, tuple)]
    found = []
    for name in names:
        place = next(((a.name, axis) for a in arrays for axis, length in enumerate(a.shape) if length == var(name)), None)
        if place is None:
            raise MatchError(f"no input has an axis of the length {name}, by which a call could tell it")
        found.append(place)
    return tuple(found)


@dataclass
class _Range:
    """A kernel that is to serve a range."""

    kernel: lp.TranslationUnit
    matched: Match
    device: DeviceInfo
    ranges: Ranges

    def __post_init__(self) -> None:
        self.target = target_of(self.device)
        told = [(sizes, dict(zip(self.ranges, sizes, strict=True))) for sizes in self._trials()]
        self.checks = [FixedKernel.of(self.fixed(sizes), lengths, self.device) for sizes, lengths in told]

    def fixed(self, sizes: Sizes) -> lp.TranslationUnit:
        """The kernel at these lengths."""
        return lp.fix_parameters(self.kernel, **dict(zip(self.ranges, sizes, strict=True)))

    def _trials(self) -> list[Sizes]:
        """Where programs are verified: at the least lengths, below most tiles, and at long odd ones, which no tile divides."""
        least = tuple(low for low, _ in self.ranges.values())
        sizes = tuple(max(low, (high - 1) // 2 * 2 - 1) for low, high in self.ranges.values())
        while self._work(sizes) > CHECKED_POINTS and sizes != least:
            sizes = tuple(max(low, size // 2 | 1) for size, low in zip(sizes, least, strict=True))
        return list(dict.fromkeys((least, sizes)))

    def _work(self, sizes: Sizes) -> int:
        known = dict(zip(self.matched.cascade.size_parameters, sizes, strict=True))
        lengths = [[n if isinstance(n, int) else known[n.name] for n in e.sizes.values()] for e in self.matched.cascade.einsums]
        return sum(math.prod(some) for some in lengths)

    def parts(self, places: Sequence[Sizes], seconds: float, progress: Hook | None) -> tuple[list[RangePart], list[Sizes], list[str]]:
        """What is chosen at the points, each once, as far as it serves other lengths; where that is to be timed; and why others do not."""
        parts: dict[str, RangePart] = {}
        reasons: list[str] = []
        for sizes in places:
            self._add(self._chosen(sizes, seconds, progress), parts, reasons, sizes)
        short = [places[0]]
        while (closer := self._closer(short[-1])) != short[-1]:
            short.append(closer)
            if not self._add(self._chosen(closer, 0.0, progress), parts, reasons, closer):
                break
        longer = tuple(LONGER * high + 1 for _, high in self.ranges.values())
        if not parts:
            # Where a length is short its whole axis may be a tile, which no symbolic length can be: one is chosen for a long one.
            self._add(self._chosen(longer, 0.0, progress), parts, reasons, longer)
        # What is short is fastest as one work-item runs it.
        self._add([((), Schedule((Explicate(),)))], parts, reasons, longer)
        return list(parts.values()), sorted({*places, *short}), reasons

    def _closer(self, sizes: Sizes) -> Sizes:
        """The next lengths to look at after short ones, within the ranges."""
        highest = (high for _, high in self.ranges.values())
        return tuple(min(high, max(size + 1, round(size * CLOSER))) for size, high in zip(sizes, highest, strict=True))

    def _add(self, choices: Iterable[RangeChoice], parts: dict[str, RangePart], reasons: list[str], sizes: Sizes) -> bool:
        """Generate what is chosen at these lengths and not among the parts already; whether some of it kept a whole axis as a tile."""
        is_whole = False
        for rewritings, schedule in choices:
            matched = rewritten_match(self.matched, rewritten(self.matched.cascade, rewritings))
            try:
                self._generate(matched, schedule, parts)
            except Error as error:
                try:
                    self._generate(matched, over_tiles(schedule, matched.cascade, self._lengths(matched.cascade, sizes)), parts)
                    is_whole = True
                except Error:
                    reasons.append(error.message)
        return is_whole

    def _lengths(self, cascade: Cascade, sizes: Sizes) -> dict[tuple[str, str], int]:
        """Rank variables of symbolic lengths, with what these are now."""
        known = dict(zip(self.matched.cascade.size_parameters, sizes, strict=True))
        every = {(einsum.name, v): size for einsum in cascade.einsums for v, size in einsum.sizes.items()}
        return {place: known[size.name] for place, size in every.items() if isinstance(size, SizeParam)}

    def _generate(self, matched: Match, schedule: Schedule, parts: dict[str, RangePart]) -> None:
        """The part of a schedule for a cascade as it was rewritten; raises what steps and loopy refuse."""
        rewritings = matched.cascade.rewritings
        name = f"{rewritings_to_json(rewritings)} {schedule.to_json()}"
        if name not in parts:
            require_legal(schedule, matched.prepared, matched.names, self.device)
            kernel = schedule.apply(matched.prepared, matched.names, target=self.target)
            parts[name] = RangePart(schedule, kernel, generated(kernel, target=self.target), rewritings=rewritings)

    def _chosen(self, sizes: Sizes, seconds: float, progress: Hook | None) -> list[RangeChoice]:
        """What may be best at these lengths: what tuning finds, and default mappings of the cascade as it is and as it is rewritten."""
        cascade = match(self.fixed(sizes), self.matched.instructions).cascade
        chosen: list[RangeChoice] = []
        if seconds:
            found = tuned_program(cascade, find_device(self.device.name), seconds=seconds, progress=progress, joins=False).program
            chosen.append((found.cascade.rewritings, found.schedule))
        better = suited(cascade, self.target)
        for one in (cascade, better) if better.rewritings else (cascade,):
            chosen.append((one.rewritings, default_schedule(one, self.target)))
        return chosen

    def is_right(self, part: RangePart, reasons: list[str]) -> bool:
        """Whether a program agrees with the kernel as it is, wherever that is tried."""
        try:
            for check in self.checks:
                check.require(part.generated.at(check.sizes), self.matched)
        except Error as error:
            reasons.append(error.message)
            return False
        return True

    def fastest(self, parts: Sequence[RangePart], sizes: Sizes) -> int:
        """Which of the programs takes the least time at a point."""
        if len(parts) == 1:
            return 0
        fixed = self.fixed(sizes)
        trial = TrialData.of(fixed, executable(fixed, target=self.target), RACE_SEED)
        if not trial.is_bounded:
            raise LoweringError("an index holds integers from the arguments that random ones might lead out of its array")
        device = find_device(self.device.name)
        numbers = dict(zip(self.ranges, sizes, strict=True))
        runners = [part.runner(numbers, device, trial=trial) for part in parts]
        calls = [partial(runner, {name: trial.inputs[name] for name in runner.input_names}) for runner in runners]
        seconds = least(calls, ROUNDS)
        # Those that are nearly as fast get the time of all others for themselves.
        final = [place for place, taken in enumerate(seconds) if taken < NEARLY * min(seconds)]
        again = least([calls[place] for place in final], ROUNDS) if len(final) > 1 else (0.0,)
        return final[again.index(min(again))]
