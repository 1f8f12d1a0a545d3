"""What is alive together while a tree of Einsums runs (accelforge.md, section 5.10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..quantity import Number, largest, total
from .einsum_model import Reserved


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
    tree = _Tree(branches)
    moments = [tree.alive(moment) for moment in range(len(branches))]
    memories = dict.fromkeys(component for alive in moments for component, _ in alive)
    return {
        memory: largest(total(bits for (component, _), bits in alive.items() if component == memory) for alive in moments)
        for memory in memories
    }


def _names(branches: Sequence[EinsumReservations]) -> dict[tuple[str, str], str]:
    """(memory, tensor) -> the name of the space that the tensor lives in: one for all tensors that copies tie together there."""
    names: dict[tuple[str, str], str] = {}
    members: dict[tuple[str, str], set[str]] = {}
    for item in (item for branch in branches for item in branch.reserved if item.backs):
        tied = {names.get((item.component, tensor), tensor) for tensor in item.backs}
        together = set(item.backs).union(*(members.get((item.component, name), ()) for name in tied))
        members[item.component, min(tied)] = together
        names.update({(item.component, tensor): min(tied) for tensor in together})
    return names


class _Tree:
    """A row of Einsums, by which a moment looks at those alone of which something can be alive then."""

    def __init__(self, branches: Sequence[EinsumReservations]) -> None:
        self.branches = branches
        self.names = _names(branches)
        touched: dict[str, list[int]] = {}
        self.backed: dict[str, list[int]] = {}
        """Tensor -> the Einsums that reserve space which backs it."""
        for number, branch in enumerate(branches):
            for tensor in branch.tensors:
                touched.setdefault(tensor, []).append(number)
            for tensor in {tensor for item in branch.reserved for tensor in item.backs}:
                self.backed.setdefault(tensor, []).append(number)
        self.lasting = [number for number, branch in enumerate(branches) if any(item.depth < 0 for item in branch.reserved)]
        self.span = {tensor: (numbers[0], numbers[-1]) for tensor, numbers in touched.items()}
        depth: dict[str, int] = {}
        for branch in branches:
            for tensor, loops in branch.backing_depth.items():
                depth[tensor] = max(loops, depth.get(tensor, 0))
        self.live: list[list[str]] = [[] for _ in branches]
        """Einsum -> the tensors that are touched both before or by it, and by it or after."""
        self.open_loops = [0] * (len(branches) - 1)
        """Loops that stay open after each Einsum but the last."""
        for tensor, (first, last) in self.span.items():
            for number in range(first, last + 1):
                self.live[number].append(tensor)
            for boundary in range(first, last):
                self.open_loops[boundary] = max(self.open_loops[boundary], depth.get(tensor, 0))

    def alive(self, moment: int) -> dict[tuple[str, str], Number]:
        """(memory, what) -> bits, of everything alive while an Einsum runs.

        Space that backs a tensor is one space for all Einsums that touch it, with the figure of the last that is alive; the space of other
        holders is each Einsum's own.
        """
        open_loops = dict(self._reached(moment))
        across = (number for tensor in self.live[moment] for number in self.backed.get(tensor, ()))
        alive: dict[tuple[str, str], Number] = {}
        for number in sorted({*open_loops, *self.lasting, *across}):
            for item in self.branches[number].reserved:
                key = (item.component, self.names[item.component, min(item.backs)] if item.backs else f"{item.tensor} of {number}")
                if number == moment or item.depth < open_loops.get(number, 0):
                    alive[key] = item.bits
                elif any(self._is_across(tensor, number, moment) for tensor in item.backs):
                    alive.setdefault(key, item.bits)
        return alive

    def _reached(self, moment: int) -> Iterator[tuple[int, int]]:
        """The Einsums between which and a moment loops stay open, with how many do."""
        yield moment, 0
        for numbers, boundary in ((range(moment + 1, len(self.branches)), -1), (range(moment - 1, -1, -1), 0)):
            fewest: int | None = None
            for number in numbers:
                loops = self.open_loops[number + boundary]
                fewest = loops if fewest is None else min(fewest, loops)
                if not fewest:
                    break
                yield number, fewest

    def _is_across(self, tensor: str, number: int, moment: int) -> bool:
        """Whether a tensor is alive at every boundary between an Einsum and a moment."""
        first, last = self.span.get(tensor, (moment, moment))
        return first <= min(number, moment) and max(number, moment) <= last
