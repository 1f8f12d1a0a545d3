"""The time of a lowered kernel on a calibrated processor: blocks in a core, lines through the caches, groups over cores, launches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ...formats.spec import Spec
from ...lowering.lowering import lower
from ...lowering.starting_point import unscheduled
from ...number_types import bytes_of
from ...schedule.intrinsics.function_matching import as_taken
from ...schedule.kept_property import kept_property
from ...schedule.tree.nest import For, Nest, NestItem, statements
from ...schedule.tree.parallel import kernel_starts
from ..processor import CROWDED_SETS, runs_in_a_sample, starting_seconds
from .basic_blocks import BasicBlock, blocks, in_registers, shape, with_pairs_written_out
from .compiler.block_code import Cases, code_of
from .compiler.nest_fusion import as_fused
from .compiler.own_sums import with_own_sums_written_out
from .compiler.shared_values import unread_tiles
from .compiler.written_out import as_written_out
from .group_shares import busiest_share
from .lines.line_traffic import Fetched, LineTraffic
from .lines.walk import Walk
from .machine import Machine, MemoryLevel
from .occupancy import Occupancy, with_items_outside
from .store_forwarding import waiting_loads
from .straight_code import Straight


class CodeFigures(NamedTuple):
    """What all entries of a block make the cores do."""

    lanes: int
    """Elements that an arithmetic operation works on."""
    arithmetic: float
    """Vector operations; a multiplication with an addition is one."""
    loads: float
    stores: float
    spilled: float
    """Registers that are stored and loaded again, in one iteration."""


@dataclass(frozen=True, init=False)
class BlockTime:
    """A block of a kernel: seconds of one core in it, and of each level for its lines, if all cores share the work evenly."""

    einsum: str
    role: str
    core: float
    memory: dict[str, float]
    overlap_losses: Mapping[str, float]
    """Level -> the part of the shorter of core and level that does not overlap with the longer."""
    code: CodeFigures
    lines: Mapping[str, float]
    """Level -> lines that all cores together fetch from it or write back to it."""
    stretch: float = 1.0
    """How many times its even share the busiest core has."""
    queued: float = 0.0
    """Seconds in which its stores wait for their lines while the core goes on with what follows, or leave while it works for what it sees
    ahead."""
    turned: float = 0.0
    """Seconds of the lines of sums that come before its loop and leave behind it, which the loop hides nothing of."""

    def __init__(
        self,
        einsum: str,
        role: str,
        core: float,
        memory: dict[str, float],
        overlap_losses: Mapping[str, float],
        code: CodeFigures,
        lines: Mapping[str, float],
        stretch: float = 1.0,
        queued: float = 0.0,
        turned: float = 0.0,
    ) -> None:
        # Written out, as for loops: a search makes one for each block of each candidate.
        own = self.__dict__
        own["einsum"], own["role"], own["core"], own["memory"], own["overlap_losses"] = einsum, role, core, memory, overlap_losses
        own["code"], own["lines"], own["stretch"], own["queued"], own["turned"] = code, lines, stretch, queued, turned

    @property
    def bound(self) -> str:
        """What the block waits for: a level of memory, or ``core``."""
        level = max(self.memory, key=lambda name: self.memory[name], default="")
        return level if level and self.memory[level] > self.core else "core"

    @kept_property
    def seconds(self) -> float:
        """Fetching lines and computing overlap as measured; levels hand over lines at the same time."""
        fetching = max(self.memory.values(), default=0.0)
        exposed = max((self.overlap_losses[level] * min(self.core, time) for level, time in self.memory.items()), default=0.0)
        return max(self.core + self.turned, fetching) + exposed - self.queued


@dataclass(frozen=True)
class KernelTime:
    """Kernels of one spec: their blocks, groups and launches."""

    parts: tuple[BlockTime, ...]
    launches: float
    """Seconds of starting kernels and groups, and of waiting for the other cores."""
    waking: float = 0.0
    """Those of waiting alone."""

    @property
    def seconds(self) -> float:
        """All kernels one after another."""
        return sum(part.seconds for part in self.parts) + self.launches

    def __str__(self) -> str:
        lines = [f"{self.seconds:.4g} s, {self.launches:.2g} s of them launches"]
        for part in self.parts:
            memory = ", ".join(f"{name} {seconds:.3g}" for name, seconds in part.memory.items())
            lines.append(f"  {part.einsum} {part.role}: {part.seconds:.4g} s; core {part.core:.3g}, {memory}")
        return "\n".join(lines)


def kernel_time(spec: Spec, machine: Machine, *, cold: bool = False, fused: bool = True) -> KernelTime:
    """The time of one run of a spec's kernels; raises what :func:`~feinsum_fuse.lowering.lowering.lower` raises."""
    nest = lower(spec, machine.limits).nest(unscheduled(spec).kernel)
    return nest_time(nest, machine, cold=cold, fused=fused)


