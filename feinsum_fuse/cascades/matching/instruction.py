"""One instruction of a kernel as an Einsum, in the kernel's own names; its loops as rank variables with extents and guards."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.library import reduction as operations
from loopy.symbolic import Reduction as LoopyReduction
from loopy.symbolic import ResolvedFunction, TypeCast
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.integer_sets import constraint_value, integer_set
from ...formats.language.reductions import ADD, NONE, SYMBOLS
from ..element_types import default_accumulator, wraps_before
from ..kernel.callables import reduction_of
from ..terms import Size, SizeParam
from .array_types import Refusal
from .instruction_map import MapReader, Operands, TypedKernel, nonnegative, real_number
from .rule import affine


def loop_box(kernel: lp.LoopKernel, outer: Collection[str], inner: Collection[str]) -> tuple[constantdict[str, Size], tuple[Affine, ...]]:
    """Extents of all inames, and what must be >= 0 for a point to be in the domain.

    Raises :class:`Refusal` if the loops over the output (``outer``) are no box that starts at 0, or a loop has no affine bounds.
    """
    sizes, guards = _box(kernel, outer)
    if guards:
        conditions = " and ".join(f"{guard} >= 0" for guard in guards)
        raise Refusal(f"the loops over its output are no box that starts at 0: {conditions}")
    if not inner:
        return sizes, ()
    every, guards = _box(kernel, {*outer, *inner}, sizes)
    shorter = {name: most for name in outer if (most := every[name]) != sizes[name]}
    if any(isinstance(most, SizeParam) or isinstance(sizes[name], SizeParam) for name, most in shorter.items()):
        raise Refusal(f"its reduction runs only for {' and '.join(f'{name} < {most}' for name, most in shorter.items())}")
    bounds = (Affine.of({name: -1}, most - 1) for name, most in shorter.items() if isinstance(most, int))
    return constantdict({name: sizes.get(name, every[name]) for name in (*outer, *inner)}), (*guards, *bounds)


def loop_extents(kernel: lp.LoopKernel, inames: Collection[str]) -> constantdict[str, Size]:
    """How many values each of some loops takes from 0 on, at most; :class:`Refusal` if one has no affine bounds, or starts below 0."""
    return _box(kernel, inames)[0]


def _box(
    kernel: lp.LoopKernel, inames: Collection[str], known: Mapping[str, Size] = constantdict()
) -> tuple[constantdict[str, Size], tuple[Affine, ...]]:
    """``known``: how many values some of the loops take at most, where the domain of all says that by way of others."""
    if not inames:
        return constantdict(), ()
    _check_loops_around(kernel, inames)
    domain = kernel.get_inames_domain(frozenset(inames)).project_out_except(sorted(inames), [isl.dim_type.set])
    if domain.is_empty():
        raise Refusal("its loops have no points")
    domain = domain.remove_redundancies()
    _check_parameters(kernel, domain)
    if domain.dim(isl.dim_type.div):
        raise Refusal("the bounds of its loops contain divisions")
    names = [domain.get_dim_name(isl.dim_type.set, k) for k in range(domain.dim(isl.dim_type.set))]
    parameters = [domain.get_dim_name(isl.dim_type.param, k) for k in range(domain.dim(isl.dim_type.param))]
    extents: dict[str, Size] = {}
    guards: list[Affine] = []
    for constraint in domain.get_constraints():
        value = constraint_value(constraint)
        loops, symbols, constant = value.restricted(names), value.restricted(parameters), value.constant
        if not loops.terms:
            continue
        alone = loops.terms[0][0] if len(loops.terms) == 1 else None
        if alone is not None and constraint.is_equality() and not symbols.terms:
            only = -constant * loops.terms[0][1]
            extents[alone] = only + 1
            guards += [Affine.of({alone: 1}, -only)] if only else []
        elif alone is not None and loops.terms[0][1] == -1 and alone not in extents:
            extents[alone] = _extent(alone, symbols, constant)
        elif symbols.terms:
            raise Refusal(f"the bounds of its loops, {constraint}, are more than one symbolic length")
        elif alone is None or constant or loops.terms[0][1] != 1:
            guards.append(Affine(loops.terms, constant))
            if constraint.is_equality():
                guards.append(Affine(tuple((v, -factor) for v, factor in loops.terms), -constant))
    whole = isl.Set.from_basic_set(domain)
    for position, name in enumerate(names):
        if name not in extents:
            most = whole.dim_max_val(position)
            if not most.is_int() and name in known:
                extents[name] = known[name]
            elif not most.is_int():
                raise Refusal(f"the loop {name} has no constant or symbolic length")
            else:
                extents[name] = int(most.to_python()) + 1
        least = whole.dim_min_val(position)
        if not least.is_int() or int(least.to_python()) < 0:
            raise Refusal(f"the loop {name} starts below 0")
    return constantdict({name: extents[name] for name in inames}), tuple(guards)


def _check_loops_around(kernel: lp.LoopKernel, inames: Collection[str]) -> None:
    """The bounds of loops depend on loops among them: others have no value there."""
    for domain in kernel.domains:
        if set(domain.get_var_names(isl.dim_type.set)) & set(inames):
            foreign = (set(domain.get_var_names(isl.dim_type.param)) & kernel.all_inames()) - set(inames)
            if foreign:
                raise Refusal(f"the bounds of its loops depend on {min(foreign)}, which is no loop around it")


def _check_parameters(kernel: lp.LoopKernel, domain: isl.BasicSet) -> None:
    """Sizes are arguments, and the loops run for all of them from 1 on that the kernel's assumptions allow."""
    parameters = domain.get_var_names(isl.dim_type.param)
    for name in parameters:
        if not isinstance(kernel.arg_dict.get(name), lp.ValueArg):
            raise Refusal(f"the bounds of its loops depend on {name}, which is no argument of the kernel but computed in it")
    sizes = integer_set((), [Affine.variable(name) - 1 for name in parameters]).params()
    needed = isl.Set.from_basic_set(domain).params()
    if not (sizes & isl.Set.from_basic_set(kernel.assumptions).params()).is_subset(needed):
        raise Refusal(f"its loops run only where {needed}; state that among the kernel's assumptions")


