"""A time below which nothing can have run: what claims less was not measured, or not what it says.

The rates are far above those of any device, since a fact that is doubted wrongly is lost until it is measured anew.
"""

from __future__ import annotations

import math

from ...cascades.cascade import Cascade
from ...cascades.maps import variables_in
from .record import Record

POINTS_PER_UNIT = 4e12
"""Points of an iteration space that a compute unit takes in a second. A core with two multiply-adds of 64 bytes at 6 GHz takes 0.8e12
of one byte each (Intel 64 and IA-32 Architectures Optimization Reference Manual, 2.1), an H100's multiprocessor 0.25e12 of 32 bits without
matrix units (NVIDIA H100 Tensor Core GPU Architecture, table 3), which OpenCL C cannot reach."""
LEAST_SECONDS = 1e-8
"""Of a launch with the host's clock around it; an enqueueing call alone takes longer."""


def least_seconds(record: Record) -> float:
    """Seconds that the record's cascade takes at the least on its device."""
    return max(LEAST_SECONDS, _points(record.cascade) / (POINTS_PER_UNIT * max(1, record.device.units)))


def is_plausible(record: Record) -> bool:
    """Whether the times that a record claims can be true; a failure claims none."""
    return not record.measurement.samples_ns or record.measurement.minimum >= least_seconds(record)


def _points(cascade: Cascade) -> float:
    """Points that every schedule computes: none of a cascade that may mask some, nor of Einsums that repeat what a compiler may merge."""
    if any(einsum.guards or variables_in(einsum.map) & set(einsum.sizes) for einsum in cascade.einsums):
        return 0.0
    return math.fsum(
        math.prod(float(size) for size in einsum.sizes.values() if isinstance(size, int))
        for einsum in cascade.einsums
        if set(einsum.sizes) <= {variable for operand in einsum.operands for variable in operand.variables}
    )
