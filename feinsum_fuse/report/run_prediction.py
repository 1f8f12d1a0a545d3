"""What the model says of a mapping as it ran: with the element types of the kernel, for one instance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from constantdict import constantdict

from ..cascades.cascade import Cascade
from ..cascades.reading.reader import expanded
from ..formats.arch import Memory
from ..formats.opencl import CACHE_KINDS, MAIN_KINDS
from ..formats.spec import Spec
from ..formats.workload import WorkloadEinsum
from ..lowering.binding import Bindings
from ..lowering.branch import runs_over_variables
from ..model.accelforge.estimate import Estimate, estimate
from ..model.evaluation import predict, run_seconds
from ..model.floor import bounds
from ..model.kernel.machine import Machine
from ..model.prediction import Key, Prediction
from .bytes_moved import bytes_moved

LAUNCHES = "launches"
"""What starting kernels and work-groups is called among the things that time goes into."""


def as_run(spec: Spec, cascade: Cascade) -> Spec:
    """The Spec with the widths of the element types that ran, so that a prediction counts the bits that moved."""

    def widened(einsum: WorkloadEinsum) -> WorkloadEinsum:
        accesses = tuple(
            dataclasses.replace(access, bits_per_value=8 * np.dtype(cascade.tensors[access.name].dtype).itemsize)
            for access in einsum.tensor_accesses
        )
        return dataclasses.replace(einsum, tensor_accesses=accesses)

    spec = expanded(spec)
    einsums = tuple(widened(einsum) if _runs_under(einsum, cascade) else einsum for einsum in spec.workload.einsums)
    return dataclasses.replace(spec, workload=dataclasses.replace(spec.workload, einsums=einsums))


def _runs_under(einsum: WorkloadEinsum, cascade: Cascade) -> bool:
    return all(access.name in cascade.tensors for access in einsum.tensor_accesses)


def without_caches(spec: Spec) -> Spec:
    """The Spec with no memory bound as a cache, so that the model counts accesses as the kernel makes them."""
    if spec.opencl is None:
        return spec
    memories = constantdict({name: kind for name, kind in spec.opencl.memories.items() if kind not in CACHE_KINDS})
    return dataclasses.replace(spec, opencl=dataclasses.replace(spec.opencl, memories=memories))


def with_cores(spec: Spec, given: float) -> Spec:
    """The Spec on a processor whose cores together do as much as ``given`` of them do alone; as it is, where it was not measured."""
    machine = Machine.of(spec)
    if machine is None or spec.arch is None:
        return spec
    alone = machine.together(1)
    known = {key: value for key, value in spec.arch.variables.items() if not key.startswith("cores_together_")}
    known |= {"cores_together_1": alone, f"cores_together_{machine.cores}": given * alone}
    return spec.replace(arch=dataclasses.replace(spec.arch, variables=constantdict(known)))


@dataclass(frozen=True)
class Predicted:
    """A prediction of one instance of a workload; ``note`` says what it rests on."""

    prediction: Prediction
    predicted_time: float
    """Seconds."""
    predicted_intermediate_bytes: float
    """Bytes of intermediates read from and written to memories that are global on the device, as the mapping says; caches keep none."""
    predicted_floor: float
    """Seconds below which the roofline says that no mapping on these levels can be."""
    n_instances: int = 1
    predicted_floor_by: str = ""
    """The component that the floor comes from."""
    uncut: tuple[str, ...] = ()
    """Einsums that the kernel computes element by element, whatever loops the mapping has: sums of rank variables index their outputs."""

    @property
    def reservation(self) -> str:
        """Why this is a prediction of the mapping, and not of the kernel that ran; empty if it is one of both."""
        return reservation(self.uncut)

    @property
    def interval(self) -> tuple[float, float]:
        """Seconds between which 8 in 10 kernels of this kind were, launches included; 0 where the kernel model does not serve."""
        p = self.prediction
        launches = self.predicted_time - p.latency / self.n_instances
        low, high = (latency / self.n_instances + launches for latency in (p.latency_low, p.latency_high))
        return (low, high) if p.latency_high else (0.0, 0.0)

    @property
    def shares(self) -> dict[str, float]:
        """What the model thinks the time goes into, the largest share first: components that bound an Einsum, and ``launches``."""
        seconds, busiest = self.prediction.einsum_latency, self.prediction.bottleneck
        inside = (self.prediction.latency - self.prediction.launches) / self.n_instances
        scale = inside / total if (total := sum(seconds.values())) else 0.0
        found: dict[str, float] = {LAUNCHES: max(0.0, self.predicted_time - inside)}
        for einsum, component in busiest.items():
            found[component] = found.get(component, 0.0) + seconds[einsum] * scale
        everything = sum(found.values())
        ordered = sorted(found, key=lambda name: -found[name])
        return {name: found[name] / everything for name in ordered if everything and found[name] > 1e-9 * everything}

    @property
    def bottleneck(self) -> str:
        """What the largest share of the time goes into."""
        return next(iter(self.shares), "nothing")

    @classmethod
    def of(cls, spec: Spec, cascade: Cascade, *, cold: bool = False) -> Predicted:
        """The prediction beside a measurement of this Spec; raises :class:`~feinsum_fuse.errors.ModelError`.

        Time and traffic are those of the element types that ran. On an architecture that was not measured, memories hold values as wide
        as the workload says: it is the architect's, whatever computed in float32.
        """
        ran = as_run(spec, cascade)
        count = ran.workload.n_instances
        if _is_theirs(spec, ran):
            held = estimate(expanded(spec))
            ran = _roomy(ran)
            prediction = _with_room(predict(ran, cold=cold), spec, held)
        else:
            prediction = predict(ran, cold=cold)
        seconds = run_seconds(prediction, ran, cold=cold)
        moved = _intermediate_bytes(ran, cascade, predict(without_caches(ran)))
        floor = bounds(ran, cold=cold)
        return cls(prediction, seconds, moved / count, floor.latency / count, count, floor.bottleneck, uncut(cascade))


def uncut(cascade: Cascade) -> tuple[str, ...]:
    """The Einsums that a kernel computes element by element, whatever loops the mapping has."""
    return tuple(einsum.name for einsum in cascade.einsums if not runs_over_variables(cascade, einsum))


def reservation(names: Sequence[str]) -> str:
    """Why a prediction is of the mapping, and not of the kernel, where these Einsums are uncut; empty where none is."""
    if not names:
        return ""
    found = ", ".join(names)
    return f"sums of rank variables index what {found} writes, element by element: the prediction is of the mapping, not of its kernel"


def _is_theirs(spec: Spec, ran: Spec) -> bool:
    """Whether the widths of the file and those that ran differ on an architecture that nobody measured."""
    widths = [{a.name: a.bits_per_value for e in one.workload.einsums for a in e.tensor_accesses} for one in (expanded(spec), ran)]
    return widths[0] != widths[1] and Machine.of(spec) is None


def _roomy(spec: Spec) -> Spec:
    """The Spec with endless memories where they are no caches: what fits was asked before, in other widths."""
    assert spec.arch is not None
    kinds = spec.opencl.memories if spec.opencl is not None else {}
    arch = spec.arch.resized(lambda memory: memory.size if kinds.get(memory.name) in CACHE_KINDS else math.inf)
    return dataclasses.replace(spec, arch=arch)


def _with_room(prediction: Prediction, spec: Spec, held: Estimate) -> Prediction:
    """The prediction with the sizes of the memories, and what they hold, in the widths of the file."""
    assert spec.arch is not None
    sizes: dict[Key, float] = {(leaf.name,): leaf.size for leaf in spec.arch.components if isinstance(leaf, Memory)}
    bits: dict[Key, float] = {(name, r.component, r.tensor): float(r.bits) for name, item in held.einsums.items() for r in item.reserved}
    return dataclasses.replace(
        prediction,
        sizes=dataclasses.replace(prediction.sizes, entries=sizes),
        occupancy=dataclasses.replace(prediction.occupancy, entries=bits),
        peak=dataclasses.replace(prediction.peak, entries={(name,): float(peak) for name, peak in held.peak.items()}),
    )


def _intermediate_bytes(spec: Spec, cascade: Cascade, prediction: Prediction) -> float:
    assert spec.arch is not None
    bindings = Bindings(spec)
    main = {leaf.name for leaf in spec.arch.components if isinstance(leaf, Memory) and bindings.memory(leaf.name) in MAIN_KINDS}
    moved = bytes_moved(spec, prediction).items()
    return sum(count for (_, component, tensor, _), count in moved if component in main and tensor in cascade.intermediates)
