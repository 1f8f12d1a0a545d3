"""Rewritings as data: each is a frozen value that maps a cascade to a cascade with the same outputs, and has a JSON form.

A cascade records what made it (``Cascade.rewritings``); a schedule for it is kept together with that record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

from ...errors import CascadeError
from ...formats.validation.adapter import Adapter, Kinds
from ..element_types import AccumulateIn
from ..four_bits import InFourBits
from ..gathering import Gather, GatherSteps
from ..joining import Join
from ..scanning import Scan
from ..sequence import AnyCascade, Rewriting
from .batching import Batch, Unbatch
from .contraction_order import ContractionOrder
from .interleaving import Interleave
from .intermediates import Recompute, Share
from .one_pass import OnePass
from .online import Online
from .packing import Pack, Unpack
from .softmax import ExpandSoftmax
from .split_reduction import SplitReduction
from .triangle import Triangle

_KINDS: tuple[type[Rewriting], ...] = (
    *(AccumulateIn, Batch, ContractionOrder, ExpandSoftmax, Gather, GatherSteps, InFourBits, Interleave, Join, OnePass, Online, Pack),
    *(Recompute, Scan, Share, SplitReduction, Triangle, Unbatch, Unpack),
)
_REWRITING: Kinds[Rewriting] = Kinds("rewriting", {kind.__name__: kind for kind in _KINDS}, lambda kind: 1)
_REWRITINGS: Adapter[tuple[Rewriting, ...]] = Adapter(tuple[Annotated[Rewriting, _REWRITING], ...], "list of rewritings", CascadeError)


def rewritten(cascade: AnyCascade, rewritings: Iterable[Rewriting]) -> AnyCascade:
    """The cascade after these rewritings, in order; :class:`CascadeError` if one of them does not apply."""
    for rewriting in rewritings:
        cascade = rewriting.apply(cascade)
    return cascade


def rewritings_to_json(rewritings: Sequence[Rewriting]) -> str:
    """The rewritings as JSON text."""
    return json.dumps(_REWRITINGS.data(tuple(rewritings)))


def rewritings_from_json(text: str) -> tuple[Rewriting, ...]:
    """The rewritings that :func:`rewritings_to_json` wrote; :class:`CascadeError` for anything else."""
    return _REWRITINGS.read(text)
