"""What a cascade is made of: sizes, tensors, accesses, and Einsums with meaning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from constantdict import constantdict

from ..errors import CascadeError
from ..formats.affine import Affine
from ..formats.integer_sets import integer_map, within
from ..formats.language.map_text import map_text
from ..formats.language.reductions import ADD, REDUCTIONS
from ..number_types import make_known

if TYPE_CHECKING:
    from pymbolic.typing import Expression


@dataclass(frozen=True, order=True)
class SizeParam:
    """A length that is not known: the documents' infinity, "much greater than the cache"."""

    name: str


Size = int | SizeParam


@dataclass(frozen=True)
class Tensor:
    """A tensor: its axes are its ranks in the order of the access that produces it, or of its first access; row-major."""

    name: str
    shape: tuple[Size, ...]
    dtype: str
    """A NumPy type name."""
    ranks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_known(self.dtype)

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """In another process, too."""
        self.__dict__.update(state)
        make_known(self.dtype)

    def __str__(self) -> str:
        """``A: float32[64, nel]``."""
        return f"{self.name}: {self.dtype}[{', '.join(map(_size_text, self.shape))}]"


@dataclass(frozen=True)
class Access:
    """An element of a tensor: one affine index expression over rank variables per axis."""

    tensor: str
    indices: tuple[Affine, ...]

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The rank variables that occur, in order of first appearance."""
        return tuple(dict.fromkeys(v for index in self.indices for v in index.variables))

    def renamed(self, tensors: Mapping[str, str], variables: Mapping[str, str]) -> Access:
        """The access with its tensor and its rank variables called otherwise."""
        return Access(tensors[self.tensor], tuple(index.renamed(variables) for index in self.indices))

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True, repr=False)
class Einsum:
    """``output = populate (reduce) reduce over points of map(operands)``.

    Points are the box ``0 <= v < sizes[v]`` cut down by ``guards`` (each affine expression must be >= 0): a point where a guard fails
    contributes nothing. All points that reach one output element are reduced. Where only truths are reduced, the map is made to be one.
    """

    name: str
    output: Access
    operands: tuple[Access, ...]
    map: Expression
    """Over operand variables (``spec.workload.operand_name``), rank variables and numbers."""
    sizes: constantdict[str, Size]
    """Rank variable -> extent; the output's variables first, then the others in order of appearance."""
    reduce: str = ADD.name
    populate: float | None = None
    guards: tuple[Affine, ...] = ()
    accumulate: str = "float32"
    """The type in which the reduction runs."""
    is_copy: bool = False

    def __post_init__(self) -> None:
        reduction = REDUCTIONS.get(self.reduce)
        if reduction is not None and reduction.of_truths:
            object.__setattr__(self, "map", reduction.of(self.map))

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """All rank variables, the output's first."""
        return tuple(self.sizes)

    @cached_property
    def box_points(self) -> int:
        """How many points the box has, those that guards cut away among them; a symbolic size counts as 1."""
        return math.prod(size for size in self.sizes.values() if isinstance(size, int))

    @cached_property
    def output_variables(self) -> tuple[str, ...]:
        """The rank variables that index the output."""
        return self.output.variables

    @cached_property
    def reduction_variables(self) -> tuple[str, ...]:
        """The rank variables that do not index the output."""
        return tuple(v for v in self.variables if v not in self.output_variables)

    @cached_property
    def has_injective_output(self) -> bool:
        """Whether each output index is a bare variable of its own, so that only ``reduction_variables`` are reduced."""
        bare = [index.bare for index in self.output.indices]
        return None not in bare and len(set(bare)) == len(bare)

    def __repr__(self) -> str:
        return _einsum_text(self)

    @cached_property
    def reduces(self) -> bool:
        """Whether several points can meet in one output element, as ISL decides it."""
        if self.reduction_variables:
            return True
        alone = [index.variables for index in self.output.indices if len(index.variables) == 1]
        if set().union(*alone) == set(self.variables):
            return False
        return not _is_injective(self)

    @cached_property
    def is_recurrence(self) -> bool:
        """Whether it reads its own output."""
        return any(operand.tensor == self.output.tensor for operand in self.operands)

    @property
    def combines_populate(self) -> bool:
        """Whether the initial value takes part in the reduction; in a recurrence it is what is read before the first index."""
        return self.populate is not None and REDUCTIONS[self.reduce].combines and not self.is_recurrence

    def initial_value(self, dtype: str) -> float | int:
        """What an element of the output holds that no point reaches."""
        return self.populate if self.populate is not None else REDUCTIONS[self.reduce].neutral_of(dtype)

    def iterative_variable(self) -> str:
        """The rank variable along which a recurrence runs: its output is read at earlier values of it only.

        :class:`CascadeError` if the output is read otherwise.
        """
        reads = [operand for operand in self.operands if operand.tensor == self.output.tensor]
        for axis, index in enumerate(self.output.indices):
            if [factor for _, factor in index.terms] != [1] or sum(index.variables[0] in o.variables for o in self.output.indices) > 1:
                continue
            steps = [read.indices[axis] for read in reads]
            is_earlier = all(step.terms == index.terms and step.constant < index.constant for step in steps)
            if is_earlier and all(_same_but(axis, read.indices, self.output.indices) for read in reads):
                return index.variables[0]
        raise CascadeError(
            f"Einsum {self.name} reads its own output {self.output.tensor}",
            hint="Only a recurrence may: read it at an earlier index of one rank, as S[t] = S[t-1] + X[t].",
        )


