"""The candidate that the model finds convincingly fast, without a measurement."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import pyopencl as cl

from ..cascades.cascade import Cascade
from ..device.calibration.device_file import known_device
from ..device.catalogue import target
from ..errors import SearchError
from .candidate import Candidate
from .preparation import predict_all
from .search import Search
from .space import Space

FEWEST, ROUND = 4, 16
"""Candidates that are looked at between two looks at the clock: as many as there seems to be time for, within these."""
CONVINCING = 0.8
"""The part of the default mapping's predicted time below which another mapping is preferred unmeasured: the model errs by so much, and of
many predictions the least is mostly one that errs downwards."""
LEAST_SEEN = 60
"""Candidates that are looked at while there is time, however short their runs are: of fewer, most are the rewritings' default mappings."""


def model_choice(cascade: Cascade, device: cl.Device, seconds: float = 1.0, seed: int = 0) -> Candidate:
    """What the model finds convincingly faster in so many seconds of search, else the default mapping; runs in this process alone.

    Raises :class:`~feinsum_fuse.errors.SearchError` for a cascade of which no mapping can be predicted.
    """
    predicted = predictions(cascade, device, seconds, seed=seed)
    if not predicted:
        raise SearchError("the model predicts no mapping of this cascade")
    return convincing(predicted) or next(iter(predicted))


def convincing(predicted: Mapping[Candidate, float], part: float = CONVINCING) -> Candidate | None:
    """The candidate of the least of these seconds, if they are at most this part of those of the first, the default mapping."""
    if not predicted:
        return None
    default, best = next(iter(predicted)), min(predicted, key=lambda candidate: predicted[candidate])
    return best if best is not default and predicted[best] <= part * predicted[default] else None


def predictions(cascade: Cascade, device: cl.Device, seconds: float, *, runs: float = math.inf, seed: int = 0) -> dict[Candidate, float]:
    """Seconds that the model predicts for what a search of so many seconds finds, the default mappings first.

    It ends earlier, once it has taken as long as ``runs`` runs of the best and has looked at :data:`LEAST_SEEN`.
    """
    begin = time.monotonic()
    found = target(device)
    arch = known_device(device)
    assert arch.arch is not None and arch.opencl is not None
    space = Space(cascade, arch.arch, arch.opencl, found)
    search = Search(space, seed, (), lambda candidates: predict_all([c.spec for c in candidates], found), space.defaults())
    seen, count = -1, FEWEST
    while len(search.predicted) > seen:
        seen = len(search.predicted)
        search.explore(count)
        best = min((s for s in search.predicted.values() if s is not None), default=math.inf)
        taken = time.monotonic() - begin
        if taken > seconds or (taken > runs * best and len(search.predicted) >= LEAST_SEEN):
            break
        left = (seconds - taken) * len(search.predicted) / taken if taken else math.inf
        count = int(max(FEWEST, min(ROUND, left)))
    return {candidate: s for candidate, s in search.predicted.items() if s is not None}
