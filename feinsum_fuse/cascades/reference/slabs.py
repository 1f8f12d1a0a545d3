"""Parts of a cascade's outputs, each computed by a cascade of its own: the reference of what is too large to be held whole.

A slab is a box of one output's elements. Which points of the Einsum that writes it reach the box, and which elements of its operands those
points read, follow from the index expressions; so backwards to the inputs. Windows read a halo; a recurrence is computed from its start.
Each Einsum restricted to those points is an Einsum again, over loops that start at 0 and tensors that are cut to what is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from constantdict import constantdict
from numpy.typing import NDArray
from pymbolic import primitives as p
from pymbolic.mapper.substitutor import substitute

from ...errors import CascadeError
from ...formats.affine import Affine
from ..sequence import EinsumSequence
from ..terms import Access, Einsum, Tensor
from .boxes import Box
from .jumps import JumpsInParts
from .reference import held_bytes, reference

Array = NDArray[Any]
Range = tuple[int, int]
"""The first value, and the one after the last."""
Region = tuple[Range, ...]
"""A range for each axis of a tensor."""
MOST_SLABS = 100_000
"""Of one output; each costs about a millisecond besides its elements."""


class NotSlicedError(CascadeError):
    """A reference that stays too large in parts."""


@dataclass(frozen=True)
class Slab:
    """Some elements of one output, and what computes them."""

    output: str
    region: Region
    cascade: EinsumSequence
    read: Mapping[str, Region]
    """Input -> the part that is read."""
    written: Region
    """The elements of the output that the cascade computes, these among them."""

    @property
    def place(self) -> tuple[slice, ...]:
        """Where the elements lie in the output."""
        return _slices(self.region)

    def elements(self, arrays: Mapping[str, Array], jumps: JumpsInParts | None = None) -> Array:
        """The elements, from the whole inputs; what is to be known of jumps is noted."""
        given = self._given(arrays)
        return self._kept(reference(self.cascade, given) if jumps is None else jumps.noted(self.cascade, given))

    def alternatives(self, arrays: Mapping[str, Array], jumps: JumpsInParts | None) -> list[Array]:
        """Elements that are as right (:mod:`.jumps`), once those of all slabs are noted."""
        found = () if jumps is None else jumps.leanings(self.cascade, self._given(arrays))
        return [self._kept(outputs) for outputs in found]

    def _given(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {tensor: arrays[tensor][_slices(region)] for tensor, region in self.read.items()}

    def _kept(self, outputs: Mapping[str, Array]) -> Array:
        kept = [(low - start, high - start) for (low, high), (start, _) in zip(self.region, self.written, strict=True)]
        return outputs[self.output][_slices(tuple(kept))]


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

    def slabs(self) -> Iterator[Slab]:
        """All of them, made one by one."""
        starts = (range(0, size, length) for size, length in zip(self.cascade.fixed_shape(self.output), self.tile, strict=True))
        return (self._at(corner) for corner in product(*starts))

    @property
    def count(self) -> int:
        """How many slabs there are."""
        return prod(-(-size // length) for size, length in zip(self.cascade.fixed_shape(self.output), self.tile, strict=True))

    @property
    def held(self) -> int:
        """About how many bytes computing a slab takes: one in the middle, whose windows lie inside, or the last."""
        others = 8 * (self.results - 1) * prod(self.tile)
        return others + max(held_bytes(self._at(corner).cascade) for corner in self._samples())

    @property
    def work(self) -> int:
        """About how many points all slabs have together."""
        part = self._at(next(self._samples())).cascade
        return self.count * sum(einsum.box_points for einsum in part.einsums)

    def _samples(self) -> Iterator[tuple[int, ...]]:
        for share in (2, 1):
            shape = self.cascade.fixed_shape(self.output)
            yield tuple((-(-size // length) - 1) // share * length for size, length in zip(shape, self.tile, strict=True))

    def _at(self, corner: tuple[int, ...]) -> Slab:
        shape = self.cascade.fixed_shape(self.output)
        ends = (min(start + length, size) for start, length, size in zip(corner, self.tile, shape, strict=True))
        return slab(self.cascade, self.output, tuple(zip(corner, ends, strict=True)), self.known)

    def halved(self) -> list[Slabs]:
        """With boxes of half the length along an axis."""
        return [
            dataclasses.replace(self, tile=(*self.tile[:axis], -(-length // 2), *self.tile[axis + 1 :]))
            for axis, length in enumerate(self.tile)
            if length > 1
        ]


def tiling(whole: Slabs, budget: int) -> Slabs:
    """An output cut so that the reference of a slab takes about ``budget`` bytes at most; the axes are those that repeat least work.

    Raises :class:`NotSlicedError` with the reason where there is no such cut. Every size must be a number.
    """
    found = whole
    while (held := found.held) > budget:
        smaller = [other for other in found.halved() if other.held < held]
        if not smaller or found.count > MOST_SLABS:
            part = max(found._at((0,) * len(found.tile)).cascade.tensors.values(), key=_elements)
            shape = f"{part.name}[{', '.join(map(str, part.shape))}]"
            raise NotSlicedError(f"an element of {whole.output} needs {shape}" if not smaller else f"{found.count} slices are too many")
        found = min(smaller, key=lambda other: (other.work, other.held))
    return found


def _elements(tensor: Tensor) -> int:
    return prod(size for size in tensor.shape if isinstance(size, int))


def slab(cascade: EinsumSequence, output: str, region: Region, known: Container[str] = ()) -> Slab:
    """What computes these elements of an output alone, from inputs and ``known`` intermediates. Every size must be a number."""
    regions: dict[str, Region] = {output: region}
    parts: list[tuple[Einsum, Box]] = []
    for einsum in reversed(cascade.einsums):
        if einsum.output.tensor not in regions or einsum.output.tensor in known:
            continue
        regions[einsum.output.tensor] = _from_the_start(einsum, regions[einsum.output.tensor])
        box = _reaching(einsum, regions[einsum.output.tensor])
        parts.insert(0, (einsum, box))
        for access in einsum.operands:
            if access.tensor != einsum.output.tensor:
                needed = _read(access, box, cascade.fixed_shape(access.tensor))
                regions[access.tensor] = _joined(regions.get(access.tensor, needed), needed)
    shapes = {tensor: tuple(high - low for low, high in part) for tensor, part in regions.items()}
    tensors = {tensor: dataclasses.replace(cascade.tensors[tensor], shape=shape) for tensor, shape in shapes.items()}
    own = EinsumSequence(tuple(_restricted(einsum, box, regions) for einsum, box in parts), constantdict(tensors), (output,))
    return Slab(output, region, own, {tensor: regions[tensor] for tensor in own.inputs}, regions[output])


def _slices(region: Region) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in region)


def _joined(one: Region, other: Region) -> Region:
    return tuple((min(low, least), max(high, most)) for (low, high), (least, most) in zip(one, other, strict=True))


def _from_the_start(einsum: Einsum, region: Region) -> Region:
    """The elements with all that a recurrence computes before them."""
    if not einsum.is_recurrence:
        return region
    variable = einsum.iterative_variable()
    axes = zip(einsum.output.indices, region, strict=True)
    return tuple((0 if variable in index.variables else low, high) for index, (low, high) in axes)


def _reaching(einsum: Einsum, region: Region) -> Box:
    """A box of the points that write a region; others may lie in it, and one does at least."""
    ranges = {v: (0, size) for v, size in einsum.sizes.items() if isinstance(size, int)}
    box = Box(ranges)
    for index, (low, high) in zip(einsum.output.indices, region, strict=True):
        for name, factor in index.terms:
            least, most = box.extremes(index - Affine.variable(name) * factor)
            # low <= factor * name + rest < high for some value of the rest
            lower, upper = (low - most, high - 1 - least) if factor > 0 else (high - 1 - least, low - most)
            first, last = max(ranges[name][0], -(-lower // factor)), min(ranges[name][1], upper // factor + 1)
            ranges[name] = (first, last) if first < last else (ranges[name][0], ranges[name][0] + 1)
    return box


def _read(access: Access, box: Box, shape: tuple[int, ...]) -> Region:
    """The elements of a tensor that the points of a box read; one at least."""
    extremes = [box.extremes(index) for index in access.indices]
    return tuple(
        (min(max(low, 0), size - 1), max(min(high, size - 1), 0) + 1) if low < size and high >= 0 else (0, 1)
        for (low, high), size in zip(extremes, shape, strict=True)
    )


def _restricted(einsum: Einsum, box: Box, regions: Mapping[str, Region]) -> Einsum:
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
