"""Scanning: reductions that end or begin at a diagonal, in blocks whose results are reduced once more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import substitute, var
from pymbolic.primitives import Comparison, If
from pymbolic.typing import Expression

from ..arguments import described
from ..errors import CascadeError
from ..formats.affine import Affine
from ..formats.language.reductions import REDUCTIONS
from ..formats.workload import operand_name
from .maps import Diagonal, cut_by_diagonal, variables_in
from .names import with_underlines
from .sequence import AnyCascade, EinsumSequence
from .terms import Access, Einsum, SizeParam, Tensor


@dataclass(frozen=True, order=True)
class Scan:
    """``Z[m,j] = sum(where(k <= j, X[m,k], 0))`` becomes ``Z_scanned[m,b,i] = sum(where(k <= i, X[m,P*b + k], 0))`` for ``k`` below ``P``,
    ``Z_before[m,b] = sum(where(c < b, Z_scanned[m,c,P-1], 0))`` and ``Z[m,P*b + i] = Z_scanned[m,b,i] + Z_before[m,b]``.

    The only variable that is reduced ends at one of the output's, or begins there, and nothing else asks for that one (a prefix sum, or
    scan). Products and extrema are taken so as well, where what lies beyond the diagonal is neutral. Each element of a block of ``P`` takes
    ``P`` operations in place of as many as there are before it. Where blocks do not divide the axis the last one is filled up, and ``Z`` is
    a copy without what lies behind. Invariant: the output keeps its value up to the order of reduction.
    """

    einsum: str
    block: int

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum in three or four; :class:`CascadeError` unless its reduction ends or begins at a diagonal."""
        einsum = cascade.einsum(self.einsum)
        found = scanned(einsum)
        if isinstance(found, str):
            raise CascadeError(f"the reduction of Einsum {einsum.name} cannot be taken in blocks: {found}")
        size = einsum.sizes[found.outer]
        if not isinstance(self.block, int) or not isinstance(size, int) or not 2 <= self.block < size:
            hint = f"Give a number of at least 2 and less than {size}."
            raise CascadeError(f"{found.outer} of Einsum {einsum.name} cannot be cut into blocks of {described(self.block)}", hint=hint)
        blocks = _Blocks(cascade, einsum, found, self.block, size)
        made = [blocks.within(), blocks.before(), *blocks.together()]
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], *made, *cascade.einsums[position + 1 :])
        new = {e.output.tensor: blocks.tensor(e) for e in made if e.name != einsum.name}
        return cascade.rewritten(einsums, {**cascade.tensors, **new}, self)


def scanned(einsum: Einsum) -> Diagonal | str:
    """What an Einsum takes a running reduction of, or why it takes none."""
    found = cut_by_diagonal(einsum.map)
    if found is None:
        return "its map is no where(k <= j, x, 0)"
    found = found if found.inner in einsum.reduction_variables else found.turned
    if einsum.reduction_variables != (found.inner,) or found.outer not in einsum.output_variables or not einsum.has_injective_output:
        return f"it does not reduce {found.inner} alone, up to an index of {einsum.output}"
    reduction = REDUCTIONS[einsum.reduce]
    if reduction.of_truths or not reduction.combines or found.otherwise != reduction.neutral_of(einsum.accumulate):
        return "what it reduces beyond the diagonal is not nothing"
    if einsum.guards or einsum.populate is not None or einsum.is_recurrence:
        return "it does not run over a box, or starts at another value"
    lengths = einsum.sizes[found.inner], einsum.sizes[found.outer]
    if any(isinstance(n, SizeParam) for n in lengths) or lengths[0] != lengths[1]:
        return "their sizes are not known, or not the same"
    if found.outer in variables_in(found.value) or any(found.outer in access.variables for access in einsum.operands):
        return f"what it reduces depends on {found.outer}, too"
    return found


