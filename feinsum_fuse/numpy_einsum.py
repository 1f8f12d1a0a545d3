"""``ff.einsum``: NumPy's einsum, by the best schedule that is known."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from constantdict import constantdict
from numpy.typing import DTypeLike

from .archive.facts.retrieval import retrieve
from .archive.tables.address import Url
from .arguments import element_type
from .cascades.cascade import Cascade
from .cascades.reading.reader import cascade as cascade_of
from .cascades.reading.subscripts import (
    ContractionOrder,
    Subscripts,
    einsums,
    label_sizes,
    products,
    rank_sizes,
    read_arguments,
    read_subscripts,
)
from .compilation import compile
from .device.catalogue import find_device
from .device.program.arguments import as_array
from .device.program.program import Program, build
from .device.program.runner import Array
from .device.timing.outcome import KernelError
from .errors import CascadeError, ScheduleError, UnsupportedTypeError
from .formats.opencl import OpenCL
from .formats.reading.building import spec as spec_of
from .mappings.suited import suited

MOST_PROGRAMS = 256
ORDERS = ("C", "F", "A", "K")
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@dataclass(frozen=True)
class _Signature:
    """What a program is compiled for."""

    subscripts: Subscripts
    shapes: tuple[tuple[int, ...], ...]
    is_complex: tuple[bool, ...]
    dtype: str
    """The type of the real tensors."""
    logical: bool
    order: ContractionOrder
    device: int
    url: str


@dataclass
class _Programs:
    """Compiled programs, the least recently used of which is dropped; safe for threads."""

    known: OrderedDict[_Signature, Program] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, signature: _Signature) -> Program | None:
        with self.lock:
            if signature in self.known:
                self.known.move_to_end(signature)
            return self.known.get(signature)

    def put(self, signature: _Signature, program: Program) -> None:
        with self.lock:
            self.known[signature] = program
            while len(self.known) > MOST_PROGRAMS:
                self.known.popitem(last=False)


_PROGRAMS = _Programs()


def einsum(
    *arguments: object,
    out: Array | None = None,
    dtype: DTypeLike | None = None,
    order: str = "K",
    casting: str = "safe",
    optimize: object = False,
    device: cl.Device | str | None = None,
    url: Url | None = None,
) -> Array:
    """``numpy.einsum`` on an OpenCL device: ``einsum("ij,jk->ik", A, B)``, or ``einsum(A, [0, 1], B, [1, 2], [0, 2])``.

    The whole grammar: implicit outputs, repeated labels, the ellipsis, scalars, axes of length 1 that go with any length. The first call
    with given subscripts, shapes and types takes the best schedule recorded at ``url`` that applies, else the default mapping, and compiles
    and verifies it; later calls only run it.

    Operands are anything that NumPy makes arrays of, and tensors of other libraries that lie in the host's memory; of booleans, integers,
    real or complex numbers. Types combine as in NumPy. float16 is computed in float32. The result is a NumPy array, or a pyopencl array on
    the same queue if all operands are pyopencl arrays.

    ``out``, ``dtype``, ``order`` and ``casting`` mean what they mean to NumPy. ``optimize`` may be ``"greedy"``, ``"optimal"`` or a path of
    ``numpy.einsum_path``; if it is true or false, three and more operands are multiplied pairwise in the best order.
    Raises :class:`~feinsum_fuse.errors.CascadeError` for subscripts that mean nothing or do not fit the operands, and
    :class:`~feinsum_fuse.errors.UnsupportedTypeError` for other element types and for types that do not cast.
    """
    text, given = read_arguments(arguments)
    on_device = bool(given) and all(isinstance(operand, cla.Array) for operand in given)
    wanted = _Wanted(as_array("out", out), order, casting, on_device)
    operands = [cast(Array, x) if on_device else _host(k, x) for k, x in enumerate(given)]
    subscripts = read_subscripts(text, [operand.shape for operand in operands])
    sizes = label_sizes(subscripts, [operand.shape for operand in operands])
    shape = tuple(sizes[label] for label in subscripts.output)
    result_type = wanted.type_of(operands, None if dtype is None else element_type(dtype, UnsupportedTypeError), shape)
    column_major = order == "F" or (order == "A" and all(_is_column_major(operand) for operand in operands))
    if 0 in sizes.values():
        zeros = np.zeros(shape, result_type)
        empty = wanted.given(cla.to_device(cast(cla.Array, operands[0]).queue, zeros) if on_device else zeros, column_major)
        return empty if out is None else out
    chosen = cast(cla.Array, operands[0]).queue.device if on_device else device if isinstance(device, cl.Device) else find_device(device)
    real, logical = _real_type(result_type)
    operands = [_cast(operand, result_type) for operand in operands]
    subscripts, operands = _without_ones(subscripts, operands, sizes)
    is_complex = tuple(operand.dtype.kind == "c" for operand in operands)
    shapes = tuple(operand.shape for operand in operands)
    signature = _Signature(subscripts, shapes, is_complex, real, logical, _order(optimize), chosen.int_ptr, str(url or ""))
    program = _PROGRAMS.get(signature)
    if program is None:
        program = _compiled(signature, sizes, chosen, url)
        _PROGRAMS.put(signature, program)
    result = wanted.given(_result(program(_inputs(operands, np.dtype(real))), shape, result_type), column_major)
    return result if out is None else out


@dataclass(frozen=True)
class _Wanted:
    """Where a result goes and how it lies there, by NumPy's keywords."""

    out: Array | None
    order: str
    casting: str
    on_device: bool

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise CascadeError(f"einsum has no order {self.order!r}", hint=f"There are {', '.join(ORDERS)}.")
        if self.casting not in CASTINGS:
            raise CascadeError(f"einsum has no casting {self.casting!r}", hint=f"There are {', '.join(CASTINGS)}.")
        if self.on_device and self.order == "F":
            raise CascadeError("einsum has no order 'F' on a device", hint="Turn the labels of the output round.")
        if self.out is not None and not isinstance(self.out, cla.Array if self.on_device else np.ndarray):
            kind = "pyopencl" if self.on_device else "NumPy"
            raise CascadeError(f"out is a {type(self.out).__name__}, and the result is a {kind} array", hint=f"Give a {kind} array.")

    def type_of(self, operands: Sequence[Array], dtype: np.dtype | None, shape: tuple[int, ...]) -> np.dtype:
        """The type that an einsum is computed in. Raises where operands do not cast to it, or it does not cast to that of ``out``."""
        types = [operand.dtype for operand in operands]
        out = self.out
        found = np.result_type(*types, *([] if out is None else [out.dtype])) if dtype is None else dtype
        if out is not None and out.shape != shape:
            raise CascadeError(f"out has the shape {out.shape}, and the result has {shape}")
        casts = [(f"operand {k}", old, found) for k, old in enumerate(types)]
        casts += [] if out is None else [("the result", found, out.dtype)]
        for what, old, new in casts:
            if not np.can_cast(old, new, cast(Literal["safe"], self.casting)):
                hint = "Give dtype=, or casting='same_kind' or 'unsafe'."
                raise UnsupportedTypeError(f"{what} cannot be cast from {old} to {new} by the rule {self.casting!r}", hint=hint)
        return found

    def given(self, result: Array, column_major: bool) -> Array:
        """The result as the caller wants it."""
        if self.out is None:
            return np.asfortranarray(result) if column_major and isinstance(result, np.ndarray) and result.ndim > 1 else result
        typed = result.astype(self.out.dtype)
        if isinstance(self.out, cla.Array):
            self.out[...] = typed
        else:
            np.copyto(self.out, cast(np.ndarray, typed))
        return self.out


