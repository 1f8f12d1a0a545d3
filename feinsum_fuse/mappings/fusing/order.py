"""The order in which Einsums are looked at for fusion: what is large next to the Einsum that reads it."""

from __future__ import annotations

from ...cascades.cascade import Cascade
from ...cascades.terms import Einsum
from .segment import bytes_of


def in_order(cascade: Cascade, far: float) -> tuple[Einsum, ...]:
    """The Einsums, each behind those whose results it reads; as they are written, but for what stands between a result of more than ``far``
    bytes and the first Einsum that reads it.

    What needs nothing of that result, nor of the Einsums that are chained to the one that writes it, and writes less, goes ahead of these:
    ``D, P, Q, R`` -> ``P, Q, D, R`` where ``R[i,j] = exp(2 * D[i,j] - P[i] - Q[j])``. Then ``D`` need not go through memory to be read.
    Recurrences stay as they are.
    """
    einsums = list(cascade.einsums)
    writers = {einsum.output.tensor: place for place, einsum in enumerate(einsums)}
    read = [{writers[access.tensor] for access in einsum.operands if access.tensor in writers} for einsum in einsums]
    if any(place <= max(places, default=-1) for place, places in enumerate(read)):
        return cascade.einsums
    ordered = list(range(len(einsums)))
    for reader, places in enumerate(read):
        large = [place for place in places if bytes_of(cascade, einsums[place].output.tensor) > far]
        if large:
            ordered = _beside_reader(cascade, ordered, read, max(large, key=ordered.index), reader)
    return tuple(einsums[place] for place in ordered)


def _beside_reader(cascade: Cascade, ordered: list[int], read: list[set[int]], writer: int, reader: int) -> list[int]:
    """The order with what stands between a writer and a reader ahead of the chain that leads to the writer, if it needs none of that."""
    first, last = ordered.index(writer), ordered.index(reader)
    between = ordered[first + 1 : last]
    if not between or any(writer in read[place] for place in between):
        return ordered
    begin = first
    while begin and ordered[begin - 1] in read[ordered[begin]]:
        begin -= 1
    needed, ahead = set(ordered[begin : first + 1]), []
    for place in between:
        if read[place].isdisjoint(needed):
            ahead.append(place)
        else:
            needed.add(place)
    size = {place: bytes_of(cascade, cascade.einsums[place].output.tensor) for place in (writer, *ahead)}
    if len(ahead) < len(between) or sum(size[place] for place in ahead) >= size[writer]:
        return ordered
    return [*ordered[:begin], *ahead, *ordered[begin : first + 1], *ordered[last:]]
