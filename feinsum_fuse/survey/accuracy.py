"""The model on the calibrated device, against everything that was measured before."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from constantdict import constantdict

from ..cascades.reading.reader import cascade
from ..errors import DeviceError, Error
from ..formats.arch import Action, Arch, ArchNode, Compute, Memory
from ..formats.opencl import MEMORIES
from ..formats.reading.load import load
from ..formats.spec import Spec
from ..report.agreement import Agreement
from ..report.run_prediction import Predicted
from .step_session import SurveySession

MEASURED = ("smoke", "examples")
"""Steps whose kernels are predicted now; the tuner has predicted its own, and random trees are not timed."""


def model(session: SurveySession) -> None:
    """A line for each kernel with its predicted and its measured time, and one for each step and workload with their agreement."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for line in session.journal.read("tuning"):
        history = line.get("history")
        for tried in history if isinstance(history, list) else ():
            predicted, measured = tried["predicted_s"], tried["measured_s"]
            if predicted and measured and not tried["equal"]:
                pairs.setdefault(f"tuning {line['label']}", []).append((predicted, measured))
    if session.device_file.exists():
        known = load(session.device_file)
        for step in MEASURED:
            pairs[step] = [pair for line in session.journal.read(step) if (pair := _predicted(session, step, line, known))]
    else:
        session.write(label="smoke, examples", outcome="left out", message="the device was not calibrated")
    for label, found in pairs.items():
        if len(found) > 1:
            agreement = Agreement.of([predicted for predicted, _ in found], [measured for _, measured in found])
            session.write(group=label, **dataclasses.asdict(agreement))


def _predicted(session: SurveySession, step: str, line: Mapping[str, object], known: Spec) -> tuple[float, float] | None:
    """(Predicted, measured) seconds of a kernel that ran well; a line says why there is no prediction."""
    measured, file = line.get("median_s"), line.get("spec")
    if not isinstance(measured, float) or file is None or session.left <= 0:
        return None
    label = f"{step} {line['label']}"
    try:
        spec = on_device(load(session.journal.folder / str(file)), known)
        predicted = Predicted.of(spec, cascade(spec))
    except Error as error:
        session.write(label=label, measured_s=measured, message=error.message)
        return None
    seconds = predicted.predicted_time
    session.write(label=label, measured_s=measured, predicted_s=seconds, predicted_floor_s=predicted.predicted_floor)
    return (seconds, measured) if seconds > 0 and math.isfinite(seconds) else None


def on_device(spec: Spec, known: Spec) -> Spec:
    """A Spec on its own architecture's components, with the rates of a calibrated one: by what they are bound to.

    A memory takes the rates of the calibrated one in the same address space, a unit that computes those of a lane; launches and groups cost
    what they were measured to. Raises :class:`~feinsum_fuse.errors.DeviceError` for Specs without an architecture.
    """
    if spec.arch is None or spec.opencl is None or known.arch is None or known.opencl is None:
        raise DeviceError("a Spec without an architecture has no rates to be replaced", hint="Give it one.")
    rates: dict[str, Memory] = {}
    for leaf in known.arch.components:
        if isinstance(leaf, Memory) and (kind := known.opencl.memories.get(leaf.name)) is not None:
            rates.setdefault(_space(kind), leaf)
    unit = next((leaf for leaf in known.arch.components if isinstance(leaf, Compute)), None)
    nodes: list[ArchNode] = []
    for node in spec.arch.nodes:
        if isinstance(node, Memory) and (like := rates.get(_space(spec.opencl.memories.get(node.name, "global")))) is not None:
            actions = tuple(_as_fast(action, like.action(action.name)) for action in node.actions)
            node = dataclasses.replace(node, actions=actions, total_latency=like.total_latency)
        elif isinstance(node, Compute) and unit is not None:
            node = dataclasses.replace(node, actions=tuple(_as_fast(action, unit.action(action.name)) for action in node.actions))
        nodes.append(node)
    return spec.replace(arch=Arch(tuple(nodes), constantdict(known.arch.variables)))


def _space(kind: str) -> str:
    """The address space of a kind of memory; caches have none, and a name of their own."""
    memory = MEMORIES[kind]
    return "cache" if memory.is_cache else memory.address_space


def _as_fast(action: Action, like: Action | None) -> Action:
    return action if like is None else dataclasses.replace(action, throughput=like.throughput)
