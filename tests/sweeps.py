"""How far the sweeps go: a small part with a fixed seed by default, in full with ``FEINSUM_FUSE_SLOW=1`` (``make test-slow``)."""

from __future__ import annotations

import os

SLOW = os.environ.get("FEINSUM_FUSE_SLOW") == "1"
PART = "a twentieth, of 500 and more a fortieth, of thousands a hundredth"
CLOCK = os.environ.get("FEINSUM_FUSE_CLOCK", "")
"""With a number, times that kernels are measured to take are multiplied at random (:mod:`tests.clock`)."""
SEED = int(os.environ.get("FEINSUM_FUSE_SEED", "20261"))


def sweep_size(full: int) -> int:
    """How many cases of a sweep of ``full`` cases this run does: all, or :data:`PART` of them; never none."""
    return full if SLOW else max(1, full // (20 if full < 500 else 40 if full <= 1000 else 100))
