"""The sizes for which a schedule is legal, as an ISL set.

A schedule is applied to the cascade with as many lengths symbolic as it allows: what its steps accept for a symbol they accept for every
number, so that such a length is bounded below by its tiles alone. A length that a step must know (a tile in local or private memory that
is as long, work-items) may lie between two numbers at which all steps are legal and fit a careful device, and a length of lanes stays what
was recorded. Whoever asks for a fact applies the schedule and verifies the kernel in any case.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import takewhile

import islpy as isl
from constantdict import constantdict

from ...cascades.cascade import Cascade
from ...cascades.terms import Size, SizeParam
from ...errors import ArchiveError, Error
from ...formats.affine import Affine
from ...formats.integer_sets import equal, integer_set
from ...formats.opencl import level_of
from ...schedule.schedule import Schedule
from ...schedule.steps.loop_steps import Split, Unroll
from ...schedule.steps.skip_steps import SkipTiles
from ...schedule.target import ANY_DEVICE
from ...schedule.tree.nest import For, LoopRef, walk
from ...schedule.tree.sizes import check_limits

GROWTH = (2, 4, 8)
"""How many times as long as recorded a length is tried."""
_BOUNDS = re.compile(r"(?:[\s\d{}\[\]:,=<>+*-]|s\d|and|true|false)*")
"""What bounds of lengths are written with. A set with alternatives or divisions may take ISL forever, and none is ever written here."""
_LEXICOGRAPHIC = re.compile("<<|>>|<>")
_LONGEST = 10_000


@lru_cache(maxsize=256)
def applicability(cascade: Cascade, skeleton: Cascade, schedule: Schedule, sizes: tuple[int, ...]) -> str:
    """The set of lengths, in the order of the skeleton's parameters, for which the schedule is legal; it holds the recorded ``sizes``.

    ``cascade`` has fixed sizes and the names of ``skeleton``, in which they are symbols; the schedule is in these names too.
    """
    trial = _Trial(cascade, skeleton, schedule, constantdict(zip(skeleton.size_parameters, sizes, strict=True)))
    lengths = {parameter: Affine.variable(f"s{k}") for k, parameter in enumerate(skeleton.size_parameters)}
    free = trial.free()
    bounds = [lengths[parameter] - trial.least[parameter] for parameter in sorted(free)]
    for parameter, (low, high) in trial.ranges(free).items():
        bounds += [lengths[parameter] - low, Affine((), high) - lengths[parameter]]
    return str(integer_set([f"s{k}" for k in range(len(lengths))], bounds))


@dataclass(frozen=True)
class _Trial:
    """A schedule, tried at other sizes than those at which it was recorded."""

    cascade: Cascade
    skeleton: Cascade
    schedule: Schedule
    recorded: constantdict[str, int]

    def free(self) -> frozenset[str]:
        """Parameters that may be symbols, all at once."""
        free: frozenset[str] = frozenset()
        for parameter in self.recorded:
            if self.accepts(free | {parameter}, {}):
                free |= {parameter}
        return free

    def ranges(self, free: frozenset[str]) -> dict[str, tuple[int, int]]:
        """The other parameters' least and largest lengths, tried one at a time and then all together."""
        lows, highs = {}, {}
        for parameter in sorted(self.recorded.keys() - free):
            size, least = self.recorded[parameter], self.least[parameter]
            beside = all(self.accepts(free, {parameter: other}) for other in {least, max(least, size - 1)})
            lows[parameter] = least if beside else size
            grown = (size * factor for factor in GROWTH) if beside and parameter not in self.unrolled else ()
            highs[parameter] = max(takewhile(partial(self._accepts_one, free, parameter), grown), default=size)
        if not self.accepts(free, lows):
            lows = {parameter: self.recorded[parameter] for parameter in lows}
        if not self.accepts(free, highs):
            highs = {parameter: self.recorded[parameter] for parameter in highs}
        return {parameter: (lows[parameter], highs[parameter]) for parameter in lows}

    def accepts(self, free: frozenset[str], sizes: Mapping[str, int]) -> bool:
        """Whether all steps are legal and fit a device, with some parameters symbols and some of other lengths than recorded."""
        lengths: dict[str, Size] = {**self.recorded, **sizes, **{parameter: SizeParam(parameter) for parameter in free}}
        if not self.schedule.steps:
            return True
        try:
            nest = self.schedule.nest(self._at(lengths).kernel())
            check_limits(nest, ANY_DEVICE.limits)
        except Error:
            return False
        return all(n.extent is not None or level_of(n.binding) in {"loop", "group"} for n in walk(nest.body) if isinstance(n, For))

    def _accepts_one(self, free: frozenset[str], parameter: str, size: int) -> bool:
        return self.accepts(free, {parameter: size})

    def _at(self, lengths: Mapping[str, Size]) -> Cascade:
        def length(symbol: Size) -> Size:
            return lengths[symbol.name] if isinstance(symbol, SizeParam) else symbol

        einsums = tuple(
            dataclasses.replace(
                einsum, sizes=constantdict({v: length(self.skeleton.einsum(einsum.name).sizes[v]) for v in einsum.variables})
            )
            for einsum in self.cascade.einsums
        )
        tensors = {
            name: dataclasses.replace(tensor, shape=tuple(map(length, self.skeleton.tensors[name].shape)))
            for name, tensor in self.cascade.tensors.items()
        }
        return dataclasses.replace(self.cascade, einsums=einsums, tensors=constantdict(tensors))

    def _parameter(self, loop: LoopRef) -> str | None:
        """The parameter on which the number of a loop's iterations depends: that of a rank variable, or of the outer part of a split."""
        size = self.skeleton.einsum(loop.einsum).sizes.get(loop.variable)
        return size.name if isinstance(size, SizeParam) and "1" not in loop.path else None

    @cached_property
    def unrolled(self) -> frozenset[str | None]:
        """Parameters on whose length it depends how often a statement is written out."""
        return frozenset(self._parameter(step.loop) for step in self.schedule.steps if isinstance(step, Unroll))

    @cached_property
    def least(self) -> dict[str, int]:
        """Parameter -> the least length that no split's tile is larger than.

        The outer part of a split has ``ceil(n / d)`` iterations for the product ``d`` of the tiles, so that a tile ``t`` fits it from
        ``n = d (t - 1) + 1`` on. A mask that leaves out tiles at the recorded lengths may leave out none at shorter ones.
        """
        least = dict.fromkeys(self.recorded, 1)
        products: dict[LoopRef, int] = {}
        for step in self.schedule.steps:
            if isinstance(step, Split) and (parameter := self._parameter(step.loop)) is not None:
                product = products.get(step.loop, 1)
                least[parameter] = max(least[parameter], product * (step.tile - 1) + 1)
                products[step.loop.outer] = product * step.tile
            if isinstance(step, SkipTiles):
                for cut in filter(None, map(self._parameter, (step.loop, *step.per))):
                    least[cut] = self.recorded[cut]
        return least


