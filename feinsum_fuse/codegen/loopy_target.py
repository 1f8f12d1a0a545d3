"""OpenCL as a target of loopy whose syntax tree is made of values: :mod:`.statements` with pymbolic expressions in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import cast

import cgen
import islpy as isl
import loopy as lp
import numpy as np
import pymbolic.primitives as p
from cgen import Generable
from constantdict import constantdict
from loopy.codegen import CodeGenerationState
from loopy.codegen.result import CodeGenerationResult
from loopy.diagnostic import LoopyError
from loopy.isl_helpers import make_slab
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, get_access_info
from loopy.kernel.data import AddressSpace, ArrayArg, TemporaryVariable, UnrollTag, ValueArg
from loopy.kernel.function_interface import ScalarCallable
from loopy.kernel.instruction import Assignment as LoopyAssignment
from loopy.kernel.instruction import BarrierInstruction, InstructionBase, NoOpInstruction
from loopy.schedule import CallKernel, get_insn_ids_for_block_at
from loopy.schedule.tools import (
    get_subkernel_arg_info,
    supporting_temporary_names,
    temporaries_read_in_subkernel,
    temporaries_written_in_subkernel,
)
from loopy.symbolic import Literal, get_dependencies, pw_aff_to_expr
from loopy.target import DummyHostASTBuilder
from loopy.target.c import CExpression
from loopy.target.opencl import OpenCLCallable
from loopy.target.pyopencl import ExpressionToPyOpenCLCExpressionMapper, PyOpenCLCASTBuilder, PyOpenCLTarget
from loopy.types import LoopyType, NumpyType
from pymbolic.mapper.evaluator import evaluate
from pymbolic.typing import Expression
from pytools.tag import UniqueTag, tag_dataclass

from ..cascades.kernel.callables import MapFunction
from ..formats.language.functions import IN_KERNELS
from ..number_types import BFLOAT16
from ..schedule.kernel.bfloat import ELEMENT, is_value, stored_as, value_of
from ..schedule.kernel.intrinsics import Intrinsic
from ..schedule.kernel.operations import Verb
from ..schedule.kernel.remarks import Description
from ..schedule.kernel.tagging import NormalFormTag
from ..schedule.target import Quirks
from .arithmetic import both, conjuncts, in_order, place_of
from .legibility import legible
from .quirks import avoiding
from .settled_kernel import SettledKernel
from .statement_expressions import Cast, VectorCall
from .statements import (
    Assignment,
    Barrier,
    Comment,
    Compound,
    Conditional,
    CStatement,
    Declaration,
    ExpressionStatement,
    Foreign,
    Head,
    Iterations,
    Kernel,
    Loop,
    Parameter,
    Scope,
    Variable,
    VariableMemory,
    all_statements,
    flat,
)

_MEMORIES: dict[AddressSpace, VariableMemory] = {
    AddressSpace.GLOBAL: "global",
    AddressSpace.LOCAL: "local",
    AddressSpace.PRIVATE: "private",
}


@tag_dataclass
class UnrolledTag(UniqueTag):  # type: ignore[misc]
    """On a loop that is sequential for loopy and is written out afterwards."""


@cache
def release() -> str:
    """A digest of the code by which kernels are generated. loopy keeps what that makes on disk, for longer than the code may last."""
    digest = sha256()
    for package in ("codegen", "schedule"):
        for path in sorted((Path(__file__).parent.parent / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


class TreeTarget(PyOpenCLTarget):  # type: ignore[misc]
    """PyOpenCL's target, with a tree of values for each device kernel and no host code.

    ``description``: what there is to say of the kernel's loops. ``quirks``: what the device gets wrong.
    """

    hash_fields = (*PyOpenCLTarget.hash_fields, "key")
    comparison_fields = (*PyOpenCLTarget.comparison_fields, "key")

    def __init__(self, description: Description, quirks: Quirks) -> None:
        super().__init__()
        self.description = description
        self.quirks = quirks
        self.key = f"{release()} {description} {quirks}"

    def get_host_ast_builder(self) -> HostBuilder:
        return HostBuilder(self)

    def get_device_ast_builder(self) -> TreeBuilder:
        return TreeBuilder(self)


def looped(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """The program with loops where loopy would write every iteration out; as it is if there is something in it that is not looked into."""
    kernels = [function.subkernel for function in t_unit.callables_table.values() if isinstance(function, lp.CallableKernel)]
    if len(kernels) > 1 or not _is_plain(kernels[0]):
        return t_unit
    inames = {
        name: iname.copy(tags=frozenset(UnrolledTag() if isinstance(tag, UnrollTag) else tag for tag in iname.tags))
        for name, iname in kernels[0].inames.items()
    }
    # loopy hashes kernels again and again; the tree that this one is written from is not asked for any more.
    tags = frozenset(tag for tag in kernels[0].tags if not isinstance(tag, NormalFormTag))
    return t_unit.with_kernel(kernels[0].copy(inames=inames, tags=tags))


def _is_plain(kernel: LoopKernel) -> bool:
    """Whether all that a kernel does is understood."""
    known = (LoopyAssignment, BarrierInstruction, NoOpInstruction)
    return all(isinstance(i, known) and not getattr(i, "atomicity", ()) for i in kernel.instructions) and not any(
        array.base_storage or array.initializer is not None for array in kernel.temporary_variables.values()
    )


class HostBuilder(DummyHostASTBuilder):  # type: ignore[misc]
    """Makes no host code, for kernels one after another."""

    can_implement_conditionals = True


class ExpressionMapper(ExpressionToPyOpenCLCExpressionMapper):  # type: ignore[misc]
    """From loopy's expressions to those of OpenCL C, in which numbers keep their types; bfloat16 is read as float."""

    def wrap_in_typecast(self, actual_type: LoopyType, needed_type: LoopyType, s: Expression) -> Expression:
        if is_bfloat(needed_type):
            return s if is_bfloat(actual_type) else value_of(stored_as(s))
        if is_bfloat(actual_type) and needed_type == NumpyType(np.float32):
            return s
        if not isinstance(needed_type, NumpyType) or needed_type.is_complex() or actual_type == needed_type:
            return super().wrap_in_typecast(actual_type, needed_type, s)
        if needed_type.numpy_dtype.kind == "b" and actual_type.numpy_dtype.kind == "f":
            return p.Comparison(s, "!=", 0)
        found, kind = needed_type.numpy_dtype, actual_type.numpy_dtype.kind
        if kind == "f" and found.kind in "iu" and found.itemsize < np.dtype(np.int32).itemsize:
            s = Cast("int", "i", s)  # what there is no room for is cut to its bits: left to the compiler otherwise
        return Cast(self.kernel.target.dtype_to_typename(needed_type), found.kind, s)

    def map_constant(self, expr: object, type_context: str | None) -> Expression:
        found = super().map_constant(expr, type_context)
        if not isinstance(found, Literal):
            return cast(Expression, found)
        if isinstance(expr, np.generic):
            is_plain = isinstance(expr, np.integer) and np.iinfo(expr).min < 0 and np.iinfo(expr).bits <= 32
            return int(expr) if is_plain else expr
        value = cast(float, expr)
        return np.float32(value) if type_context == "f" and abs(value) <= np.finfo(np.float32).max else np.float64(value)

    def map_subscript(self, expr: p.Subscript, type_context: str | None) -> Expression:
        kernel, state = self.kernel, self.codegen_state
        array = self.find_array(expr) if type(expr.aggregate) is p.Variable else None
        if not isinstance(array, ArrayArg | TemporaryVariable) or not isinstance(kernel, SettledKernel):
            element = super().map_subscript(expr, type_context)
            return value_of(element) if array is not None and is_bfloat(array.dtype) else element
        index = tuple(map(kernel.shortest, expr.index_tuple))
        access = get_access_info(kernel, array, index, lambda e: evaluate(e, state.var_subst_map), state.vectorization_info)
        if len(access.subscripts) != 1 or access.vector_index is not None:
            assert not is_bfloat(array.dtype)
            return super().map_subscript(expr, type_context)
        (subscript,) = access.subscripts
        element = self.make_subscript(array, p.Variable(access.array_name), kernel.shortest(self.rec_arith(subscript, "i")))
        return value_of(element) if is_bfloat(array.dtype) else element

    def map_variable(self, expr: p.Variable, type_context: str | None) -> Expression:
        found = super().map_variable(expr, type_context)
        held = self.kernel.arg_dict.get(expr.name, self.kernel.temporary_variables.get(expr.name))
        return value_of(found) if held is not None and is_bfloat(held.dtype) else found

    def map_sum(self, expr: p.Sum, type_context: str | None) -> Expression:
        return _flattened(super().map_sum(expr, type_context))

    def map_product(self, expr: p.Product, type_context: str | None) -> Expression:
        return _flattened(super().map_product(expr, type_context))

    def map_quotient(self, expr: p.Quotient, type_context: str | None) -> Expression:
        if not self.allow_complex and type_context in {"f", "d"}:
            dtypes = [self.infer_type(side) for side in (expr.numerator, expr.denominator)]
            if all(dtype.numpy_dtype.kind not in "fc" for dtype in dtypes):
                name = {"f": "float", "d": "double"}[type_context]
                return p.Quotient(*(Cast(name, "f", self.rec(side, type_context)) for side in (expr.numerator, expr.denominator)))
        return super().map_quotient(expr, type_context)

    def map_call(self, expr: p.Call, type_context: str | None) -> Expression:
        result = super().map_call(expr, type_context)
        function = self.codegen_state.callables_table[expr.function.name]
        if isinstance(function, Intrinsic):
            call = VectorCall(function.operation, result.parameters)
            return value_of(call) if function.operation.element == ELEMENT and function.operation.verb is Verb.LANE else call
        return result


