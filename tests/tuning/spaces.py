"""A small cascade on a calibrated architecture, and executors that need no process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.target import ANY_DEVICE
from feinsum_fuse.tuning.space import Space

T = TypeVar("T")
DEVICE_FILE = Path(__file__).resolve().parents[1] / "devices" / "epyc.yaml"
WORKLOAD = """
workload:
  rank_sizes: {M: 48, N: 40, K: 64}
  bits_per_value: {All: 32}
  einsums:
  - "Z[m, n] = A[m, k] * B[k, n]"
"""


def product() -> Spec:
    """A product of matrices on an architecture that was measured somewhere."""
    return ff.loads(WORKLOAD + DEVICE_FILE.read_text())


def space() -> Space:
    """Its candidates, for no device in particular."""
    spec = product()
    assert spec.arch is not None and spec.opencl is not None
    return Space(ff.cascade(spec), spec.arch, spec.opencl, ANY_DEVICE)


class Here:
    """An executor that calls at once, in this process."""

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Future[T]:
        """The call's result."""
        future: Future[T] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future
