"""The workload: a cascade of Einsums as a user writes it, with every number and set expression resolved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from constantdict import constantdict

from .. import presentation
from .affine import Affine
from .language.reductions import ADD

if TYPE_CHECKING:
    from pymbolic.typing import Expression


def operand_name(position: int) -> str:
    """The variable that stands for the value read by the ``position``-th input access in an Einsum's map.

    Maps name operands by position because one tensor may be read by several accesses; ``%`` cannot occur in a user's name.
    """
    return f"%{position}"


@dataclass(frozen=True)
class TensorAccess:
    """How an Einsum reads or writes a tensor."""

    name: str
    projection: constantdict[str, Affine]
    """Rank -> index expression, in the order written."""
    output: bool = False
    persistent: bool = False
    backing_storage_size_scale: float = 1.0
    bits_per_value: int = 8

    @cached_property
    def rank_variables(self) -> tuple[str, ...]:
        """The rank variables of all index expressions, in order of first appearance."""
        return tuple(dict.fromkeys(v for index in self.projection.values() for v in index.variables))


@dataclass(frozen=True)
class Operation:
    """What an Einsum computes at each point and how points that meet in one output element combine.

    ``map`` is a pymbolic expression over operand variables (:func:`operand_name`), rank variables, numbers, calls of known functions and
    comparisons; ``None`` means the product of the operands. ``reduce`` names one of
    :data:`feinsum_fuse.formats.language.reductions.REDUCTIONS`; ``populate`` is the initial value, ``None`` the reduction's neutral one.
    """

    map: Expression | None = None
    reduce: str = ADD.name
    populate: float | None = None
    online: bool = False


@dataclass(frozen=True)
class WorkloadEinsum:
    """One Einsum: its accesses (inputs in order, the output among them), operation, and bounds."""

    name: str
    tensor_accesses: tuple[TensorAccess, ...]
    operation: Operation = Operation()
    is_copy_operation: bool = False
    n_instances: int = 1
    iteration_space_shape: tuple[str, ...] = ()
    rank_sizes: constantdict[str, int] = field(default_factory=constantdict)
    renames: constantdict[str, frozenset[str]] = field(default_factory=constantdict)
    """New name -> the tensors or rank variables that it stands for, defaults included."""
    rank_variable_renames: frozenset[str] = frozenset()
    """The names among ``renames`` that stand for rank variables."""
    bounds: constantdict[str, int] = field(default_factory=constantdict)
    """Rank variable -> extent (largest minus least value, plus one), from all constraints; in order of first appearance."""

    @property
    def inputs(self) -> tuple[TensorAccess, ...]:
        """The accesses that read, in order; the map's ``%k`` is the k-th of them."""
        return tuple(access for access in self.tensor_accesses if not access.output)

    @property
    def outputs(self) -> tuple[TensorAccess, ...]:
        """The accesses that write."""
        return tuple(access for access in self.tensor_accesses if access.output)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The names of all tensors touched, inputs first, each once."""
        return tuple(dict.fromkeys(access.name for access in (*self.inputs, *self.outputs)))

    @property
    def rank_variables(self) -> tuple[str, ...]:
        """All rank variables, in order of first appearance."""
        return tuple(dict.fromkeys(v for access in self.tensor_accesses for v in access.rank_variables))


@dataclass(frozen=True)
class Workload:
    """A cascade of Einsums with sizes and element widths."""

    einsums: tuple[WorkloadEinsum, ...]
    rank_sizes: constantdict[str, int] = field(default_factory=constantdict)
    iteration_space_shape: constantdict[str, str] = field(default_factory=constantdict)
    n_instances: int = 1
    bits_per_value: constantdict[str, int] = field(default_factory=constantdict)
    """Set expression -> bits, as written; each access carries its resolved width."""
    persistent_tensors: str | None = None

    def einsum(self, name: str) -> WorkloadEinsum:
        """The Einsum of this name; ``KeyError`` if there is none."""
        for einsum in self.einsums:
            if einsum.name == name:
                return einsum
        raise KeyError(name)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """All tensors, in order of first appearance."""
        return tuple(dict.fromkeys(tensor for einsum in self.einsums for tensor in einsum.tensors))

    @cached_property
    def _accesses(self) -> dict[str, list[tuple[WorkloadEinsum, TensorAccess]]]:
        """Tensor -> its accesses with their Einsums, in order."""
        found: dict[str, list[tuple[WorkloadEinsum, TensorAccess]]] = {}
        for einsum in self.einsums:
            for access in einsum.tensor_accesses:
                found.setdefault(access.name, []).append((einsum, access))
        return found

    def producers(self, tensor: str) -> tuple[str, ...]:
        """The names of the Einsums that write this tensor."""
        return tuple(dict.fromkeys(einsum.name for einsum, access in self._accesses.get(tensor, ()) if access.output))

    def consumers(self, tensor: str) -> tuple[str, ...]:
        """The names of the Einsums that read this tensor."""
        return tuple(dict.fromkeys(einsum.name for einsum, access in self._accesses.get(tensor, ()) if not access.output))

    @cached_property
    def intermediates(self) -> frozenset[str]:
        """Tensors that some Einsum writes and some Einsum reads."""
        written = {access.name for einsum in self.einsums for access in einsum.outputs}
        return frozenset(access.name for einsum in self.einsums for access in einsum.inputs if access.name in written)

    @cached_property
    def shared(self) -> frozenset[str]:
        """Tensors that more than one Einsum touches."""
        counts = Counter(tensor for einsum in self.einsums for tensor in einsum.tensors)
        return frozenset(tensor for tensor, count in counts.items() if count > 1)

    @cached_property
    def rank_variables(self) -> frozenset[str]:
        """The rank variables of all Einsums."""
        return frozenset(variable for einsum in self.einsums for variable in einsum.rank_variables)

    def shape(self, tensor: str) -> dict[str, int]:
        """Rank -> size of a tensor, ranks in the order of the access that produces it, or of its first access.

        A rank without a given size is as large as its largest index needs.
        """
        accesses = self._accesses[tensor]
        first = next((a for _, a in accesses if a.output), accesses[0][1])
        return {rank: self._rank_size(rank, [(e, a) for e, a in accesses if rank in a.projection]) for rank in first.projection}

    def _rank_size(self, rank: str, accesses: list[tuple[WorkloadEinsum, TensorAccess]]) -> int:
        given = [einsum.rank_sizes[rank] for einsum, _ in accesses if rank in einsum.rank_sizes]
        if given or rank in self.rank_sizes:
            return max(given, default=self.rank_sizes.get(rank, 1))
        return max(access.projection[rank].largest(einsum.bounds) + 1 for einsum, access in accesses)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return presentation.text(self)

    def _repr_svg_(self) -> str:
        return presentation.svg(self)
