"""How many bytes the actions of a prediction move."""

from __future__ import annotations

from ..formats.arch import Action, Memory, Toll
from ..formats.spec import Spec
from ..model.accelforge.component import actions_per_value, bits_per_value, localised
from ..model.prediction import Prediction

Move = tuple[str, str, str, str]
"""(Einsum, component, tensor, action)."""


def bytes_moved(spec: Spec, prediction: Prediction) -> dict[Move, float]:
    """What each memory and toll reads and writes for each Einsum and tensor, in bytes, all instances together.

    ``spec`` is the one that was predicted: its architecture says how many values an action moves, and how wide they are.
    """
    assert spec.arch is not None
    found: dict[Move, float] = {}
    for einsum in spec.workload.einsums:
        widths = {access.name: access.bits_per_value for access in einsum.tensor_accesses}
        for leaf in spec.arch.components:
            component = localised(spec, einsum, leaf)
            if not isinstance(component, Memory | Toll):
                continue
            for name in ("read", "write"):
                for tensor, bits in widths.items():
                    count = prediction.actions.entries.get((einsum.name, component.name, tensor, name), 0.0)
                    if count:
                        each = actions_per_value(component, component.action(name) or Action(name), tensor, bits) * component.actions_scale
                        found[einsum.name, component.name, tensor, name] = count / each * bits_per_value(component, tensor, bits) / 8
    return found