class _Blocks:
    """The Einsums of a running reduction in blocks."""

    def __init__(self, cascade: EinsumSequence, einsum: Einsum, found: Diagonal, block: int, size: int) -> None:
        self.einsum, self.found, self.block, self.size = einsum, found, block, size
        self.count = -(-size // block)
        taken = {v for other in cascade.einsums for v in other.variables}
        self.number, self.other, self.place = (with_underlines(f"{found.outer}_{end}", taken) for end in ("block", "other", "place"))
        names = {*cascade.tensors, *(other.name for other in cascade.einsums)}
        tensor = einsum.output.tensor
        self.scanned, self.sums, self.filled = (with_underlines(f"{tensor}_{end}", names) for end in ("scanned", "before", "filled"))
        self.reduction = REDUCTIONS[einsum.reduce]
        self.last = block - 1 if found.ends else 0
        """The element of a block that all of it was reduced for, but for itself where the diagonal is left out."""

    def within(self) -> Einsum:
        """The running reduction of each block."""
        found, length = self.found, self.count * self.block
        operands, value = self._at(self.number, Affine.variable(found.inner), var(found.inner))
        guard = Affine.of({self.number: -self.block, found.inner: -1}, self.size - 1)
        return dataclasses.replace(
            self.einsum,
            name=self.scanned,
            output=self._access(self.scanned, Affine.variable(self.number), Affine.variable(self.place)),
            operands=operands,
            map=If(Comparison(var(found.inner), found.operator, var(self.place)), value, found.otherwise),
            sizes=constantdict({**self._sizes({self.number: self.count, self.place: self.block}), found.inner: self.block}),
            guards=(guard,) if length > self.size else (),
        )

    def before(self) -> Einsum:
        """The reduction of all blocks before each, or behind it."""
        whole, found = Affine.variable(self.other), self.found
        operands, value = self._at(self.other, Affine((), self.last), self.last)
        scanned = self._access(self.scanned, whole, Affine((), self.last))
        if found.operator in ("<=", ">="):
            operands, total = (scanned,), var(operand_name(0))
        else:
            operands, total = (*operands, scanned), self.reduction.combined(var(operand_name(len(operands))), value)
        # The last block, which may be filled up, is before none.
        others = self.count - 1 if found.ends else self.count
        return dataclasses.replace(
            self.einsum,
            name=self.sums,
            output=self._access(self.sums, Affine.variable(self.number)),
            operands=operands,
            map=If(Comparison(var(self.other), "<" if found.ends else ">", var(self.number)), total, found.otherwise),
            sizes=constantdict({**self._sizes({self.number: self.count}), self.other: others}),
        )

    def together(self) -> list[Einsum]:
        """Each element with what its block has before it, and where the last block is filled up a copy without what lies behind."""
        is_filled = self.count * self.block > self.size
        name = self.filled if is_filled else self.einsum.name
        at = Affine.of({self.number: self.block, self.place: 1})
        scanned = self._access(self.scanned, Affine.variable(self.number), Affine.variable(self.place))
        both = dataclasses.replace(
            self.einsum,
            name=name,
            output=self._access(self.filled if is_filled else self.einsum.output.tensor, at),
            operands=(scanned, self._access(self.sums, Affine.variable(self.number))),
            map=self.reduction.combined(var(operand_name(0)), var(operand_name(1))),
            sizes=constantdict(self._sizes({self.number: self.count, self.place: self.block})),
            reduce="add",
        )
        if not is_filled:
            return [both]
        sizes = constantdict({v: self.einsum.sizes[v] for v in self.einsum.output_variables})
        read = Access(self.filled, self.einsum.output.indices)
        copied = dataclasses.replace(self.einsum, operands=(read,), map=var(operand_name(0)), sizes=sizes, reduce="add", is_copy=True)
        return [both, copied]

    def tensor(self, einsum: Einsum) -> Tensor:
        """What one of these Einsums writes."""
        lengths = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
        bare = (index.bare for index in einsum.output.indices)
        shape = (index.extent(lengths) if v is None else einsum.sizes[v] for v, index in zip(bare, einsum.output.indices, strict=True))
        return Tensor(einsum.output.tensor, tuple(shape), einsum.accumulate)

    def _at(self, number: str, inner: Affine, place: Expression) -> tuple[tuple[Access, ...], Expression]:
        """The operands and the value at a place in a block."""
        index = Affine.of({number: self.block}) + inner
        operands = (Access(a.tensor, tuple(i.substituted({self.found.inner: index}) for i in a.indices)) for a in self.einsum.operands)
        return tuple(operands), substitute(self.found.value, {self.found.inner: self.block * var(number) + place})

    def _access(self, tensor: str, *places: Affine) -> Access:
        """An element, with these indices in place of that of the axis that is cut."""
        indices = self.einsum.output.indices
        return Access(tensor, tuple(i for index in indices for i in (places if index.bare == self.found.outer else (index,))))

    def _sizes(self, places: dict[str, int]) -> dict[str, int | SizeParam]:
        """The output's variables, with these in place of the one that is cut."""
        sizes: dict[str, int | SizeParam] = {}
        for v in self.einsum.output_variables:
            sizes |= places if v == self.found.outer else {v: self.einsum.sizes[v]}
        return sizes
