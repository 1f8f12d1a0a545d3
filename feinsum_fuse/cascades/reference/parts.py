"""A reference in parts: slabs of the outputs, and before them what slabs alone would need whole.

``Z = sum(T[m, n])`` needs all of ``T`` for its one element. Its sum is taken in parts, of which each needs some rows of ``T``, and what
they give is kept. ``Z[k] = S[m] * C[k]`` needs all of ``S``, which is small: it is computed slab by slab first, and kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from constantdict import constantdict

from ...errors import CascadeError
from ..rewriting.split_reduction import SplitReduction
from ..sequence import EinsumSequence
from ..terms import Einsum
from .jumps import has_jumps
from .reference import wide_type
from .slabs import Array, NotSlicedError, Slabs, tiling

MOST_SPLITS = 6
"""Reductions that are taken in parts, one inside the other or in several Einsums."""
SHARE = 4
"""A split reduction leaves at most this part of the memory for what its parts give."""


@dataclass(frozen=True)
class Parts:
    """Intermediates that are computed first and kept, in order, and the outputs, each slab by slab."""

    kept: tuple[Slabs, ...]
    outputs: tuple[Slabs, ...]

    def known(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs, and the intermediates that are kept."""
        found = dict(arrays)
        for slabs in self.kept:
            tensor = slabs.cascade.tensors[slabs.output]
            whole = np.empty(slabs.cascade.fixed_shape(tensor.name), wide_type(tensor.dtype))
            for slab in slabs.slabs():
                whole[slab.place] = slab.elements(found)
            found[tensor.name] = whole
        return found


def parts(cascade: EinsumSequence, budget: int) -> Parts:
    """What computes every output while its reference holds about ``budget`` bytes at most; the cuts are those that repeat least work.

    Raises :class:`~.slabs.NotSlicedError` with the reason where there are none. Every size must be a number.
    """
    results = 3 if has_jumps(cascade) else 1
    outputs = cascade.outputs
    kept: tuple[Slabs, ...] = ()
    whole: tuple[str, ...] = ()
    reason: NotSlicedError | None = None
    while True:
        room = budget - sum(_bytes(cascade, slabs.output) for slabs in kept)
        try:
            return Parts(kept, tuple(tiling(_whole(cascade, output, kept, results), room) for output in outputs))
        except NotSlicedError as error:
            if results > 1:
                raise NotSlicedError(f"{error.message}, and its maps have jumps (floor, round, comparisons of computed values)") from None
            reason = reason or error  # later ones are of a cascade that nobody knows
            more = _more(cascade, kept, whole, room) if len(whole) <= MOST_SPLITS else None
        if more is None:
            raise reason
        split, slabs = more
        whole += tuple(einsum.name for einsum in cascade.einsums if einsum not in split.einsums)
        cascade, kept = split, (*kept, *slabs)


def _whole(cascade: EinsumSequence, tensor: str, kept: tuple[Slabs, ...], results: int = 1) -> Slabs:
    known = frozenset(slabs.output for slabs in kept)
    # What is kept is kept as it was computed, not rounded to the type that kernels store.
    wide = {name: dataclasses.replace(cascade.tensors[name], dtype=str(wide_type(cascade.tensors[name].dtype))) for name in known}
    tensors = constantdict({**cascade.tensors, **wide})
    return Slabs(dataclasses.replace(cascade, tensors=tensors), tensor, cascade.fixed_shape(tensor), results, known)


def _more(
    cascade: EinsumSequence, kept: tuple[Slabs, ...], whole: Container[str], room: int
) -> tuple[EinsumSequence, tuple[Slabs, ...]] | None:
    """The smallest intermediate that can be computed in slabs and kept: one of the cascade's, or what the parts of a reduction give.

    Where there is none, a reduction is split and nothing is kept: its parts may be split again. ``whole``: Einsums that are not split.
    """
    known = {*(slabs.output for slabs in kept), *cascade.outputs}
    written = [einsum.output.tensor for einsum in cascade.einsums]
    options = [(cascade, tensor) for tensor in written if tensor not in known]
    splits = [found for e in cascade.einsums if e.name not in whole and (found := _split(cascade, e, room // SHARE)) is not None]
    options += [(found, tensor) for found in splits for tensor in found.tensors if tensor not in cascade.tensors]
    for found, tensor in sorted(options, key=lambda option: _bytes(*option)):
        taken = _bytes(found, tensor)
        if taken > room // 2:
            break
        try:
            return found, (tiling(_whole(found, tensor, kept), room - taken),)
        except NotSlicedError:
            continue
    return (splits[0], ()) if splits else None


def _split(cascade: EinsumSequence, einsum: Einsum, room: int) -> EinsumSequence | None:
    """The cascade with the longest reduction of an Einsum in as many parts as ``room`` bytes of results allow."""
    lengths = _lengths(einsum)
    count = min(max(lengths.values(), default=0), room // max(1, _bytes(cascade, einsum.output.tensor)))
    try:
        return SplitReduction(einsum.name, max(lengths, key=lambda v: lengths[v]), count).apply(cascade) if count > 1 else None
    except CascadeError:
        return None


def _lengths(einsum: Einsum) -> dict[str, int]:
    return {v: size for v in einsum.reduction_variables if isinstance(size := einsum.sizes[v], int)}


def _bytes(cascade: EinsumSequence, tensor: str) -> int:
    return prod(cascade.fixed_shape(tensor)) * wide_type(cascade.tensors[tensor].dtype).itemsize
