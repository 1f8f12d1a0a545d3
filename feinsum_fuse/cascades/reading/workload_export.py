"""A cascade as a workload, so that it can be part of a Spec."""

from __future__ import annotations

import re

import numpy as np
from constantdict import constantdict

from ...errors import CascadeError
from ...formats.language.reductions import ADD
from ...formats.opencl import OpenCL
from ...formats.workload import Operation, TensorAccess, Workload, WorkloadEinsum
from ..maps import product_of
from ..rewriting.online import Online
from ..sequence import EinsumSequence
from ..terms import Access, Einsum, SizeParam

_RANK = re.compile(r"[A-Z][A-Za-z0-9_]*")


def workload(cascade: EinsumSequence) -> Workload:
    """The workload whose cascade this is; sizes are numbers, and ranks that have no name get one.

    Rank variables that have one name and different extents in two Einsums get the Einsum's name appended. Raises :class:`CascadeError` for
    symbolic sizes.
    """
    if cascade.size_parameters:
        raise CascadeError(f"a workload has numbers for sizes, and {cascade.size_parameters[0]} is symbolic", hint="Give it a value.")
    ranks, sizes = _ranks(cascade)
    variables = _variables(cascade)

    def access(einsum: Einsum, old: Access, output: bool) -> TensorAccess:
        names = {v: variables[einsum.name, v] for v in old.variables}
        projection = {rank: index.renamed(names) for rank, index in zip(ranks[old.tensor], old.indices, strict=True)}
        bits = np.dtype(cascade.tensors[old.tensor].dtype).itemsize * 8
        return TensorAccess(old.tensor, constantdict(projection), output, bits_per_value=bits)

    online = {rewriting.maximum(cascade) for rewriting in cascade.rewritings if isinstance(rewriting, Online)}
    einsums = []
    for einsum in cascade.einsums:
        names = {v: variables[einsum.name, v] for v in einsum.variables}
        bounds = constantdict({names[v]: size for v, size in einsum.sizes.items() if isinstance(size, int)})
        constraints = [f"0 <= {v} < {size}" for v, size in bounds.items()]
        constraints += [f"{guard.renamed(names)} >= 0" for guard in einsum.guards]
        accesses = [access(einsum, operand, False) for operand in einsum.operands] + [access(einsum, einsum.output, True)]
        operation = Operation(_map(einsum, names), ADD.name if einsum.is_copy else einsum.reduce, einsum.populate, einsum.name in online)
        einsums.append(
            WorkloadEinsum(
                *(einsum.name, tuple(accesses), operation, einsum.is_copy),
                iteration_space_shape=tuple(constraints),
                bounds=bounds,
            )
        )
    return Workload(tuple(einsums), constantdict(sizes))


def element_types(cascade: EinsumSequence) -> OpenCL | None:
    """The cascade's element types and accumulators by tensor; ``None`` if a reader finds the same ones from the widths alone."""
    by_width = {32: "float32", 64: "float64"}
    known = all(by_width.get(np.dtype(tensor.dtype).itemsize * 8) == tensor.dtype for tensor in cascade.tensors.values())
    if known and all(einsum.accumulate == cascade.tensors[einsum.output.tensor].dtype for einsum in cascade.einsums):
        return None
    return OpenCL(
        dtypes=constantdict({name: tensor.dtype for name, tensor in cascade.tensors.items()}),
        accumulate=constantdict({einsum.output.tensor: einsum.accumulate for einsum in cascade.einsums}),
    )


def _map(einsum: Einsum, names: dict[str, str]) -> object | None:
    from pymbolic import substitute, var

    if einsum.map == product_of(len(einsum.operands)):
        return None
    renamed = {old: var(new) for old, new in names.items() if old != new}
    result: object = substitute(einsum.map, renamed) if renamed else einsum.map
    return result


def _variables(cascade: EinsumSequence) -> dict[tuple[str, str], str]:
    extents: dict[str, set[object]] = {}
    for einsum in cascade.einsums:
        for variable, size in einsum.sizes.items():
            extents.setdefault(variable, set()).add(size)
    taken = set(extents)
    result = {}
    for einsum in cascade.einsums:
        for variable in einsum.variables:
            name = variable
            if len(extents[variable]) > 1:
                name = f"{variable}_{re.sub(r'[^A-Za-z0-9_]', '_', einsum.name)}"
                while name in taken:
                    name += "_"
                taken.add(name)
            result[einsum.name, variable] = name
    return result


def _ranks(cascade: EinsumSequence) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """Tensor -> names of its ranks, and rank -> size; a name stands for one size."""
    sizes: dict[str, int] = {}
    ranks: dict[str, tuple[str, ...]] = {}
    accesses = {a.tensor: a for einsum in reversed(cascade.einsums) for a in (*reversed(einsum.operands), einsum.output)}
    for name, tensor in cascade.tensors.items():
        chosen: list[str] = []
        for axis, size in enumerate(tensor.shape):
            if isinstance(size, SizeParam):
                raise CascadeError(f"tensor {name} has the symbolic size {size.name}")
            index = accesses[name].indices[axis] if name in accesses else None
            wanted = tensor.ranks[axis] if tensor.ranks else (index.bare or "").upper() if index is not None else ""
            if not _RANK.fullmatch(wanted):
                wanted = f"R{len(sizes)}"
            rank, number = wanted, 0
            while rank in chosen or sizes.get(rank, size) != size:
                number += 1
                rank = f"{wanted}_{number}"
            sizes[rank] = size
            chosen.append(rank)
        ranks[name] = tuple(chosen)
    return ranks, sizes
