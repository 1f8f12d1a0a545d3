"""Whether an Einsum's points and the elements that they reach correspond one to one."""

from __future__ import annotations

import islpy as isl

from ..cascade import Einsum, SizeParam


def is_injective(einsum: Einsum) -> bool:
    """Whether no two points of an Einsum reach the same element of its output."""
    alias = {variable: f"v{k}" for k, variable in enumerate(einsum.variables)}
    symbols = list(dict.fromkeys(size.name for size in einsum.sizes.values() if isinstance(size, SizeParam)))
    lengths = {v: f"n{symbols.index(size.name)}" if isinstance(size, SizeParam) else str(size) for v, size in einsum.sizes.items()}
    conditions = [f"0 <= {alias[v]} < {lengths[v]}" for v in einsum.variables]
    conditions += [f"{guard.renamed(alias)} >= 0" for guard in einsum.guards]
    elements = ", ".join(f"({index.renamed(alias)})" for index in einsum.output.indices)
    parameters = ", ".join(f"n{k}" for k in range(len(symbols)))
    points = ", ".join(alias.values())
    return bool(isl.Map(f"[{parameters}] -> {{[{points}] -> [{elements}] : {' and '.join(conditions) or 'true'}}}").is_injective())
