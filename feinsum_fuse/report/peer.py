"""NumPy as a peer: what a careful user of NumPy would write for a cascade, in the cascade's own element types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ..cascades.cascade import Cascade
from ..cascades.maps import primitive
from ..cascades.reference.boxes import Box
from ..cascades.reference.contraction import NumpyArray, contracted
from ..cascades.reference.map_values import evaluated
from ..cascades.terms import Einsum
from ..formats.affine import Affine
from ..formats.language.reductions import REDUCTIONS
from ..formats.workload import operand_name

PeerStep = Callable[[dict[str, NumpyArray]], NumpyArray]

_LARGEST_BOX = 2**26
"""Points of an Einsum that NumPy may hold as one array."""


class NumpyPeer:
    """A cascade in NumPy: sums of products by matrix products (BLAS), everything else by whole-array operations.

    ``note`` says so where NumPy has no such form for an Einsum (guards, recurrences, scattered outputs, boxes of more than 2**26 points);
    then the cascade's reference in float64 is what runs. The arrays of a call are kept out of the cascade's own memory.
    """

    def __init__(self, cascade: Cascade, inputs: Mapping[str, NumpyArray]) -> None:
        self.cascade = cascade
        self.inputs = dict(inputs)
        self.steps: list[tuple[str, PeerStep]] = []
        self.note = ""
        for einsum in cascade.einsums:
            step = _step(cascade, einsum)
            if step is None:
                self.note = f"the reference in float64, since NumPy has no plain form for {einsum.name}"
                break
            self.steps.append((einsum.output.tensor, step))

    def __call__(self) -> dict[str, NumpyArray]:
        """The outputs."""
        if self.note:
            return self.cascade.reference(**self.inputs)
        arrays = dict(self.inputs)
        for tensor, step in self.steps:
            arrays[tensor] = step(arrays)
        return {tensor: arrays[tensor] for tensor in self.cascade.outputs}


def _step(cascade: Cascade, einsum: Einsum) -> PeerStep | None:
    """One Einsum as a function of all arrays; ``None`` if there is no plain form."""
    sizes = {v: size for v, size in einsum.sizes.items() if isinstance(size, int)}
    box = Box({v: (0, size) for v, size in sizes.items()})
    shapes = {access.tensor: cascade.fixed_shape(access.tensor) for access in (einsum.output, *einsum.operands)}
    whole = tuple(sizes[v] for v in einsum.output_variables) == shapes[einsum.output.tensor]
    plain = einsum.has_injective_output and whole and not einsum.guards and einsum.populate in (None, 0.0)
    reads_itself = any(operand.tensor == einsum.output.tensor for operand in einsum.operands)
    if not plain or reads_itself or not all(box.is_inside(access, shapes[access.tensor]) for access in einsum.operands):
        return None
    dtype = np.dtype(cascade.tensors[einsum.output.tensor].dtype)
    scale = scaled_product(primitive(einsum.map), len(einsum.operands))
    if REDUCTIONS[einsum.reduce].is_sum and scale is not None and dtype.kind in "fc":
        return _contraction(einsum, box, dtype, scale)
    return _elementwise(einsum, box, dtype) if math.prod(box.shape) <= _LARGEST_BOX else None


def scaled_product(expression: Expression, count: int) -> float | None:
    """The number ``c`` if the expression is ``c`` times the product of all ``count`` operands, each once; else ``None``."""
    scale = 1.0
    found: list[str] = []
    parts = [expression]
    while parts:
        part = parts.pop()
        if isinstance(part, p.Product):
            parts.extend(part.children)
        elif isinstance(part, p.Quotient) and isinstance(part.denominator, int | float):
            parts.append(part.numerator)
            scale /= part.denominator
        elif isinstance(part, int | float):
            scale *= part
        elif isinstance(part, p.Variable):
            found.append(part.name)
        else:
            return None
    return scale if sorted(found) == sorted(operand_name(k) for k in range(count)) else None


def _contraction(einsum: Einsum, box: Box, dtype: np.dtype[Any], scale: float) -> PeerStep:
    parts = [(access, box.only(access.variables)) for access in einsum.operands]
    order = tuple(index.bare or "" for index in einsum.output.indices)

    def step(arrays: dict[str, NumpyArray]) -> NumpyArray:
        views = [(part.view(access, arrays[access.tensor]), part.variables) for access, part in parts]
        result = contracted(views, order).astype(dtype, copy=False)
        if scale != 1:
            result = result * dtype.type(scale)
        return result

    return step


def _elementwise(einsum: Einsum, box: Box, dtype: np.dtype[Any]) -> PeerStep:
    expression = primitive(einsum.map)
    points = {v: box.values(Affine.variable(v)) for v in box.variables}
    reduced = tuple(axis for axis, v in enumerate(box.variables) if v not in einsum.output_variables)
    kept = [v for v in box.variables if v in einsum.output_variables]
    order = [kept.index(index.bare or "") for index in einsum.output.indices]

    def step(arrays: dict[str, NumpyArray]) -> NumpyArray:
        values = {operand_name(k): box.view(access, arrays[access.tensor]) for k, access in enumerate(einsum.operands)}
        value = np.broadcast_to(evaluated(expression, {**points, **values}), box.shape)
        total = REDUCTIONS[einsum.reduce].ufunc.reduce(value, axis=reduced) if reduced else value
        return np.ascontiguousarray(total.transpose(order), dtype=dtype)

    return step
