"""What cascades that can share a schedule have in common: the cascade with every length made symbolic."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict

from ...cascades.cascade import Cascade
from ...cascades.terms import Size, SizeParam


@dataclass(frozen=True)
class Dimension:
    """Something that has a length: a rank variable of an Einsum, or an axis of a tensor by its number."""

    owner: str
    which: str | int


@dataclass(frozen=True)
class Skeleton:
    """A cascade whose lengths are parameters, and the lengths that the parameters stand for."""

    cascade: Cascade
    sizes: constantdict[str, Size]
    """Parameter -> the length in the original cascade."""
    axes: constantdict[str, Dimension]
    """Parameter -> one of the axes that have this length."""


class _Classes:
    """Axes grouped by what must be equally long (a union-find)."""

    def __init__(self) -> None:
        self.parent: dict[Dimension, Dimension] = {}

    def find(self, axis: Dimension) -> Dimension:
        root = self.parent.setdefault(axis, axis)
        while root != self.parent[root]:
            root = self.parent[root]
        while axis != root:
            self.parent[axis], axis = root, self.parent[axis]
        return root

    def join(self, first: Dimension, second: Dimension) -> None:
        self.parent[self.find(second)] = self.find(first)


def skeleton(cascade: Cascade) -> Skeleton:
    """The skeleton of a cascade, in the cascade's own names.

    Two lengths share a parameter exactly when an access forces them to be equal: an axis that a rank variable alone indexes belongs to
    that variable. An axis that is longer than its variable (a halo, or padding) stays its own.
    """
    classes = _Classes()
    for einsum in cascade.einsums:
        for variable in einsum.variables:
            classes.find(Dimension(einsum.name, variable))
        for access in (einsum.output, *einsum.operands):
            for position, index in enumerate(access.indices):
                axis = Dimension(access.tensor, position)
                if index.bare is not None and einsum.sizes[index.bare] == cascade.tensors[access.tensor].shape[position]:
                    classes.join(Dimension(einsum.name, index.bare), axis)
    for tensor in cascade.tensors.values():
        for position in range(len(tensor.shape)):
            classes.find(Dimension(tensor.name, position))
    roots = list(dict.fromkeys(classes.find(axis) for axis in classes.parent))
    parameters = {root: SizeParam(f"size_{number}") for number, root in enumerate(roots)}
    return Skeleton(
        _generalised(cascade, {axis: parameters[classes.find(axis)] for axis in list(classes.parent)}),
        constantdict({parameter.name: _length(cascade, root) for root, parameter in parameters.items()}),
        constantdict({parameter.name: root for root, parameter in parameters.items()}),
    )


def _length(cascade: Cascade, axis: Dimension) -> Size:
    if isinstance(axis.which, int):
        return cascade.tensors[axis.owner].shape[axis.which]
    return cascade.einsum(axis.owner).sizes[axis.which]


def _generalised(cascade: Cascade, parameters: dict[Dimension, SizeParam]) -> Cascade:
    einsums = tuple(
        dataclasses.replace(einsum, sizes=constantdict({v: parameters[Dimension(einsum.name, v)] for v in einsum.variables}))
        for einsum in cascade.einsums
    )
    tensors = {
        name: dataclasses.replace(tensor, shape=tuple(parameters[Dimension(name, axis)] for axis in range(len(tensor.shape))))
        for name, tensor in cascade.tensors.items()
    }
    return dataclasses.replace(cascade, einsums=einsums, tensors=constantdict(tensors))
