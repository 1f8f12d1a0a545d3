"""``ff.einsum``: NumPy's einsum, by the best schedule that is known."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike

from .archive.tables.place import text_of
from .arguments import COUNT, HOOK, array_of, described, element_type, expect
from .cascades.reading.subscripts import (
    OrderArgument,
    Subscripts,
    einsums,
    label_sizes,
    products,
    rank_sizes,
    read_arguments,
    read_subscripts,
)
from .compilation.known_programs import Chosen, find, keep, request_of
from .device.catalogue import find_device
from .device.program.call_arguments import as_array
from .device.program.program import Program
from .device.program.runner import AnyArray
from .errors import CascadeError, UnsupportedTypeError
from .number_types import BFLOAT16, part_type

if TYPE_CHECKING:
    from .archive.tables.address import Url
    from .cascades.cascade import Cascade
    from .progress import Hook

MOST_PROGRAMS = 256
LOOK_AGAIN_S = 1.0
"""Seconds after which a call looks whether the archive has new facts about its einsum."""
ORDERS = ("C", "F", "A", "K")
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@dataclass(frozen=True)
class _Signature:
    """What a program is compiled for."""

    subscripts: Subscripts
    shapes: tuple[tuple[int, ...], ...]
    is_complex: tuple[bool, ...]
    dtype: str
    """The type of the result's tensor; real operands of complex einsums have that of its parts, those of bfloat16 their own."""
    narrow: tuple[bool, ...]
    """Which operands are read as bfloat16."""
    logical: bool
    order: OrderArgument
    device: int
    url: str


@dataclass
class _Entry:
    """A program, and when it was last seen that nothing better is known."""

    chosen: Chosen
    seen: float

    def is_current(self) -> bool:
        """Whether what the choice rested on is as it was, looked at once in a while."""
        now = time.monotonic()
        if self.chosen.knowledge is None or now - self.seen < LOOK_AGAIN_S:
            return True
        self.seen = now
        return self.chosen.knowledge.renewed() is not None


@dataclass
class _Programs:
    """Compiled programs, the least recently used of which is dropped; safe for threads."""

    known: OrderedDict[_Signature, _Entry] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, signature: _Signature) -> Program | None:
        with self.lock:
            entry = self.known.get(signature)
            if entry is None or not entry.is_current():
                return None
            self.known.move_to_end(signature)
            return entry.chosen.program

    def put(self, signature: _Signature, chosen: Chosen) -> Program:
        with self.lock:
            self.known[signature] = _Entry(chosen, time.monotonic())
            while len(self.known) > MOST_PROGRAMS:
                self.known.popitem(last=False)
        return chosen.program


_PROGRAMS = _Programs()


