"""Why no mapping is legal: which memories are too small, and for what."""

from __future__ import annotations

import numpy as np

from .einsum.space import levels
from .einsum.tables import Tables
from .problem import Problem


def infeasible(problem: Problem) -> str:
    """Einsum by Einsum, the least that each memory must hold against its size; then what the cascade needs together."""
    lines = ["No mapping fits the memories of the architecture."]
    for own in problem.tables:
        alone = [line for tables in own for line in _too_small(tables)]
        if alone and not any(tables.floors(problem.figures.floors) for tables in own):
            lines += alone
    if len(lines) == 1:
        sizes = ", ".join(f"{memory.name} has {memory.size:g} bits" for memory in problem.tracked)
        lines.append(f"Each Einsum fits alone, but not with what must stay alive for the others: {sizes}.")
    return "\n  ".join(lines)


def _too_small(tables: Tables) -> list[str]:
    """The memories that cannot hold even one value of every tensor that they must keep."""
    space = tables.space
    ones = np.ones((1, len(space.terms.variables)), dtype=np.int64)
    result = []
    for place, m in enumerate(space.tracked):
        needs = [
            sum(
                float(space.occupied(t, m, space.terms.bounds[None] if m == 0 else ones)[0, place])
                for t in space.tensors
                if m in levels(o[t])
            )
            for o in space.options
        ]
        size = space.sizes[place]
        if needs and min(needs) > size:
            name = space.terms.einsum.name
            lines = f"Einsum {name} needs at least {min(needs):g} bits of {space.memory_name(m)}, whose size is {size:g} bits."
            result.append(lines)
    return result