def is_bfloat(dtype: LoopyType) -> bool:
    """Whether a type is bfloat16."""
    return isinstance(dtype, NumpyType) and dtype.numpy_dtype.name == BFLOAT16


def _flattened(value: Expression) -> Expression:
    """Sums of sums and products of products in one: C evaluates from left to right what is written without brackets."""
    kind = type(value)
    if not isinstance(value, p.Sum | p.Product) or not any(isinstance(child, kind) for child in value.children):
        return value
    parts: list[Expression] = []
    for child in value.children:
        parts += child.children if isinstance(child, kind) else (child,)
    return kind(tuple(parts))


class TreeBuilder(PyOpenCLCASTBuilder):  # type: ignore[misc]
    """Makes the statements of :mod:`.statements`."""

    @property
    def known_callables(self) -> dict[str, ScalarCallable]:
        """loopy's functions, but ours for OpenCL's own (``rsqrt``).

        The types that loopy makes for those equal their arguments' and are other objects; it multiplies two vectors and a scalar only
        where the vectors have the same one. Those with a name of their own for integers (``min``, ``max``) stay loopy's: loop ends are made
        of them.
        """
        found = super().known_callables
        taken = [name for name, function in IN_KERNELS.items() if not function.opencl_integers]
        return {**found, **{name: MapFunction(name) for name in taken if isinstance(found.get(name), OpenCLCallable)}}

    def get_expression_to_c_expression_mapper(self, codegen_state: CodeGenerationState) -> ExpressionMapper:
        return ExpressionMapper(codegen_state)

    @property
    def ast_block_class(self) -> type[Compound]:
        return Compound

    @property
    def ast_block_scope_class(self) -> type[Scope]:
        return Scope

    def emit_assignment(self, codegen_state: CodeGenerationState, insn: InstructionBase) -> CStatement:
        found = super().emit_assignment(codegen_state, insn)
        if isinstance(found, cgen.Assign) and isinstance(found.lvalue, CExpression) and isinstance(found.rvalue, CExpression):
            target, value = found.lvalue.expr, found.rvalue.expr
            if isinstance(value, VectorCall) and value.operation.changes_first:
                return ExpressionStatement(value)
            return Assignment(target.parameters[0], stored_as(value)) if is_value(target) else Assignment(target, value)
        return Foreign(found)

    def emit_sequential_loop(
        self,
        codegen_state: CodeGenerationState,
        iname: str,
        iname_dtype: LoopyType,
        lbound: Expression,
        ubound: Expression,
        inner: Generable,
        hints: Sequence[Generable],
    ) -> Generable:
        mapper = codegen_state.expression_to_code_mapper
        kind = self.target.dtype_to_typename(iname_dtype)
        first, last = mapper(lbound, type_context="i").expr, mapper(ubound, type_context="i").expr
        if codegen_state.kernel.iname_tags_of_type(iname, UnrolledTag):
            return _unrolled(codegen_state, Loop(kind, iname, first, last, flat(inner), unrolled=True))
        remark = self.target.description.remarks.get(iname, "")
        loop = Loop(kind, iname, first, last, flat(inner), remark, up_to_last=self.target.quirks.chosen_ends)
        return Compound([*hints, loop]) if hints else loop

    def emit_initializer(
        self, codegen_state: CodeGenerationState, dtype: LoopyType, name: str, val_str: CExpression, is_const: bool
    ) -> CStatement:
        assert is_const
        return Declaration(self.target.dtype_to_typename(dtype), name, value=val_str.expr)

    def emit_blank_line(self) -> Compound:
        return Compound()

    def emit_comment(self, s: str) -> Comment:
        return Comment(s)

    def emit_noop_with_comment(self, s: str) -> Comment:
        return Comment(s)

    def emit_if(self, condition_str: CExpression, ast: Generable) -> Conditional:
        # loopy's conditions and their terms come out of sets, in another order in another process.
        conditions = sorted(map(_with_terms_in_order, conjuncts(condition_str.expr, p.LogicalAnd)), key=place_of)
        return Conditional(both(conditions), flat(ast))

    def emit_barrier(self, synchronization_kind: str, mem_kind: str, comment: str) -> Barrier:
        # Refuses what OpenCL lacks.
        super().emit_barrier(synchronization_kind, mem_kind, comment)
        return Barrier((mem_kind,))

    def get_temporary_decls(self, codegen_state: CodeGenerationState, schedule_index: int) -> list[Generable]:
        kernel = codegen_state.kernel
        name = kernel.linearization[schedule_index].kernel_name
        used = temporaries_read_in_subkernel(kernel, name) | temporaries_written_in_subkernel(kernel, name)
        arrays = [kernel.temporary_variables[n] for n in used | supporting_temporary_names(kernel, used)]
        if any(array.base_storage or array.initializer is not None for array in arrays):
            return [part for part in super().get_temporary_decls(codegen_state, schedule_index) if not isinstance(part, cgen.Line)]
        arrays = [array for array in arrays if array.address_space != AddressSpace.GLOBAL]
        return [_declaration(self.target, array) for array in sorted(arrays, key=lambda array: array.name)]

    def get_function_declaration(
        self, codegen_state: CodeGenerationState, codegen_result: CodeGenerationResult[Generable], schedule_index: int
    ) -> tuple[Sequence[tuple[str, str]], Head]:
        kernel = codegen_state.kernel
        name = codegen_result.current_program(codegen_state).name
        if not codegen_state.is_entrypoint:
            written = kernel.get_written_variables()
            return [], Head(name, tuple(_argument(kernel, a.name, written) for a in kernel.args), is_kernel=False)
        assert isinstance(kernel.linearization[schedule_index], CallKernel)
        passed = get_subkernel_arg_info(kernel, kernel.linearization[schedule_index].kernel_name)
        instructions = get_insn_ids_for_block_at(kernel.linearization, schedule_index)
        groups, sizes = kernel.get_grid_sizes_for_insn_ids_as_exprs(instructions, codegen_state.callables_table)
        group = None if get_dependencies(sizes) else (*sizes, 1, 1, 1)[:3]
        counts = tuple(None if get_dependencies(count) else count for count in (*groups, 1, 1, 1)[:3])
        return [], Head(name, tuple(_argument(kernel, n, passed.written_names) for n in passed.passed_names), group, counts)

    def get_function_definition(
        self,
        codegen_state: CodeGenerationState,
        codegen_result: CodeGenerationResult[Generable],
        schedule_index: int,
        function_decl: Generable,
        function_body: Generable,
    ) -> Kernel:
        assert isinstance(function_decl, Head) and isinstance(function_body, Compound)
        return Kernel(_exchanging(function_decl, function_body.contents), tuple(function_body.contents), _variables(codegen_state.kernel))

    def process_ast(self, node: Generable) -> Generable:
        # What loopy calls the body is nothing that anybody reads, and is not kept.
        if not isinstance(node, Kernel):
            return Compound()
        return avoiding(legible(node, self.target.description), self.target.quirks)


