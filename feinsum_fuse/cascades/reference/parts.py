"""A reference in parts: slabs of the outputs, and before them what slabs alone would need whole.

``Z = sum(T[m, n])`` needs all of ``T`` for its one element. Its sum is taken in pieces, of which each needs some rows of ``T``.
``Z[k] = S[m] * C[k]`` needs all of ``S``, which is small: it is computed slab by slab first, and kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from constantdict import constantdict

from ..sequence import EinsumSequence
from .contraction import NumpyArray
from .jumps import LEAN_DIRECTIONS, JumpsInParts, Lean, has_jumps
from .reference import wide_type
from .slabs import NotSlicedError, Slab, Slabs, tiling


@dataclass(frozen=True)
class Parts:
    """Intermediates that are computed first and kept, in order, and the outputs, each slab by slab."""

    kept: tuple[Slabs, ...]
    outputs: tuple[Slabs, ...]

    def known(self, arrays: Mapping[str, NumpyArray], jumps: JumpsInParts | None = None) -> dict[str, NumpyArray]:
        """The inputs, and the intermediates that are kept; what is to be known of jumps is noted."""
        return self._with_kept(arrays, lambda slab, found: slab.elements(found, jumps))

    def sides(self, arrays: Mapping[str, NumpyArray], jumps: JumpsInParts | None) -> tuple[Mapping[str, NumpyArray], ...]:
        """The inputs, and the kept intermediates that lean to each side of all jumps; the same twice where nothing is kept."""
        if jumps is None or not self.kept:
            return (arrays,) * len(LEAN_DIRECTIONS)
        return tuple(self._with_kept(arrays, partial(Slab.leaning, jumps=jumps, lean=Lean(direction))) for direction in LEAN_DIRECTIONS)

    def _with_kept(
        self, arrays: Mapping[str, NumpyArray], compute: Callable[[Slab, Mapping[str, NumpyArray]], NumpyArray]
    ) -> dict[str, NumpyArray]:
        found = dict(arrays)
        for slabs in self.kept:
            tensor = slabs.cascade.tensors[slabs.output]
            whole = np.empty(slabs.cascade.fixed_shape(tensor.name), wide_type(tensor.dtype))
            for slab in slabs.slabs():
                whole[slab.place] = compute(slab, found)
            found[tensor.name] = whole
        return found


def parts(cascade: EinsumSequence, budget: int) -> Parts:
    """What computes every output while its reference holds about ``budget`` bytes at most; the cuts are those that repeat least work.

    Raises :class:`~.slabs.NotSlicedError` with the reason where there are none. Every size must be a number.
    """
    results = 1 + len(LEAN_DIRECTIONS) * has_jumps(cascade)
    kept: tuple[Slabs, ...] = ()
    reason: NotSlicedError | None = None
    while True:
        room = budget - results * sum(_bytes(cascade, slabs.output) for slabs in kept)
        try:
            return Parts(kept, tuple(tiling(_whole(cascade, output, kept, results), room) for output in cascade.outputs))
        except NotSlicedError as error:
            reason = reason or error
        more = _more(cascade, kept, room, results)
        if more is None:
            raise reason
        kept = (*kept, more)


def _whole(cascade: EinsumSequence, tensor: str, kept: tuple[Slabs, ...], results: int) -> Slabs:
    known = frozenset(slabs.output for slabs in kept)
    # What is kept is kept as it was computed, not rounded to the type that kernels store.
    wide = {name: dataclasses.replace(cascade.tensors[name], dtype=str(wide_type(cascade.tensors[name].dtype))) for name in known}
    tensors = constantdict({**cascade.tensors, **wide})
    return Slabs(dataclasses.replace(cascade, tensors=tensors), tensor, cascade.fixed_shape(tensor), results, known)


def _more(cascade: EinsumSequence, kept: tuple[Slabs, ...], room: int, results: int) -> Slabs | None:
    """The smallest intermediate that can be computed in slabs and kept."""
    known = {*(slabs.output for slabs in kept), *cascade.outputs}
    options = [einsum.output.tensor for einsum in cascade.einsums if einsum.output.tensor not in known]
    for tensor in sorted(options, key=lambda tensor: _bytes(cascade, tensor)):
        taken = results * _bytes(cascade, tensor)
        if taken > room // 2:
            break
        try:
            return tiling(_whole(cascade, tensor, kept, results), room - taken)
        except NotSlicedError:
            continue
    return None


def _bytes(cascade: EinsumSequence, tensor: str) -> int:
    return prod(cascade.fixed_shape(tensor)) * wide_type(cascade.tensors[tensor].dtype).itemsize
