"""What the kernel model says of one program: what bounds it, how well it uses the processor, and what change would help most."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..arguments import HOOK, Kind, expect
from ..errors import CascadeError, Error, LoweringError, MappingError, ModelError, ScheduleError
from ..formats.mapping import Mapping
from ..formats.spec import Spec
from ..lowering.lowering import lower
from ..lowering.starting_point import unscheduled
from ..model.floor import bounds
from ..model.kernel.kernel_time import BlockTime, KernelTime, floor_lines, nest_time
from ..model.kernel.machine import Machine
from ..presentation import table
from ..progress import Hook, Stage
from .mapping_changes import mapping_changes

if TYPE_CHECKING:
    from ..device.program.program import Program

SHARE = 0.01
"""Blocks below this part of the time are left out of the table."""
_HEAD = ("Einsum", "what", "bound by", "time/s", "core/s", "lanes", "multiply-adds per load", "spilled")
WORTH = 0.97
"""A change that leaves more than this part of the time is not worth its name."""


@dataclass(frozen=True)
class Change:
    """One change of a mapping, and the seconds that the model expects then."""

    what: str
    spec: Spec
    seconds: float


@dataclass(frozen=True, repr=False)
class Explanation:
    """The kernel model's figures of one program; it prints itself."""

    time: KernelTime
    machine: Machine
    floor: float
    """Seconds below which no mapping can be."""
    least_lines: float
    """Lines of all arrays in main memory, each once."""
    change: Change | None
    """The one change of a loop's tile, of the order of two loops, or of what lanes run along, that helps most; ``None`` where none does."""

    @property
    def parts(self) -> tuple[BlockTime, ...]:
        """The blocks, the longest first."""
        return tuple(sorted(self.time.parts, key=lambda part: -part.seconds))

    @property
    def bound(self) -> str:
        """What most of the time is spent on: ``core``, the name of a memory, or ``launches``."""
        spent = {"launches": self.time.launches}
        for part in self.time.parts:
            spent[part.bound] = spent.get(part.bound, 0.0) + part.seconds
        return max(spent, key=lambda name: spent[name])

    @property
    def idle_cores(self) -> float:
        """The part of all cores' time in which they wait for the one with the most groups."""
        busy = sum(part.seconds for part in self.time.parts)
        return sum(part.seconds * (1 - 1 / part.stretch) for part in self.time.parts) / busy if busy else 0.0

    @property
    def idle_lanes(self) -> float:
        """The part of the vector units' lanes that arithmetic leaves empty."""
        done = sum(part.code.arithmetic for part in self.time.parts)
        filled = sum(part.code.arithmetic * min(1.0, part.code.lanes / self.machine.lanes) for part in self.time.parts)
        return 1 - filled / done if done else 0.0

    @property
    def lines(self) -> dict[str, float]:
        """Level of memory -> lines that are fetched from it or written back."""
        return {level.name: sum(part.lines.get(level.name, 0.0) for part in self.time.parts) for level in self.machine.levels[1:]}

    def to_json(self) -> dict[str, object]:
        """Plain data: seconds, parts of 1, counts."""
        change = None if self.change is None else {"what": self.change.what, "seconds": self.change.seconds}
        return {
            "seconds": self.time.seconds,
            "floor_seconds": self.floor,
            "launch_seconds": self.time.launches,
            "bound": self.bound,
            "idle_cores": self.idle_cores,
            "idle_lanes": self.idle_lanes,
            "lines": self.lines,
            "least_lines": self.least_lines,
            "parts": [
                {
                    "einsum": part.einsum,
                    "role": part.role,
                    "bound": part.bound,
                    "seconds": part.seconds,
                    "core_seconds": part.core,
                    "memory_seconds": part.memory,
                    "lanes": part.code.lanes,
                    "arithmetic": part.code.arithmetic,
                    "loads": part.code.loads,
                    "stores": part.code.stores,
                    "spilled": part.code.spilled,
                }
                for part in self.parts
            ],
            "change": change,
        }

    def __repr__(self) -> str:
        lines = [
            f"{self.time.seconds:.4g} s predicted, {self.time.seconds / self.floor:.3g} times the floor; mostly bound by {self.bound}",
            f"idle cores {self.idle_cores:.0%}, idle lanes {self.idle_lanes:.0%}",
            "lines " + ", ".join(f"{name} {count:.3g}" for name, count in self.lines.items()) + f"; arrays have {self.least_lines:.3g}",
            "",
            table(_HEAD, self._rows(), numbers=5),
            "",
            self._advice(),
        ]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                *(part.einsum, part.role, part.bound, f"{part.seconds:.3g}", f"{part.core:.3g}", str(part.code.lanes)),
                *(f"{part.code.arithmetic / part.code.loads:.2g}" if part.code.loads else "-", f"{part.code.spilled:.2g}"),
            )
            for part in self.parts
            if part.seconds >= SHARE * self.time.seconds
        ]

    def _advice(self) -> str:
        if self.change is None:
            return "No change of one tile, of the order of two loops, or of one Einsum's lanes is expected to help."
        times = self.time.seconds / self.change.seconds
        return f"Expected to help most: {self.change.what}, {self.change.seconds:.4g} s ({times:.2g} times as fast)."


_EXPLAINED = Kind("a Spec or a program", lambda value: isinstance(getattr(value, "spec", value), Spec | None) and value is not None)


def explain(what: Program | Spec, *, cold: bool = False, progress: Hook | None = None) -> Explanation:
    """Why a program takes as long as the kernel model says: a Spec with a mapping, or a program that was compiled from one.

    Its architecture has to be a calibrated one (``ff.calibrate``). ``progress`` is told of each change that
    is tried. Raises :class:`ModelError` for what the kernel model cannot time.
    """
    expect(what, _EXPLAINED, "what is explained", ModelError)
    expect(progress, HOOK, "progress", ModelError)
    spec = what if isinstance(what, Spec) else what.spec
    if spec is None:
        raise ModelError("this program was not made from a Spec, whose mapping could be explained", hint="Explain the Spec itself.")
    machine = Machine.of(spec)
    if machine is None or spec.mapping is None:
        lacks = "has no mapping" if spec.mapping is None else "is for an architecture that was not measured"
        raise ModelError(f"only kernels on measured processors are explained; this Spec {lacks}", hint="Use the file of ff.calibrate().")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nest = lower(spec, machine.limits).nest(unscheduled(spec).kernel)
        except (CascadeError, LoweringError, MappingError, ScheduleError) as error:
            raise ModelError(f"the mapping becomes no kernel: {error}") from error
        time = nest_time(nest, machine, cold=cold)
        found = [change for change in _changes(spec, machine, cold, progress) if change.seconds < WORTH * time.seconds]
    best = min(found, key=lambda change: change.seconds, default=None)
    return Explanation(time, machine, bounds(spec, cold=cold).latency, floor_lines(nest, machine), best)


def _changes(spec: Spec, machine: Machine, cold: bool, progress: Hook | None) -> Iterator[Change]:
    """What becomes of the time with one change of the mapping, for every change that is legal."""
    assert spec.mapping is not None
    variants = list(mapping_changes(spec, machine))
    with Stage("trying changes", progress, len(variants)) as trying:
        for what, nodes in variants:
            trying.advance()
            try:
                changed = spec.replace(mapping=Mapping(nodes))
                time = nest_time(lower(changed, machine.limits).nest(unscheduled(changed).kernel), machine, cold=cold)
            except Error:
                continue
            yield Change(what, changed, time.seconds)
