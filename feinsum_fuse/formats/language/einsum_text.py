"""Texts in a workload that denote arithmetic: index expressions, right-hand sides of Einsums, and whole Einsums in one line."""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from constantdict import constantdict
from pymbolic.primitives import Call, Comparison, LogicalAnd, LogicalNot, LogicalOr, Power, Product, Quotient, Sum, Variable

from ...errors import SpecError
from ..affine import Affine, read_affine
from ..workload import Operation, WorkloadEinsum, operand_name
from .caps import MAX_BITS, shortened
from .expressions import MAX_EXPRESSION, nearest, parse_expression
from .functions import FUNCTIONS
from .reductions import ADD, SYMBOLS

if TYPE_CHECKING:
    from pymbolic.typing import Expression

SOFTMAX = "softmax"
NO_RANK = "Tensors have at least one rank; a single number is a tensor of one element, such as y[o] with O = 1."
MAP_CONSTANTS = {"inf": math.inf, "pi": math.pi}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
"""A tensor's name; the parts that a softmax expands to have names such as ``SM.max``."""
RANK_VARIABLE = re.compile(r"[a-z$@#][A-Za-z0-9_]*")
RANK = re.compile(r"[A-Z][A-Za-z0-9_]*")
_SETS = ("All", "Tensors", "Nothing", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent", "Other")
_WORDS = frozenset(keyword.kwlist)
"""What expressions are read with gives these a meaning of their own."""
_ISL = (
    "EXISTS", "IMPLIES", "NOT", "MIN", "MAX", "MOD", "FLOOR", "FLOORD", "CEIL", "CEILD", "INFTY", "INFINITY", "NAN", "RAT", "TRUE", "FALSE",
)  # fmt: skip
"""ISL reads these as words of its own, so no iteration space can be written in them."""
_RESERVED = frozenset(("EQ", "NE", "LT", "GT", "LE", "GE", "NG", "NL", "AND", "OR", *_ISL))


def check_rank(name: str) -> None:
    """:class:`SpecError` unless the name can be a rank's."""
    if not RANK.fullmatch(name):
        hint = f"Ranks begin with an uppercase letter: write {name[:1].upper()}{name[1:]}." if name[:1].islower() else ""
        raise SpecError(f"{name!r} cannot be the name of a rank.", hint=hint)


def check_rank_variable(name: str) -> None:
    """:class:`SpecError` unless the name can be a rank variable's."""
    if name in _WORDS:
        raise _taken(name, "a rank variable")
    if name.upper() in _RESERVED:
        raise SpecError(f"{name!r} cannot be a rank variable: the name is reserved.")
    if not RANK_VARIABLE.fullmatch(name):
        hint = f"Rank variables begin with a lowercase letter: write {name[:1].lower()}{name[1:]}." if name[:1].isupper() else ""
        raise SpecError(f"{name!r} cannot be a rank variable.", hint=hint)


def check_tensor(name: str) -> None:
    """:class:`SpecError` unless the name can be a tensor's, which set expressions must be able to write."""
    if name in _WORDS:
        raise _taken(name, "a tensor")
    if not NAME.fullmatch(name) or name in _SETS:
        hint = "Use letters, digits and underscores, and no word of set expressions."
        raise SpecError(f"{name!r} cannot be the name of a tensor.", hint=hint)


def _taken(name: str, what: str) -> SpecError:
    hint = f"Give it another name, for example {name}_ or {name}0."
    return SpecError(f"{name!r} cannot be the name of {what}: it is a word of the language that expressions are read in.", hint=hint)


def _check_words(text: str) -> None:
    """:class:`SpecError` that names the word where a tensor or an index has the name of one."""
    for found in re.finditer(r"[A-Za-z_]\w*", text):
        name = found[0]
        if name in _WORDS:
            before, behind = text[: found.start()], text[found.end() :].lstrip()
            if before.count("[") > before.count("]"):
                raise _taken(name, "a rank or a rank variable")
            if behind.startswith("["):
                raise _taken(name, "a tensor")


def parse_affine(text: str) -> Affine:
    """An index expression such as ``2*p + r - 1``; :class:`SpecError` if it is not affine in rank variables."""
    for name in re.findall(r"[A-Za-z_]\w*", text[:MAX_EXPRESSION]):
        if name in _WORDS:
            raise _taken(name, "a rank variable")
    return _affine(parse_expression(text), text)


def _affine(node: ast.expr, text: str) -> Affine:
    found = read_affine(_index(node, text))
    if found is None:
        raise _not_affine(text)
    return found


def _index(node: ast.expr, text: str) -> Expression:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        if node.value.bit_length() > 62:
            raise SpecError(f"A number in the index expression {text!r} is too large.")
        return node.value
    if isinstance(node, ast.Name):
        check_rank_variable(node.id)
        return Variable(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return Product((-1 if isinstance(node.op, ast.USub) else 1, _index(node.operand, text)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        left, right = _index(node.left, text), _index(node.right, text)
        if isinstance(node.op, ast.Mult):
            return Product((left, right))
        return Sum((left, right if isinstance(node.op, ast.Add) else Product((-1, right))))
    raise _not_affine(text)


def _not_affine(text: str) -> SpecError:
    return SpecError(f"The index expression {shortened(text)!r} is not affine.", hint="Write a sum of rank variables times whole numbers.")


Projection = constantdict[str, Affine]


def parse_projection(nodes: list[ast.expr], tensor: str) -> Projection:
    """The ranks and indices of ``[b, M: p, h]``; a bare rank variable indexes the rank of its own name in uppercase."""
    result: dict[str, Affine] = {}
    for node in nodes:
        if isinstance(node, ast.Slice):
            if not isinstance(node.lower, ast.Name) or node.upper is None or node.step is not None:
                raise SpecError(f"An index of tensor {tensor} is a rank variable, or RANK: expression.")
            rank, index = node.lower.id, _affine(node.upper, ast.unparse(node.upper))
        elif isinstance(node, ast.Name):
            check_rank_variable(node.id)
            rank, index = node.id.upper(), Affine.variable(node.id)
        else:
            text = ast.unparse(node)
            raise SpecError(f"The index {text!r} of tensor {tensor} needs the name of its rank.", hint=f"Write RANK: {text}.")
        check_rank(rank)
        if rank in result:
            raise SpecError(f"Tensor {tensor} has two indices for its rank {rank}.", hint="Write RANK: index to name the rank of an index.")
        result[rank] = index
    return constantdict(result)


@dataclass(frozen=True)
class ParsedEinsum:
    """What one line says: the output, the inputs in the order of first use, and the operation."""

    output: str
    output_projection: Projection
    inputs: tuple[tuple[str, Projection], ...]
    operation: Operation


def _subscript(node: ast.expr) -> tuple[str, Projection] | None:
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not indices:
        raise SpecError(f"Tensor {node.value.id} has no index.", hint=NO_RANK)
    check_tensor(node.value.id)
    return node.value.id, parse_projection(indices, node.value.id)


def parse_einsum(text: str) -> ParsedEinsum:
    """``Z[m, n] = A[m, k] * B[k, n]``; :class:`SpecError` for anything that cannot be honoured.

    The right-hand side is arithmetic over accesses, rank variables, numbers and the functions of the table; around the whole of it the
    symbol of a reduction (``sum``, ``max``, ...) chooses that. Equal accesses are one access; different ones of one tensor are two.
    """
    if len(text) > MAX_EXPRESSION:
        raise SpecError(f"The Einsum has {len(text)} characters; at most {MAX_EXPRESSION} are read.")
    equal = re.search(r"(?<![<>=!])=(?!=)", text)
    if equal is None or text[: equal.start()].rstrip().endswith(("+", "-", "*", "/", "%", "|", "&", "^", ":")):
        hint = "Write OUTPUT[indices] = expression, for example Z[m, n] = A[m, k] * B[k, n]."
        raise SpecError(f"{shortened(text)!r} is not an Einsum.", hint=hint)
    empty = re.search(r"\b(\w+)\s*\[\s*\]", text)
    if empty:
        raise SpecError(f"Tensor {empty[1]} has no index.", hint=NO_RANK)
    _check_words(text)
    right = text[equal.end() :]
    if re.search(r"(?<![<>=!])=(?!=)", right):
        raise SpecError(f"{shortened(text)!r} has two equals signs.")
    output = _subscript(parse_expression(text[: equal.start()]))
    if output is None:
        raise SpecError(f"The left-hand side {text[: equal.start()].strip()!r} is not a tensor with indices.", hint=NO_RANK)
    accesses: list[tuple[str, Projection]] = []

    def operand(node: ast.Subscript) -> Expression:
        found = _subscript(node)
        if found is None:
            raise SpecError(f"{ast.unparse(node)!r} is not a tensor with indices.", hint=NO_RANK)
        if found not in accesses:
            accesses.append(found)
        return Variable(operand_name(accesses.index(found)))

    variables: set[str] = set()
    tree = parse_expression(right)
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and (found := _subscript(node)):
            variables |= {v for index in found[1].values() for v in index.variables}
    variables |= {v for index in output[1].values() for v in index.variables}
    operation = parse_map(tree, MapNames(variables, operand, {}))
    if not accesses and output[1]:
        raise SpecError(f"The right-hand side of {shortened(text)!r} reads no tensor.")
    return ParsedEinsum(output[0], output[1], tuple(accesses), simplified(operation, len(accesses)))


def simplified(operation: Operation, operands: int) -> Operation:
    """The operation with its map left out if it is the product of all operands in order, which is the default."""
    variables = tuple(Variable(operand_name(k)) for k in range(operands))
    default = variables[0] if operands == 1 else Product(variables)
    if operands and operation.map == default:
        return Operation(None, operation.reduce, operation.populate, operation.online)
    return operation


@dataclass(frozen=True)
class MapNames:
    """What names in a map mean: rank variables, subscripted operands, and bare operands."""

    rank_variables: set[str]
    subscript: Callable[[ast.Subscript], Expression]
    operands: Mapping[str, Expression]
    count: int | None = None
    """How many operands ``input(k)`` may choose from; ``None`` where that form is not available."""


def operand_scope(einsum: WorkloadEinsum) -> MapNames:
    """What a map of this Einsum may name: its input tensors (with indices where one is read twice), ``input(k)``, and rank variables."""
    inputs = einsum.inputs
    counts = {access.name: sum(other.name == access.name for other in inputs) for access in inputs}
    operands: dict[str, Expression] = {
        access.name: Variable(operand_name(k)) for k, access in enumerate(inputs) if counts[access.name] == 1
    }

    def subscript(node: ast.Subscript) -> Expression:
        name = ast.unparse(node.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        projection = parse_projection(list(indices), name)
        for k, access in enumerate(inputs):
            if access.name == name and access.projection == projection:
                return Variable(operand_name(k))
        raise SpecError(f"{ast.unparse(node)!r} is no access of Einsum {einsum.name}.")

    return MapNames(set(einsum.rank_variables) - set(operands), subscript, operands, len(inputs))


def parse_map(tree: ast.expr, names: MapNames) -> Operation:
    """The map and the reduction that a right-hand side chooses (a sum unless another one's symbol stands around the whole of it)."""
    reduce = ADD.name
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in SYMBOLS and len(tree.args) == 1:
        reduce = SYMBOLS[tree.func.id].name
        tree = tree.args[0]
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == SOFTMAX:
        return Operation(_softmax(tree, names), reduce)
    return Operation(_Map(names).expression(tree), reduce)


def _softmax(node: ast.Call, names: MapNames) -> Expression:
    along = node.args[1] if len(node.args) == 2 else None
    if node.keywords or not isinstance(along, ast.Name) or along.id not in names.rank_variables:
        hint = "Write softmax(X[m, p], p)."
        raise SpecError("softmax takes an expression and the rank variable along which it is normalised.", hint=hint)
    return Call(Variable(SOFTMAX), (_Map(names).expression(node.args[0]), Variable(along.id)))


_RELATIONS: dict[type[ast.cmpop], str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _flat(kind: type[Sum] | type[Product], left: Expression, right: Expression) -> Expression:
    parts = (*(left.children if isinstance(left, kind) else (left,)), *(right.children if isinstance(right, kind) else (right,)))
    return kind(parts)


class _Map:
    def __init__(self, names: MapNames) -> None:
        self.names = names

    def expression(self, node: ast.expr) -> Expression:
        method: Callable[[_Map, ast.expr], Expression] | None = _MAP_NODES.get(type(node))
        if method is None:
            raise SpecError(f"{shortened(ast.unparse(node))!r} cannot stand in an Einsum's right-hand side.")
        return method(self, node)

    def _constant(self, node: ast.Constant) -> Expression:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise SpecError(f"{node.value!r} is not a number.")
        if isinstance(node.value, int) and node.value.bit_length() > MAX_BITS // 64:
            raise SpecError("A number in the right-hand side is too large.", hint="Write it as a float.")
        return node.value

    def _name(self, node: ast.Name) -> Expression:
        if node.id in self.names.operands:
            return self.names.operands[node.id]
        if node.id in self.names.rank_variables:
            return Variable(node.id)
        if node.id in MAP_CONSTANTS:
            return MAP_CONSTANTS[node.id]
        hint = nearest(node.id, [*self.names.operands, *self.names.rank_variables])
        raise SpecError(f"{node.id!r} is neither a tensor that the Einsum reads nor one of its rank variables.", hint=hint)

    def _subscripted(self, node: ast.Subscript) -> Expression:
        return self.names.subscript(node)

    def _binary(self, node: ast.BinOp) -> Expression:
        left, right = self.expression(node.left), self.expression(node.right)
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if isinstance(node.op, ast.Add):
            return _flat(Sum, left, right)
        if isinstance(node.op, ast.Sub):
            return _flat(Sum, left, _negated(right))
        if isinstance(node.op, ast.Mult):
            return _flat(Product, left, right)
        if isinstance(node.op, ast.Div):
            if isinstance(left, int | float) and isinstance(right, int | float) and numbers:
                if right == 0:
                    raise SpecError("The right-hand side divides by zero.")
                return left / right
            return Quotient(left, right)
        if isinstance(node.op, ast.Pow):
            return Power(left, right)
        text = shortened(ast.unparse(node))
        raise SpecError(f"The operator in {text!r} cannot stand in an Einsum.", hint="Operators are + - * / and **.")

    def _unary(self, node: ast.UnaryOp) -> Expression:
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.USub):
            return _negated(operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        if isinstance(node.op, ast.Not):
            return LogicalNot(operand)
        raise SpecError(f"The operator in {shortened(ast.unparse(node))!r} cannot stand in an Einsum.")

    def _comparison(self, node: ast.Compare) -> Expression:
        values = [self.expression(part) for part in (node.left, *node.comparators)]
        if not all(type(relation) in _RELATIONS for relation in node.ops):
            raise SpecError(f"The comparison {shortened(ast.unparse(node))!r} cannot stand in an Einsum.")
        parts = tuple(
            Comparison(left, _RELATIONS[type(relation)], right) for left, relation, right in zip(values, node.ops, values[1:], strict=False)
        )
        return parts[0] if len(parts) == 1 else LogicalAnd(parts)

    def _boolean(self, node: ast.BoolOp) -> Expression:
        parts = tuple(self.expression(part) for part in node.values)
        return LogicalAnd(parts) if isinstance(node.op, ast.And) else LogicalOr(parts)

    def _conditional(self, node: ast.IfExp) -> Expression:
        return Call(Variable("where"), tuple(self.expression(part) for part in (node.test, node.body, node.orelse)))

    def _call(self, node: ast.Call) -> Expression:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name == "input" and self.names.count is not None:
            return self._input(node)
        if name not in FUNCTIONS:
            around = ", ".join(symbol for symbol in SYMBOLS if symbol not in FUNCTIONS)
            hint = f"The functions are {', '.join(FUNCTIONS)}; around the whole right-hand side also {around} and softmax."
            raise SpecError(f"There is no function {shortened(name)!r}.", hint=hint)
        wanted = FUNCTIONS[name].arity
        if node.keywords or len(node.args) != wanted:
            raise SpecError(f"{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(node.args) + len(node.keywords)}.")
        return Call(Variable(name), tuple(self.expression(argument) for argument in node.args))

    def _input(self, node: ast.Call) -> Expression:
        argument = node.args[0] if len(node.args) == 1 else None
        number = argument.value if isinstance(argument, ast.Constant) else None
        if not isinstance(number, int) or not 0 <= number < (self.names.count or 0):
            raise SpecError(f"input takes the number of an input access, from 0 to {(self.names.count or 0) - 1}.")
        return Variable(operand_name(number))


def _negated(value: Expression) -> Expression:
    return -value if isinstance(value, int | float) else _flat(Product, -1, value)


_MAP_NODES: dict[type[ast.expr], Callable[..., Expression]] = {
    ast.Constant: _Map._constant,
    ast.Name: _Map._name,
    ast.Subscript: _Map._subscripted,
    ast.BinOp: _Map._binary,
    ast.UnaryOp: _Map._unary,
    ast.Compare: _Map._comparison,
    ast.BoolOp: _Map._boolean,
    ast.IfExp: _Map._conditional,
    ast.Call: _Map._call,
}
