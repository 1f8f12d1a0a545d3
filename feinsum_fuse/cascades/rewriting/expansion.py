"""Specs whose mapping places the parts of a softmax."""

from __future__ import annotations

import dataclasses

from ...formats.spec import Spec
from ..reading.reader import cascade


def expanded(spec: Spec) -> Spec:
    """The Spec with the workload that its mapping speaks of.

    A mapping may name the Einsums that a softmax expands to; then the workload becomes the expanded cascade's. Otherwise the Spec stays as
    it is: one Einsum, as AccelForge models it.
    """
    if spec.mapping is None or {c.einsum for c in spec.mapping.computes} <= {e.name for e in spec.workload.einsums}:
        return spec
    workload = dataclasses.replace(cascade(spec).workload, n_instances=spec.workload.n_instances)
    return dataclasses.replace(spec, workload=workload)