def nest_time(nest: Nest, machine: Machine, *, cold: bool = False, fused: bool = True) -> KernelTime:
    """The same for a kernel in normal form; ``fused``: whether its text has the loops as one that code generation makes one."""
    taken = as_taken(with_items_outside(nest) if machine.items > 1 else nest)
    nest = as_fused(taken) if fused else taken
    if machine.items == 1:  # what compilers for processors make of it
        nest = as_written_out(with_own_sums_written_out(with_pairs_written_out(nest), machine), machine)
    starts = [0, *kernel_starts(nest), len(nest.body)]
    bodies = [nest.body[a:b] for a, b in pairwise(starts) if a < b]
    timing = _Timing(nest, machine, cold, tuple(bodies))
    kernels = [timing.kernel(body, before) for before, body in zip([(), *bodies], bodies, strict=False)]
    found = _timed(timing, kernels)
    if not cold and timing.traffic.is_kept_in_part:
        timing.traffic.runs = runs_in_a_sample(found.seconds)
        found = _timed(timing, kernels)
    return found


def _timed(timing: _Timing, kernels: Sequence[_Kernel]) -> KernelTime:
    parts: list[BlockTime] = []
    waking = 0.0
    for kernel in kernels:
        found = timing.parts(kernel)
        waking += waking_seconds(timing.machine, kernel.groups, sum(part.seconds for part in found))
        parts += found
    started = sum(kernel.groups for kernel in kernels)
    working = sum(part.seconds for part in parts) + waking
    starting = starting_seconds(timing.machine.arch, len(kernels), started, working, cold=timing.cold)
    return KernelTime(tuple(parts), waking + starting, waking)


def waking_seconds(machine: Machine, groups: int, seconds: float) -> float:
    """What a kernel of so many seconds takes longer because the other cores begin later than the first, which does more groups meanwhile.

    With many groups all cores end together. Of as many groups as there are cores the others do theirs later, or the first does them, too.
    """
    busy, late = min(groups, machine.cores), machine.figure("wake_seconds")
    if busy < 2 or not late or not seconds:
        return 0.0
    each = seconds / math.ceil(groups / busy)
    even = (groups + (busy - 1) * late / each) / busy

    def ends(first: int) -> float:
        rest = math.ceil((groups - first) / (busy - 1))
        return max(first * each, late + rest * each if rest else 0.0)

    return max(0.0, min(ends(min(groups, first)) for first in (math.floor(even), math.ceil(even), groups)) - seconds)


def groups_of(body: Sequence[NestItem]) -> int:
    """Work-groups of a kernel."""
    axes: dict[str, int] = {}
    for loop in (loop for node in body if isinstance(node, For) for loop in node.loops):
        if loop.is_over_groups:
            axes[loop.binding] = max(axes.get(loop.binding, 1), loop.extent or 1)
    return math.prod(axes.values())


class _CorePart(NamedTuple):
    """What one kernel makes of the time of one core that would do all of its work alone."""

    share: float
    """The part of the work that the busiest core has."""
    own: float
    """The same, longer by what cores that work at the same time do less: of what a core does and has for itself."""
    items: Occupancy | None
    """Of work-items as lanes."""