def einsum(
    *arguments: object,
    out: AnyArray | None = None,
    dtype: DTypeLike | None = None,
    order: str = "K",
    casting: str = "safe",
    optimize: object = False,
    device: cl.Device | str | None = None,
    url: Url | None = None,
    tune: bool | float = False,
    progress: Hook | None = None,
) -> AnyArray:
    """``numpy.einsum`` on an OpenCL device: ``einsum("ij,jk->ik", A, B)``, or ``einsum(A, [0, 1], B, [1, 2], [0, 2])``.

    The whole grammar: implicit outputs, repeated labels, the ellipsis, scalars, axes of length 1 that go with any length. The first call
    with given subscripts, shapes and types takes the best schedule recorded at ``url`` that applies, else the default mapping, and compiles
    and verifies it, and tells ``progress``; later calls only run it.

    Operands are anything that NumPy makes arrays of, and tensors of other libraries that lie in the host's memory; of booleans, integers,
    real or complex numbers. Types combine as in NumPy. float16 and bfloat16 (ml_dtypes') are computed in float32. The result is a NumPy
    array, or a pyopencl array on the same queue if all operands are pyopencl arrays.

    ``out``, ``dtype``, ``order`` and ``casting`` mean what they mean to NumPy. ``optimize`` may be ``"greedy"``, ``"optimal"`` or a path of
    ``numpy.einsum_path``; if it is true or false, three and more operands are multiplied pairwise in the best order.
    Raises :class:`~feinsum_fuse.errors.CascadeError` for subscripts that mean nothing or do not fit the operands, and
    :class:`~feinsum_fuse.errors.UnsupportedTypeError` for other element types and for types that do not cast.
    """
    if progress is not None:
        expect(progress, HOOK, "progress", CascadeError)
    text, given = read_arguments(arguments)
    on_device = bool(given) and all(isinstance(operand, cla.Array) for operand in given)
    wanted = _Wanted(as_array("out", out), order, casting, on_device)
    operands = [cast(AnyArray, x) if on_device else _host(k, x) for k, x in enumerate(given)]
    subscripts, sizes = _read(text, tuple(operand.shape for operand in operands))
    shape = tuple(sizes[label] for label in subscripts.output)
    result_type = wanted.type_of(operands, None if dtype is None else element_type(dtype, UnsupportedTypeError), shape)
    column_major = order == "F" or (order == "A" and all(_is_column_major(operand) for operand in operands))
    if 0 in sizes.values():
        zeros = np.zeros(shape, result_type)
        empty = wanted.given(cla.to_device(cast(cla.Array, operands[0]).queue, zeros) if on_device else zeros, column_major)
        return empty if out is None else out
    chosen = cast(cla.Array, operands[0]).queue.device if on_device else _device(device)
    held, logical = _held_type(result_type)
    operands = [_cast(operand, result_type) for operand in operands]
    subscripts, operands = _without_ones(subscripts, operands, sizes)
    is_complex = tuple(operand.dtype.kind == "c" for operand in operands)
    shapes = tuple(operand.shape for operand in operands)
    narrow = tuple(operand.dtype.name == BFLOAT16 for operand in operands)
    archive = "" if url is None else text_of(url)
    signature = _Signature(subscripts, shapes, is_complex, held, narrow, logical, _order(optimize), chosen.int_ptr, archive)
    program = _PROGRAMS.get(signature) if tune is False else None
    if program is None:
        program = _PROGRAMS.put(signature, _chosen(signature, sizes, chosen, url, tune, progress))
    result = wanted.given(_result(program(_inputs(operands, np.dtype(held))), shape, result_type), column_major)
    return result if out is None else out