def _extent(name: str, symbols: Affine, constant: int) -> Size:
    if not symbols.terms:
        return constant + 1
    if symbols.bare is not None and constant == -1:
        return SizeParam(symbols.bare)
    raise Refusal(f"the loop {name} runs up to {Affine(symbols.terms, constant)}, which is neither a number nor one symbolic length")


@dataclass(frozen=True)
class Instruction:
    """An Einsum whose tensors are still arrays and rules of the kernel."""

    id: str
    array: str
    indices: tuple[Affine, ...]
    operands: Operands
    map: Expression
    reduce: str
    populate: float | None
    sizes: constantdict[str, Size]
    guards: tuple[Affine, ...]
    accumulate: str
    reduced: tuple[str, ...]
    """The inames of the reduction."""

    @property
    def lengths(self) -> tuple[Size | None, ...]:
        """Of the output's axes, over which a loop runs, or several do as digits; ``None`` of one that has another index."""
        return tuple(self.sizes.get(index.bare or "") if len(index.variables) < 2 else self._digits(index) for index in self.indices)

    def _digits(self, index: Affine) -> int:
        return prod(size for v in index.variables if isinstance(size := self.sizes[v], int))


@dataclass(frozen=True)
class RightHandSide:
    """A right-hand side taken apart."""

    map: Expression
    operation: operations.ReductionOperation | None = None
    inames: tuple[str, ...] = ()
    populate: float | None = None
    conditions: tuple[Affine, ...] = ()
    """Around everything."""
    inner: tuple[Affine, ...] = ()
    """Around the map, inside the reduction."""


def is_conditional(insn: lp.InstructionBase, source: TypedKernel) -> bool:
    """Whether the right-hand side can be read as a map that is a ``where``, and as a map behind guards."""
    if not isinstance(insn, lp.Assignment):
        return False
    value = taken_apart(insn.expression, source)
    return bool(value.conditions) if value.operation is None else _inner_guards(value, source.kernel) is not None