class _BlockCode(NamedTuple):
    """A block of a kernel with the time of its code, whatever the caches hold."""

    block: BasicBlock
    cases: Cases
    seconds: float
    """Of one core, for all entries; what its vectors wait for narrower stores that they are loaded from is in it."""
    part: _CorePart


@dataclass(frozen=True)
class _Kernel:
    """One kernel's code."""

    body: tuple[NestItem, ...]
    before: tuple[NestItem, ...]
    """The kernel that ran before."""
    groups: int
    blocks: tuple[_BlockCode, ...]


@dataclass(frozen=True)
class _Timing:
    nest: Nest
    machine: Machine
    cold: bool
    kernels: tuple[tuple[NestItem, ...], ...]

    @cached_property
    def registers(self) -> frozenset[str]:
        if self.machine.items > 1:
            return in_registers(self.nest)  # of a tile that work-items share another one may read
        return in_registers(self.nest) | unread_tiles(self.nest, (block for body in self.kernels for block in blocks(self.nest, body)))

    @cached_property
    def traffic(self) -> LineTraffic:
        return LineTraffic(self.nest, self.machine, self.registers, kernels=self.kernels)

    def kernel(self, body: tuple[NestItem, ...], before: tuple[NestItem, ...]) -> _Kernel:
        """The code of one kernel, which runs after another one."""
        cores, groups = self.machine.cores, groups_of(body)
        busy = min(groups, cores)
        items = Occupancy.of(self.nest, body, groups, self.machine)
        straight = self._straight(body)
        code = [(block, max(cases, key=lambda case: case[0])[1]) for block, cases, _ in straight]
        found = []
        for block, cases, between in straight:
            share = busiest_share(block, groups, cores, self.machine.group_parts) / cores
            seconds = sum(part * of.seconds(between) for part, of in cases) + waiting_loads(self.nest, self.registers, block, code)
            found.append(_BlockCode(block, cases, seconds, _CorePart(share, share * busy / self.machine.together(busy), items)))
        return _Kernel(body, before, groups, tuple(found))

    def parts(self, kernel: _Kernel) -> list[BlockTime]:
        """The blocks of one kernel."""
        fetched: dict[str, dict[int, list[Fetched]]] = {}
        for inner, outer in pairwise(self.machine.levels):
            fetched[outer.name] = self.traffic.beyond(kernel.body, inner, warm=not self.cold, before=kernel.before)
        if past := streamed_lines(self.nest, self.machine, kernel.body) if fetched else {}:
            memory = fetched[self.machine.levels[-1].name]
            fetched[self.machine.levels[-1].name] = memory | {at: [*memory.get(at, ()), *lines] for at, lines in past.items()}
        return self._queued(kernel.blocks, [self._part(code, fetched) for code in kernel.blocks])

    def _queued(self, blocks: Sequence[_BlockCode], parts: Sequence[BlockTime]) -> list[BlockTime]:
        """The blocks where stores of what several loops have computed wait for their lines while the core goes on, or are beside these."""
        result = []
        for stored, part in zip(blocks, parts, strict=True):
            block = stored.block
            waiting = 0.0 if block.is_loop or not block.above else self._waiting_stores(part, block.entries)
            ahead = 0.0 if block.is_loop or not part.code.stores else self._seen_ahead(stored, part, blocks, parts)
            if waiting > 0:
                around = block.above[-1]
                inside = sum(
                    other.seconds
                    for code, other in zip(blocks, parts, strict=True)
                    if code.block is not block and around in code.block.above
                )
                part = replace(part, queued=min(waiting, inside))
            result.append(replace(part, queued=ahead) if ahead > part.queued else part)
        return result

    def _seen_ahead(self, stored: _BlockCode, part: BlockTime, blocks: Sequence[_BlockCode], parts: Sequence[BlockTime]) -> float:
        """Seconds of straight code with stores that a short loop beside it hides: a core that looks beyond its end, or beyond the stores
        into the next turn, does both at once, as far as these need other ports.
        """
        block, hidden = stored.block, 0.0
        for code, other in zip(blocks, parts, strict=True):
            above = code.block.above
            if not code.block.is_loop or code.part.items is not None or other.einsum != part.einsum or len(above) != len(block.above) + 1:
                continue
            if all(a is b for a, b in zip(above, block.above, strict=False)):
                operations = sum(share * straight.issued for share, straight in code.cases) * code.block.trips
                ahead = self.machine.figure("lookahead_operations")  # 0 by a calibration beside much other work
                seen = ahead / (ahead + operations) if ahead else 0.0
                free = part.core + other.core - _busiest(stored, code)
                hidden = max(hidden, seen * min(part.seconds, other.core, max(0.0, part.seconds - part.core + free)))
        return hidden

    def _waiting_stores(self, part: BlockTime, entries: float) -> float:
        """Seconds beyond what the lines' bandwidth takes in which a queue holds the stores of straight code."""
        each = part.code.stores / entries
        if not each or part.bound == "core":
            return 0.0
        level = next(level for level in self.machine.levels if level.name == part.bound)
        moving = part.lines[level.name] * self.machine.figure("line_bytes") / level.write * part.stretch / self.machine.cores
        return (part.memory[level.name] - max(part.core, moving)) * min(1.0, self.machine.figure("store_queue") / each)

    def _straight(self, body: tuple[NestItem, ...]) -> list[tuple[BasicBlock, Cases, float]]:
        """The blocks of one kernel, each with the cases of its code and what other blocks do between two entries of it."""
        found = [(block, code_of(self.machine, self.nest, self.registers, block)) for block in blocks(self.nest, body)]
        done = [sum(part * code.issued for part, code in cases) * block.trips * block.entries for block, cases in found]
        inside: dict[int, list[int]] = {}
        for number, (block, _) in enumerate(found):
            for loop in block.above:
                inside.setdefault(id(loop), []).append(number)
        result = []
        for number, (block, cases) in enumerate(found):
            around = block.above[:-1] if block.is_loop else block.above
            beside = [k for k in inside[id(around[-1])] if k != number] if around else []
            result.append((block, cases, sum([done[k] for k in beside]) / max(1.0, block.entries)))
        return result

    def _part(self, code: _BlockCode, fetched: dict[str, dict[int, list[Fetched]]]) -> BlockTime:
        block, cases, core, of = code.block, code.cases, code.seconds, code.part
        memory: dict[str, float] = {}
        moved: dict[str, float] = {}
        sums = max(cases, key=lambda case: case[0])[1].turned_sums if of.items is None else frozenset()
        turned = 0.0
        for level in self.machine.levels[1:]:
            lines = [(place, f) for place, line in enumerate(block.lines) for f in fetched[level.name].get(id(line.statement), ())]
            moved[level.name] = sum(f.lines for _, f in lines)
            part = of.share if level.shared else of.own
            times = [(place, f.written, seconds_a_line(self.machine, level, f) * f.lines * part) for place, f in lines]
            memory[level.name] = sum(seconds for *_, seconds in times)
            turned = max(turned, sum(seconds for place, written, seconds in times if written and place in sums))
        if of.items is not None:
            work = sum(part * straight.iteration for part, straight in cases) * block.trips * block.entries
            core = of.items.core(block, self.machine, work, core)
            memory |= self._of_items(block, of.items, memory, sum(part * straight.loads for part, straight in cases), of.share)
        first, figures = block.lines[0].statement, _code_figures(cases, block)
        stretch = of.share * self.machine.cores
        losses = self.machine.overlap_losses
        return BlockTime(first.einsum, first.role, core * of.own, memory, losses, figures, moved, stretch, turned=turned)

    def _of_items(self, block: BasicBlock, items: Occupancy, memory: Mapping[str, float], loads: float, share: float) -> dict[str, float]:
        """Level -> seconds where lanes are work-items: longer where too few loads are under way, and where neighbours are no neighbours."""
        found = {name: seconds * items.starved(self.machine, name, loads) for name, seconds in memory.items()}
        if len(self.machine.levels) > 1 and found:
            nearest = self.machine.levels[1]
            lines = items.scattered(self.nest, block, self.machine)
            # Of the probe the work-items of one unit touch a line each.
            each = max(self.machine.figure("line_bytes") / nearest.read, 1 / nearest.strided)
            found[nearest.name] += lines * each * share
        return found


