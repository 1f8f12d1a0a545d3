"""The roofline floor: no mapping that uses these levels is faster than its operations and its compulsory traffic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import ModelError
from ..formats.arch import Arch, Compute, Memory, Network
from ..formats.spec import Spec, expect_spec
from ..formats.workload import TensorAccess, WorkloadEinsum
from ..presentation import table
from .accelforge.component import actions_per_value, energy_per_action, localised
from .accelforge.einsum_nest import Holder, einsum_nest
from .accelforge.energy import instances
from .accelforge.latency import component_latency
from .floor_of_processors import WhereKept, call_seconds, handed_on, homes, touched
from .hardware.placement import managed_memories, place_caches
from .kernel.machine import Machine
from .prediction import joules_text


@dataclass(frozen=True, repr=False)
class Bounds:
    """Least latency and energy; all instances together. Units: s, J."""

    seconds: Mapping[str, float]
    """Component -> the least time that it is busy."""
    actions: Mapping[tuple[str, str], float]
    """(component, action) -> the least count."""
    energy: float
    """Least energy of these actions, leakage left out."""
    omitted: tuple[str, ...] = ()
    """Networks, whose hops are not counted: the floor holds with them, and may lie far below what they cost."""
    energies_assumed: bool = False
    """Whether the architecture's energies are assumed, as those of a calibration are."""

    @property
    def latency(self) -> float:
        """The least latency: that of the busiest component."""
        return max(self.seconds.values(), default=0.0)

    @property
    def bottleneck(self) -> str:
        """The busiest component."""
        return max(self.seconds, key=lambda name: self.seconds[name], default="")

    def __repr__(self) -> str:
        rows = [
            [name, f"{seconds:.6g}", ", ".join(f"{count:.6g} {action}" for (owner, action), count in self.actions.items() if owner == name)]
            for name, seconds in self.seconds.items()
        ]
        head = f"Bounds: at least {self.latency:.6g} s ({self.bottleneck}) and "
        head += f"{joules_text(self.energy, assumed=self.energies_assumed)} in actions"
        head += f"; hops across {', '.join(self.omitted)} are not counted" if self.omitted else ""
        return f"{head}\n\n{table(['Component', 'at least/s', 'actions'], rows, numbers=0)}"


def bounds(spec: Spec, *, cold: bool = False, lossy: bool = False, parts: Mapping[str, float] | None = None) -> Bounds:
    """The floor under every prediction for a workload on the levels that its mapping uses; without a mapping, the outermost memory.

    Each point is computed once. In the memory where a tensor lives, each Einsum that reads it reads every value once, and one that writes
    it writes every value once; each level below that holds it is filled once and read once, or written once and drained once. Work below a
    fanout spreads evenly over all instances. Caches that the model places count as levels, empty at first if ``cold``, as for
    :func:`~feinsum_fuse.model.evaluation.predict`. Without a mapping tensors come from where a run before can have left them
    (:func:`~feinsum_fuse.model.floor_of_processors.homes`). ``parts``: Einsum -> the part of its points that is computed, if not all.
    Networks are left out, so that the floor lies lower than it could. ``lossy``: with what a calibration found the last cache to lose
    between runs; a kernel is faster in an hour in which others use it less.

    On a processor that was measured a mapping that leaves caches to it has the floor of its workload, and of what it keeps in main memory
    of one Einsum for another: caches hold for one Einsum what another has read. Its functions take what they were measured to at the least
    (:func:`~feinsum_fuse.model.floor_of_processors.call_seconds`). Raises :class:`ModelError` if the spec has no architecture.
    """
    spec = expect_spec(spec)
    arch, machine = spec.arch, Machine.of(spec)
    if arch is None:
        raise ModelError("Bounds need an architecture.", hint="Give a file with the key arch.")
    is_measured = machine is not None and bool(managed_memories(spec))
    stored = handed_on(spec) if is_measured else frozenset()
    spec = spec.replace(mapping=None) if is_measured else place_caches(spec, cold=cold)
    where = homes(spec, arch, machine, stored, cold=cold, lossy=lossy) if spec.mapping is None else {}
    actions: dict[tuple[str, str], float] = {}
    energy = 0.0
    for einsum, compute, held in _uses(spec, arch, where, once=machine is not None):
        times = spec.workload.n_instances * einsum.n_instances
        for name, action, count in _compulsory(spec, arch, einsum, compute, held, (parts or {}).get(einsum.name, 1.0)):
            actions[name, action] = actions.get((name, action), 0.0) + count * times
            found = arch.component(name).action(action)
            energy += count * times * energy_per_action(arch.component(name), found) if found is not None else 0.0
    count_of = instances(arch)
    names: dict[str, object] = {**spec.variables, **arch.variables}
    seconds = {}
    for name in dict.fromkeys(name for name, _ in actions):
        calls = {action: n / count_of[name] for (owner, action), n in actions.items() if owner == name}
        seconds[name] = float(component_latency(arch.component(name), calls, names))
    if machine is not None:
        seconds[machine.unit] = max(seconds.get(machine.unit, 0.0), call_seconds(spec, machine, parts or {}) * spec.workload.n_instances)
    omitted = tuple(leaf.name for leaf in arch.components if isinstance(leaf, Network))
    return Bounds(seconds, actions, energy, omitted, arch.energies_assumed)


