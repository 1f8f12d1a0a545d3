"""The candidate that the model finds fastest, without a measurement."""

from __future__ import annotations

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

BATCH = 4
"""Predictions of a round: of the pool of descendants the model sees all of them anyway."""


def model_choice(cascade: Cascade, device: cl.Device, seconds: float = 1.0, seed: int = 0) -> Candidate:
    """The best by prediction of what so many seconds of search find, the default mapping among it; runs in this process alone.

    Raises :class:`~feinsum_fuse.errors.SearchError` for a cascade of which no mapping can be predicted.
    """
    found = target(device)
    arch = known_device(device)
    assert arch.arch is not None and arch.opencl is not None
    space = Space(cascade, arch.arch, arch.opencl, found)
    search = Search(space, seed, space.defaults(), lambda candidates: predict_all([c.spec for c in candidates], found))
    end = time.monotonic() + seconds
    while proposed := search.ask(BATCH):
        for candidate in proposed:
            search.tell(candidate, search.predicted[candidate])
        if time.monotonic() > end:
            break
    predicted = {candidate: s for candidate, s in search.predicted.items() if s is not None}
    if not predicted:
        raise SearchError("the model predicts no mapping of this cascade")
    return min(predicted, key=lambda candidate: predicted[candidate])