def _with_terms_in_order(condition: Expression) -> Expression:
    """A comparison of sums with the terms of each sorted."""
    if not isinstance(condition, p.Comparison):
        return condition
    return p.Comparison(in_order(condition.left), condition.operator, in_order(condition.right))


def _exchanging(head: Head, body: Sequence[CStatement]) -> Head:
    """The head with what work-items exchange in global memory, which is what one of them may write in a kernel that fences it."""
    if not any(isinstance(s, Barrier) and "global" in s.memories for s in all_statements(body)):
        return head
    return replace(head, arguments=tuple(replace(a, is_exchanged=a.is_array and a.is_written) for a in head.arguments))


def _argument(kernel: LoopKernel, name: str, written: frozenset[str]) -> Parameter:
    found = kernel.get_var_descriptor(name)
    is_array = not isinstance(found, ValueArg)
    return Parameter(name, kernel.target.dtype_to_typename(found.dtype), is_array, name in written)


def _declaration(target: PyOpenCLTarget, array: TemporaryVariable) -> Declaration:
    shape = tuple(array.storage_shape or array.shape)
    longer = tuple(length for length in shape if length != 1)
    size = None if not shape else 1 if not longer else longer[0] if len(longer) == 1 else p.Product(longer)
    memory = _MEMORIES[array.address_space]
    return Declaration(target.dtype_to_typename(array.dtype), array.name, size, memory=memory, alignment=array.alignment or 0)


