"""Parts of a cascade's outputs, each computed by a cascade of its own: the reference of what is too large to be held whole.

A slab is a box of one output's elements. Which points of the Einsum that writes it reach the box, and which elements of its operands those
points read, follow from the index expressions; so backwards to the inputs. Windows read a halo; a recurrence is computed from its start.
Each Einsum restricted to those points is an Einsum again, over loops that start at 0 and tensors that are cut to what is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic.mapper.substitutor import substitute

from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.language.reductions import REDUCTIONS
from ..sequence import EinsumSequence
from ..terms import Access, Einsum, Tensor
from .boxes import Box
from .contraction import NumpyArray
from .jumps import LEAN_DIRECTIONS, JumpsInParts, Lean
from .reference import held_bytes, reference, wide_type

IndexSpan = tuple[int, int]
"""The first value, and the one after the last."""
IndexSpans = tuple[IndexSpan, ...]
"""A range for each axis of a tensor."""
MOST_SLABS = 100_000
"""Of one output; each costs about a millisecond besides its elements."""


class NotSlicedError(CascadeError):
    """A reference that stays too large in parts."""


@dataclass(frozen=True)
class SlabPiece:
    """Some of the points that reach a slab, and what computes their share of its elements."""

    cascade: EinsumSequence
    read: Mapping[str, IndexSpans]
    """Input -> the part that is read."""
    written: IndexSpans
    """The elements of the output that the cascade computes, those of the slab among them."""

    def given(self, arrays: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Its inputs, cut out of the whole ones."""
        return {tensor: arrays[tensor][_slices(region)] for tensor, region in self.read.items()}


_Compute = Callable[[SlabPiece], Mapping[str, NumpyArray]]


@dataclass(frozen=True)
class Slab:
    """Some elements of one output, and what computes them."""

    whole: Slabs
    region: IndexSpans

    @property
    def place(self) -> tuple[slice, ...]:
        """Where the elements lie in the output."""
        return _slices(self.region)

    def pieces(self) -> Iterator[SlabPiece]:
        """What their points are cut into, made one by one; one at least."""
        found = (piece for corner in product(*self.cuts) if (piece := self._at(corner)) is not None)
        first = next(found, None)
        yield _piece(self.whole, self.region, _corner(_box(self.whole.einsum))) if first is None else first
        yield from found

    def sample(self, places: Sequence[float]) -> SlabPiece:
        """The piece at these places (0: the first, 1: the last) along its variables, or the first where that has no points."""
        return self._at(_chosen(self.cuts, places)) or next(self.pieces())

    @property
    def cuts(self) -> list[range]:
        """Where pieces begin, for each variable, and how long they are."""
        ranges, lengths = _box(self.whole.einsum).ranges, self.whole.lengths
        return [range(low, high, lengths.get(v, high - low)) for v, (low, high) in ranges.items()]

    def _at(self, corner: Sequence[int]) -> SlabPiece | None:
        """The piece that begins there; ``None`` if it has no point."""
        einsum = self.whole.einsum
        ends = (min(low + cut.step, cut.stop) for low, cut in zip(corner, self.cuts, strict=True))
        given = Box(dict(zip(einsum.variables, zip(corner, ends, strict=True), strict=True)))
        box = _narrowed(einsum, _from_the_start(einsum, self.region), given)
        return None if box is None else _piece(self.whole, self.region, box)

    def elements(self, arrays: Mapping[str, NumpyArray], jumps: JumpsInParts | None = None) -> NumpyArray:
        """The elements, from the whole inputs; what is to be known of jumps is noted."""
        compute = reference if jumps is None else jumps.noted
        return self._combined(lambda piece: compute(piece.cascade, piece.given(arrays)))

    def alternatives(self, sides: Sequence[Mapping[str, NumpyArray]], jumps: JumpsInParts | None) -> list[NumpyArray]:
        """Elements that are as right (:mod:`.jumps`), once those of all slabs are noted; ``sides``: what is given on either side."""
        if jumps is None:
            return []
        found = []
        for direction, arrays in zip(LEAN_DIRECTIONS, sides, strict=True):
            lean = Lean(direction)
            found.append(self.leaning(arrays, jumps, lean))
            if not lean.is_near and sides[0] is sides[-1]:
                return []
        return found

    def leaning(self, arrays: Mapping[str, NumpyArray], jumps: JumpsInParts, lean: Lean) -> NumpyArray:
        """The elements on one side of all jumps."""
        return self._combined(lambda piece: jumps.leaning(piece.cascade, piece.given(arrays), lean))

    def _combined(self, compute: _Compute) -> NumpyArray:
        """What the pieces give together, in the type of the output."""
        if not self.whole.lengths:
            (piece,) = self.pieces()
            kept = [(low - start, high - start) for (low, high), (start, _) in zip(self.region, piece.written, strict=True)]
            return compute(piece)[self.whole.output][_slices(tuple(kept))]
        einsum, stored = self.whole.einsum, self.whole.cascade.tensors[self.whole.output].dtype
        combine = REDUCTIONS[einsum.reduce].ufunc
        total: NumpyArray | None = None
        with np.errstate(all="ignore"):
            for piece in self.pieces():
                share = compute(piece)[self.whole.output]
                total = share if total is None else combine(total, share)
            assert total is not None
            if einsum.combines_populate:
                total = combine(total, einsum.populate)
            for dtype in (einsum.accumulate, stored):
                total = total.astype(dtype if np.dtype(dtype).kind in "iu" else wide_type(dtype), copy=False)
            return total


