"""Joining: neighbouring axes that all tensors have side by side, taken as one axis as long as both."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from constantdict import constantdict

from ..errors import CascadeError
from ..formats.affine import Affine
from .maps import variables_in
from .names import with_underlines
from .sequence import AnyCascade, EinsumSequence
from .terms import Access, Einsum, Tensor

MOST_EINSUMS = 64
"""Of longer cascades no axes are joined: what each pair leads to is followed through all Einsums."""


@dataclass(frozen=True, order=True)
class Join:
    """``Z[a,b,c] = A[a,b,c] * x[a]`` becomes ``Z[a,b_c] = A[a,b_c] * x[a]``, for the tensor ``A`` and its axis 1.

    The axis, counted from 0, and the next one become one axis; so do those of all tensors that share their variables, and where a tensor is
    read by several pairs of variables each of these: ``Z[a,b,c,d] = A[k,a,b] * A[k,c,d]`` becomes ``Z[a_b,c_d] = A[k,a_b] * A[k,c_d]``. A
    copy that puts axes side by side keeps its loops and writes both as digits: ``B_packed[k,n,p] = B[n,k,p]`` becomes
    ``B_packed[k,50*n + p] = B[n,k,p]``.
    Invariant: arrays hold the same numbers in the same order, row-major, under another shape: the caller's arrays are viewed.
    """

    tensor: str
    axis: int

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with these axes as one; :class:`CascadeError` where some tensor has not both side by side."""
        found = _Pairs(cascade)
        if reason := found.follow(self.tensor, self.axis):
            raise CascadeError(f"the axes {self.axis} and {self.axis + 1} of {self.tensor!s:.60} cannot be one: {reason}")
        whole = {e.name: _joined(e, found.variables[e.name]) for e in cascade.einsums if e.name in found.variables}
        copies = {name: _with_digits(cascade, cascade.einsum(name), axes) for name, axes in found.copies.items()}
        einsums = tuple((whole | copies).get(e.name, e) for e in cascade.einsums)
        tensors = {name: _merged(t, found.axes[name]) if name in found.axes else t for name, t in cascade.tensors.items()}
        return cascade.rewritten(einsums, tensors, self)


def joined(cascade: AnyCascade) -> AnyCascade:
    """The cascade with all axes joined that can be: lanes and register tiles go along both where each alone would be short."""
    if cascade.size_parameters or len(cascade.einsums) > MOST_EINSUMS:
        return cascade
    for tensor in cascade.tensors:
        axis = 0
        while axis + 1 < len(cascade.tensors[tensor].shape):
            try:
                cascade = Join(tensor, axis).apply(cascade)
            except CascadeError:
                axis += 1
    return cascade


def shapes_before(given: EinsumSequence, taken: EinsumSequence) -> dict[str, tuple[int, ...]]:
    """Tensor -> its shape in the first cascade, of those that both have and that joining gave another one."""
    if given.size_parameters:
        return {}
    common = [name for name in given.tensors if name in taken.tensors and given.tensors[name].shape != taken.tensors[name].shape]
    return {name: given.fixed_shape(name) for name in common}


