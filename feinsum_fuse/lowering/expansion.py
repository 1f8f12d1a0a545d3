"""Where the Einsums run that a cascade has and the mapping does not name: the parts of a softmax."""

from __future__ import annotations

from collections.abc import Iterator

from constantdict import constantdict

from ..cascades.cascade import Cascade
from ..cascades.terms import Einsum
from ..formats.mapping import Mapping, Placed
from ..formats.workload import TensorAccess, Workload

Path = tuple[Placed, ...]


def parts_of(cascade: Cascade, name: str) -> Iterator[str]:
    """The Einsums or tensors of the cascade that are parts of this one, in order: those whose name continues it after a dot."""
    names = dict.fromkeys((*(e.name for e in cascade.einsums), *cascade.tensors))
    yield from (part for part in names if part.startswith(f"{name}."))


def paths_of(mapping: Mapping, cascade: Cascade) -> dict[str, Path]:
    """Einsum -> its path, in order of execution.

    Parts of an Einsum that the mapping does not name run just before it, each under a copy of the nodes that are its own.
    """
    paths = {compute.einsum: mapping.path(compute.einsum) for compute in mapping.computes}
    result: dict[str, Path] = {}
    for name, path in paths.items():
        others = {placed.position for other, p in paths.items() if other != name for placed in p}
        missing = [e.name for e in cascade.einsums if e.name not in paths and e.name.startswith(f"{name}.")]
        for number, part in enumerate(missing):
            result[part] = tuple(p if p.position in others else Placed((*p.position, number), p.node) for p in path)
        if name in {e.name for e in cascade.einsums}:
            result[name] = path
    return result


def accesses_of(einsum: Einsum, workload: Workload) -> tuple[TensorAccess, ...]:
    """How the workload says that an Einsum touches its tensors; of a part that it does not name, how the cascade does."""
    named = next((e for e in workload.einsums if e.name == einsum.name), None)
    if named is not None:
        return named.tensor_accesses
    touched = (*((a, False) for a in einsum.operands), (einsum.output, True))
    return tuple(TensorAccess(a.tensor, constantdict({f"R{k}": i for k, i in enumerate(a.indices)}), output) for a, output in touched)
