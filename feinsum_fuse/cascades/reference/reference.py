"""What a cascade computes, by NumPy: the judge of every generated kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from constantdict import constantdict
from numpy.typing import ArrayLike
from pymbolic import primitives as p
from pymbolic.mapper import IdentityMapper
from pymbolic.typing import Expression

from ...arguments import array_of
from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.language.reductions import REDUCTIONS
from ...formats.workload import operand_name
from ...number_types import kind_of
from ..element_types import computing_type
from ..maps import is_fractional, primitive, product_of, variables_in
from ..sequence import EinsumSequence
from ..terms import Einsum, SizeParam, Tensor
from ..validation import validate
from .boxes import Box
from .contraction import Labelled, NumpyArray, contracted
from .map_values import evaluated

Evaluate = Callable[[Expression, Mapping[str, NumpyArray]], NumpyArray]
"""A primitive map and the values of its variables -> its values."""
_BLOCK = 2**20
"""Points evaluated at once."""
_LARGEST_FACTOR = 2**26
"""Elements of a factor of a contraction that is not just a tensor."""


def reference(
    cascade: EinsumSequence,
    arrays: Mapping[str, ArrayLike],
    outputs: Iterable[str] | None = None,
    *,
    evaluations: Sequence[Evaluate] | None = None,
) -> dict[str, NumpyArray]:
    """The outputs (or the named tensors) in float64 or complex128; integers are exact, and wrap as the tensor's type does.

    ``arrays`` holds every input; each is converted to its tensor's element type first. Symbolic sizes are taken from the arrays.
    ``evaluations``: what evaluates the maps, one for each Einsum.
    Raises :class:`CascadeError` for inputs that are missing, unknown, or of another shape.
    """
    validate(cascade)
    values = _inputs(cascade, arrays)
    sizes = _sizes(cascade, values)
    chosen = cascade.outputs if outputs is None else tuple(outputs)
    unknown = [tensor for tensor in chosen if tensor not in cascade.tensors]
    if unknown:
        raise CascadeError(f"the cascade has no tensor {unknown[0]!r}", hint=f"It has {', '.join(cascade.tensors)}.")
    last_use = {access.tensor: k for k, einsum in enumerate(cascade.einsums) for access in einsum.operands}
    for number, einsum in enumerate(cascade.einsums):
        shape = cascade.fixed_shape(einsum.output.tensor, sizes)
        fixed = constantdict({v: sizes[size.name] if isinstance(size, SizeParam) else size for v, size in einsum.sizes.items()})
        values[einsum.output.tensor] = _Evaluated(
            einsum, fixed, cascade.tensors, values, shape, evaluated if evaluations is None else evaluations[number]
        ).result()
        for tensor in [tensor for tensor, last in last_use.items() if last == number and tensor not in chosen]:
            values.pop(tensor, None)
    return {tensor: values[tensor] for tensor in chosen}


def held_bytes(cascade: EinsumSequence) -> int:
    """About how many bytes :func:`reference` holds at most, its inputs in their own types left out. Every size must be a number.

    Tensors are held from their writing to their last reading. While an Einsum is computed there are three arrays like its output,
    copies of operands and of factors that are laid out for matrix products, and some blocks of points.
    """
    width = {name: wide_type(tensor.dtype).itemsize for name, tensor in cascade.tensors.items()}
    bytes_of = {name: math.prod(cascade.fixed_shape(name)) * width[name] for name in cascade.tensors}
    last_use = {access.tensor: k for k, einsum in enumerate(cascade.einsums) for access in einsum.operands}
    live = {tensor: bytes_of[tensor] for tensor in cascade.inputs}
    most = sum(live.values())
    for number, einsum in enumerate(cascade.einsums):
        sizes = {v: size for v, size in einsum.sizes.items() if isinstance(size, int)}
        widest = max((width[access.tensor] for access in (einsum.output, *einsum.operands)), default=8)
        laid_out = sum(math.prod(sizes[v] for v in access.variables) for access in einsum.operands)
        alone = math.prod(sizes[v] for v in {v for access in einsum.operands for v in access.variables})
        factor = 0 if einsum.map == product_of(len(einsum.operands)) else 3 * min(alone, _LARGEST_FACTOR)
        working = widest * (2 * laid_out + factor + 8 * min(math.prod(sizes.values()), _BLOCK))
        most = max(most, sum(live.values()) + 3 * bytes_of[einsum.output.tensor] + working)
        live[einsum.output.tensor] = bytes_of[einsum.output.tensor]
        live = {tensor: held for tensor, held in live.items() if tensor in cascade.outputs or last_use.get(tensor, -1) > number}
    return most


def wide_type(dtype: str) -> np.dtype[Any]:
    """In which the reference holds a tensor of this type."""
    kind = kind_of(dtype)
    return np.dtype({"f": np.float64, "c": np.complex128}.get(kind, np.int64))


def _inputs(cascade: EinsumSequence, arrays: Mapping[str, ArrayLike]) -> dict[str, NumpyArray]:
    missing = [tensor for tensor in cascade.inputs if tensor not in arrays]
    if missing:
        raise CascadeError(f"the inputs {', '.join(missing)} are missing", hint=f"The cascade reads {', '.join(cascade.inputs)}.")
    unknown = [tensor for tensor in arrays if tensor not in cascade.inputs]
    if unknown:
        raise CascadeError(f"{', '.join(unknown)} is no input of the cascade", hint=f"It reads {', '.join(cascade.inputs)}.")
    result = {}
    for tensor in cascade.inputs:
        dtype = cascade.tensors[tensor].dtype
        try:
            given = array_of(arrays[tensor], tensor, CascadeError)
            values = given.astype(dtype).astype(wide_type(dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise CascadeError(f"{tensor} is no array of {dtype}: {error}") from None
        except MemoryError as error:
            raise CascadeError(f"{tensor} does not fit the memory: {error}", hint="Give smaller arrays.") from None
        result[tensor] = np.ascontiguousarray(values).reshape(given.shape)
    return result


def _sizes(cascade: EinsumSequence, arrays: Mapping[str, NumpyArray]) -> dict[str, int]:
    """The values of symbolic sizes; all shapes are checked."""
    sizes: dict[str, int] = {}
    for tensor, array in arrays.items():
        shape = cascade.tensors[tensor].shape
        expected = " x ".join(size.name if isinstance(size, SizeParam) else str(size) for size in shape) or "a scalar"
        message = f"{tensor} has the shape {array.shape}; the cascade says {expected}"
        if len(shape) != array.ndim:
            raise CascadeError(message)
        for size, length in zip(shape, array.shape, strict=True):
            if isinstance(size, SizeParam):
                size = sizes.setdefault(size.name, length)
            if size != length:
                raise CascadeError(message)
    lost = [name for name in cascade.size_parameters if name not in sizes]
    if lost:
        raise CascadeError(f"no input tells the size {lost[0]}")
    return sizes


class _Limits(IdentityMapper):  # type: ignore[misc]
    """Infinity in a map of integers is the largest of their type, as in kernels."""

    def __init__(self, dtype: str) -> None:
        self.largest = int(np.array(np.iinfo(dtype).max, dtype).astype(np.int64))
        self.least = int(np.iinfo(dtype).min)

    def map_variable(self, expr: p.Variable) -> Expression:
        return self.largest if expr.name == "inf" else expr

    def map_constant(self, expr: float) -> Expression:
        if isinstance(expr, float) and math.isinf(expr):
            return self.largest if expr > 0 else self.least
        return expr


@dataclass(frozen=True)
class _Factor:
    """A part of a product: an expression, the points' conditions folded into it, and the variables that it depends on."""

    expression: Expression
    variables: tuple[str, ...]