def _variables(kernel: LoopKernel) -> constantdict[str, Variable]:
    """What a kernel knows of its arrays and numbers."""
    found: dict[str, Variable] = {}
    for array in (*kernel.args, *kernel.temporary_variables.values()):
        memory = _MEMORIES[array.address_space] if isinstance(array, ArrayBase) else "private"
        kind = array.dtype.numpy_dtype.kind if isinstance(array.dtype, NumpyType) else "V"
        found[array.name] = Variable(kernel.target.dtype_to_typename(array.dtype), kind, memory)
    return constantdict(found)


def _unrolled(state: CodeGenerationState, loop: Loop) -> CStatement:
    """A loop with numbers for bounds, and with the conditions under which an iteration runs if those are not exact."""
    if isinstance(loop.first, int) and isinstance(loop.last, int):
        return loop
    kernel, name = state.kernel, loop.name
    bounds = kernel.get_iname_bounds(name, constants_only=True)
    first, last = (pw_aff_to_expr(bound) for bound in (bounds.lower_bound_pw_aff, bounds.upper_bound_pw_aff))
    if not isinstance(first, int) or not isinstance(last, int):
        raise LoopyError(f"loop {name} cannot be unrolled: its bounds are no numbers")
    around = frozenset(state.implemented_domain.get_var_names(isl.dim_type.set))
    domain = kernel.get_inames_domain(name).to_set().remove_redundancies()
    for axis, variable in enumerate(domain.get_var_names(isl.dim_type.set)):
        # Not by loopy's cache: to it, sets that differ in their variables' names alone are the same.
        if variable not in around and variable != name:
            domain = domain.eliminate(isl.dim_type.set, axis, 1)
    domain = domain.remove_divs()
    slab = make_slab(kernel.get_inames_domain(name).space, name, first, last + 1)
    domain, implemented = isl.align_two(domain, state.intersect(slab.to_set()).implemented_domain)
    mapper = state.expression_to_code_mapper
    bounds = Iterations(domain, implemented, lambda e: mapper.rec(e, "i"))
    return Loop(loop.type, name, first, last, loop.body, unrolled=True, bounds=bounds)
