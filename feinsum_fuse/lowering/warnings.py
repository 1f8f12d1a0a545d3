"""What a mapping or a workload hardly means: Einsums that copy under a function's name, loops in space that run one after another."""

from __future__ import annotations

import re
import warnings

from ..errors import SpecWarning
from ..formats.language.functions import FUNCTIONS
from ..formats.mapping import Spatial
from ..formats.spec import Spec

_ACTIVATIONS = frozenset(["softmax", "relu", "gelu", "silu", "sigmoid", "tanh", "norm", "layernorm", "rmsnorm", "dropout"])
_NAMES = _ACTIVATIONS | {"mean"} | {f.name for f in FUNCTIONS.values() if f.arity == 1 or f.is_associative}


def warn_of_plain_copies(spec: Spec) -> None:
    """Warn of Einsums that copy their only input under a name such as ``QK_softmax``: AccelForge's files give no operation."""
    for einsum in spec.workload.einsums:
        words = re.split(r"[^a-z]+", einsum.name.lower())
        named = next((word for word in words if word in _NAMES), None)
        plain = einsum.operation.map is None and len(einsum.inputs) == 1 and not einsum.is_copy_operation
        reduces = any(set(einsum.rank_variables) - set(access.rank_variables) for access in einsum.outputs)
        if named and plain and not reduces:
            source = einsum.inputs[0].name
            warnings.warn(
                f"Einsum {einsum.name} has no operation and copies {source}, although its name says {named}. "
                f'Give it one, for example operations: {{map: "{named}({source})"}}, or is_copy_operation: True.',
                SpecWarning,
                stacklevel=3,
            )


def warn_of_unbound_loops(spec: Spec) -> None:
    """Warn if a mapping has loops in space and nothing says of any of them what it is on the device: all run one after another."""
    assert spec.mapping is not None
    placed = {node.position: node.node for path in spec.mapping.paths() for node in path}
    nodes = [node for _, node in sorted(placed.items()) if isinstance(node, Spatial)]
    bound = spec.opencl.fanouts if spec.opencl is not None else {}
    if not nodes or any(key in bound for node in nodes for key in (f"{node.component}.{node.name}", node.component)):
        return
    components = list(dict.fromkeys(node.component for node in nodes))
    loops = ", ".join(dict.fromkeys(f"{_variables(node)} over {node.component}" for node in nodes))
    lacking = "there is no opencl key" if spec.opencl is None else f"the opencl key binds {', '.join(bound) or 'no fanout'}"
    example = ", ".join(f"{name}: {kind}" for name, kind in zip(components, ("group.0", "local.0", "vector"), strict=False))
    warnings.warn(
        f"Every loop in space of the mapping runs one after another, in one work-item ({loops}): {lacking}. Load it with a file that says "
        f"what the components are on the device, for example opencl: {{fanouts: {{{example}}}}}; loop says that it is meant.",
        SpecWarning,
        stacklevel=3,
    )


def _variables(node: Spatial) -> str:
    names = (node.rank_variable,) if isinstance(node.rank_variable, str) else node.rank_variable.values()
    return " and ".join(dict.fromkeys(names))
