"""What a substitution rule reads: an element of an array, or a value that the caller's kernel computes on the way in."""

from __future__ import annotations

from dataclasses import dataclass

import loopy as lp
from loopy.symbolic import SubstitutionMapper, SubstitutionRuleExpander, get_dependencies, get_reduction_inames
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...formats.affine import Affine, read_affine
from .array_types import Types
from .refusal import Refusal


@dataclass(frozen=True)
class Element:
    """An element of an array at affine indices over inames."""

    array: str
    indices: tuple[Affine, ...]


@dataclass(frozen=True)
class Computed:
    """A value that a rule computes: an operand that no array holds (the ``rho`` of the definition of batched einsums).

    ``body`` is an expression over arrays, in which :func:`argument` stands for the rule's arguments.
    """

    rule: str
    arguments: tuple[str, ...]
    """The inames that the rule is called with."""
    body: Expression
    dtype: str

    @property
    def indices(self) -> tuple[Affine, ...]:
        """The arguments as index expressions."""
        return tuple(map(Affine.variable, self.arguments))


def argument(position: int) -> p.Variable:
    """What stands for the ``position``-th argument of a rule."""
    return var(f"%{position}")


def called_rule(kernel: lp.LoopKernel, call: p.Call, types: Types, insn: str) -> Element | Computed:
    """What a call of a substitution rule with bare inames reads; :class:`Refusal` for other arguments, other loops, and reductions."""
    rule = call.function.name
    arguments = []
    for value in call.parameters:
        if not isinstance(value, p.Variable):
            raise Refusal(f"the rule {rule} is called with {value}; its arguments must be bare inames")
        arguments.append(value.name)
    expanded = SubstitutionRuleExpander(kernel.substitutions)(call)
    found = element(expanded, kernel)
    if found is not None:
        return found
    if get_reduction_inames(expanded):
        raise Refusal(f"the rule {rule} holds a reduction; each is an instruction of its own")
    if len(set(arguments)) < len(arguments):
        raise Refusal(f"the rule {rule} computes a value and is called with the same iname twice")
    captured = sorted((get_dependencies(expanded) & kernel.all_inames()) - set(arguments))
    if captured:
        raise Refusal(f"the rule {rule} computes with the loop {captured[0]}, which is not among its arguments")
    places = {name: argument(k) for k, name in enumerate(arguments)}
    body = SubstitutionMapper(lambda leaf: places.get(leaf.name) if isinstance(leaf, p.Variable) else None)(expanded)
    return Computed(rule, tuple(arguments), body, types.call(insn, call))


def element(expression: Expression, kernel: lp.LoopKernel) -> Element | None:
    """The element of an array that an expression is; ``None`` if it is anything else."""
    arrays = {*kernel.temporary_variables, *(name for name, arg in kernel.arg_dict.items() if isinstance(arg, lp.ArrayArg))}
    if isinstance(expression, p.Variable) and expression.name in arrays:
        return Element(expression.name, ())
    if not (isinstance(expression, p.Subscript) and isinstance(expression.aggregate, p.Variable)):
        return None
    indices = tuple(affine(index, kernel) for index in expression.index_tuple)
    if any(index is None for index in indices):
        return None
    return Element(expression.aggregate.name, tuple(index for index in indices if index is not None))


def affine(expression: Expression, kernel: lp.LoopKernel) -> Affine | None:
    """An expression over inames as an affine one; ``None`` if it is not."""
    found = read_affine(expression)
    return found if found is not None and kernel.all_inames().issuperset(found.variables) else None


def arrays_in(expression: Expression, kernel: lp.LoopKernel) -> frozenset[str]:
    """The arrays that an expression reads."""
    return frozenset(get_dependencies(expression) & {*kernel.temporary_variables, *kernel.arg_dict})
