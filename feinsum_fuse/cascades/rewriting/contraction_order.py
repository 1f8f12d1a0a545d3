"""Contraction order: an Einsum of several operands as a sequence of pairwise ones, and of sums over one operand alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import opt_einsum
from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import substitute, var
from pymbolic.typing import Expression

from ...arguments import described
from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.language.reductions import REDUCTIONS
from ...formats.validation.adapter import added_later
from ...formats.workload import operand_name
from ..element_types import computing_type
from ..maps import is_fractional, primitive, variables_in
from ..sequence import AnyCascade
from ..terms import Access, Einsum, SizeParam, Tensor

_LONG = 10_000
"""What a symbolic size is taken for when a path is sought."""

ContractionPath = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, order=True)
class ContractionOrder:
    """``Z[i] = sum(A[i,j]*B[j,k]*c[k])`` becomes ``Z_part1[j] = sum(B[j,k]*c[k])`` and ``Z[i] = sum(A[i,j]*Z_part1[j])``.

    ``path`` is opt_einsum's: each entry names the factors that are multiplied next by their positions in the list of those that are left,
    to whose end the product goes. A factor is one operand with what the map makes of it, or several operands that the map does not
    multiply. A product keeps the rank variables that the output or other factors need; the rest is summed at once, by the distributive law.
    A step of one position sums over what only this factor has. An intermediate's last axis is the first of ``columns`` that it has, or
    else the output's last.
    Invariant: the output keeps its value up to the order of summation; intermediates are tensors that a mapping can place.
    """

    einsum: str
    path: ContractionPath
    columns: tuple[str, ...] = added_later(())

    def __repr__(self) -> str:
        """As Python reads it, without columns where there are none."""
        columns = f", columns={self.columns!r}" if self.columns else ""
        return f"{type(self).__name__}(einsum={self.einsum!r}, path={self.path!r}{columns})"

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum in parts; :class:`CascadeError` unless it is a sum of a product, and the path fits its factors."""
        einsum = cascade.einsum(self.einsum)
        remaining = list(factors(einsum))
        if unknown := sorted(set(self.columns) - set(einsum.variables)):
            raise CascadeError(f"Einsum {einsum.name} has no rank variable {unknown[0]} along which intermediates could lie")
        tensors = dict(cascade.tensors)
        parts: list[Einsum] = []
        for number, positions in enumerate(self.path, 1):
            if not positions or len(set(positions)) < len(positions) or not set(positions) <= set(range(len(remaining))):
                left = f"{len(remaining)} factors are left"
                raise CascadeError(f"the path {self.path} does not fit Einsum {einsum.name}: {positions} where {left}")
            chosen = [remaining[k] for k in positions]
            remaining = [factor for k, factor in enumerate(remaining) if k not in positions]
            if not remaining:
                parts.append(_part(einsum, einsum.name, einsum.output, chosen))
                break
            wanted = set(einsum.output_variables).union(*(factor.variables for factor in remaining))
            # What lies together in the result lies together in what it is made of.
            kept = [v for v in einsum.variables if v in wanted and any(v in factor.variables for factor in chosen)]
            last = next((v for v in (*self.columns, *einsum.output_variables[-1:]) if v in kept), None)
            kept.sort(key=lambda v: v == last)
            output = Access(f"{einsum.output.tensor}_part{number}", tuple(map(Affine.variable, kept)))
            part = _part(einsum, f"{einsum.name}_part{number}", output, chosen)
            if output.tensor in tensors or part.name in {other.name for other in cascade.einsums}:
                raise CascadeError(f"contracting Einsum {einsum.name} needs the name {part.name}, which is taken", hint="Rename it.")
            dtypes = tuple(tensors[access.tensor].dtype for access in part.operands)
            dtype = computing_type(dtypes, einsum.accumulate, is_fractional(primitive(part.map)))
            tensors[output.tensor] = Tensor(output.tensor, tuple(einsum.sizes[v] for v in kept), dtype)
            parts.append(part)
            remaining.append(Factor(var(operand_name(0)), (output,), frozenset(kept)))
        if remaining:
            raise CascadeError(f"the path {self.path} leaves {len(remaining)} factors of Einsum {einsum.name} uncontracted")
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], *parts, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)


@dataclass(frozen=True)
class Factor:
    """A factor of a map: an expression over operands of its own, numbered from 0."""

    expression: Expression
    operands: tuple[Access, ...]
    variables: frozenset[str]


def factors(einsum: Einsum) -> tuple[Factor, ...]:
    """The factors of an Einsum's map, in the order of their first operands; numbers go to the first.

    Raises :class:`CascadeError` with the reason if the Einsum is no sum of a product over a box.
    """
    reason = ""
    if not REDUCTIONS[einsum.reduce].is_sum and einsum.reduces:
        reason = f"its reduction is {einsum.reduce}, over which products do not distribute"
    elif not einsum.has_injective_output:
        reason = f"its output {einsum.output} is not indexed by bare variables"
    elif einsum.guards:
        reason = "its iteration space is no box"
    elif einsum.is_recurrence:
        reason = "it is a recurrence"
    if reason:
        raise CascadeError(f"Einsum {einsum.name} cannot be contracted pairwise: {reason}")
    groups: list[tuple[set[str], list[Expression]]] = []
    numbers: list[Expression] = []
    for expression in _multiplied(einsum.map):
        names = {name for name in variables_in(expression) if name.startswith("%")}
        if not names and not variables_in(expression):
            numbers.append(expression)
            continue
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if not group[0] & names]
        groups.append((names.union(*(group[0] for group in joined)), [e for group in joined for e in group[1]] + [expression]))
    unused = {operand_name(k) for k in range(len(einsum.operands))}.difference(*(names for names, _ in groups))
    groups.sort(key=lambda group: min((int(name[1:]) for name in group[0]), default=len(einsum.operands)))
    if unused or not groups:
        raise CascadeError(f"Einsum {einsum.name} cannot be contracted pairwise: its map does not multiply its operands")
    groups[0][1][:0] = numbers
    return tuple(_factor(einsum, names, expressions) for names, expressions in groups)


