"""Kinds of numbers that NumPy does not tell by itself: bfloat16 is ml_dtypes' type, where that is installed."""

from __future__ import annotations

import importlib
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

BFLOAT16 = "bfloat16"
"""The first 16 bits of a float32. Tensors are stored so; what is computed with them is computed in float32."""
WIDENED = "bfloat_value"
"""What kernels call the float32 that a number of bfloat16 is."""


def type_of(dtype: object) -> np.dtype[Any]:
    """The type of a name, as NumPy reads it; its ``TypeError`` where there is none."""
    make_known(dtype)
    return np.dtype(dtype)  # type: ignore[call-overload, no-any-return]


def make_known(dtype: object) -> None:
    """Have NumPy know a type's name: that of bfloat16 once ml_dtypes is imported, which takes half a second.

    Whatever brings a name into a process calls this, so that nobody waits who has no such numbers.
    """
    if isinstance(dtype, str) and dtype == BFLOAT16:
        _package()


@cache
def _package() -> ModuleType | None:
    """ml_dtypes, if it is installed."""
    try:
        return importlib.import_module("ml_dtypes")
    except ImportError:
        return None


@lru_cache(64)
def kind_of(dtype: str | np.dtype[Any]) -> str:
    """NumPy's letter for a kind of element type, ``f`` for bfloat16 as for the other floating-point numbers."""
    found = type_of(dtype)
    return "f" if found.name == BFLOAT16 else found.kind


@lru_cache(64)
def bytes_of(dtype: str) -> int:
    """Bytes of an element of a type."""
    return int(type_of(dtype).itemsize)


def epsilon(dtype: str | np.dtype[Any]) -> float:
    """The distance from 1 to the next floating-point (or complex) number of a type."""
    return float(_facts(dtype).eps)


def largest(dtype: str | np.dtype[Any]) -> float:
    """The largest floating-point number of a type."""
    return float(_facts(dtype).max)


def part_type(dtype: str | np.dtype[Any]) -> np.dtype[Any]:
    """The type of a complex type's real and imaginary parts; a real type itself."""
    found = type_of(dtype)
    return np.dtype(f"f{found.itemsize // 2}") if found.kind == "c" else found


def scalar(dtype: str | np.dtype[Any], value: complex) -> Any:
    """A number of a type; one of bfloat16 as the float32 that it is the beginning of, which expressions can hold."""
    found = type_of(dtype)
    return np.float32(found.type(value)) if _is_bfloat16(found) else found.type(value)


@lru_cache(64)
def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.name == BFLOAT16


def computed_in(dtype: str) -> str:
    """The type in which numbers that are stored in a type are computed."""
    return "float32" if dtype == BFLOAT16 else dtype


def _facts(dtype: str | np.dtype[Any]) -> Any:
    if type_of(dtype).name != BFLOAT16:
        return np.finfo(dtype)
    package: Any = _package()  # a type of that name is there only where the package is
    return package.finfo(dtype)


def memory_type(dtype: str) -> np.dtype[Any]:
    """The type of the elements that memory holds: whole numbers for bfloat16, whose arrays lend their memory to nobody."""
    return np.dtype(np.uint16 if dtype == BFLOAT16 else dtype)


def held_as(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array as memory holds numbers of a type, a view where that is enough; whole numbers of 16 bits are taken for bits of bfloat16."""
    if dtype != BFLOAT16 or array.dtype == np.uint16:
        return np.asarray(array, memory_type(dtype))
    return np.asarray(array, dtype).view(np.uint16)


def as_held(array: Any, dtype: str) -> Any:
    """An array of bfloat16 as whole numbers in the same memory; any other array, NumPy's or not, as it is."""
    return array.view(np.uint16) if dtype == BFLOAT16 and array.dtype.name == BFLOAT16 else array


def as_numbers(array: Any, dtype: str) -> Any:
    """The opposite of :func:`as_held`, where NumPy has the type."""
    return array.view(type_of(BFLOAT16)) if dtype == BFLOAT16 and _package() is not None else array


def numbers_of(array: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers that elements in memory stand for, as NumPy's own type that has them all."""
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == BFLOAT16 else array