class _Evaluated:
    def __init__(
        self,
        einsum: Einsum,
        sizes: Mapping[str, int],
        tensors: Mapping[str, Tensor],
        arrays: Mapping[str, NumpyArray],
        shape: tuple[int, ...],
        evaluate: Evaluate,
    ) -> None:
        self.einsum = einsum
        self.evaluate = evaluate
        self.arrays = dict(arrays)
        self.map = primitive(einsum.map)
        dtypes = tuple(tensors[operand.tensor].dtype for operand in einsum.operands)
        computing = computing_type(dtypes, einsum.accumulate, is_fractional(self.map))
        self.computing = wide_type(computing)
        if self.computing.kind == "i":
            self.map = _Limits(computing)(self.map)
        self.stored = tensors[einsum.output.tensor].dtype
        self.storing = einsum.accumulate if einsum.reduces or einsum.combines_populate else self.stored
        self.reduction = REDUCTIONS[einsum.reduce]
        self.neutral = self.reduction.neutral_of(self.storing)
        self.box = Box({v: (0, sizes[v]) for v in einsum.variables})
        self.out = np.full(shape, einsum.initial_value(self.storing), dtype=wide_type(self.storing))
        if einsum.is_recurrence:
            self.arrays[einsum.output.tensor] = self.out
        self.operands = {operand_name(k): operand for k, operand in enumerate(einsum.operands)}
        self.guards = list(einsum.guards)
        for access in (einsum.output, *(operand for operand in einsum.operands if operand.tensor != einsum.output.tensor)):
            size_of = shape if access is einsum.output else self.arrays[access.tensor].shape
            for index, size in zip(access.indices, size_of, strict=True):
                low, high = self.box.extremes(index)
                self.guards += [index] if low < 0 else []
                self.guards += [Affine.of({v: -c for v, c in index.terms}, size - 1 - index.constant)] if high >= size else []
        self.guards = list(dict.fromkeys(self.guards))

    def result(self) -> NumpyArray:
        """The whole output."""
        with np.errstate(all="ignore"):
            if self.einsum.is_recurrence:
                variable = self.einsum.iterative_variable()
                for value in range(*self.box.ranges[variable]):
                    self.compute(Box({**self.box.ranges, variable: (value, value + 1)}))
            else:
                self.compute(self.box)
            out = self.out.astype(self.storing) if np.dtype(self.storing).kind in "iu" else self.out
            out = out.astype(self.stored if np.dtype(self.stored).kind in "iu" else wide_type(self.stored), copy=False)
        return np.ascontiguousarray(out).reshape(out.shape)

    def compute(self, box: Box) -> None:
        """Compute the elements that the points of a box reach."""
        if not self.is_simple_output(box):
            self.scatter(box)
            return
        over = box.only(self.einsum.output_variables)
        target = over.view(self.einsum.output, self.out)
        total = self.contraction(box, over)
        reached: NumpyArray = np.asarray(True)
        if total is None:
            total, reached = self.blocked(box, over)
        elif self.guards and not self.einsum.combines_populate and self.einsum.populate is not None:
            reached = self.reached(box, over)
        if self.einsum.combines_populate:
            total = self.reduction.ufunc(total, self.einsum.populate)
        target[...] = total if reached.all() else np.where(reached, total, target)

    def is_simple_output(self, box: Box) -> bool:
        """Whether different values of the output's variables are different elements, none of them outside."""
        indices = self.einsum.output.indices
        single = [index.variables[0] for index in indices if len(index.variables) == 1]
        others = [index for index in indices if len(index.variables) > 1]
        return not others and len(set(single)) == len(single) and box.is_inside(self.einsum.output, self.out.shape)

    def values(self, expression: Expression, box: Box) -> NumpyArray:
        """An expression at all points of a box, whose variables are at least the expression's."""
        values: dict[str, NumpyArray] = {}
        for name in variables_in(expression):
            if name in self.operands:
                access, array = self.operands[name], self.arrays[self.operands[name].tensor]
                if box.is_inside(access, array.shape):
                    value = box.view(access, array)
                else:
                    value = box.gathered(access, array)
                    if access.tensor == self.einsum.output.tensor:
                        written = self.mask(box, access.indices)
                        value = np.where(written, value, self.einsum.initial_value(self.storing))
                values[name] = value.astype(self.computing, copy=False)
            elif name in box.ranges:
                values[name] = box.values(Affine.variable(name))
        result = self.evaluate(expression, values)
        return result.astype(self.computing, copy=False).reshape((1,) * (len(box.ranges) - result.ndim) + result.shape)

    def mask(self, box: Box, guards: Iterable[Affine]) -> NumpyArray:
        """Where all guards hold."""
        result = np.ones((1,) * len(box.ranges), dtype=bool)
        for guard in guards:
            result = result & (box.values(guard) >= 0)
        return result

    def reached(self, box: Box, over: Box) -> NumpyArray:
        """Which elements over the output's variables some point reaches."""
        result = np.zeros(over.shape, dtype=bool)
        for block in box.blocks(16 * _BLOCK):
            mask = np.broadcast_to(self.mask(block, self.guards), block.shape)
            result[_part(block, over)] |= mask.any(axis=_reduced(block, over))
        return result

    def blocked(self, box: Box, over: Box) -> tuple[NumpyArray, NumpyArray]:
        """The reduction over all points, block by block, and which elements were reached."""
        total = np.full(over.shape, self.neutral, dtype=self.out.dtype)
        reached = np.zeros(over.shape, dtype=bool)
        for block in box.blocks(_BLOCK):
            value = self.values(self.map, block).astype(self.out.dtype, copy=False)
            mask = self.mask(block, self.guards)
            value = np.broadcast_to(value if mask.all() else np.where(mask, value, self.out.dtype.type(self.neutral)), block.shape)
            part, axes = _part(block, over), _reduced(block, over)
            reached[part] |= np.broadcast_to(mask, block.shape).any(axis=axes)
            if self.einsum.reduces:
                combine = self.reduction.ufunc
                total[part] = combine(total[part], combine.reduce(value, axis=axes, dtype=self.out.dtype))
            else:
                total[part] = value
        return total, reached

    def scatter(self, box: Box) -> None:
        """Combine every point into its element, for outputs whose elements several values of the variables share."""
        reached = np.zeros(self.out.shape, dtype=bool)
        total = np.full(self.out.shape, self.neutral, dtype=self.out.dtype)
        for block in box.blocks(_BLOCK):
            value = np.broadcast_to(self.values(self.map, block).astype(self.out.dtype), block.shape)
            mask = np.broadcast_to(self.mask(block, self.guards), block.shape)
            element = tuple(np.broadcast_to(block.values(index), block.shape)[mask] for index in self.einsum.output.indices)
            if self.einsum.reduces:
                self.reduction.ufunc.at(total, element, value[mask])
            else:
                total[element] = value[mask]
            reached[element] = True
        if self.einsum.combines_populate:
            total = self.reduction.ufunc(total, self.einsum.populate)
        self.out[reached] = total[reached]

    def contraction(self, box: Box, over: Box) -> NumpyArray | None:
        """The sum of a product by matrix products; ``None`` if the Einsum is none, or its factors are too large or not finite."""
        if not self.reduction.is_sum or self.computing.kind not in "fc" or wide_type(self.storing) != self.computing:
            return None
        factors, scale = self.factors()
        factors += [self.masked(p.Comparison(_sum(guard), ">=", 0)) for guard in self.guards]
        labelled: list[Labelled] = []
        for factor in factors:
            part = box.only(factor.variables)
            is_tensor = isinstance(factor.expression, p.Variable)
            if not is_tensor and np.prod(part.shape) > _LARGEST_FACTOR:
                return None
            array = np.broadcast_to(self.values(factor.expression, part), part.shape)
            if self.guards and not np.isfinite(array).all():
                return None
            labelled.append((array, part.variables))
        covered = {v for _, labels in labelled for v in labels}
        for name, length in zip(box.variables, box.shape, strict=True):
            if name not in covered:
                labelled.append((np.ones(length), (name,)))
        return contracted(labelled, over.variables) * scale if labelled else np.asarray(scale)

    def factors(self) -> tuple[list[_Factor], float]:
        """The map as a product, and its constant factor."""
        parts: list[_Factor] = []
        scale = 1.0

        def split(expression: Expression, inverse: bool) -> None:
            nonlocal scale
            if isinstance(expression, p.Product):
                for child in expression.children:
                    split(child, inverse)
            elif isinstance(expression, p.Quotient):
                split(expression.numerator, inverse)
                split(expression.denominator, not inverse)
            elif isinstance(expression, int | float):
                with np.errstate(all="ignore"):  # a division by a 0 that somebody wrote is infinite, or no number
                    scale = float(np.divide(scale, expression)) if inverse else scale * expression
            else:
                parts.append(self.masked(p.Quotient(1.0, expression) if inverse else expression))

        split(self.map, False)
        return parts, scale

    def masked(self, expression: Expression) -> _Factor:
        """An expression with the variables of its operands."""
        names = variables_in(expression)
        accessed = {v for name in names if name in self.operands for v in self.operands[name].variables}
        return _Factor(expression, tuple(v for v in self.box.variables if v in accessed or v in names))


def _sum(index: Affine) -> Expression:
    terms = tuple(p.Product((factor, p.Variable(name))) for name, factor in index.terms)
    return p.Sum((*terms, index.constant))


def _part(block: Box, over: Box) -> tuple[slice, ...]:
    return tuple(slice(block.ranges[v][0] - low, block.ranges[v][1] - low) for v, (low, _) in over.ranges.items())


def _reduced(block: Box, over: Box) -> tuple[int, ...]:
    return tuple(axis for axis, v in enumerate(block.variables) if v not in over.ranges)
