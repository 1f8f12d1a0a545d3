"""Trees of generated code: those of whole programs, and small ones from text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product

import loopy as lp
import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict
from pymbolic import parse
from pymbolic.typing import Expression

from feinsum_fuse.codegen.generation import functions_of, source_of
from feinsum_fuse.codegen.loopy_target import TreeTarget, looped
from feinsum_fuse.codegen.statement_expressions import Rewriter, VectorCall
from feinsum_fuse.codegen.statements import Assignment, CStatement, Declaration, ExpressionStatement, Head, Kernel, Parameter, Variable
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.schedule.kernel.operations import C_TYPES, LANES, Extent, VectorOperation, Verb
from feinsum_fuse.schedule.kernel.remarks import described
from feinsum_fuse.schedule.target import ANY_DEVICE, Quirks


def program_of(t_unit: lp.TranslationUnit, quirks: Quirks = ANY_DEVICE.quirks) -> tuple[list[Kernel], str]:
    """The kernels of a program as trees, and its text."""
    unit = looped(t_unit.copy(target=TreeTarget(described(t_unit.default_entrypoint), quirks)))
    generated = lp.generate_code_v2(unit)
    target = dataclasses.replace(ANY_DEVICE, quirks=quirks)
    functions = [function for program in generated.device_programs for function in functions_of(program.ast)]
    return [function for function in functions if isinstance(function, Kernel)], source_of(generated, unit, target)


def kernels_of(t_unit: lp.TranslationUnit) -> list[Kernel]:
    """The kernels of a program as trees."""
    return program_of(t_unit)[0]


def _operations() -> Iterator[VectorOperation]:
    """Operations that texts of tests may call."""
    for element, lanes in product(C_TYPES.values(), LANES):
        yield from (VectorOperation(verb, element, lanes) for verb in (Verb.CONVERT, Verb.IOTA, Verb.DIVIDE))
        yield from (VectorOperation(Verb.FUNCTION, element, lanes, function=name) for name in FUNCTIONS)
        yield from (VectorOperation(verb, element, lanes, comparison=">=") for verb in (Verb.INDEX, Verb.WHERE))
        for verb, extent, space in product((Verb.LOAD, Verb.STORE), Extent, ("global", "local", "private")):
            yield VectorOperation(verb, element, lanes, spaces=(space,), extent=extent)


_OPERATIONS = {operation.name: operation for operation in _operations()}


class _Typed(Rewriter):
    """Numbers with a point are floats of C, calls of functions on vectors are such."""

    def rec(self, expr: Expression) -> Expression:
        return np.float32(expr) if isinstance(expr, float) else super().rec(expr)

    __call__ = rec_arith = rec

    def map_subscript(self, expr: p.Subscript) -> Expression:
        (index,) = expr.index_tuple
        return p.Subscript(expr.aggregate, self.rec(index))

    def map_call(self, expr: p.Call) -> Expression:
        name = expr.function.name
        parameters = tuple(map(self.rec, expr.parameters))
        operation = _OPERATIONS.get(name)
        return p.Call(expr.function, parameters) if operation is None else VectorCall(operation, parameters)


def expression(text: str) -> Expression:
    """An expression from its text; a choice is written as in Python."""
    return _Typed().rec(parse(text))


def assignment(text: str) -> CStatement:
    """``target = value``, or a call."""
    target, equals, value = text.partition(" = ")
    return Assignment(expression(target), expression(value)) if equals else ExpressionStatement(expression(text))


def kernel(*body: str | CStatement, group: tuple[int, ...] | None = None) -> Kernel:
    """A kernel of these statements, with arrays A and B of ``float`` in global memory."""
    statements = tuple(assignment(part) if isinstance(part, str) else part for part in body)
    arrays = tuple(Parameter(name, "float", True, False) for name in "AB")
    variables = {name: Variable("float", "f", "global") for name in "AB"} | {name: Variable("float8", "V", "private") for name in "cde"}
    return Kernel(Head("f", arrays, group), statements, constantdict(variables))


def lines(tree: Kernel) -> list[str]:
    """The lines of a kernel's body, without those that are blank."""
    return [line.strip() for statement in tree.body for line in statement.generate() if line.strip()]


def constant(name: str, value: str, kind: str = "int") -> Declaration:
    """``kind const name = value;``."""
    return Declaration(kind, name, value=expression(value))
