"""What all mappings of a workload start from: its cascade, the grammar kernel, and the nest before any step.

Reading a workload, building its kernel and reading that back take longer than all steps of a mapping. None of it depends on the mapping,
so what was last asked for is kept.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING

from ..cascades.cascade import Cascade
from ..cascades.reading.reader import cascade as cascade_of
from ..formats.opencl import OpenCL
from ..formats.spec import Spec
from ..formats.workload import Workload
from ..schedule.sameness import KEPT_WORKLOADS, Same
from ..schedule.steps.explicate import Explicate
from ..schedule.tree.nest import Nest

if TYPE_CHECKING:
    import loopy as lp


@dataclasses.dataclass(frozen=True, eq=False)
class Unscheduled:
    """A cascade before any step."""

    cascade: Cascade
    kernel: lp.TranslationUnit

    def nest(self, first: Explicate) -> Nest:
        """Its loops as the first step of a schedule reads them."""
        return _nest(Same(self), first)


def unscheduled(spec: Spec, outputs: tuple[str, ...] | None = None) -> Unscheduled:
    """What every mapping of this workload starts from; ``outputs`` are the tensors that are read afterwards, if not those of the workload.

    Raises :class:`~feinsum_fuse.errors.CascadeError` for a workload that is no cascade.
    """
    return _unscheduled(Same(spec.workload), Same(spec.opencl), outputs)


@lru_cache(KEPT_WORKLOADS)
def _unscheduled(workload: Same[Workload], opencl: Same[OpenCL | None], outputs: tuple[str, ...] | None) -> Unscheduled:
    cascade = cascade_of(Spec(workload.value, opencl=opencl.value))
    if outputs is not None:
        cascade = dataclasses.replace(cascade, outputs=outputs)
    return Unscheduled(cascade, cascade.kernel())


@lru_cache(KEPT_WORKLOADS)
def _nest(start: Same[Unscheduled], first: Explicate) -> Nest:
    return first.read(start.value.kernel)
