"""Which axes become one before a mapping is chosen: those that lie side by side, and those that a copy puts side by side."""

from __future__ import annotations

from itertools import takewhile
from math import prod

from ...cascades.cascade import Cascade
from ...cascades.joining import joined
from ...cascades.rewriting.packing import Pack
from ...cascades.terms import Einsum
from ...errors import CascadeError
from ...schedule.target import ANY_DEVICE, Target
from ..fusing.segment import GROUP_POINTS
from ..lanes import MOVED, copying, cost_of_copies, elements_of, is_contiguous, lanes_for_each, reduced_in_order
from .suited import COPIED, SAVED, stands_alone


def with_joined_axes(cascade: Cascade, target: Target = ANY_DEVICE) -> Cascade:
    """The cascade with all axes joined that can be, also after an operand was copied for it where lanes would be empty otherwise.

    ``Z[a,b,c,d] = sum(A[a,e,b] * B[d,c,e])`` becomes ``B_packed[e,25*c + d] = B[d,c,e]`` and ``Z[a,b,n] = sum(A[a,e,b] * B_packed[e,n])``.
    """
    cascade = joined(cascade)
    if cascade.size_parameters or target.lanes_are_items:
        return cascade
    for einsum in cascade.einsums:
        packing = _packing(cascade, einsum, target)
        if packing is not None:
            cascade = _joined_by(cascade, packing)
    return cascade


def _joined_by(cascade: Cascade, packing: Pack) -> Cascade:
    """The cascade with this copy and the axes that it joins; as it is where the copy's name is taken, or nothing can be joined."""
    try:
        after = joined(packing.apply(cascade))
    except CascadeError:
        return cascade
    output = cascade.einsum(packing.einsum).output.tensor
    return after if after.tensors[output].shape != cascade.tensors[output].shape else cascade


def _packing(cascade: Cascade, einsum: Einsum, target: Target) -> Pack | None:
    """The operand to copy so that the output's last axes become one, if that fills lanes and pays for the copy.

    These are axes of no other operand. The copy has them last, behind what is reduced.
    """
    if not einsum.output.indices or einsum.guards or not stands_alone(cascade, einsum):
        return None
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    outputs = [v for index in einsum.output.indices for v in index.variables]
    having = [n for n, access in enumerate(einsum.operands) if outputs[-1] in access.variables]
    if len(having) != 1:
        return None
    (position,) = having
    variables = einsum.operands[position].variables
    elsewhere = {v for n, access in enumerate(einsum.operands) if n != position for v in access.variables}
    columns = list(takewhile(lambda v: v in variables and v not in elsewhere, reversed(outputs)))[::-1]
    width = target.lanes(einsum.accumulate)
    if len(columns) < 2 or width < 2:
        return None
    blocks = width.bit_length()  # a vector that is moved in a block, which is transposed in registers, takes so many operations

    largest = max(einsum.operands, key=lambda access: elements_of(einsum, access))
    # Where lanes lie together in the largest operand, it is the output that is turned.
    usual = min(cost_of_copies(cascade, einsum, v, target, turned=is_contiguous(largest, v)) for v in outputs)
    moved = copying(cascade, einsum.operands[position], target, MOVED if variables[-1] == outputs[-1] else blocks)
    copied = moved * elements_of(einsum, einsum.operands[position]) / einsum.box_points
    saved = usual - lanes_for_each(prod(sizes[v] for v in columns), width) - copied
    if saved < SAVED * usual or saved * einsum.box_points < COPIED * GROUP_POINTS * target.units:
        return None
    others = [access for n, access in enumerate(einsum.operands) if n != position]
    reduced = [v for v in reduced_in_order(einsum, others) if v in variables]
    return Pack(einsum.name, position, (*(v for v in outputs if v in variables and v not in columns), *reduced, *columns))
