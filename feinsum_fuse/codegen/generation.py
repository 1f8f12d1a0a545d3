"""From a transformed loopy kernel of fixed sizes to an :class:`~feinsum_fuse.codegen.executable.Executable`."""

from __future__ import annotations

import contextlib
import io
import sqlite3
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import loopy as lp
import numpy as np
import pyopencl as cl
from cgen import Collection as FunctionCollection
from cgen import Generable
from loopy.check import WriteRaceConditionWarning
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.codegen.result import process_preambles
from loopy.diagnostic import LoopyError
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace, ConcurrentTag, KernelArgument, TemporaryVariable, ValueArg
from loopy.kernel.function_interface import CallableKernel
from loopy.schedule import CallKernel, EnterLoop, ReturnFromKernel, get_insn_ids_for_block_at
from loopy.schedule.tools import get_subkernel_arg_info
from loopy.symbolic import IdentityMapper
from loopy.translation_unit import TranslationUnit
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate
from pymbolic.typing import Expression
from pyopencl import cltypes
from pyopencl.compyte.dtypes import TYPE_REGISTRY
from pytools.graph import CycleError

from ..errors import LoweringError, UnsupportedTypeError
from ..number_types import BFLOAT16
from ..schedule.kernel.bfloat import BFLOAT_FUNCTIONS, ELEMENT, TYPE
from ..schedule.kernel.coalescing import aligned, vectors_in
from ..schedule.kernel.definitions import definitions
from ..schedule.kernel.intrinsics import Intrinsic, operations_of
from ..schedule.kernel.operations import BYTES_AHEAD
from ..schedule.kernel.remarks import described
from ..schedule.target import ANY_DEVICE, Target
from .arithmetic import function_of
from .executable import Argument, ArgumentRole, Executable, Launch
from .loopy_target import TreeTarget, looped
from .quirks import AGREED, AGREED_DEFINITION
from .settled_kernel import bounded, settled
from .statement_expressions import VectorCall, within
from .statements import Head, Kernel, all_statements, expressions

_HALF = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
_EXTENSIONS = {"float16": "cl_khr_fp16", "float64": "cl_khr_fp64"}

TYPE_REGISTRY.get_or_register_dtype(["half"], np.dtype(np.float16))
OPTIONS = ("-cl-mad-enable",)
"""Lets compilers contract to fused multiply-adds; looser options cost accuracy and gain nothing."""


def executable(
    t_unit: TranslationUnit,
    *,
    outputs: Collection[str] | None = None,
    options: tuple[str, ...] = OPTIONS,
    target: Target = ANY_DEVICE,
) -> Executable:
    """OpenCL C for a target, arguments and launches of a kernel whose sizes are numbers.

    ``outputs`` names the written arrays that a caller gets back (default: all written arguments);
    other written global arrays become temporaries. Raises :class:`~feinsum_fuse.errors.LoweringError`
    for sizes that are not numbers, for write races, for loops on the host, for global arrays that hold values of the kernel's own, and for
    whatever else loopy refuses.
    """
    return generated(t_unit, options=options, target=target).at({}, outputs)


@dataclass(frozen=True)
class Generated:
    """OpenCL C of a kernel some of whose sizes may be arguments; :meth:`at` gives the program for numbers."""

    unit: TranslationUnit
    """In an order of execution."""
    source: str
    options: tuple[str, ...]

    def at(self, sizes: Mapping[str, int], outputs: Collection[str] | None = None) -> Executable:
        """The program at these sizes, which it takes by value; raises as :func:`executable`."""
        kernel = self.unit.default_entrypoint
        try:
            launches = _launches(kernel, self.unit, sizes)
        except (LoopyError, isl.Error, RuntimeError) as error:
            raise LoweringError(f"loopy cannot generate code: {error}") from error
        passed = tuple(dict.fromkeys(name for launch in launches for name in launch.arguments))
        wanted = frozenset(outputs) if outputs is not None else frozenset(kernel.arg_dict) & kernel.get_written_variables()
        if missing := sorted(wanted - set(passed)):
            held = "they exist only inside the kernel" if wanted <= set(kernel.temporary_variables) | set(passed) else "no such array"
            raise LoweringError(f"cannot return {', '.join(missing)}: {held}", hint=f"Global arrays of this kernel: {', '.join(passed)}.")
        written = kernel.get_written_variables()
        order = {name: position for position, name in enumerate([a.name for a in kernel.args])}
        names = sorted(passed, key=lambda name: (order.get(name, len(order)), name))
        arguments = tuple(_argument(kernel, name, written, wanted, sizes) for name in names)
        moved = vectors_in(kernel, operations_of(self.unit))
        elements = {name: _element_type(_array(kernel, name).dtype.numpy_dtype, name)[1] or moved.get(name) for name in names}
        vectors = tuple((name, lanes) for name, lanes in elements.items() if lanes)
        return Executable(self.source, self.options, arguments, launches, vectors)