def recorded_alone(sizes: Sequence[int]) -> str:
    """The set that holds what was recorded and nothing else."""
    names = [f"s{k}" for k in range(len(sizes))]
    bounds = [condition for name, size in zip(names, sizes, strict=True) for condition in equal(Affine.variable(name), size)]
    return str(integer_set(names, bounds))


def covers(text: str, sizes: Sequence[int | None]) -> bool:
    """Whether a set holds these lengths; of one that is symbolic it must hold all from some number on."""
    allowed = parsed(text, len(sizes))
    for position, size in enumerate(sizes):
        if size is not None:
            allowed = allowed.fix_val(isl.dim_type.set, position, isl.Val(size))
    if allowed.is_empty():
        return False
    return all(size is not None or allowed.dim_max_val(position).is_infty() for position, size in enumerate(sizes))


def parsed(text: str, count: int) -> isl.Set:
    """The set that a text denotes; :class:`~feinsum_fuse.errors.ArchiveError` for one that is none of so many lengths."""
    result = None
    if len(text) <= _LONGEST and _BOUNDS.fullmatch(text) and not _LEXICOGRAPHIC.search(text):
        with suppress(isl.Error):
            result = isl.Set(text)
    if result is None or result.dim(isl.dim_type.set) != count or result.dim(isl.dim_type.param):
        raise ArchiveError(f"{text[:200]!r} is no set of {count} sizes", hint="such as '{ [s0, s1] : s0 >= 64 and s1 = 16 }'")
    return result
