"""The candidate that the model finds fastest, without a measurement."""

from __future__ import annotations

import math
import time

import pyopencl as cl

from ..cascades.cascade import Cascade
from ..device.calibration.device_file import known_device
from ..device.catalogue import target
from ..errors import SearchError
from .candidate import Candidate
from .preparation import predict_all
from .search import Search
from .space import Space

ROUND = 16
"""Candidates that are looked at between two looks at the clock."""


def model_choice(cascade: Cascade, device: cl.Device, seconds: float = 1.0, seed: int = 0) -> Candidate:
    """The best by prediction of what so many seconds of search find, the default mapping among it; runs in this process alone.

    Raises :class:`~feinsum_fuse.errors.SearchError` for a cascade of which no mapping can be predicted.
    """
    predicted = predictions(cascade, device, seconds, seed=seed)
    if not predicted:
        raise SearchError("the model predicts no mapping of this cascade")
    return min(predicted, key=lambda candidate: predicted[candidate])


def predictions(cascade: Cascade, device: cl.Device, seconds: float, *, runs: float = math.inf, seed: int = 0) -> dict[Candidate, float]:
    """Seconds that the model predicts for what a search of so many seconds finds, the default mappings first.

    It ends earlier, once it has taken as long as ``runs`` runs of the best.
    """
    begin = time.monotonic()
    found = target(device)
    arch = known_device(device)
    assert arch.arch is not None and arch.opencl is not None
    space = Space(cascade, arch.arch, arch.opencl, found)
    search = Search(space, seed, (), lambda candidates: predict_all([c.spec for c in candidates], found), space.defaults())
    seen = -1
    while len(search.predicted) > seen:
        seen = len(search.predicted)
        search.explore(ROUND)
        best = min((s for s in search.predicted.values() if s is not None), default=math.inf)
        if time.monotonic() - begin > min(seconds, runs * best):
            break
    return {candidate: s for candidate, s in search.predicted.items() if s is not None}
