"""A cascade: Einsums with meaning, shapes and element types; what everything below lowers, runs, verifies and remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..arguments import COUNT, FLAG, NOTHING, TEXT, collection, described, expect, mapping
from ..errors import CascadeError
from ..quantization import GROUP, checked_group
from .sequence import EinsumSequence

if TYPE_CHECKING:
    import loopy as lp
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ..formats.opencl import OpenCL
    from ..formats.workload import Workload
    from .canonical.canonical import Canonical


_PAIR = collection("positions", COUNT)


@dataclass(frozen=True, repr=False)
class Cascade(EinsumSequence):
    """Einsums in an order, with all that is made of them: kernels, results, canonical forms, other cascades."""

    @cached_property
    def workload(self) -> Workload:
        """The cascade as a workload, for :func:`feinsum_fuse.spec`: :func:`feinsum_fuse.cascades.reading.workload_export.workload`."""
        from .reading.workload_export import workload

        return workload(self)

    @property
    def opencl(self) -> OpenCL | None:
        """The element types and accumulators as a Spec's ``opencl`` key; ``None`` if they are those that widths of values stand for."""
        from .reading.workload_export import element_types

        return element_types(self)

    def contract(self, einsum: str, path: Sequence[Sequence[int]] | None = None, optimize: str = "optimal") -> Cascade:
        """The cascade with an Einsum of several factors made pairwise, along opt_einsum's best path or the given one.

        See :class:`feinsum_fuse.cascades.rewriting.contraction_order.ContractionOrder`.
        """
        from .rewriting.contraction_order import ContractionOrder, best_order

        expect(einsum, TEXT, "the name of an Einsum", CascadeError)
        expect(optimize, TEXT, "what optimizes", CascadeError)
        if path is None:
            return best_order(self.einsum(einsum), optimize).apply(self)
        if not isinstance(path, Sequence) or not all(_PAIR.holds(step) for step in path):
            raise CascadeError(f"{described(path)} is no path of a contraction", hint="Give pairs of positions, such as [(0, 2), (0, 1)].")
        return ContractionOrder(einsum, tuple(tuple(step) for step in path)).apply(self)

    def online(self, einsum: str) -> Cascade:
        """The cascade with one pass over what a softmax or maximum runs over: :class:`feinsum_fuse.cascades.rewriting.online.Online`."""
        from .rewriting.online import Online

        return Online(einsum).apply(self)

    def split_reduction(self, einsum: str, variable: str, parts: int) -> Cascade:
        """The cascade with a reduction in parts: :class:`feinsum_fuse.cascades.rewriting.split_reduction.SplitReduction`."""
        from .rewriting.split_reduction import SplitReduction

        expect(variable, TEXT, "the variable", CascadeError)
        return SplitReduction(einsum, variable, parts).apply(self)

    def one_pass(self, einsum: str, variable: str, parts: int) -> Cascade:
        """The cascade with a reduction, and all that depend on it, in parts: :class:`feinsum_fuse.cascades.rewriting.one_pass.OnePass`."""
        from .rewriting.one_pass import OnePass

        for name in (einsum, variable):
            expect(name, TEXT, "the name of an Einsum or a variable", CascadeError)
        return OnePass(einsum, variable, parts).apply(self)

    def triangle(self, einsum: str, first: str, second: str) -> Cascade:
        """The cascade with half of a symmetric output computed: :class:`feinsum_fuse.cascades.rewriting.triangle.Triangle`."""
        from .rewriting.triangle import Triangle

        for name in (einsum, first, second):
            expect(name, TEXT, "the name of an Einsum or a variable", CascadeError)
        return Triangle(einsum, first, second).apply(self)

    def scan(self, einsum: str, block: int) -> Cascade:
        """The cascade with a reduction that ends at a diagonal in blocks: :class:`feinsum_fuse.cascades.scanning.Scan`."""
        from .scanning import Scan

        return Scan(einsum, block).apply(self)

    def pack(self, einsum: str, operand: int, variables: Sequence[str]) -> Cascade:
        """The cascade with a copy of an operand in another order: :class:`feinsum_fuse.cascades.rewriting.packing.Pack`."""
        from .rewriting.packing import Pack

        expect(variables, collection("names of rank variables", TEXT), "the order of the copy's axes", CascadeError)
        return Pack(einsum, operand, tuple(variables)).apply(self)

    def unpack(self, einsum: str, variables: Sequence[str]) -> Cascade:
        """The cascade with an output that is computed in another order: :class:`feinsum_fuse.cascades.rewriting.packing.Unpack`."""
        from .rewriting.packing import Unpack

        expect(variables, collection("names of rank variables", TEXT), "the order of the axes", CascadeError)
        return Unpack(einsum, tuple(variables)).apply(self)

    def join(self, tensor: str, axis: int) -> Cascade:
        """The cascade with two neighbouring axes as one: :class:`feinsum_fuse.cascades.joining.Join`."""
        from .joining import Join

        expect(tensor, TEXT, "the name of a tensor", CascadeError)
        expect(axis, COUNT, "the axis", CascadeError)
        return Join(tensor, axis).apply(self)

    def recompute(self, einsum: str) -> Cascade:
        """The cascade without an intermediate: :class:`feinsum_fuse.cascades.rewriting.intermediates.Recompute`."""
        from .rewriting.intermediates import Recompute

        return Recompute(einsum).apply(self)

    def share(self, first: str, second: str) -> Cascade:
        """The cascade with one of two equal Einsums: :class:`feinsum_fuse.cascades.rewriting.intermediates.Share`."""
        from .rewriting.intermediates import Share

        return Share(first, second).apply(self)

    def in_four_bits(self, tensor: str, group: int = GROUP) -> Cascade:
        """The cascade with an input in four bits, as quantize4 gives it: :class:`feinsum_fuse.cascades.four_bits.InFourBits`."""
        from .four_bits import InFourBits

        expect(tensor, TEXT, "the name of a tensor", CascadeError)
        return InFourBits(tensor, checked_group(group, CascadeError)).apply(self)

    def batch(self, *einsums: str) -> Cascade:
        """The cascade with these Einsums over common rank variables: :class:`feinsum_fuse.cascades.rewriting.batching.Batch`."""
        from .rewriting.batching import Batch

        return Batch(einsums).apply(self)

    def unbatch(self, einsum: str) -> Cascade:
        """The cascade with rank variables of this Einsum's own: :class:`feinsum_fuse.cascades.rewriting.batching.Unbatch`."""
        from .rewriting.batching import Unbatch

        return Unbatch(einsum).apply(self)

    def canonical(self, maps: bool = True) -> Canonical[Cascade]:
        """The canonical form, with or without the maps: :func:`feinsum_fuse.cascades.canonical.canonical`."""
        expect(maps, FLAG, "maps", CascadeError)
        return self._canonical if maps else self._structure

    @cached_property
    def _canonical(self) -> Canonical[Cascade]:
        from .canonical.canonical import canonical

        return canonical(self)

    @cached_property
    def _structure(self) -> Canonical[Cascade]:
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

        expect(sizes, mapping("a mapping from names to numbers", TEXT, COUNT) | NOTHING, "the sizes", CascadeError)
        return tolerance(self, sizes)
