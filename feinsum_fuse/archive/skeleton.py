"""What cascades that can share a schedule have in common: the cascade without its maps and with every length made symbolic."""

from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as prim
from constantdict import constantdict

from ..cascade.cascade import Cascade, Einsum, Size, SizeParam, Tensor
from ..errors import ArchiveError
from ..spec.workload import operand_name

_Axis = tuple[str, str, str | int]
"""``("variable", Einsum, rank variable)`` or ``("tensor", tensor, axis)``."""


@dataclass(frozen=True)
class Skeleton:
    """A cascade whose maps are plain products and whose lengths are parameters, with the lengths that the parameters stand for.

    Two lengths share a parameter exactly when the accesses force them to be equal: a rank variable and the axes that it alone indexes.
    """

    cascade: Cascade
    sizes: constantdict[str, Size]
    """Parameter -> the length in the original cascade."""


class _Classes:
    """Axes grouped by what must be equally long (a union-find)."""

    def __init__(self) -> None:
        self.parent: dict[_Axis, _Axis] = {}

    def find(self, axis: _Axis) -> _Axis:
        root = self.parent.setdefault(axis, axis)
        while root != self.parent[root]:
            root = self.parent[root]
        while axis != root:
            self.parent[axis], axis = root, self.parent[axis]
        return root

    def join(self, first: _Axis, second: _Axis) -> None:
        self.parent[self.find(second)] = self.find(first)


def _length(cascade: Cascade, axis: _Axis) -> Size:
    kind, owner, which = axis
    return cascade.einsum(owner).sizes[str(which)] if kind == "variable" else cascade.tensors[owner].shape[int(which)]


def skeleton(cascade: Cascade) -> Skeleton:
    """The skeleton of a cascade, in the cascade's own names.

    An axis as long as its rank variable belongs to that variable; an axis that is longer (a halo, or a padded array) stays its own.
    """
    classes = _Classes()
    for einsum in cascade.einsums:
        for variable in einsum.variables:
            classes.find(("variable", einsum.name, variable))
        for access in (einsum.output, *einsum.operands):
            for position, index in enumerate(access.indices):
                axis: _Axis = ("tensor", access.tensor, position)
                if index.bare is not None and einsum.sizes[index.bare] == cascade.tensors[access.tensor].shape[position]:
                    classes.join(("variable", einsum.name, index.bare), axis)
                else:
                    classes.find(axis)
    roots = list(dict.fromkeys(classes.find(axis) for axis in classes.parent))
    parameters = {root: SizeParam(f"size_{number}") for number, root in enumerate(roots)}

    def parameter(axis: _Axis) -> SizeParam:
        return parameters[classes.find(axis)]

    einsums = tuple(_einsum_skeleton(einsum, parameter) for einsum in cascade.einsums)
    tensors = {
        name: Tensor(name, tuple(parameter(("tensor", name, axis)) for axis in range(len(tensor.shape))), tensor.dtype, tensor.ranks)
        for name, tensor in cascade.tensors.items()
    }
    sizes = {parameter.name: _length(cascade, root) for root, parameter in parameters.items()}
    return Skeleton(Cascade(einsums, constantdict(tensors), cascade.outputs), constantdict(sizes))