def _busiest(one: _BlockCode, other: _BlockCode) -> float:
    """Seconds in which the port works for two blocks that is busiest with both, on the core that has most of their work."""
    every: list[float] = []
    for code in (one, other):
        for part, straight in code.cases:
            times = [code.part.own * part * port for port in straight.port_seconds]
            every = [before + time for before, time in zip(every or [0.0] * len(times), times, strict=True)]
    return max(every, default=0.0)


def _code_figures(cases: Sequence[tuple[float, Straight]], block: BasicBlock) -> CodeFigures:
    runs = block.trips * block.entries
    _, most = max(cases, key=lambda case: case[0])
    return CodeFigures(
        lanes=most.lanes,
        arithmetic=runs * sum(part * straight.arithmetic for part, straight in cases),
        loads=runs * sum(part * straight.loads for part, straight in cases),
        stores=runs * sum(part * straight.stores for part, straight in cases),
        spilled=sum(part * straight.spilled for part, straight in cases),
    )


def seconds_a_line(machine: Machine, level: MemoryLevel, fetched: Fetched) -> float:
    """Seconds that a level needs to hand over one line, and to take it back if it was written.

    More for the first line of a row where rows drive one another out of few sets of the first cache, since stores leave a core in order and
    the lines of one set come one after another; and for a line that nobody foresaw, since a core waits for few of these at a time.
    """
    line = machine.figure("line_bytes")
    if fetched.streamed:
        return machine.variable("streamed_line_seconds", line / level.write)
    alone = fetched.walk.unforeseen * _alone(machine, level, fetched) if level.shared and fetched.walk.unforeseen else 0.0
    if fetched.written:
        few, one = machine.seconds("crowded_line"), machine.variable("crowded_set_line_seconds", 0.0)
        crowded = min(1.0, fetched.crowd) * few + max(0.0, one - few) * max(0.0, fetched.crowd - 1) / (CROWDED_SETS - 1)
        return max(line / level.write, crowded * line / max(fetched.run, line), alone)
    near = line / level.read if fetched.run > line else max(line / level.read, 1 / level.strided)
    if not level.shared and fetched.run >= line:
        return near + fetched.walk.crowded * max(0.0, machine.variable("crowded_own_line_seconds", near) - near)
    return max(near, alone)


