"""Peak use of each memory over a whole tree (accelforge.md, section 5.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..quantity import Number, largest, total
from .occupancy import Reserved


@dataclass(frozen=True)
class EinsumReservations:
    """What one Einsum reserves and shares, in order of execution."""

    reserved: tuple[Reserved, ...]
    tensors: frozenset[str]
    backing_depth: Mapping[str, int]
    """Tensor -> loops above its backing holder."""


def peaks(branches: Sequence[EinsumReservations]) -> dict[str, Number]:
    """Memory -> the most bits alive at once.

    Between consecutive Einsums, ``k`` loops stay open: those above the deepest backing holder of a tensor that is alive there, that is,
    touched before and after. While one Einsum runs, another's reservation is alive if fewer loops are above it than stay open between the
    two, or if it backs a tensor that is alive across.

    A copy whose two tensors live in one memory moves nothing: they are one space there.
    """
    names = _names(branches)
    live = [_live(branches, boundary) for boundary in range(len(branches) - 1)]
    open_loops = [_open_loops(branches, tensors) for tensors in live]
    moments = [_alive(branches, names, open_loops, live, moment) for moment in range(len(branches))]
    memories = dict.fromkeys(component for alive in moments for component, _ in alive)
    return {
        memory: largest(total(bits for (component, _), bits in alive.items() if component == memory) for alive in moments)
        for memory in memories
    }


def _live(branches: Sequence[EinsumReservations], boundary: int) -> frozenset[str]:
    """The tensors touched both before and after the boundary that follows Einsum number ``boundary``."""
    before = frozenset().union(*(branch.tensors for branch in branches[: boundary + 1]))
    after = frozenset().union(*(branch.tensors for branch in branches[boundary + 1 :]))
    return before & after


def _open_loops(branches: Sequence[EinsumReservations], live: frozenset[str]) -> int:
    return max((depth for branch in branches for tensor, depth in branch.backing_depth.items() if tensor in live), default=0)


def _names(branches: Sequence[EinsumReservations]) -> dict[tuple[str, str], str]:
    """(memory, tensor) -> the name of the space that the tensor lives in: one for all tensors that copies tie together there."""
    names: dict[tuple[str, str], str] = {}
    for item in (item for branch in branches for item in branch.reserved):
        tied = {names.get((item.component, tensor), tensor) for tensor in item.backs}
        for tensor in {*item.backs, *(t for (memory, t), name in names.items() if memory == item.component and name in tied)}:
            names[item.component, tensor] = min(tied)
    return names


def _alive(
    branches: Sequence[EinsumReservations],
    names: Mapping[tuple[str, str], str],
    open_loops: Sequence[int],
    live: Sequence[frozenset[str]],
    moment: int,
) -> dict[tuple[str, str], Number]:
    """(memory, what) -> bits, of everything alive while Einsum number ``moment`` runs.

    Space that backs a tensor is one space for all Einsums that touch it, with the figure of the last that is alive; the space of other
    holders is each Einsum's own.
    """
    alive: dict[tuple[str, str], Number] = {}
    for number, branch in enumerate(branches):
        first, last = sorted((number, moment))
        between = open_loops[first:last]
        across = frozenset.intersection(*live[first:last]) if between else frozenset()
        for item in branch.reserved:
            backed = names[item.component, min(item.backs)] if item.backs else ""
            key = (item.component, backed or f"{item.tensor} of {number}")
            if not between or item.depth < min(between):
                alive[key] = item.bits
            elif item.backs & across:
                alive.setdefault(key, item.bits)
    return alive