def _is_column_major(operand: Array) -> bool:
    return bool(operand.flags.f_contiguous)


def _order(optimize: object) -> ContractionOrder:
    """What ``optimize`` says about the order of contraction."""
    if isinstance(optimize, bool):
        return None
    if optimize in ("greedy", "optimal"):
        return str(optimize)
    steps = optimize[1:] if isinstance(optimize, list | tuple) and optimize[:1] in (["einsum_path"], ("einsum_path",)) else []
    if steps and all(isinstance(step, tuple) for step in steps):
        return tuple(tuple(int(position) for position in step) for step in steps)
    hint = "Give True, False, 'greedy', 'optimal', or a path of numpy.einsum_path."
    raise CascadeError(f"einsum cannot optimize by {optimize!r:.60}", hint=hint)


def _cast(operand: Array, dtype: np.dtype) -> Array:
    """An operand in the type of the result, or in that of its real part if it is real."""
    kind = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" and operand.dtype.kind != "c" else dtype
    return operand if operand.dtype == kind else operand.astype(kind)


def _host(position: int, operand: object) -> np.ndarray:
    if isinstance(operand, cla.Array):
        return cast(np.ndarray, operand.get())
    try:
        return np.asarray(as_array(f"operand {position}", operand))
    except (TypeError, ValueError) as error:
        raise CascadeError(f"operand {position} is no array: {error}") from error


