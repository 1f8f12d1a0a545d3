"""Predictions of one mapping, and of many assignments of tile shapes to one tree."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import ANYTHING, HOOK, Kind, checked, expect, mapping
from ..cascades.reading.reader import expanded
from ..errors import CascadeError, LoweringError, MappingError, ModelError, ScheduleError
from ..formats.arch import Memory
from ..formats.mapping import Temporal
from ..formats.spec import Spec, expect_spec
from ..progress import Hook, Stage
from .accelforge.component import area
from .accelforge.energy import instances
from .accelforge.estimate import Estimate, estimate
from .floor import bounds
from .hardware.incore import core_term
from .hardware.launches import launch_seconds
from .hardware.placement import place_caches
from .kernel.machine import Machine
from .prediction import Figures, Key, Prediction
from .quantity import Floats, Number

CHUNK = 4096
"""Assignments evaluated together: their arrays stay in a core's own cache."""


def predict(spec: Spec, *, cold: bool = False, progress: Hook | None = None) -> Prediction:
    """AccelForge's figures for a spec with workload, architecture and mapping (:mod:`feinsum_fuse.model.accelforge`).

    Memories that the ``opencl`` key binds as ``cache`` and that the mapping does not use are used as the hardware would: the figures are
    those of :func:`~feinsum_fuse.model.hardware.placement.place_caches`, with caches empty at first if ``cold``.

    On an architecture that was measured the latency is that of the lowered kernel (:mod:`feinsum_fuse.model.kernel.kernel_time`), its
    launches included, and ``component_latency`` what the core and each level of memory would need alone; of a mapping that cannot be
    lowered, it is the formulas', and starting its kernels. The floor that :func:`~feinsum_fuse.model.floor.bounds` gives goes with it.
    ``progress`` is told of the formulas and of the kernel's time. Raises :class:`ModelError` if the spec lacks a part, if a mapping cannot
    be modelled, or if a memory overflows.
    """
    expect(progress, HOOK, "progress", ModelError)
    with Stage("predicting", progress):
        placed = place_caches(expanded(spec), cold=cold)
        prediction = replace(_prediction(placed, estimate(placed, core=core_term(placed))), least_latency=bounds(spec, cold=cold).latency)
        machine = Machine.of(spec)
    if machine is None:
        return prediction
    with Stage("predicting the kernel's time", progress):
        return _timed(prediction, spec, machine, cold)


def _timed(prediction: Prediction, spec: Spec, machine: Machine, cold: bool) -> Prediction:
    """The prediction with the times of the kernel that the mapping is lowered to."""
    from .kernel.interval import interval
    from .kernel.kernel_time import kernel_time

    try:
        found = kernel_time(spec, machine, cold=cold)
    except (CascadeError, LoweringError, MappingError, ScheduleError):
        return _with_launches(prediction, spec, cold)
    count = spec.workload.n_instances
    seconds: dict[Key, float] = {}
    for part in found.parts:
        for name, busy in {machine.unit: part.core, **part.memory}.items():
            seconds[part.einsum, name] = seconds.get((part.einsum, name), 0.0) + busy * count
    table = replace(prediction.component_latency, entries=seconds)
    latency, launches = found.seconds * count, (found.launches - found.waking) * count
    low, high = interval(found, machine)
    timed = replace(prediction, latency=latency, launches=launches, component_latency=table)
    return replace(timed, latency_low=low * latency, latency_high=high * latency)


def _with_launches(prediction: Prediction, spec: Spec, cold: bool) -> Prediction:
    """The formulas' prediction with what starting kernels and groups takes, if the architecture says so."""
    count = spec.workload.n_instances
    launches = launch_seconds(spec, prediction.latency / count, cold=cold) * count
    return replace(prediction, latency=prediction.latency + launches, launches=launches)


def predicted_seconds(spec: Spec, *, cold: bool = False) -> float:
    """Seconds that one instance takes on a calibrated device: the prediction's latency, starting kernels and groups included.

    Where the kernel model serves, it alone is asked, and none of a prediction's other figures is computed: so a search costs candidates.
    Raises :class:`ModelError` as :func:`predict` does for the others.
    """
    from .kernel.kernel_time import kernel_time

    machine = Machine.of(spec)
    if machine is not None:
        with contextlib.suppress(CascadeError, LoweringError, MappingError, ScheduleError):
            return kernel_time(spec, machine, cold=cold).seconds
    return run_seconds(predict(spec, cold=cold), spec, cold=cold)


def run_seconds(prediction: Prediction, spec: Spec, *, cold: bool = False) -> float:
    """Seconds that one instance takes as it was predicted, with starting kernels and groups where an architecture that was not measured
    says what that takes.
    """
    count = spec.workload.n_instances
    if not prediction.launches:
        prediction = _with_launches(prediction, spec, cold)
    return prediction.latency / count


def _number(figure: Number) -> float:
    return float(figure)