def _multiplied(expression: Expression) -> list[Expression]:
    if isinstance(expression, p.Product):
        return [factor for child in expression.children for factor in _multiplied(child)]
    if isinstance(expression, p.Quotient):
        below = [p.Quotient(1.0, factor) for factor in _multiplied(expression.denominator)]
        return [*_multiplied(expression.numerator), *below]
    return [expression]


def _factor(einsum: Einsum, names: Iterable[str], expressions: Sequence[Expression]) -> Factor:
    positions = sorted(int(name[1:]) for name in names)
    renamed = {operand_name(old): var(operand_name(new)) for new, old in enumerate(positions)}
    product = expressions[0] if len(expressions) == 1 else p.Product(tuple(expressions))
    operands = tuple(einsum.operands[k] for k in positions)
    variables = {v for access in operands for v in access.variables} | (variables_in(product) & einsum.sizes.keys())
    return Factor(substitute(product, renamed), operands, frozenset(variables))


def _part(einsum: Einsum, name: str, output: Access, chosen: Sequence[Factor]) -> Einsum:
    """The Einsum that multiplies some factors and sums over what only they have."""
    operands: list[Access] = []
    multiplied: list[Expression] = []
    for factor in chosen:
        renamed = {operand_name(k): var(operand_name(len(operands) + k)) for k in range(len(factor.operands))}
        multiplied.append(substitute(factor.expression, renamed))
        operands += factor.operands
    used = set(output.variables).union(*(factor.variables for factor in chosen))
    is_last = output == einsum.output
    order = dict.fromkeys((*output.variables, *(v for v in einsum.variables if v in used or (is_last and _is_free(v, einsum)))))
    product = multiplied[0] if len(multiplied) == 1 else p.Product(tuple(part for whole in multiplied for part in _multiplied(whole)))
    return dataclasses.replace(
        einsum,
        name=name,
        output=output,
        operands=tuple(operands),
        map=product,
        sizes=constantdict({v: einsum.sizes[v] for v in order}),
        populate=einsum.populate if is_last else None,
    )


def _is_free(variable: str, einsum: Einsum) -> bool:
    """Whether a variable is summed over although nothing depends on it."""
    used = {v for access in (einsum.output, *einsum.operands) for v in access.variables} | variables_in(einsum.map)
    return variable not in used


def sums_first(einsum: Einsum) -> tuple[ContractionPath, tuple[frozenset[str], ...]]:
    """The steps that add up one factor over variables that no other has, before it is multiplied; and the factors' variables after them.

    ``Z[a] = sum(A[a,b]*B[b,c])`` begins with ``sum(B[b,c])`` over ``c``. What the others have the factor's rest already has is no gain:
    the sum is taken while the result is computed.
    """
    left = [part.variables for part in factors(einsum)]
    own = [(left[k] & set(einsum.reduction_variables)).difference(*left[:k], *left[k + 1 :]) for k in range(len(left))]
    steps: list[tuple[int, ...]] = []
    for alone in own:
        position = next((k for k, variables in enumerate(left) if alone and alone <= variables), None)
        if position is None:
            continue
        others = left[:position] + left[position + 1 :]
        if set(einsum.output_variables).union(*others) <= left[position]:
            continue
        steps.append((position,))
        left = [*others, left[position] - alone]
    return tuple(steps), tuple(left)


def best_order(einsum: Einsum, optimize: str = "optimal") -> ContractionOrder:
    """Sums over one factor alone first, then the order that opt_einsum finds with this strategy; symbolic sizes count as long."""
    steps, left = sums_first(einsum)
    symbol = {v: opt_einsum.get_symbol(k) for k, v in enumerate(einsum.variables)}
    length = {v: _LONG if isinstance(size, SizeParam) else size for v, size in einsum.sizes.items()}
    labels = [sorted(variables) for variables in left]
    read = {v for own in labels for v in own}
    kept = [v for v in einsum.output_variables if v in read]  # along the others the result is repeated
    text = f"{','.join(''.join(symbol[v] for v in own) for own in labels)}->{''.join(symbol[v] for v in kept)}"
    shapes = [tuple(length[v] for v in own) for own in labels]
    try:
        path, _ = opt_einsum.contract_path(text, *shapes, shapes=True, optimize=optimize)
    except KeyError as error:
        raise CascadeError(f"{described(optimize)} is no way to find an order", hint=str(error.args[0])) from None
    return ContractionOrder(einsum.name, (*steps, *(tuple(int(k) for k in pair) for pair in path)))