def generated(t_unit: TranslationUnit, *, options: tuple[str, ...] = OPTIONS, target: Target = ANY_DEVICE) -> Generated:
    """OpenCL C for a target; raises as :func:`executable`, but for sizes that are not numbers."""
    _refuse_initializers(t_unit)
    has_half, has_bfloat = _uses_half(t_unit), _uses_bfloat(t_unit)
    if has_half:
        t_unit = _with_half_constants(t_unit)
    try:
        # loopy prints a kernel that fails its checks; the error says enough.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore", WriteRaceConditionWarning)
            unit = looped(t_unit.copy(target=TreeTarget(described(t_unit.default_entrypoint), target.quirks)))
            try:
                linear, source = _generated(unit, target)
            except sqlite3.Error:  # loopy keeps its results in files of SQLite's; where they take no more, it works without
                with lp.CacheMode(False):
                    linear, source = _generated(unit, target)
    except CycleError as error:
        what = "its loops cannot stand in any order that keeps to its dependencies"
        raise LoweringError(f"loopy cannot generate code: {what} ({error.node})") from error
    except (LoopyError, isl.Error, RuntimeError, NotImplementedError) as error:
        raise LoweringError(f"loopy cannot generate code: {error}") from error
    _refuse_write_races(linear.default_entrypoint)
    return Generated(linear, _HALF * has_half + TYPE * has_bfloat + source, options)


def _uses_half(t_unit: TranslationUnit) -> bool:
    """Whether any array is of float16."""
    kernel = t_unit.default_entrypoint
    arrays = (*kernel.args, *kernel.temporary_variables.values())
    return any(array.dtype is not None and array.dtype.numpy_dtype == np.float16 for array in arrays)


def _uses_bfloat(t_unit: TranslationUnit) -> bool:
    """Whether any array is of bfloat16."""
    kernel = t_unit.default_entrypoint
    arrays = [array for array in (*kernel.args, *kernel.temporary_variables.values()) if array.dtype is not None]
    found = any(array.dtype.numpy_dtype.name == BFLOAT16 for array in arrays)
    if found:
        TYPE_REGISTRY.get_or_register_dtype([ELEMENT], np.dtype(BFLOAT16))
    return found


class _Constants(IdentityMapper):  # type: ignore[misc]
    def map_constant(self, expr: object) -> Expression:
        return np.float32(expr) if isinstance(expr, float | np.float16) and np.isfinite(expr) else expr


def _with_half_constants(t_unit: TranslationUnit) -> TranslationUnit:
    """The same program with constants in float32: loopy can write none in float16, nor any in an expression of float16."""
    kernel: LoopKernel = t_unit.default_entrypoint
    mapper = _Constants()
    instructions = [instruction.with_transformed_expressions(mapper) for instruction in kernel.instructions]
    rules = {name: rule.copy(expression=mapper(rule.expression)) for name, rule in kernel.substitutions.items()}
    return t_unit.with_kernel(kernel.copy(instructions=instructions, substitutions=rules))


def _refuse_initializers(t_unit: TranslationUnit) -> None:
    """loopy declares such arrays outside the device kernels, which are all that is written here."""
    for function in t_unit.callables_table.values():
        for array in function.subkernel.temporary_variables.values() if isinstance(function, CallableKernel) else ():
            if array.initializer is not None and array.address_space == AddressSpace.GLOBAL:
                raise LoweringError(
                    f"{array.name} is a global array whose values lie in the kernel (initializer)", hint=f"Make {array.name} an argument."
                )


def _generated(unit: TranslationUnit, target: Target) -> tuple[TranslationUnit, str]:
    """The kernel in an order of execution, and its OpenCL C."""
    linear = lp.linearize(bounded(lp.preprocess_program(settled(aligned(lp.expand_subst(unit), target)))))
    return linear, source_of(lp.generate_code_v2(linear), linear, target)