def _real_type(dtype: np.dtype) -> tuple[str, bool]:
    """The type of the real tensors that stand for arrays of this one, and whether they hold truth values."""
    if dtype.kind == "b":
        return "uint8", True
    if dtype.name == "float16":
        return "float32", False
    if dtype.kind == "c" and dtype.itemsize in (8, 16):
        return f"float{dtype.itemsize * 4}", False
    if dtype.kind in "iu" or dtype.name in ("float32", "float64"):
        return dtype.name, False
    raise UnsupportedTypeError(
        f"einsum has no element type {dtype}", hint="Use booleans, integers, float16, float32, float64, complex64 or complex128."
    )


def _without_ones(subscripts: Subscripts, operands: Sequence[Array], sizes: dict[str, int]) -> tuple[Subscripts, list[Array]]:
    """Operands without the axes of length 1 whose label is longer elsewhere."""
    inputs, kept = [], []
    for labels, operand in zip(subscripts.inputs, operands, strict=True):
        stays = [axis for axis, label in enumerate(labels) if operand.shape[axis] == sizes[label]]
        inputs.append("".join(labels[axis] for axis in stays))
        kept.append(operand if len(stays) == len(labels) else operand.reshape(tuple(operand.shape[axis] for axis in stays)))
    return Subscripts(tuple(inputs), subscripts.output), kept


def cascade_for(
    subscripts: Subscripts,
    sizes: dict[str, int],
    is_complex: Sequence[bool],
    dtype: str,
    *,
    logical: bool = False,
    order: ContractionOrder = None,
) -> Cascade:
    """The cascade of an einsum: inputs ``A0``, ``A1``, ..., imaginary parts ``A0i``, ..., result ``Z`` (and ``Zi``)."""
    steps = products(subscripts, sizes, is_complex, order)
    return cascade_of(list(einsums(steps, logical=logical)), sizes=rank_sizes(steps, sizes), dtypes={"All": dtype})


def _compiled(signature: _Signature, sizes: dict[str, int], device: cl.Device, url: Url | None) -> Program:
    cascade = cascade_for(
        signature.subscripts, sizes, signature.is_complex, signature.dtype, logical=signature.logical, order=signature.order
    )
    # What is measured without a mapping is recorded as it was rewritten before.
    for form in dict.fromkeys((cascade, suited(cascade))):
        fact = retrieve(form, device, url)
        if fact.schedule is not None:
            # What worked where it was recorded need not work here; the default does not depend on it.
            with suppress(KernelError, ScheduleError):
                return build(form, fact.schedule, device)
    return compile(spec_of(cascade, opencl=_types(cascade)), device)


def _types(cascade: Cascade) -> OpenCL:
    return OpenCL(
        dtypes=constantdict({name: tensor.dtype for name, tensor in cascade.tensors.items()}),
        accumulate=constantdict({e.output.tensor: e.accumulate for e in cascade.einsums}),
    )


def _inputs(operands: Sequence[Array], dtype: np.dtype) -> dict[str, Array]:
    """The real tensors: row-major, of one type, with at least one axis."""
    result: dict[str, Array] = {}
    for k, operand in enumerate(operands):
        parts = {f"A{k}": operand.real, f"A{k}i": operand.imag} if operand.dtype.kind == "c" else {f"A{k}": operand}
        for name, part in parts.items():
            plain = part.astype(dtype) if part.dtype != dtype else part
            plain = np.ascontiguousarray(plain) if isinstance(plain, np.ndarray) else plain
            result[name] = plain if plain.shape else plain.reshape(1)
    return result


def _result(parts: dict[str, Array], shape: tuple[int, ...], dtype: np.dtype) -> Array:
    whole = parts["Z"] + 1j * parts["Zi"] if "Zi" in parts else parts["Z"]
    typed = (whole if whole.dtype == dtype else whole.astype(dtype)).reshape(shape)
    return typed[()] if isinstance(typed, np.ndarray) else typed
