"""Numbers that the formulas run on: Python numbers for one mapping, NumPy arrays for many assignments of tile shapes at once.

Products of loop trip counts are kept as a numerator and a denominator and divided once, so that a relevant loop's fractional average
(``32/12`` trips of 12 values) gives back the whole number that it must.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Number: TypeAlias = int | float | Floats
Ratio: TypeAlias = tuple[Number, Number]
"""Numerator and denominator."""

ONE: Ratio = (1, 1)


def product(ratios: Iterable[Ratio]) -> Ratio:
    """The product of ratios; 1 for none."""
    numerator: Number = 1
    denominator: Number = 1
    for above, below in ratios:
        numerator = numerator * above
        denominator = denominator * below
    return numerator, denominator


def value(*ratios: Ratio) -> Number:
    """The product of ratios as one number; exact for Python integers whose quotient is whole."""
    numerator, denominator = product(ratios)
    if isinstance(numerator, int) and isinstance(denominator, int) and numerator % denominator == 0:
        return numerator // denominator
    return numerator / denominator


def ceiling(numerator: Number, denominator: Number) -> Number:
    """The quotient rounded up."""
    return -(-numerator // denominator)


def largest(values: Iterable[Number]) -> Number:
    """The largest of numbers and arrays, element by element; 0 for none."""
    result: Number = 0
    for item in values:
        scalar = not isinstance(result, np.ndarray) and not isinstance(item, np.ndarray)
        result = max(result, item) if scalar else cast(Number, np.maximum(result, item))
    return result


def smallest(values: Iterable[Number]) -> Number:
    """The least of numbers and arrays, element by element; 0 for none."""
    found: Number | None = None
    for item in values:
        if found is None:
            found = item
        elif isinstance(found, np.ndarray) or isinstance(item, np.ndarray):
            found = cast(Number, np.minimum(found, item))
        else:
            found = min(found, item)
    return 0 if found is None else found


def total(values: Iterable[Number]) -> Number:
    """The sum of numbers and arrays; 0 for none."""
    result: Number = 0
    for item in values:
        result = result + item
    return result