@dataclass(frozen=True)
class _Held:
    """A tensor in a memory; ``part`` of its values pass there at the least."""

    memory: str
    tensor: str
    lives: bool
    part: float = 1.0


def _uses(spec: Spec, arch: Arch, where: Mapping[str, WhereKept], *, once: bool) -> Iterator[tuple[WorkloadEinsum, str, list[_Held]]]:
    """(Einsum, compute unit, what is held) of every Einsum; ``where``: tensor -> where it is, without a mapping; ``once``: what an Einsum
    has fetched may be there for the next.
    """
    if spec.mapping is not None:
        for path in spec.mapping.paths():
            whole = einsum_nest(spec, path)
            holders = [node for node in whole.nodes if isinstance(node, Holder) and isinstance(node.component, Memory)]
            yield whole.einsum, whole.compute.name, [_Held(node.component.name, node.tensor, node.backing) for node in holders]
        return
    compute = next((leaf.name for leaf in arch.components if isinstance(leaf, Compute)), None)
    if compute is None or not any(isinstance(leaf, Memory) for leaf in arch.components):
        raise ModelError("Bounds need a Memory and a Compute in the architecture.")
    fetched: set[tuple[str, bool]] = set()
    for einsum in spec.workload.einsums:
        uses = {access.name: access.output for access in einsum.tensor_accesses}
        outer = [(tensor, output) for tensor, output in uses.items() if tensor in where and (tensor, output) not in fetched]
        fetched.update(outer if once else ())
        yield einsum, compute, [_Held(memory, tensor, True, part) for tensor, _ in outer for memory, part in where[tensor].items()]


def _compulsory(
    spec: Spec, arch: Arch, einsum: WorkloadEinsum, compute: str, held: list[_Held], part: float
) -> Iterator[tuple[str, str, float]]:
    """(component, action, count) that no mapping of one Einsum on these levels avoids."""
    unit = arch.component(compute)
    if not einsum.is_copy_operation:
        yield compute, "compute", math.prod(einsum.bounds.values()) * part * unit.actions_scale
    for one in held:
        memory = localised(spec, einsum, arch.component(one.memory))
        assert isinstance(memory, Memory)
        access = next(a for a in reversed(einsum.tensor_accesses) if a.name == one.tensor)
        size = touched(access, einsum) * one.part
        for action in _passes(einsum, access, one.lives):
            found = memory.action(action)
            if found is not None:
                yield one.memory, action, size * actions_per_value(memory, found, one.tensor, access.bits_per_value) * memory.actions_scale


def _passes(einsum: WorkloadEinsum, access: TensorAccess, lives: bool) -> tuple[str, ...]:
    """The actions that every value of a tensor undergoes once at a level."""
    if einsum.is_copy_operation:
        return ()
    if lives:
        return ("write",) if access.output else ("read",)
    return ("write", "read")
