"""Maps and accesses of Einsums as text that reads back to the same expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymbolic.primitives import (
    Call,
    Comparison,
    FloorDiv,
    If,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Power,
    Product,
    Quotient,
    Remainder,
    Sum,
    Variable,
)

from ...errors import SpecError
from ..workload import Operation, TensorAccess, WorkloadEinsum, operand_name
from .reductions import ADD, NONE, REDUCTIONS, SYMBOLS

if TYPE_CHECKING:
    from pymbolic.typing import Expression

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(9)


def access_text(access: TensorAccess) -> str:
    """``K[b, M: p, h]``: a bare variable for the rank of its own name in uppercase, else RANK: index."""
    indices = [str(i) if i.bare and i.bare.upper() == rank else f"{rank}: {i}" for rank, i in access.projection.items()]
    return f"{access.name}[{', '.join(indices)}]"


def operand_texts(einsum: WorkloadEinsum) -> list[str]:
    """How a map names each operand in the long form: by tensor, by access if a tensor is read twice, by number if even those agree."""
    names = [access.name for access in einsum.inputs]
    texts = [access_text(access) for access in einsum.inputs]
    clashing = set(einsum.rank_variables) | set(SYMBOLS)

    def text(k: int) -> str:
        if texts.count(texts[k]) > 1:
            return f"input({k})"
        return texts[k] if names.count(names[k]) > 1 or not names[k].isidentifier() or names[k] in clashing else names[k]

    return [text(k) for k in range(len(names))]


def map_text(expression: Expression, operands: list[str], for_files: bool = True) -> str:
    """The expression with operands named as given.

    Raises :class:`~feinsum_fuse.errors.SpecError` for what only kernels can hold (divisions with remainder) if it is ``for_files``.
    """
    return _Printer({operand_name(k): text for k, text in enumerate(operands)}, for_files).text(expression, _OR)


def right_hand_side(einsum: WorkloadEinsum) -> str:
    """What an Einsum computes, as it could stand on the right of an equals sign."""
    operation = einsum.operation
    texts = [access_text(access) for access in einsum.inputs]
    inner = " * ".join(texts) if operation.map is None else map_text(operation.map, texts)
    return inner if operation.reduce in (ADD.name, NONE.name) else f"{REDUCTIONS[operation.reduce].symbol}({inner})"


def operation_fields(operation: Operation, operands: list[str]) -> dict[str, str | float | bool]:
    """The fields of ``operations`` that differ from the defaults."""
    fields: dict[str, str | float | bool] = {}
    if operation.map is not None:
        fields["map"] = map_text(operation.map, operands)
    if operation.reduce != ADD.name:
        fields["reduce"] = operation.reduce
    if operation.populate is not None:
        fields["populate"] = operation.populate
    if operation.online:
        fields["online"] = True
    return fields


class _Printer:
    """Text with the fewest parentheses that read back to the same tree."""

    def __init__(self, operands: dict[str, str], for_files: bool) -> None:
        self.operands = operands
        self.for_files = for_files

    def text(self, node: Expression, level: int) -> str:
        shown, own = self._node(node)
        return f"({shown})" if own < level else shown

    def _node(self, node: Expression) -> tuple[str, int]:
        expressible = isinstance(node, (int, float, Variable, Call, *_COMPOUND)) and not isinstance(node, bool)
        if not expressible or (self.for_files and isinstance(node, FloorDiv | Remainder)):
            raise SpecError(f"The map holds {node!r}, which files cannot express.")
        if isinstance(node, int | float):
            return _number(node), _SUM if node < 0 else _ATOM
        if isinstance(node, Variable):
            return self.operands.get(node.name, node.name), _ATOM
        if isinstance(node, Call):
            return f"{node.function.name}({', '.join(self.text(p, _OR) for p in node.parameters)})", _ATOM
        return _COMPOUND[type(node)](self, node)

    def _sum(self, node: Sum) -> tuple[str, int]:
        parts = [self.text(node.children[0], _SUM)]
        for child in node.children[1:]:
            negated = _without_sign(child)
            parts.append(f" - {self.text(negated, _PRODUCT)}" if negated is not None else f" + {self.text(child, _PRODUCT)}")
        return "".join(parts), _SUM

    def _product(self, node: Product) -> tuple[str, int]:
        negated = _without_sign(node)
        if negated is not None:
            return f"-{self.text(negated, _UNARY)}" if not isinstance(negated, Product) else f"-({self.text(negated, _OR)})", _UNARY
        first, *rest = node.children
        return " * ".join([self.text(first, _PRODUCT), *(self.text(child, _UNARY) for child in rest)]), _PRODUCT

    def _quotient(self, node: Quotient) -> tuple[str, int]:
        return f"{self.text(node.numerator, _PRODUCT)} / {self.text(node.denominator, _UNARY)}", _PRODUCT

    def _whole_quotient(self, node: FloorDiv) -> tuple[str, int]:
        return f"{self.text(node.numerator, _PRODUCT)} // {self.text(node.denominator, _UNARY)}", _PRODUCT

    def _remainder(self, node: Remainder) -> tuple[str, int]:
        return f"{self.text(node.numerator, _PRODUCT)} % {self.text(node.denominator, _UNARY)}", _PRODUCT

    def _power(self, node: Power) -> tuple[str, int]:
        return f"{self.text(node.base, _ATOM)}**{self.text(node.exponent, _ATOM)}", _POWER

    def _comparison(self, node: Comparison) -> tuple[str, int]:
        return f"{self.text(node.left, _SUM)} {node.operator} {self.text(node.right, _SUM)}", _COMPARE

    def _conjunction(self, node: LogicalAnd) -> tuple[str, int]:
        return " and ".join(self.text(child, _NOT) for child in node.children), _AND

    def _disjunction(self, node: LogicalOr) -> tuple[str, int]:
        return " or ".join(self.text(child, _AND) for child in node.children), _OR

    def _negation(self, node: LogicalNot) -> tuple[str, int]:
        return f"not {self.text(node.child, _COMPARE)}", _NOT

    def _choice(self, node: If) -> tuple[str, int]:
        parts = (node.condition, node.then, node.else_)
        return f"where({', '.join(self.text(part, _OR) for part in parts)})", _ATOM


def _without_sign(node: Expression) -> Expression | None:
    """What ``node`` is the negation of, if it is written as one."""
    if isinstance(node, int | float) and not isinstance(node, bool) and (node < 0 or str(node) == "-0.0"):
        return -node
    if isinstance(node, Product) and node.children[0] == -1 and isinstance(node.children[0], int) and len(node.children) > 1:
        rest = node.children[1:]
        return rest[0] if len(rest) == 1 else Product(rest)
    return None


def _number(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


_COMPOUND: dict[type, Callable[..., tuple[str, int]]] = {
    Sum: _Printer._sum,
    Product: _Printer._product,
    Quotient: _Printer._quotient,
    FloorDiv: _Printer._whole_quotient,
    Remainder: _Printer._remainder,
    Power: _Printer._power,
    Comparison: _Printer._comparison,
    LogicalAnd: _Printer._conjunction,
    LogicalOr: _Printer._disjunction,
    LogicalNot: _Printer._negation,
    If: _Printer._choice,
}
