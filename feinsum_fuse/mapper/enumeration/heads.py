"""Attention's ranks: fused loops over heads, between which nothing is reused, and over a batch that is like them.

The rules are those of the seed of this mapper, which the search keeps as options (``head_first``, ``head_is_tiled_fusion``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import FULL, Integers
from ..einsum.einsum_space import BATCH, HEAD, EinsumSpace
from .prefixes import Frame

OPERANDS = 3
"""Tensors of a product: in an Einsum of fewer, a batch indexes all of them by accident."""


def head_first(space: EinsumSpace, frame: Frame, tiles: Integers) -> NDArray[np.bool_]:
    """Tile by tile, (rows, loops), whether the loops begin with a head, one by one, then a batch, one by one.

    A head: where a rank called so has more than one value. A batch: behind a head, where one indexes all of three tensors. Where nothing
    is fused, always.
    """
    result = np.ones(len(tiles), dtype=bool)
    first = space.called(HEAD)
    if not frame.in_time or not first:
        return result
    batches = [v for v in space.called(BATCH) if len(space.tensors) == OPERANDS and np.all(space.terms.kinds[:, v] == FULL)]
    for place, wanted in enumerate([first, batches] if batches else [first]):
        if place >= len(frame.in_time) or frame.loops[frame.in_time[place]] not in wanted:
            return np.zeros(len(tiles), dtype=bool)
        result &= tiles[:, frame.in_time[place]] == 1
    return result


def heads(space: EinsumSpace, loops: tuple[int, ...]) -> int:
    """How many of the outermost of these loops are over heads."""
    known = space.called(HEAD)
    return next((place for place, v in enumerate(loops) if v not in known), len(loops))
