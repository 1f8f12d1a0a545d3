"""Parts of an Einsum's iteration space, and the elements of tensors that their points touch, as NumPy views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...formats.affine import Affine
from ..terms import Access
from .contraction import NumpyArray


@dataclass(frozen=True)
class Box:
    """A box of points: rank variable -> first value and the value after the last, in the order of the array axes that stand for them."""

    ranges: Mapping[str, tuple[int, int]]

    @property
    def variables(self) -> tuple[str, ...]:
        """The rank variables, in the order of axes."""
        return tuple(self.ranges)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each variable."""
        return tuple(high - low for low, high in self.ranges.values())

    def only(self, variables: tuple[str, ...]) -> Box:
        """The same ranges of some of the variables, in their order here."""
        return Box({v: bounds for v, bounds in self.ranges.items() if v in variables})

    def extremes(self, index: Affine) -> tuple[int, int]:
        """The least and the largest value of an index expression."""
        low = high = index.constant
        for name, factor in index.terms:
            first, last = self.ranges[name][0], self.ranges[name][1] - 1
            low += min(factor * first, factor * last)
            high += max(factor * first, factor * last)
        return low, high

    def values(self, index: Affine) -> NumpyArray:
        """An index expression at all points; axes that it does not depend on have length 1."""
        total: NumpyArray = np.full((1,) * len(self.ranges), index.constant, dtype=np.int64)
        for axis, (name, (low, high)) in enumerate(self.ranges.items()):
            factor = index.coefficients.get(name, 0)
            if factor:
                total = total + factor * np.arange(low, high).reshape([-1 if k == axis else 1 for k in range(len(self.ranges))])
        return total

    def is_inside(self, access: Access, shape: tuple[int, ...]) -> bool:
        """Whether all points access elements of a tensor of this shape."""
        extremes = [self.extremes(index) for index in access.indices]
        return all(low >= 0 and high < size for (low, high), size in zip(extremes, shape, strict=True))

    def view(self, access: Access, array: NumpyArray) -> NumpyArray:
        """The elements of an array that are accessed, one axis per variable (1 long if the access lacks it); all inside."""
        first = [index.constant + sum(factor * self.ranges[name][0] for name, factor in index.terms) for index in access.indices]
        strides, shape = [], []
        for name, (low, high) in self.ranges.items():
            factors = [index.coefficients.get(name, 0) for index in access.indices]
            strides.append(sum(stride * factor for factor, stride in zip(factors, array.strides, strict=True)))
            shape.append(high - low if name in access.variables else 1)
        corner = tuple(slice(start, None) for start in first)
        view: NumpyArray = as_strided(array[corner] if corner else array, shape, strides)
        return view

    def gathered(self, access: Access, array: NumpyArray) -> NumpyArray:
        """As :meth:`view`, a copy; points outside read the nearest element, for the caller to mask."""
        if not access.indices:
            return array.reshape((1,) * len(self.ranges))
        elements: NumpyArray = array[
            tuple(np.clip(self.values(i), 0, size - 1) for i, size in zip(access.indices, array.shape, strict=True))
        ]
        return elements

    def blocks(self, limit: int) -> Iterator[Box]:
        """The box in parts of at most about ``limit`` points, the last variables kept whole for as long as they fit."""
        steps: dict[str, int] = {}
        room = limit
        for name, (low, high) in reversed(tuple(self.ranges.items())):
            steps[name] = max(1, min(high - low, room))
            room //= steps[name]

        def cut(variables: tuple[str, ...], chosen: dict[str, tuple[int, int]]) -> Iterator[Box]:
            if not variables:
                yield Box({name: chosen[name] for name in self.ranges})
                return
            low, high = self.ranges[variables[0]]
            for start in range(low, high, steps[variables[0]]):
                yield from cut(variables[1:], {**chosen, variables[0]: (start, min(high, start + steps[variables[0]]))})

        return cut(self.variables, {})