def read_instruction(source: TypedKernel, insn: lp.InstructionBase, written: Collection[str], guarded: bool = False) -> Instruction:
    """The Einsum of an instruction; ``written``: arrays that Einsums of the cascade write. Raises :class:`Refusal`.

    A condition around the right-hand side is a guard if there is a reduction in it; a condition around the map is one if ``guarded``, else
    a part of the map.
    """
    kernel, types = source.kernel, source.types
    array, indices = _assignee(kernel, insn)
    value = taken_apart(insn.expression, source)
    if value.operation is None and value.conditions and not guarded:
        value = RightHandSide(insn.expression)
    elif guarded and value.operation is not None:
        value = _inner_guards(value, kernel) or value
    inner = value.inames
    if set(inner) & insn.within_inames:
        raise Refusal(f"it reduces over {', '.join(sorted(set(inner) & insn.within_inames))}, which is a loop around it")
    sizes, guards = loop_box(kernel, tuple(v for index in indices for v in index.variables), inner)
    reader = MapReader(source, insn.id, (*insn.within_inames, *inner), array, written)
    expression, outermost = value.map, None
    if isinstance(expression, TypeCast):
        outermost = expression.type.numpy_dtype.name
        expression = expression.child
    map = reader.rec(expression)
    operands = reader.operands
    stored = types.array(array)
    accumulate = default_accumulator(stored) if value.operation is None else outermost or types.reduction(insn.id)
    if value.operation is not None and wraps_before(accumulate, stored):
        raise Refusal(f"it adds up in {accumulate}, which wraps, what it stores as {stored}; cast inside the reduction")
    if value.operation is None and outermost not in (None, stored):
        raise Refusal(f"it casts to {outermost} what it stores as {stored}")
    reduce, populate = _reduction(value, stored, accumulate)
    if operands.initial is not None:
        if populate not in (None, operands.initial):
            raise Refusal(f"it reads {array} with the initial value {operands.initial} and fills it with {populate}")
        populate = operands.initial
    guards = (*guards, *value.conditions, *value.inner)
    return Instruction(insn.id, array, indices, operands, map, reduce, populate, sizes, guards, accumulate, tuple(inner))


def _reduction(value: RightHandSide, stored: str, accumulate: str) -> tuple[str, float | None]:
    if value.operation is None:
        if value.populate is None:
            return ADD.name, None
        return (ADD.name, None) if value.populate == 0 else (NONE.name, value.populate)
    reduction = reduction_of(value.operation)
    if reduction is None:
        known = ", ".join(SYMBOLS)
        raise Refusal(f"it reduces by {value.operation}, not by any of {known}")
    if value.conditions and value.populate != reduction.neutral_of(stored):
        raise Refusal("it has a value where its reduction does not run that is not the reduction's neutral one")
    populate = None if value.conditions else value.populate
    return reduction.name, None if populate == reduction.neutral_of(accumulate) else populate


def _assignee(kernel: lp.LoopKernel, insn: lp.InstructionBase) -> tuple[str, tuple[Affine, ...]]:
    if not isinstance(insn, lp.Assignment):
        raise Refusal(f"it is a {type(insn).__name__}, not an assignment of one element")
    if insn.predicates:
        raise Refusal(f"it is guarded by {' and '.join(map(str, insn.predicates))}")
    if insn.atomicity:
        raise Refusal("it is atomic")
    target = insn.assignee
    array = target.aggregate.name if isinstance(target, p.Subscript) else target.name
    descriptor = kernel.get_var_descriptor(array)
    if descriptor.address_space != lp.AddressSpace.GLOBAL:
        raise Refusal(f"it writes {array}, which is not in global memory")
    if isinstance(descriptor, lp.TemporaryVariable) and descriptor.base_storage is not None:
        raise Refusal(f"it writes {array}, which shares its memory with other arrays")
    indices = tuple(affine(index, kernel) for index in (target.index_tuple if isinstance(target, p.Subscript) else ()))
    known = [index for index in indices if index is not None]
    bare = [index.bare for index in known]
    if len(known) < len(indices) or (None in bare and not _has_digits(kernel, insn, array, known)):
        hint = "Give the kernel as it is before its loops are split." if len(known) == len(indices) else ""
        raise Refusal(f"it writes {target}: the indices must be bare inames", hint)
    used = [v for index in known for v in index.variables]
    if len(set(used)) < len(used) or set(used) != insn.within_inames:
        loops = ", ".join(sorted(insn.within_inames))
        raise Refusal(f"it writes {target}: the indices must be the loops around it, each once ({loops or 'none'})")
    return array, tuple(known)


