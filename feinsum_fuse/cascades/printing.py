"""Cascades as text: each Einsum as its loop nest."""

from __future__ import annotations

from ..formats.affine import Affine
from ..formats.language.map_text import map_text
from ..formats.reductions import REDUCTIONS
from .cascade import Cascade, Einsum, Size, SizeParam, Tensor


def tensor_text(tensor: Tensor) -> str:
    """``A: float32[64, nel]``."""
    return f"{tensor.name}: {tensor.dtype}[{', '.join(map(_size_text, tensor.shape))}]"


def _size_text(size: Size) -> str:
    return size.name if isinstance(size, SizeParam) else str(size)


def _loops(einsum: Einsum, variables: tuple[str, ...]) -> str:
    return ", ".join(f"{variable} < {_size_text(einsum.sizes[variable])}" for variable in variables)


def _condition(guard: Affine) -> str:
    """A guard with its negative terms on the right."""
    left = Affine.of({v: factor for v, factor in guard.terms if factor > 0}, max(guard.constant, 0))
    right = Affine.of({v: -factor for v, factor in guard.terms if factor < 0}, max(-guard.constant, 0))
    return f"{left} >= {right}"


def einsum_text(einsum: Einsum) -> str:
    """The loops over the output, and the statement with its reduction::

    for m < 64, n < 32:
        Z[m, n] = sum(k < 16: A[m, k] * B[k, n])
    """
    value = map_text(einsum.map, [str(operand) for operand in einsum.operands], for_files=False)
    outer = einsum.output_variables if einsum.has_injective_output else einsum.variables
    inner = einsum.reduction_variables if einsum.has_injective_output else ()
    conditions = " and ".join(map(_condition, einsum.guards))
    reduction = REDUCTIONS[einsum.reduce]
    if inner:
        value = f"{reduction.symbol}({_loops(einsum, inner)}{f' if {conditions}' if conditions else ''}: {value})"
    elif conditions:
        value = f"{value} if {conditions}"
    if einsum.populate is not None:
        value = f"{einsum.populate:g} {reduction.infix} {value}" if reduction.infix and inner else f"{value}, initially {einsum.populate:g}"
    sign = "=" if einsum.has_injective_output or not einsum.reduces else f"{reduction.symbol}="
    statement = f"{einsum.output} {sign} {value}"
    if not outer:
        return statement
    return f"for {_loops(einsum, outer)}:\n    {statement}"


def cascade_text(cascade: Cascade) -> str:
    """The tensors, and every Einsum's loop nest under its name."""
    lines = []
    for title, names in (("inputs", cascade.inputs), ("intermediates", cascade.intermediates), ("outputs", cascade.outputs)):
        if names:
            lines.append(f"{title + ':':<15}{', '.join(tensor_text(cascade.tensors[name]) for name in names)}")
    for einsum in cascade.einsums:
        lines.append(f"# {einsum.name}")
        lines.append(einsum_text(einsum))
    return "\n".join(lines)
