"""A cascade: Einsums with meaning, shapes and element types; what everything below lowers, runs, verifies and remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from constantdict import constantdict

from ..errors import CascadeError
from ..formats.affine import Affine
from ..formats.reductions import ADD, REDUCTIONS

if TYPE_CHECKING:
    import loopy as lp
    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from pymbolic.typing import Expression

    from ..formats.opencl import OpenCL
    from ..formats.workload import Workload
    from .canonical.canonical import Canonical


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


@dataclass(frozen=True)
class Access:
    """An element of a tensor: one affine index expression over rank variables per axis."""

    tensor: str
    indices: tuple[Affine, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The rank variables that occur, in order of first appearance."""
        return tuple(dict.fromkeys(v for index in self.indices for v in index.variables))

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
        from .printing import einsum_text

        return einsum_text(self)

    @cached_property
    def reduces(self) -> bool:
        """Whether several points can meet in one output element, as ISL decides it."""
        if self.reduction_variables:
            return True
        alone = [index.variables for index in self.output.indices if len(index.variables) == 1]
        if set().union(*alone) == set(self.variables):
            return False
        from .reading.injectivity import is_injective

        return not is_injective(self)


class Rewriting(Protocol):
    """A cascade made from another by algebra: a frozen, ordered value whose outputs equal those of what it is applied to."""

    def apply(self, cascade: Cascade) -> Cascade:
        """The rewritten cascade, which records the rewriting; :class:`CascadeError` if the precondition does not hold."""


@dataclass(frozen=True, repr=False)
class Cascade:
    """Einsums in an order in which every tensor is written before it is read."""

    einsums: tuple[Einsum, ...]
    tensors: constantdict[str, Tensor]
    outputs: tuple[str, ...] = field(default=())
    """What a Program returns; default: the tensors that no Einsum reads."""
    rewritings: tuple[Rewriting, ...] = field(default=(), compare=False)
    """What made this cascade out of the one that was written, in order."""

    def __post_init__(self) -> None:
        if not self.outputs:
            read = {a.tensor for e in self.einsums for a in e.operands if a.tensor != e.output.tensor}
            object.__setattr__(self, "outputs", tuple(dict.fromkeys(e.output.tensor for e in self.einsums if e.output.tensor not in read)))

    def einsum(self, name: str) -> Einsum:
        """The Einsum of this name; :class:`CascadeError` if there is none."""
        for einsum in self.einsums:
            if einsum.name == name:
                return einsum
        raise CascadeError(f"the cascade has no Einsum {name!r}", hint=f"It has {', '.join(e.name for e in self.einsums)}.")

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that no Einsum writes, in order of first appearance."""
        written = {e.output.tensor for e in self.einsums}
        return tuple(dict.fromkeys(a.tensor for e in self.einsums for a in e.operands if a.tensor not in written))

    @cached_property
    def intermediates(self) -> tuple[str, ...]:
        """The tensors that are written and are no outputs."""
        return tuple(dict.fromkeys(e.output.tensor for e in self.einsums if e.output.tensor not in self.outputs))

    def __repr__(self) -> str:
        from .printing import cascade_text

        return cascade_text(self)

    @cached_property
    def workload(self) -> Workload:
        """The cascade as a workload, for :func:`feinsum_fuse.spec`: :func:`feinsum_fuse.cascades.reading.workload.workload`."""
        from .reading.workload import workload

        return workload(self)

    @property
    def opencl(self) -> OpenCL | None:
        """The element types and accumulators as a Spec's ``opencl`` key; ``None`` if they are those that widths of values stand for."""
        from .reading.workload import element_types

        return element_types(self)

    def contract(self, einsum: str, path: Sequence[Sequence[int]] | None = None, optimize: str = "optimal") -> Cascade:
        """The cascade with an Einsum of several factors made pairwise, along opt_einsum's best path or the given one.

        See :class:`feinsum_fuse.cascades.rewriting.contraction_order.ContractionOrder`.
        """
        from .rewriting.contraction_order import ContractionOrder, best_order

        if path is None:
            return best_order(self.einsum(einsum), optimize).apply(self)
        if not isinstance(path, Sequence) or not all(isinstance(step, Sequence) for step in path):
            raise CascadeError(f"{path!r:.80} is no path of a contraction", hint="Give pairs of positions, such as [(0, 2), (0, 1)].")
        return ContractionOrder(einsum, tuple(tuple(step) for step in path)).apply(self)

    def online(self, einsum: str) -> Cascade:
        """The cascade with one pass over what a softmax or maximum runs over: :class:`feinsum_fuse.cascades.rewriting.online.Online`."""
        from .rewriting.online import Online

        return Online(einsum).apply(self)

    def batch(self, *einsums: str) -> Cascade:
        """The cascade with these Einsums over common rank variables: :class:`feinsum_fuse.cascades.rewriting.batching.Batch`."""
        from .rewriting.batching import Batch

        return Batch(einsums).apply(self)

    def unbatch(self, einsum: str) -> Cascade:
        """The cascade with rank variables of this Einsum's own: :class:`feinsum_fuse.cascades.rewriting.batching.Unbatch`."""
        from .rewriting.batching import Unbatch

        return Unbatch(einsum).apply(self)

    @cached_property
    def size_parameters(self) -> tuple[str, ...]:
        """The names of the symbolic sizes, in order of first appearance."""
        sizes = [size for einsum in self.einsums for size in einsum.sizes.values()]
        sizes += [size for tensor in self.tensors.values() for size in tensor.shape]
        return tuple(dict.fromkeys(size.name for size in sizes if isinstance(size, SizeParam)))

    def canonical(self, maps: bool = True) -> Canonical:
        """The canonical form, with or without the maps: :func:`feinsum_fuse.cascades.canonical.canonical`."""
        return self._canonical if maps else self._structure

    @cached_property
    def _canonical(self) -> Canonical:
        from .canonical.canonical import canonical

        return canonical(self)

    @cached_property
    def _structure(self) -> Canonical:
        from .canonical.canonical import canonical

        return canonical(self, maps=False)

    @property
    def key(self) -> str:
        """A hash of the canonical form: equal for cascades that differ in names and in orders that mean nothing."""
        return self._canonical.key

    @property
    def structure_key(self) -> str:
        """As :attr:`key`, without the maps: what legality and effect of a schedule depend on."""
        return self._structure.key

    def kernel(self) -> lp.TranslationUnit:
        """The cascade as a loopy kernel in feinsum's grammar: :func:`feinsum_fuse.cascades.kernel.kernel.base_kernel`."""
        from .kernel.kernel import base_kernel

        return base_kernel(self)

    def reference(self, **arrays: ArrayLike) -> dict[str, NDArray[np.generic]]:
        """All outputs, computed with NumPy in float64 (integers exactly): :func:`feinsum_fuse.cascades.reference.reference`."""
        from .reference.reference import reference

        return reference(self, arrays)

    def tolerance(self, sizes: Mapping[str, int] | None = None) -> dict[str, float]:
        """Output -> acceptable error relative to its largest magnitude: :func:`feinsum_fuse.cascades.reference.tolerance.tolerance`."""
        from .reference.tolerance import tolerance

        return tolerance(self, sizes)

    def fixed_shape(self, tensor: str, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The shape with size parameters replaced; :class:`CascadeError` if one is missing."""
        shape = []
        for size in self.tensors[tensor].shape:
            if isinstance(size, SizeParam):
                if sizes is None or size.name not in sizes:
                    raise CascadeError(f"tensor {tensor} has the symbolic size {size.name}", hint="Give it a value.")
                size = sizes[size.name]
            shape.append(size)
        return tuple(shape)
