"""Names in the long form of a map: how a text such as ``exp(S - X)`` refers to the operands of an Einsum."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pymbolic.primitives import Variable

from ...errors import SpecError
from ..workload import WorkloadEinsum, operand_name
from .einsum_text import MapNames, parse_projection

if TYPE_CHECKING:
    from pymbolic.typing import Expression


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