def _launches(kernel: LoopKernel, t_unit: TranslationUnit, sizes: Mapping[str, int]) -> tuple[Launch, ...]:
    """One launch for each device kernel between global barriers, in order of execution."""
    result = []
    depth = 0
    for position, item in enumerate(kernel.linearization or ()):
        if isinstance(item, EnterLoop) and depth == 0:
            raise LoweringError(
                f"loop {item.iname} would run on the host, around several kernels",
                hint="A global barrier cannot stand inside a sequential loop; bind or move the loop.",
            )
        if isinstance(item, CallKernel):
            depth += 1
            instructions = get_insn_ids_for_block_at(kernel.linearization, position)
            groups, items = kernel.get_grid_sizes_for_insn_ids_as_exprs(instructions, t_unit.callables_table)
            local = tuple(_number(size, item.kernel_name, sizes) for size in items) or (1,)
            counts = tuple(_number(size, item.kernel_name, sizes) for size in groups) or (1,)
            rank = max(len(local), len(counts))
            local, counts = (x + (1,) * (rank - len(x)) for x in (local, counts))
            told = get_subkernel_arg_info(kernel, item.kernel_name)
            names = tuple(told.passed_names)
            writes = tuple(name for name in names if name in told.written_names)
            result.append(Launch(item.kernel_name, tuple(a * b for a, b in zip(local, counts, strict=True)), local, names, writes))
        elif isinstance(item, ReturnFromKernel):
            depth -= 1
    return tuple(result)


def _number(expression: object, what: str, sizes: Mapping[str, int]) -> int:
    try:
        return int(evaluate(expression, sizes))
    except UnknownVariableError as error:
        raise LoweringError(f"{what}: size {expression} depends on {error}", hint="Fix all sizes with loopy.fix_parameters.") from error


def _array(kernel: LoopKernel, name: str) -> KernelArgument | TemporaryVariable:
    return kernel.arg_dict[name] if name in kernel.arg_dict else kernel.temporary_variables[name]


def _argument(kernel: LoopKernel, name: str, written: frozenset[str], outputs: frozenset[str], sizes: Mapping[str, int]) -> Argument:
    array = _array(kernel, name)
    dtype, lanes = _element_type(array.dtype.numpy_dtype, name)
    if isinstance(array, ValueArg):
        return Argument(name, dtype, (), "input", by_value=True)
    if isinstance(array, TemporaryVariable) and array.base_storage is not None:
        raise LoweringError(f"global array {name} shares the storage {array.base_storage} with others, which is not supported")
    assert isinstance(array, ArrayBase) and (not isinstance(array, TemporaryVariable) or array.address_space == AddressSpace.GLOBAL)
    shape = tuple(_number(length, f"array {name}", sizes) for length in array.shape or ())
    strides = []
    for axis, tag in enumerate(array.dim_tags or ()):
        if not isinstance(tag, FixedStrideArrayDimTag):
            raise LoweringError(f"array {name}: axis {axis} is {tag}, not a strided axis of one array")
        strides.append(_number(tag.stride, f"array {name}", sizes) * (lanes or 1))
    role: ArgumentRole = "input"
    if name in written:
        role = "output" if name in outputs else "temporary"
    if lanes:
        shape, strides = (*shape, lanes), [*strides, 1]
    argument = Argument(name, dtype, shape, role, tuple(strides))
    return Argument(name, dtype, shape, role) if argument.row_major else argument


def _element_type(dtype: np.dtype, name: str) -> tuple[str, int]:
    """The scalar type's NumPy name and the number of lanes; 0 lanes for a scalar."""
    if dtype.names is None:
        return dtype.name, 0
    if dtype not in cltypes.vec_type_to_scalar_and_count:
        raise UnsupportedTypeError(f"array {name} has element type {dtype}, which is neither a scalar nor an OpenCL vector")
    scalar = np.dtype(cltypes.vec_type_to_scalar_and_count[dtype][0])
    return scalar.name, dtype.itemsize // scalar.itemsize


