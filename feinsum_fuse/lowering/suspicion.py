"""Einsums that compute something else than their names say."""

from __future__ import annotations

import re
import warnings

from ..spec.messages import SpecWarning
from ..spec.spec import Spec

_ACTIVATIONS = frozenset(["softmax", "relu", "gelu", "silu", "sigmoid", "tanh", "norm", "layernorm", "rmsnorm", "dropout"])
_NAMES = _ACTIVATIONS | {"exp", "log", "sqrt", "rsqrt", "max", "min", "mean", "abs", "erf"}


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