@lru_cache(maxsize=MOST_PROGRAMS)
def _read(text: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[Subscripts, Mapping[str, int]]:
    """The subscripts for operands of these shapes, and the length of every label."""
    subscripts = read_subscripts(text, shapes)
    return subscripts, label_sizes(subscripts, shapes)


def _device(device: cl.Device | str | None) -> cl.Device:
    """The device that is meant; what a name means does not change while a process lasts."""
    if isinstance(device, cl.Device):
        return device
    return _named(device) if device is None or isinstance(device, str) else find_device(device)


_named = lru_cache(maxsize=16)(find_device)


@dataclass(frozen=True)
class _Wanted:
    """Where a result goes and how it lies there, by NumPy's keywords."""

    out: AnyArray | None
    order: str
    casting: str
    on_device: bool

    def __post_init__(self) -> None:
        if not isinstance(self.order, str) or self.order not in ORDERS:
            raise CascadeError(f"einsum has no order {described(self.order)}", hint=f"There are {', '.join(ORDERS)}.")
        if not isinstance(self.casting, str) or self.casting not in CASTINGS:
            raise CascadeError(f"einsum has no casting {described(self.casting)}", hint=f"There are {', '.join(CASTINGS)}.")
        if self.on_device and self.order == "F":
            raise CascadeError("einsum has no order 'F' on a device", hint="Turn the labels of the output round.")
        if self.out is not None and not isinstance(self.out, cla.Array if self.on_device else np.ndarray):
            kind = "pyopencl" if self.on_device else "NumPy"
            raise CascadeError(f"out is a {type(self.out).__name__}, and the result is a {kind} array", hint=f"Give a {kind} array.")
        if isinstance(self.out, np.ndarray) and not self.out.flags.writeable:
            raise CascadeError("out is an array that nothing can be written to", hint="Give a copy: out.copy().")

    def type_of(self, operands: Sequence[AnyArray], dtype: np.dtype | None, shape: tuple[int, ...]) -> np.dtype:
        """The type that an einsum is computed in. Raises where operands do not cast to it, or it does not cast to that of ``out``."""
        types = [operand.dtype for operand in operands]
        out = self.out
        try:
            found = np.result_type(*types, *([] if out is None else [out.dtype])) if dtype is None else dtype
        except TypeError as error:
            named = ", ".join(dict.fromkeys(map(str, types)))
            raise UnsupportedTypeError(f"there is no type for a result of {named}", hint="Give dtype= and casting='unsafe'.") from error
        if out is not None and out.shape != shape:
            raise CascadeError(f"out has the shape {out.shape}, and the result has {shape}")
        casts = [(f"operand {k}", old, found) for k, old in enumerate(types)]
        casts += [] if out is None else [("the result", found, out.dtype)]
        for what, old, new in casts:
            if not np.can_cast(old, new, cast(Literal["safe"], self.casting)):
                hint = "Give dtype=, or casting='same_kind' or 'unsafe'."
                raise UnsupportedTypeError(f"{what} cannot be cast from {old} to {new} by the rule {self.casting!r}", hint=hint)
        return found

    def given(self, result: AnyArray, column_major: bool) -> AnyArray:
        """The result as the caller wants it."""
        if self.out is None:
            return np.asfortranarray(result) if column_major and isinstance(result, np.ndarray) and result.ndim > 1 else result
        typed = result.astype(self.out.dtype)
        if isinstance(self.out, cla.Array):
            self.out[...] = typed
        else:
            np.copyto(self.out, cast(np.ndarray, typed))
        return self.out


def _is_column_major(operand: AnyArray) -> bool:
    return bool(operand.flags.f_contiguous)


def _order(optimize: object) -> OrderArgument:
    """What ``optimize`` says about the order of contraction."""
    if isinstance(optimize, bool):
        return None
    if isinstance(optimize, str) and optimize in ("greedy", "optimal"):
        return optimize
    named = isinstance(optimize, list | tuple) and len(optimize) > 1 and isinstance(optimize[0], str) and optimize[0] == "einsum_path"
    steps = cast(Sequence[object], optimize)[1:] if named else []
    if steps and all(isinstance(step, tuple) and all(map(COUNT.holds, step)) for step in steps):
        return tuple(tuple(int(position) for position in cast(tuple[int, ...], step)) for step in steps)
    hint = "Give True, False, 'greedy', 'optimal', or a path of numpy.einsum_path."
    raise CascadeError(f"einsum cannot optimize by {described(optimize)}", hint=hint)


def _cast(operand: AnyArray, dtype: np.dtype) -> AnyArray:
    """An operand in the type of the result, or in that of its real part if it is real."""
    if operand.dtype.name == BFLOAT16 and dtype == np.float32:
        return operand  # the kernel converts what it has loaded
    kind = part_type(dtype) if dtype.kind == "c" and operand.dtype.kind != "c" else dtype
    return operand if operand.dtype == kind else operand.astype(kind)


def _host(position: int, operand: object) -> np.ndarray:
    if isinstance(operand, cla.Array):
        return cast(np.ndarray, operand.get())
    return array_of(as_array(f"operand {position}", operand), f"operand {position}", CascadeError)


def _held_type(dtype: np.dtype) -> tuple[str, bool]:
    """The type of the tensors that stand for arrays of this one, and whether they hold truth values."""
    if dtype.kind == "b":
        return "uint8", True
    if dtype.name == "float16":
        return "float32", False
    if dtype.kind in "iu" or dtype.name in (BFLOAT16, "float32", "float64", "complex64", "complex128"):
        return dtype.name, False
    raise UnsupportedTypeError(
        f"einsum has no element type {dtype}", hint="Use booleans, integers, bfloat16, float16, float32, float64, complex64 or complex128."
    )


def _without_ones(subscripts: Subscripts, operands: Sequence[AnyArray], sizes: Mapping[str, int]) -> tuple[Subscripts, list[AnyArray]]:
    """Operands without the axes of length 1 whose label is longer elsewhere."""
    inputs, kept = [], []
    for labels, operand in zip(subscripts.inputs, operands, strict=True):
        stays = [axis for axis, label in enumerate(labels) if operand.shape[axis] == sizes[label]]
        inputs.append("".join(labels[axis] for axis in stays))
        kept.append(operand if len(stays) == len(labels) else operand.reshape(tuple(operand.shape[axis] for axis in stays)))
    return Subscripts(tuple(inputs), subscripts.output), kept


def cascade_for(
    subscripts: Subscripts,
    sizes: Mapping[str, int],
    is_complex: Sequence[bool],
    dtype: str,
    *,
    narrow: Sequence[bool] = (),
    logical: bool = False,
    order: OrderArgument = None,
) -> Cascade:
    """The cascade of an einsum: inputs ``A0``, ``A1``, ..., result ``Z``.

    ``narrow`` says which operands are of bfloat16, whatever the others are.
    """
    from .cascades.reading.reader import cascade

    steps = products(subscripts, sizes, is_complex, order)
    types = {f"A{k}": BFLOAT16 for k, is_narrow in enumerate(narrow) if is_narrow and dtype != BFLOAT16}
    if np.dtype(dtype).kind == "c":
        read = {factor.name: part_type(dtype).name for step in steps for factor in step.factors if not factor.is_complex}
        types = read | types
    types["Other" if types else "All"] = dtype
    return cascade(list(einsums(steps, logical=logical)), sizes=rank_sizes(steps, sizes), dtypes=types)


def _chosen(
    signature: _Signature, sizes: Mapping[str, int], device: cl.Device, url: Url | None, tune: bool | float, progress: Hook | None
) -> Chosen:
    """The program of a signature: as it was chosen before, here or in an earlier process, or chosen now."""
    given = (signature.subscripts.inputs, signature.subscripts.output, signature.shapes, signature.is_complex)
    narrow = [signature.narrow] if any(signature.narrow) else []
    request = request_of("einsum", given=[*given, signature.dtype, signature.logical, signature.order, *narrow])
    if tune is False and (found := find(request, device, url)) is not None:
        return found
    from .compilation.making import BuildOptions
    from .compilation.selection import selected, tuned

    cascade = cascade_for(
        *(signature.subscripts, sizes, signature.is_complex, signature.dtype),
        narrow=signature.narrow,
        logical=signature.logical,
        order=signature.order,
    )
    options = BuildOptions(device, url, progress=progress)
    if tune is not False:
        return Chosen(tuned(cascade, options, None if tune is True else float(tune)), None)
    chosen = selected(cascade, options)
    keep(request, device, url, chosen)
    return chosen


def _inputs(operands: Sequence[AnyArray], dtype: np.dtype) -> dict[str, AnyArray]:
    """The tensors: row-major, of their types, with at least one axis."""
    result: dict[str, AnyArray] = {}
    for k, operand in enumerate(operands):
        wanted = part_type(dtype) if dtype.kind == "c" and operand.dtype.kind != "c" else dtype
        plain = operand if operand.dtype.name in (wanted.name, BFLOAT16) else operand.astype(wanted)
        plain = np.ascontiguousarray(plain) if isinstance(plain, np.ndarray) else plain
        result[f"A{k}"] = plain if plain.shape else plain.reshape(1)
    return result


def _result(tensors: dict[str, AnyArray], shape: tuple[int, ...], dtype: np.dtype) -> AnyArray:
    whole = tensors["Z"]
    typed = (whole if whole.dtype == dtype else whole.astype(dtype)).reshape(shape)
    return typed[()] if isinstance(typed, np.ndarray) else typed