def _has_digits(kernel: lp.LoopKernel, insn: lp.InstructionBase, array: str, indices: Sequence[Affine]) -> bool:
    """Whether each index is a loop, or loops run over its axis as digits do."""
    shape, sizes = kernel.get_var_descriptor(array).shape, loop_extents(kernel, insn.within_inames)
    if not isinstance(shape, tuple) or not insn.within_inames.issuperset(v for index in indices for v in index.variables):
        return False
    return all(index.bare is not None or index.digits(sizes, length) for index, length in zip(indices, shape, strict=True))


def taken_apart(expression: Expression, source: TypedKernel) -> RightHandSide:
    """``if(conditions, populate (reduce) reduction, constant)`` and everything simpler."""
    otherwise = real_number(expression.else_) if isinstance(expression, p.If) else None
    if otherwise is not None:
        parts = expression.condition.children if isinstance(expression.condition, p.LogicalAnd) else (expression.condition,)
        conditions = tuple(nonnegative(part, source.kernel) for part in parts)
        inside = taken_apart(expression.then, source)
        inside = inside if inside.operation is not None else RightHandSide(expression.then)
        if all(condition is not None for condition in conditions) and not inside.conditions and inside.populate is None:
            known = tuple(condition for condition in conditions if condition is not None)
            return RightHandSide(inside.map, inside.operation, inside.inames, otherwise, known)
    if isinstance(expression, LoopyReduction):
        return RightHandSide(expression.expr, expression.operation, tuple(expression.inames))
    combined = _combined(expression, source)
    return combined if combined is not None else RightHandSide(expression)


def _inner_guards(value: RightHandSide, kernel: lp.LoopKernel) -> RightHandSide | None:
    """The value with ``if(conditions, map, neutral)`` inside its reduction as guards; ``None`` if its map is nothing of the kind."""
    body = value.map
    reduction = reduction_of(value.operation)
    if reduction is None or not (isinstance(body, p.If) and isinstance(body.else_, np.generic | int | float)):
        return None
    parts = body.condition.children if isinstance(body.condition, p.LogicalAnd) else (body.condition,)
    conditions = tuple(nonnegative(part, kernel) for part in parts)
    known = tuple(condition for condition in conditions if condition is not None)
    if len(known) < len(conditions) or body.else_ != reduction.neutral_of(np.asarray(body.else_).dtype.name):
        return None
    return dataclasses.replace(value, map=body.then, inner=known)


def _combined(expression: Expression, source: TypedKernel) -> RightHandSide | None:
    """A constant combined with a reduction by the reduction's own operation."""
    operator = ""
    children: tuple[Expression, ...] = ()
    if isinstance(expression, p.Sum | p.Product):
        operator, children = "+" if isinstance(expression, p.Sum) else "*", expression.children
    elif isinstance(expression, p.Call) and isinstance(expression.function, p.Variable | ResolvedFunction):
        operator, children = source.function(expression.function), expression.parameters
    reductions = [child for child in children if isinstance(child, LoopyReduction)]
    numbers = [number for child in children if (number := real_number(child)) is not None]
    if len(children) != 2 or len(reductions) != 1 or len(numbers) != 1:
        return None
    reduction = reductions[0]
    known = reduction_of(reduction.operation)
    if known is None or known.operator != operator:
        return None
    return RightHandSide(reduction.expr, reduction.operation, tuple(reduction.inames), numbers[0])
