"""A cascade as JSON text: what the archive keeps of it, and what an import checks before it believes it.

Maps are written as nested lists (``["*", "%0", "%1"]``), so that reading one needs no parser and can run nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pymbolic.primitives as prim
from constantdict import constantdict
from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from ...cascades.cascade import Cascade
from ...cascades.maps import variables_in
from ...cascades.terms import Access, Einsum, Size, SizeParam, Tensor
from ...errors import ArchiveError
from ...field_types import Integer
from ...formats.affine import Affine
from ...formats.language.reductions import REDUCTIONS
from ...formats.validation.adapter import Adapter, StrictModel
from ...formats.workload import operand_name
from ...number_types import kind_of, type_of

if TYPE_CHECKING:
    from pymbolic.typing import Expression

MAX_DEPTH = 60
"""How deeply the expression of a map may nest."""

Identifier = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\"\\]+$")]
AxisLength = Annotated[int, Field(ge=1, lt=2**63)]
_NARY: dict[str, Callable[[tuple[Expression, ...]], Expression]] = {
    "+": prim.Sum,
    "*": prim.Product,
    "min": prim.Min,
    "max": prim.Max,
    "and": prim.LogicalAnd,
    "or": prim.LogicalOr,
}
_BINARY: dict[str, Callable[[Expression, Expression], Expression]] = {
    "/": prim.Quotient,
    "//": prim.FloorDiv,
    "%": prim.Remainder,
    "**": prim.Power,
}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def _known_reduction(name: str) -> str:
    if name not in REDUCTIONS:
        raise ValueError(f"{name[:40]!r} is no reduction")
    return name


class AffineText(StrictModel):
    """``sum(coefficient * variable) + constant``."""

    terms: dict[Identifier, Integer] = Field(max_length=100)
    constant: Integer = 0


class AccessText(StrictModel):
    """A tensor's element."""

    tensor: Identifier
    indices: list[AffineText] = Field(max_length=64)


class TensorText(StrictModel):
    """A tensor; a length that is a name is a size parameter."""

    shape: list[AxisLength | Identifier] = Field(max_length=64)
    dtype: Identifier
    ranks: list[Identifier] = Field(max_length=64)


class EinsumText(StrictModel):
    """One Einsum; ``sizes`` are pairs because their order means something."""

    name: Identifier
    output: AccessText
    operands: list[AccessText] = Field(max_length=1000)
    map: JsonValue
    sizes: list[tuple[Identifier, AxisLength | Identifier]] = Field(max_length=100)
    reduce: Annotated[str, AfterValidator(_known_reduction)]
    populate: float | Literal["inf", "-inf", "nan"] | None = None
    guards: list[AffineText] = Field(default=[], max_length=1000)
    accumulate: Identifier
    is_copy: bool = False


class CascadeText(StrictModel):
    """A cascade."""

    einsums: list[EinsumText] = Field(min_length=1, max_length=1000)
    tensors: dict[Identifier, TensorText] = Field(max_length=10000)
    outputs: list[Identifier] = Field(max_length=1000)


_CASCADES: Adapter[CascadeText] = Adapter(CascadeText, "cascade", ArchiveError)