@dataclass
class _Pairs:
    """The pairs of variables and of axes that one pair of axes leads to."""

    cascade: EinsumSequence
    variables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Einsum -> two variables each that become one."""
    axes: dict[str, list[int]] = field(default_factory=dict)
    """Tensor -> the first of two axes each."""
    copies: dict[str, list[int]] = field(default_factory=dict)
    """Copy whose loops stay as they are -> the first of two axes each that it writes."""

    def follow(self, tensor: str, axis: int) -> str:
        """Note all pairs; why there are none, or nothing if there are."""
        if tensor not in self.cascade.tensors or not 0 <= axis < len(self.cascade.tensors[tensor].shape) - 1:
            return "there are no such axes"
        waiting = [(tensor, axis)]
        while waiting:
            name, first = waiting.pop()
            known = self.axes.setdefault(name, [])
            if first in known:
                continue
            if {first - 1, first + 1} & {*known}:
                return f"three axes of {name} would be one"
            known.append(first)
            for einsum in self.cascade.einsums:
                for access in (einsum.output, *einsum.operands):
                    if access.tensor != name:
                        continue
                    pair = access.indices[first].bare, access.indices[first + 1].bare
                    if pair[0] is None or pair[1] is None:
                        return f"{access} is not indexed by bare variables there"
                    if pair in self.variables.get(einsum.name, ()):
                        continue
                    if access is einsum.output and self._puts_together(einsum, (pair[0], pair[1])):
                        self.copies.setdefault(einsum.name, []).append(first)
                        continue
                    if reason := self._obstacle(einsum, (pair[0], pair[1])):
                        return reason
                    self.variables.setdefault(einsum.name, []).append((pair[0], pair[1]))
                    waiting += [(a.tensor, _place(a, pair[0])) for a in (einsum.output, *einsum.operands) if pair[0] in a.variables]
        return ""

    def _puts_together(self, einsum: Einsum, pair: tuple[str, str]) -> bool:
        """Whether a copy fills two axes from others that do not stand side by side."""
        u, v = pair
        apart = any(_place(access, u) + 1 != _place(access, v) for access in einsum.operands)
        return einsum.is_copy and apart and self.cascade.fills_output(einsum) and einsum.name not in self.variables

    def _obstacle(self, einsum: Einsum, pair: tuple[str, str]) -> str:
        """Why two variables of an Einsum cannot be one; empty if they can."""
        u, v = pair
        if u == v or einsum.name in self.copies or {u, v} & {one for other in self.variables.get(einsum.name, ()) for one in other}:
            return f"Einsum {einsum.name} would join other variables as well"
        if any({u, v} & set(guard.variables) for guard in einsum.guards) or {u, v} & variables_in(einsum.map):
            return f"a condition or the map of Einsum {einsum.name} asks for {u} or {v}"
        for access in (einsum.output, *einsum.operands):
            if not {u, v} & set(access.variables):
                continue
            at = _place(access, u)
            bare = [index.bare for index in access.indices]
            elsewhere = any({u, v} & set(index.variables) for k, index in enumerate(access.indices) if k not in (at, at + 1))
            if at < 0 or bare[at : at + 2] != [u, v] or elsewhere:
                return f"{u} and {v} do not stand side by side in {access}"
            if self.cascade.tensors[access.tensor].shape[at : at + 2] != (einsum.sizes[u], einsum.sizes[v]):
                return f"Einsum {einsum.name} runs over a part of {access.tensor}"
        return ""


def _place(access: Access, variable: str) -> int:
    """The axis that this variable alone indexes; -1 if there is none."""
    return next((k for k, index in enumerate(access.indices) if index.bare == variable), -1)


def _joined(einsum: Einsum, pairs: Iterable[tuple[str, str]]) -> Einsum:
    """The Einsum with one variable for each pair."""
    for pair in pairs:
        einsum = _joined_one(einsum, pair, with_underlines("_".join(pair), einsum.sizes))
    return einsum


def _joined_one(einsum: Einsum, pair: tuple[str, str], name: str) -> Einsum:
    """The Einsum with one variable for two."""
    u, v = pair
    lengths = {name if old == u else old: size for old, size in einsum.sizes.items() if old != v}
    lengths[name] = _length(einsum.sizes, pair)

    def access(old: Access) -> Access:
        indices = [index for index in old.indices if index.bare != v]
        return Access(old.tensor, tuple(Affine.variable(name) if index.bare == u else index for index in indices))

    operands = tuple(map(access, einsum.operands))
    return dataclasses.replace(einsum, output=access(einsum.output), operands=operands, sizes=constantdict(lengths))


def _with_digits(cascade: EinsumSequence, copy: Einsum, axes: Iterable[int]) -> Einsum:
    """The copy that writes two axes each as one, by the same loops."""
    indices = copy.output.indices
    for axis in sorted(axes, reverse=True):
        length = cascade.tensors[copy.output.tensor].shape[axis + 1]
        assert isinstance(length, int)
        indices = (*indices[:axis], indices[axis] * length + indices[axis + 1], *indices[axis + 2 :])
    return dataclasses.replace(copy, output=Access(copy.output.tensor, indices))


def _length(sizes: Mapping[str, object], pair: tuple[str, str]) -> int:
    first, second = (sizes[v] for v in pair)
    if not isinstance(first, int) or not isinstance(second, int):
        raise CascadeError(f"{pair[0]} and {pair[1]} cannot be one: their sizes are not known")
    return first * second


def _merged(tensor: Tensor, axes: Iterable[int]) -> Tensor:
    """The tensor with one axis for two each."""
    shape = tensor.shape
    for axis in sorted(axes, reverse=True):
        first, second = shape[axis : axis + 2]
        assert isinstance(first, int) and isinstance(second, int)
        shape = (*shape[:axis], first * second, *shape[axis + 2 :])
    return dataclasses.replace(tensor, shape=shape, ranks=())