def _refuse_write_races(kernel: LoopKernel) -> None:
    """loopy only warns about races; here they are errors, except over axes of one iteration, which cannot race."""
    for instruction in kernel.instructions:
        guarded = frozenset().union(*(lp.symbolic.get_dependencies(p) for p in instruction.predicates))
        for name, used in zip(instruction.assignee_var_names(), instruction.assignee_subscript_deps(), strict=True):
            array = kernel.temporary_variables.get(name)
            for iname in instruction.within_inames - used - guarded:
                tags = kernel.iname_tags_of_type(iname, ConcurrentTag)
                if not any(_shares(array, tag) for tag in tags) or kernel.get_constant_iname_length(iname) == 1:
                    continue
                raise LoweringError(f"{instruction.id}: all iterations of parallel loop {iname} write the same element of {name}")


def _shares(array: TemporaryVariable | None, tag: ConcurrentTag) -> bool:
    """Whether iterations along this hardware axis see one and the same array."""
    if array is None or array.address_space == AddressSpace.GLOBAL:
        return True
    return array.address_space == AddressSpace.LOCAL and isinstance(tag, lp.kernel.data.LocalInameTag)


_AXES_PREAMBLE = "00_declare_gid_lid"
"""loopy's own name for the macros of the device's axes."""
_FIRST_PREAMBLE = "00_agreed"
_AHEAD_PREAMBLE = "13_bytes_ahead"
_AXES = {"lid": "get_local_id", "gid": "get_group_id"}


def source_of(generated: TranslationUnitCodeGenerationResult, unit: lp.TranslationUnit, target: Target) -> str:
    """The OpenCL C of what loopy has generated of a program."""
    functions = [function for program in generated.device_programs for function in functions_of(program.ast)]
    ours = {tag for f in unit.callables_table.values() if isinstance(f, Intrinsic) for tag, _ in f.generate_preambles(unit.target)}
    preambles = [(tag, text) for tag, text in generated.device_preambles if tag not in ours and tag != _AXES_PREAMBLE]
    texts = ["".join(f"{line}\n" for line in function.generate()) for function in functions]
    return _head(functions, preambles, target) + "\n".join(texts)


def functions_of(tree: Generable) -> Iterator[Kernel | Head]:
    """The functions and their declarations in what loopy has put together."""
    if isinstance(tree, FunctionCollection):
        for part in tree.contents:
            yield from functions_of(part)
    else:
        assert isinstance(tree, Kernel | Head)
        yield tree


def _head(functions: Sequence[Kernel | Head], preambles: Sequence[tuple[str, str]], target: Target) -> str:
    """What stands before the kernels: loopy's functions, and the functions and macros that the kernels use."""
    bodies = [function.body for function in functions if isinstance(function, Kernel)]
    parts = [part for body in bodies for s in all_statements(body) for e in expressions(s) for part in within(e)]
    used = {function_of(part) for part in parts}
    texts = dict(preambles)
    for operation in {part.operation for part in parts if isinstance(part, VectorCall)}:
        texts |= definitions(operation, target.quirks)
        if target.pages_ahead and operation.called is not None and BYTES_AHEAD in operation.called.text:
            texts[_AHEAD_PREAMBLE] = f"#define {BYTES_AHEAD} {target.pages_ahead * target.page_bytes}"
    axes = [f"#define {axis}(N) ((int) {function}(N))" for axis, function in _AXES.items() if axis in used]
    texts |= {_AXES_PREAMBLE: "\n".join(axes)} if axes else {}
    texts |= {f"06_{name}": text for name, text in BFLOAT_FUNCTIONS.items() if name in used}
    texts |= {_FIRST_PREAMBLE: AGREED_DEFINITION} if AGREED in used else {}
    head: list[str] = []
    was_long = False
    for text in (text.strip("\n") for text in process_preambles(list(texts.items()))):
        is_long = "\n" in text
        head += ["", text] if head and (is_long or was_long) else [text]
        was_long = is_long
    return "".join(f"{text}\n" for text in [*head, ""]) if head else ""


def check_types(arguments: Iterable[Argument], device: cl.Device) -> None:
    """Raise :class:`~feinsum_fuse.errors.UnsupportedTypeError`, naming the tensors, for element types that a device lacks."""
    missing: dict[str, list[str]] = {}
    for argument in arguments:
        extension = _EXTENSIONS.get(argument.dtype)
        if extension is not None and extension not in device.extensions.split():
            missing.setdefault(argument.dtype, []).append(argument.name)
    for dtype, names in missing.items():
        raise UnsupportedTypeError(
            f"{device.name} ({device.platform.name.strip()}) has no {dtype}, which is the type of {', '.join(names)}",
            hint="Choose another type under opencl: dtypes, or another device.",
        )