@dataclass(frozen=True)
class Slabs:
    """One output cut into boxes, of which each is a slab."""

    cascade: EinsumSequence
    output: str
    tile: tuple[int, ...]
    """The lengths of a box; the last along an axis may be shorter."""
    results: int = 1
    """How many a slab has that are held at once: three where there are jumps."""
    known: frozenset[str] = frozenset()
    """Intermediates that are given, as inputs are."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Variables of the Einsum that writes the output along which its points are cut into pieces, and how far each goes."""

    @cached_property
    def einsum(self) -> Einsum:
        """The one that writes the output."""
        return next(einsum for einsum in self.cascade.einsums if einsum.output.tensor == self.output)

    def slabs(self) -> Iterator[Slab]:
        """All of them, made one by one."""
        return (self._at(corner) for corner in product(*self._starts))

    @property
    def count(self) -> int:
        """How many slabs there are."""
        return prod(map(len, self._starts))

    @property
    def computed(self) -> int:
        """How many pieces of slabs there are at most."""
        return self.count * prod(map(len, next(self.slabs()).cuts))

    @cached_property
    def held(self) -> int:
        """About how many bytes computing a slab takes: the most of those in the middle, at the end, and in corners."""
        others = (self.results - 1 + 2 * bool(self.lengths)) * 8 * prod(self.tile)
        return others + max(held_bytes(piece.cascade) for piece in self._samples())

    @property
    def work(self) -> int:
        """About how many points all slabs have together."""
        return self.computed * sum(einsum.box_points for einsum in self.sample.cascade.einsums)

    @property
    def sample(self) -> SlabPiece:
        """One from the middle."""
        return next(self._samples())

    def _samples(self) -> Iterator[SlabPiece]:
        """From the middle, whose windows lie inside, from the end, and from corners: any two axes differ in one, as transposes need it."""
        starts = self._starts
        count = len(starts) + len(self.einsum.variables)
        corners = [[float(number >> bit & 1) for number in range(count)] for bit in range((count - 1).bit_length())]
        for places in ([0.5] * count, [1.0] * count, *corners):
            yield self._at(_chosen(starts, places)).sample(places[len(starts) :])

    @property
    def _starts(self) -> list[range]:
        """Where boxes begin, along each axis."""
        return [range(0, size, length) for size, length in zip(self.cascade.fixed_shape(self.output), self.tile, strict=True)]

    def _at(self, corner: Sequence[int]) -> Slab:
        shape = self.cascade.fixed_shape(self.output)
        ends = (min(start + length, size) for start, length, size in zip(corner, self.tile, shape, strict=True))
        return Slab(self, tuple(zip(corner, ends, strict=True)))

    def halved(self) -> list[Slabs]:
        """With boxes of half the length along an axis, or with pieces of half the length along a variable that is reduced."""
        boxes = [
            dataclasses.replace(self, tile=(*self.tile[:axis], -(-length // 2), *self.tile[axis + 1 :]))
            for axis, length in enumerate(self.tile)
            if length > 1
        ]
        lengths = {v: self.lengths.get(v, size) for v, size in self.einsum.sizes.items() if isinstance(size, int)}
        pieces = [dataclasses.replace(self, lengths={**self.lengths, v: -(-lengths[v] // 2)}) for v in self._cuttable if lengths[v] > 1]
        return boxes + pieces

    @cached_property
    def _cuttable(self) -> tuple[str, ...]:
        """Variables whose values meet in elements of the output; none where an element that no point reaches holds something else."""
        einsum, reduction = self.einsum, REDUCTIONS[self.einsum.reduce]
        if not einsum.reduces or not reduction.combines or einsum.is_recurrence or (einsum.populate is not None and reduction.of_truths):
            return ()
        alone = {index.bare for index in einsum.output.indices}
        return tuple(v for v in einsum.variables if v not in alone)


def tiling(whole: Slabs, budget: int) -> Slabs:
    """An output cut so that the reference of a slab takes about ``budget`` bytes at most; the axes are those that repeat least work.

    Raises :class:`NotSlicedError` with the reason where there is no such cut. Every size must be a number.
    """
    found = whole
    while (held := found.held) > budget:
        smaller = [other for other in found.halved() if other.held < held]
        if not smaller or found.computed > MOST_SLABS:
            part = max(found.sample.cascade.tensors.values(), key=_elements)
            shape = f"{part.name}[{', '.join(map(str, part.shape))}]"
            raise NotSlicedError(f"an element of {whole.output} needs {shape}" if not smaller else f"{found.computed} slices are too many")
        found = min(smaller, key=lambda other: (other.work, other.held))
    return found


def _chosen(cuts: Sequence[range], places: Sequence[float]) -> list[int]:
    """Of the beginnings along each axis those at these places, from 0 to 1."""
    return [cut[int((len(cut) - 1) * place)] for cut, place in zip(cuts, places, strict=False)]


def _elements(tensor: Tensor) -> int:
    return prod(size for size in tensor.shape if isinstance(size, int))


def _piece(whole: Slabs, region: IndexSpans, box: Box) -> SlabPiece:
    """What computes the share of these points in the elements, from inputs and known intermediates. Every size must be a number."""
    cascade, output = whole.cascade, whole.output
    regions: dict[str, IndexSpans] = {output: _from_the_start(whole.einsum, region)}
    parts: list[tuple[Einsum, Box]] = []
    for einsum in reversed(cascade.einsums):
        if einsum.output.tensor not in regions or einsum.output.tensor in whole.known:
            continue
        if einsum is not whole.einsum:
            regions[einsum.output.tensor] = _from_the_start(einsum, regions[einsum.output.tensor])
            box = _reaching(einsum, regions[einsum.output.tensor])
        parts.insert(0, (einsum, box))
        for access in einsum.operands:
            if access.tensor != einsum.output.tensor:
                needed = _read(access, box, cascade.fixed_shape(access.tensor))
                regions[access.tensor] = _joined(regions.get(access.tensor, needed), needed)
    shapes = {tensor: tuple(high - low for low, high in part) for tensor, part in regions.items()}
    tensors = {tensor: dataclasses.replace(cascade.tensors[tensor], shape=shape) for tensor, shape in shapes.items()}
    einsums = [_restricted(einsum, box, regions) for einsum, box in parts]
    if whole.lengths:
        # Shares are combined in the type of the sum, and the initial value is added to them once.
        accumulate = whole.einsum.accumulate
        neutral = REDUCTIONS[whole.einsum.reduce].neutral_of(accumulate)
        einsums[-1] = dataclasses.replace(einsums[-1], populate=neutral)
        tensors[output] = dataclasses.replace(tensors[output], dtype=str(wide_type(accumulate)))
    own = EinsumSequence(tuple(einsums), constantdict(tensors), (output,))
    return SlabPiece(own, {tensor: regions[tensor] for tensor in own.inputs}, regions[output])


def _slices(region: IndexSpans) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in region)


def _joined(one: IndexSpans, other: IndexSpans) -> IndexSpans:
    return tuple((min(low, least), max(high, most)) for (low, high), (least, most) in zip(one, other, strict=True))


def _from_the_start(einsum: Einsum, region: IndexSpans) -> IndexSpans:
    """The elements with all that a recurrence computes before them."""
    if not einsum.is_recurrence:
        return region
    variable = einsum.iterative_variable()
    axes = zip(einsum.output.indices, region, strict=True)
    return tuple((0 if variable in index.variables else low, high) for index, (low, high) in axes)


def _box(einsum: Einsum) -> Box:
    """All points of an Einsum."""
    return Box({v: (0, size) for v in einsum.variables if isinstance(size := einsum.sizes[v], int)})


def _corner(box: Box) -> Box:
    """The first point of a box."""
    return Box({v: (low, low + 1) for v, (low, _) in box.ranges.items()})


def _reaching(einsum: Einsum, region: IndexSpans) -> Box:
    """A box of the points that write a region; others may lie in it. One point where none does."""
    box = _box(einsum)
    return _narrowed(einsum, region, box) or _corner(box)


def _narrowed(einsum: Einsum, region: IndexSpans, box: Box) -> Box | None:
    """A box with all those points of a box that write a region; ``None`` where none is seen to."""
    ranges = dict(box.ranges)
    for index, (low, high) in zip(einsum.output.indices, region, strict=True):
        if not index.terms and not low <= index.constant < high:
            return None
        for name, factor in index.terms:
            least, most = box.extremes(index - Affine.variable(name) * factor)
            # low <= factor * name + rest < high for some value of the rest
            lower, upper = (low - most, high - 1 - least) if factor > 0 else (high - 1 - least, low - most)
            first, last = max(ranges[name][0], -(-lower // factor)), min(ranges[name][1], upper // factor + 1)
            if first >= last:
                return None
            ranges[name] = (first, last)
    return Box(ranges)


def _read(access: Access, box: Box, shape: tuple[int, ...]) -> IndexSpans:
    """The elements of a tensor that the points of a box read; one at least."""
    extremes = [box.extremes(index) for index in access.indices]
    return tuple(
        (min(max(low, 0), size - 1), max(min(high, size - 1), 0) + 1) if low < size and high >= 0 else (0, 1)
        for (low, high), size in zip(extremes, shape, strict=True)
    )


def _restricted(einsum: Einsum, box: Box, regions: Mapping[str, IndexSpans]) -> Einsum:
    """The Einsum over a box of its points, each variable from 0 on, with tensors cut to their regions.

    Before: ``Z[i] = A[i + k]`` for ``8 <= i < 16``. After: ``Z'[i'] = A'[i' + k]``, where ``Z'[j] = Z[8 + j]`` and ``A'[j] = A[8 + j]``.
    """
    moved = {v: Affine.variable(v) + low for v, (low, _) in box.ranges.items()}

    def cut(access: Access) -> Access:
        starts = (low for low, _ in regions[access.tensor])
        return Access(access.tensor, tuple(i.substituted(moved) - start for i, start in zip(access.indices, starts, strict=True)))

    values = {v: p.Sum((p.Variable(v), low)) for v, (low, _) in box.ranges.items() if low}
    return dataclasses.replace(
        einsum,
        output=cut(einsum.output),
        operands=tuple(map(cut, einsum.operands)),
        map=substitute(einsum.map, values) if values else einsum.map,
        sizes=constantdict({v: high - low for v, (low, high) in box.ranges.items()}),
        guards=tuple(guard.substituted(moved) for guard in einsum.guards),
    )