def _same_but(axis: int, indices: tuple[Affine, ...], others: tuple[Affine, ...]) -> bool:
    return all(one == other for k, (one, other) in enumerate(zip(indices, others, strict=True)) if k != axis)


def _is_injective(einsum: Einsum) -> bool:
    """Whether no two points of an Einsum reach the same element of its output."""
    lengths = {v: f"size {size.name}" if isinstance(size, SizeParam) else size for v, size in einsum.sizes.items()}
    box = [condition for v in einsum.variables for condition in within(v, lengths[v])]
    return bool(integer_map(einsum.variables, einsum.output.indices, [*box, *einsum.guards]).is_injective())


def _size_text(size: Size) -> str:
    return size.name if isinstance(size, SizeParam) else str(size)


def _loops(einsum: Einsum, variables: tuple[str, ...]) -> str:
    return ", ".join(f"{variable} < {_size_text(einsum.sizes[variable])}" for variable in variables)


def _condition(guard: Affine) -> str:
    """A guard with its negative terms on the right."""
    left = Affine.of({v: factor for v, factor in guard.terms if factor > 0}, max(guard.constant, 0))
    right = Affine.of({v: -factor for v, factor in guard.terms if factor < 0}, max(-guard.constant, 0))
    return f"{left} >= {right}"


def _einsum_text(einsum: Einsum) -> str:
    """The loops over the output, and the statement with its reduction::

    for m < 64, n < 32:
        Z[m, n] = sum(k < 16: A[m, k] * B[k, n])
    """
    value = map_text(einsum.map, [str(operand) for operand in einsum.operands], for_files=False)
    outer = einsum.output_variables if einsum.has_injective_output else einsum.variables
    inner = einsum.reduction_variables if einsum.has_injective_output else ()
    conditions = " and ".join(map(_condition, einsum.guards))
    reduction = REDUCTIONS[einsum.reduce]
    if inner:
        value = f"{reduction.symbol}({_loops(einsum, inner)}{f' if {conditions}' if conditions else ''}: {value})"
    elif conditions:
        value = f"{value} if {conditions}"
    if einsum.populate is not None:
        value = f"{einsum.populate:g} {reduction.infix} {value}" if reduction.infix and inner else f"{value}, initially {einsum.populate:g}"
    sign = "=" if einsum.has_injective_output or not einsum.reduces else f"{reduction.symbol}="
    statement = f"{einsum.output} {sign} {value}"
    if not outer:
        return statement
    return f"for {_loops(einsum, outer)}:\n    {statement}"