def _alone(machine: Machine, level: MemoryLevel, fetched: Fetched) -> float:
    """Seconds of the first line of a row that nobody foresaw, at the least: more of them the fewer sets of the first cache rows meet in."""
    name = "lone_memory_line" if level == machine.levels[-1] else "lone_line"
    together = machine.seconds(name)
    apart = machine.variable(f"apart_{name}_seconds", together)
    more, crowded = max(0.0, together - apart), fetched.walk.crowded / fetched.walk.unforeseen
    in_one_set = max(apart + more, machine.variable(f"set_{name}_seconds", apart + 2 * more))
    return apart + more * min(1.0, crowded) + (in_one_set - apart - more) * max(0.0, crowded - 1)


def floor_lines(nest: Nest, machine: Machine) -> float:
    """Lines of what a nest touches of arrays in main memory, each once."""
    regions = LineTraffic(nest, machine, in_registers(nest)).regions(nest.body)
    past = sum(fetched.lines for (fetched,) in streamed_lines(nest, machine, nest.body).values())
    return past + sum(region.lines for name, region in regions.items() if name not in nest.tiles)


def streamed_lines(nest: Nest, machine: Machine, body: Sequence[NestItem]) -> dict[int, list[Fetched]]:
    """Statement (by identity) -> the lines that it writes past the caches, all of its array's once; caches hold none of them."""
    found = {}
    for _, statement in statements(tuple(body)):
        if statement.streamed:
            source = statement.target.source
            size = bytes_of(nest.dtype_of(source)) * math.prod(size or 1 for size in shape(nest, source))
            found[id(statement)] = [Fetched(size / machine.line, math.inf, True, Walk(), streamed=True)]
    return found