def cascade_to_json(cascade: Cascade) -> str:
    """The text of a cascade, the same for equal ones: one line, keys sorted."""
    document = {
        "einsums": [_einsum_to_data(einsum) for einsum in cascade.einsums],
        "tensors": {
            name: {"shape": [_size_to_data(size) for size in tensor.shape], "dtype": tensor.dtype, "ranks": list(tensor.ranks)}
            for name, tensor in cascade.tensors.items()
        },
        "outputs": list(cascade.outputs),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _size_to_data(size: Size) -> int | str:
    return size.name if isinstance(size, SizeParam) else size


def _float_to_data(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def _access_to_data(access: Access) -> dict[str, object]:
    return {"tensor": access.tensor, "indices": [_affine_to_data(index) for index in access.indices]}


def _affine_to_data(affine: Affine) -> dict[str, object]:
    return {"terms": dict(affine.terms), "constant": affine.constant}


def _einsum_to_data(einsum: Einsum) -> dict[str, object]:
    return {
        "name": einsum.name,
        "output": _access_to_data(einsum.output),
        "operands": [_access_to_data(access) for access in einsum.operands],
        "map": expression_to_data(einsum.map),
        "sizes": [[variable, _size_to_data(size)] for variable, size in einsum.sizes.items()],
        "reduce": einsum.reduce,
        "populate": None if einsum.populate is None else _float_to_data(einsum.populate),
        "guards": [_affine_to_data(guard) for guard in einsum.guards],
        "accumulate": einsum.accumulate,
        "is_copy": einsum.is_copy,
    }


def expression_to_data(expression: Expression) -> JsonValue:
    """A map's expression as nested lists, operator first; variables are text, numbers are numbers."""
    if isinstance(expression, prim.Variable):
        return str(expression.name)
    if isinstance(expression, bool | np.bool_):
        return bool(expression)
    if isinstance(expression, int | np.integer):
        return int(expression)
    if isinstance(expression, float | np.floating):
        return float(expression) if math.isfinite(expression) else ["number", str(float(expression))]
    parts = _parts(expression)
    if parts is None:
        raise ArchiveError(f"a map holds {expression!r}, which the archive's text form has no notation for")
    operator, operands = parts
    return [operator, *map(expression_to_data, operands)]


def _parts(expression: Expression) -> tuple[str, tuple[Expression, ...]] | None:
    """Operator and operands of an inner node."""
    for name, make in _NARY.items():
        if type(expression) is make:
            return name, expression.children
    match expression:
        case prim.Comparison(left, operator, right):
            return str(getattr(operator, "value", operator)), (left, right)
        case prim.Quotient(a, b):
            return "/", (a, b)
        case prim.FloorDiv(a, b):
            return "//", (a, b)
        case prim.Remainder(a, b):
            return "%", (a, b)
        case prim.Power(a, b):
            return "**", (a, b)
        case prim.LogicalNot(a):
            return "not", (a,)
        case prim.If(condition, then, otherwise):
            return "if", (condition, then, otherwise)
        case prim.Call(prim.Variable(function), parameters):
            return f"call {function}", tuple(parameters)
    return None


def expression_from_data(data: JsonValue, depth: int = 0) -> Expression:
    """The inverse of :func:`expression_to_data`; ``ValueError`` for anything that it does not write."""
    if depth > MAX_DEPTH:
        raise ValueError(f"a map nests more than {MAX_DEPTH} deep")
    if isinstance(data, str):
        return prim.Variable(data)
    if isinstance(data, float) or (isinstance(data, int) and not isinstance(data, bool) and abs(data) < 2**63):
        return data
    match data:
        case ["number", "inf" | "-inf" | "nan" as text]:
            return float(text)
        case [str(operator), *operands] if operands:
            return _inner_node(operator, tuple(expression_from_data(operand, depth + 1) for operand in operands))
    raise ValueError(f"a map holds {json.dumps(data)[:80]}, which is no expression")


def _inner_node(operator: str, operands: tuple[Expression, ...]) -> Expression:
    if operator in _NARY:
        return _NARY[operator](operands)
    match operator, operands:
        case _, (left, right) if operator in _COMPARISONS:
            return prim.Comparison(left, operator, right)
        case _, (left, right) if operator in _BINARY:
            return _BINARY[operator](left, right)
        case "not", (child,):
            return prim.LogicalNot(child)
        case "if", (condition, then, otherwise):
            return prim.If(condition, then, otherwise)
    function = operator.removeprefix("call ")
    if function == operator or not function.isidentifier():
        raise ValueError(f"a map holds the unknown operator {operator[:40]!r} with {len(operands)} operands")
    return prim.Call(prim.Variable(function), operands)


def cascade_from_json(text: str) -> Cascade:
    """The cascade that :func:`cascade_to_json` wrote; :class:`ArchiveError` for text that it cannot have written."""
    try:
        return cascade_of(_CASCADES.read(text))
    except ValueError as error:
        raise ArchiveError(f"the text of a cascade is damaged: {error}") from error


def cascade_of(text: CascadeText) -> Cascade:
    """The cascade behind a validated text; ``ValueError`` if its parts do not fit each other."""
    tensors = {
        name: Tensor(name, tuple(_size_of(size) for size in tensor.shape), _type_of(tensor.dtype), tuple(tensor.ranks))
        for name, tensor in text.tensors.items()
    }
    einsums = tuple(_einsum_of(einsum) for einsum in text.einsums)
    for access in (a for e in einsums for a in (e.output, *e.operands)):
        if access.tensor not in tensors:
            raise ValueError(f"tensor {access.tensor} is used and not described")
        if len(access.indices) != len(tensors[access.tensor].shape):
            raise ValueError(f"{access} has {len(access.indices)} indices for {len(tensors[access.tensor].shape)} axes")
    if unknown := set(text.outputs) - {e.output.tensor for e in einsums}:
        raise ValueError(f"output {min(unknown)} is not computed")
    return Cascade(einsums, constantdict(tensors), tuple(text.outputs))


def _size_of(size: int | str) -> Size:
    return SizeParam(size) if isinstance(size, str) else size


def _type_of(name: str) -> str:
    try:
        dtype = type_of(name)
    except TypeError as error:
        raise ValueError(f"{name[:40]!r} is no element type") from error
    if kind_of(dtype) not in "biufc":
        raise ValueError(f"{name[:40]!r} is no type of numbers")
    return dtype.name


def _affine_of(text: AffineText) -> Affine:
    return Affine.of(text.terms, text.constant)


def _access_of(text: AccessText) -> Access:
    return Access(text.tensor, tuple(_affine_of(index) for index in text.indices))


def _einsum_of(text: EinsumText) -> Einsum:
    sizes = {variable: _size_of(size) for variable, size in text.sizes}
    einsum = Einsum(
        text.name,
        _access_of(text.output),
        tuple(_access_of(access) for access in text.operands),
        expression_from_data(text.map),
        constantdict(sizes),
        text.reduce,
        None if text.populate is None else float(text.populate),
        tuple(_affine_of(guard) for guard in text.guards),
        _type_of(text.accumulate),
        text.is_copy,
    )
    used = {v for access in (einsum.output, *einsum.operands) for v in access.variables} | {v for g in einsum.guards for v in g.variables}
    if missing := used - set(sizes):
        raise ValueError(f"rank variable {min(missing)} of Einsum {einsum.name} has no size")
    known = {*sizes, *map(operand_name, range(len(einsum.operands))), "inf"}
    if foreign := variables_in(einsum.map) - known:
        raise ValueError(f"the map of Einsum {einsum.name} names {min(foreign)[:40]!r}, which is neither an operand nor a rank variable")
    return einsum
