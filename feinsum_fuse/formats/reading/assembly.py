"""Specs from Python objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from ...arguments import NOTHING, expect, instance
from ...errors import SpecError
from ..arch import Arch
from ..checking.workload_check import check_ranks, einsum_bounds
from ..mapping import Mapping
from ..opencl import OpenCL
from ..spec import Spec
from ..workload import Workload


@runtime_checkable
class HasWorkload(Protocol):
    """Anything that can say what workload it is, such as a Cascade."""

    @property
    def workload(self) -> Workload: ...


def spec(cascade: Workload | HasWorkload, arch: Arch | None = None, mapping: Mapping | None = None, opencl: OpenCL | None = None) -> Spec:
    """A validated Spec from Python objects, for ``ff.predict``, ``ff.compile``, ``ff.measure`` and ``ff.lower``.

    ``cascade``: what is computed, a ``Cascade`` of ``ff.cascade`` or the ``workload`` of another Spec. ``arch``: the memories, fanouts and
    compute units, ``ff.calibrate(device).arch`` for example. ``mapping``: the LoopTree, ``ff.default_mapping(cascade)`` for example;
    without one, the default runs. ``opencl``: what the architecture's parts are on a device, and element types. All four are attributes of
    the Spec; ``spec.replace(mapping=...)`` changes one, ``spec.to_yaml()`` writes it, and ``ff.load`` reads one from files. ::

        cascade = ff.cascade(["T[m, n] = A[m, k] * B[k, n]"], sizes={"M": 64, "K": 32, "N": 16}, dtypes={"All": "float32"})
        spec = ff.spec(cascade)
        program = ff.compile(spec)

    Bounds that the Einsums lack are computed. Element types are those of ``opencl``, else of the cascade's own ``opencl``. Raises
    :class:`SpecError`, and :class:`MappingError` for a mapping that does not fit.
    """
    expect(opencl, instance("an OpenCL", OpenCL) | NOTHING, "opencl", SpecError)
    workload = cascade if isinstance(cascade, Workload) else getattr(cascade, "workload", None)
    if not isinstance(workload, Workload):
        raise SpecError(f"A Spec is built from a Workload or a Cascade, not from {type(cascade).__name__}.")
    known = getattr(cascade, "opencl", None)
    if isinstance(known, OpenCL):
        given = opencl or OpenCL()
        opencl = replace(given, dtypes=given.dtypes or known.dtypes, accumulate=given.accumulate or known.accumulate)
    check_ranks(workload)
    bounded = tuple(e if e.bounds else replace(e, bounds=einsum_bounds(workload, e)) for e in workload.einsums)
    return Spec(replace(workload, einsums=bounded)).replace(arch=arch, mapping=mapping, opencl=opencl)
