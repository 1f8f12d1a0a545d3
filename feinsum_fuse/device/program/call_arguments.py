"""What callers may pass for arrays: NumPy's, pyopencl's, and those of other libraries that lie in this process's memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from ...arguments import described
from ...codegen.executable import Argument
from ...errors import DeviceError
from ...number_types import BFLOAT16

AnyArray: TypeAlias = "np.ndarray | cla.Array"
_ARRAYS = (np.ndarray, cla.Array)
_SEEN = (*_ARRAYS, np.generic)
HOST = 1
"""DLPack's number for memory of the host (``kDLCPU``)."""


def joined(arrays: Mapping[str, AnyArray] | None, named: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    """Arrays that were given by a mapping from names, or under their names; :class:`~feinsum_fuse.errors.DeviceError` for other things."""
    if arrays is None:
        return named
    if not isinstance(arrays, Mapping):
        raise DeviceError(f"arrays are given by their tensors' names, not as {described(arrays)}", hint="Such as program(A=a).")
    return {**arrays, **named} if named else arrays


def as_arrays(given: Mapping[str, object]) -> dict[str, AnyArray]:
    """Each value as a NumPy or pyopencl array, without a copy; what is neither, and cannot be seen as one, as it is."""
    return {name: as_array(name, value) for name, value in given.items()}


def as_array(name: str, value: Any) -> Any:
    """One value; raises :class:`~feinsum_fuse.errors.DeviceError` for an array that says it is one and cannot be seen as NumPy's."""
    if isinstance(value, _SEEN):
        return value
    speaks = hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")
    if not (speaks or hasattr(value, "__array__")):
        return value
    try:
        at_home = not speaks or value.__dlpack_device__()[0] == HOST
        if at_home:
            return np.from_dlpack(value) if speaks else np.asarray(value)
    except Exception as error:  # whatever another library raises
        raise DeviceError(f"{name} is a {_type(value)} that cannot be seen as an array: {error}") from error
    raise DeviceError(f"{name} is a {_type(value)} that does not lie in the host's memory", hint="Copy it there first.")


def as_scalar(name: str, value: object, dtype: np.dtype) -> np.generic:
    """A number in a type; :class:`~feinsum_fuse.errors.DeviceError` for one that it does not have."""
    try:
        scalar: np.generic = dtype.type(np.asarray(value)[()])
    except (TypeError, ValueError, OverflowError) as error:
        raise DeviceError(f"{name} is {described(value)}, which is no {dtype}") from error
    return scalar


def _type(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def lies_as(array: np.ndarray, strides: tuple[int, ...], alignment: int) -> bool:
    """Whether a kernel that was compiled for these strides and alignment, both in bytes, can use an array where it lies."""
    fits = array.strides == strides or all(n <= 1 or a == b for n, a, b in zip(array.shape, array.strides, strides, strict=True))
    return fits and array.size > 0 and ((alignment <= array.dtype.alignment and array.flags.aligned) or _address(array) % alignment == 0)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def check_array(argument: Argument, array: object, strides: tuple[int, ...]) -> None:
    """Raise :class:`~feinsum_fuse.errors.DeviceError` for what is no array of this argument's type and shape; ``strides`` in bytes."""
    name = argument.name
    if not isinstance(array, _ARRAYS):
        if argument.by_value and isinstance(array, int | float | np.generic):
            return
        raise DeviceError(f"{name} is a {type(array).__name__}, expected a NumPy or pyopencl array")
    if array.dtype != argument.held:
        hint = "Convert it: array.astype(ml_dtypes.bfloat16)." if argument.dtype == BFLOAT16 else ""
        raise DeviceError(f"{name} has element type {array.dtype}, expected {argument.dtype}", hint=hint)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise DeviceError(f"{name} has masked elements", hint="Say what they are: array.filled(0).")
    if array.shape != argument.shape:
        raise DeviceError(f"{name} has shape {array.shape}, expected {argument.shape}")
    if isinstance(array, cla.Array) and any(n > 1 and a != b for n, a, b in zip(array.shape, array.strides, strides, strict=True)):
        raise DeviceError(f"{name} has strides {array.strides}, expected {strides}", hint="Copy it to a row-major array.")


def share(a: object, b: object) -> bool:
    """Whether two arrays overlap; for device arrays: whether they lie in one buffer."""
    if isinstance(a, cla.Array) and isinstance(b, cla.Array):
        return _root(a) == _root(b)
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def _root(array: cla.Array) -> int:
    """Which buffer an array lies in, or which that one is a part of."""
    buffer = array.base_data
    parent = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    return int(buffer.int_ptr if parent is None else parent.int_ptr)