def _prediction(spec: Spec, result: Estimate) -> Prediction:
    arch = spec.arch
    assert arch is not None
    einsums = ("einsum", frozenset(e.name for e in spec.workload.einsums))
    components = ("component", frozenset(leaf.name for leaf in arch.components))
    tensors = ("tensor", frozenset({*spec.workload.tensors, None}))
    names = {action.name for leaf in arch.components for action in leaf.actions} | {"read", "write", "compute"}
    actions = ("action", frozenset(names))
    dimensions = ("dimension", frozenset(fanout.name for leaf in arch.components for fanout in leaf.spatial))
    items = result.einsums.items()

    def table(axes: tuple[tuple[str, frozenset[str | None]], ...], entries: Iterator[tuple[Key, Number]]) -> Figures:
        return Figures(axes, {key: _number(figure) for key, figure in entries})

    full = (einsums, components, tensors, actions)
    count_of = instances(arch, own=False)
    dynamic, leaked = _number(result.dynamic_energy), _number(result.leakage)
    return Prediction(
        energy=dynamic + leaked,
        latency=_number(result.latency),
        dynamic_energy=dynamic,
        total_leak_energy=leaked,
        actions=table(full, (((name, *key), n) for name, item in items for key, n in item.actions.items())),
        action_energy=table(full, (((name, *key), n) for name, item in items for key, n in item.action_energy.items())),
        leak_energy=table((einsums, components), (((name, key), n) for name, item in items for key, n in item.leak_energy.items())),
        component_latency=table(
            (einsums, components), (((name, key), n) for name, item in items for key, n in item.component_latency.items())
        ),
        occupancy=table(
            (einsums, components, tensors), (((name, r.component, r.tensor), r.bits) for name, item in items for r in item.reserved)
        ),
        peak=table((components,), (((name,), bits) for name, bits in result.peak.items())),
        computes=table((einsums,), (((name,), item.computes) for name, item in items)),
        sizes=table((components,), (((leaf.name,), leaf.size) for leaf in arch.components if isinstance(leaf, Memory))),
        usage=table((einsums, components, dimensions), (((name, *key), n) for name, item in items for key, n in item.usage.items())),
        n_instances=spec.workload.n_instances,
        energies_assumed=arch.energies_assumed,
        area={leaf.name: area(leaf) * count_of[leaf.name] for leaf in arch.components if leaf.area},
    )


@dataclass(frozen=True, repr=False)
class Predictions:
    """Figures of many assignments of tile shapes to the loops of one tree, one array element each; units J, s, bits."""

    energy: Floats
    latency: Floats
    legal: NDArray[np.bool_]
    """Whether the assignment is a mapping that fits; the figures of the others mean nothing."""
    peak: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def energy_delay_product(self) -> Floats:
        """Energy times latency, J s."""
        return self.energy * self.latency

    def __len__(self) -> int:
        return len(self.latency)

    def __repr__(self) -> str:
        count = int(self.legal.sum())
        if not count:
            return f"{len(self)} predictions, none legal"
        latency, energy = (float(figures[self.legal].min()) for figures in (self.latency, self.energy))
        return f"{len(self)} predictions, {count} legal; least latency {latency:.6g} s, least energy {energy:.6g} J"


_POSITION = Kind("a position", lambda value: isinstance(value, tuple) and all(isinstance(part, int) for part in value))


@checked(ModelError, tile_shapes=mapping("a mapping from positions in the tree to arrays", _POSITION, ANYTHING), progress=HOOK)
def predict_many(spec: Spec, tile_shapes: Mapping[tuple[int, ...], ArrayLike], *, progress: Hook | None = None) -> Predictions:
    """The model on many assignments of tile shapes to one tree structure.

    ``tile_shapes``: a loop's position in the tree (:attr:`~feinsum_fuse.formats.mapping.Placed.position`) -> an integer array; all arrays
    have one length. Loops that are not named keep their shape. The formulas are those of :func:`predict`, run on arrays; caches hold what
    the mapping says, nothing is placed. ``progress`` is told of the assignments, :data:`CHUNK` at a time.
    Raises :class:`ModelError` if a position is no loop or the lengths differ.
    """
    spec = expanded(expect_spec(spec))
    given = _arrays(spec, tile_shapes)
    length = len(next(iter(given.values())))
    possible = np.all([array >= 1 for array in given.values()], axis=0)
    arrays = {place: np.maximum(array, 1) for place, array in given.items()}
    core = core_term(spec)
    starts = range(0, length, CHUNK)
    lengths = [min(CHUNK, length - start) for start in starts]
    parts: list[Estimate] = []
    with Stage("predicting assignments", progress, length) as predicting:
        for start, count in zip(starts, lengths, strict=True):
            parts.append(estimate(spec, {place: array[start : start + count] for place, array in arrays.items()}, core))
            predicting.advance(count)

    def joined(figures: list[Number]) -> Floats:
        spread = [np.broadcast_to(np.asarray(f, dtype=np.float64), (n,)) for f, n in zip(figures, lengths, strict=True)]
        return np.concatenate(spread) if spread else np.zeros(0)

    return Predictions(
        energy=joined([part.dynamic_energy + part.leakage for part in parts]),
        latency=joined([part.latency for part in parts]),
        legal=possible & joined([np.asarray(part.legal, dtype=np.float64) for part in parts]).astype(bool),
        peak={name: joined([part.peak[name] for part in parts]) for name in (parts[0].peak if parts else ())},
    )


def _arrays(spec: Spec, tile_shapes: Mapping[tuple[int, ...], ArrayLike]) -> dict[tuple[int, ...], Floats]:
    if spec.mapping is None:
        raise ModelError("A prediction needs an architecture and a mapping.", hint="Give files with the keys arch and mapping.")
    loops = {placed.position for path in spec.mapping.paths() for placed in path if isinstance(placed.node, Temporal)}
    try:
        arrays = {tuple(place): np.asarray(array, dtype=np.float64) for place, array in tile_shapes.items()}
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"tile shapes are arrays of numbers: {error}") from None
    strangers = [place for place in arrays if place not in loops]
    if strangers:
        raise ModelError(f"No loop of the mapping is at {strangers[0]}.", hint=f"Loops are at {', '.join(map(str, sorted(loops)))}.")
    if len({array.shape for array in arrays.values()}) != 1 or any(array.ndim != 1 for array in arrays.values()):
        raise ModelError("predict_many needs one array of tile shapes per loop, all of one length.")
    if any(not np.all(np.equal(np.floor(array), array)) for array in arrays.values()):
        raise ModelError("Tile shapes are whole numbers.")
    return arrays
