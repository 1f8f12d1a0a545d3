"""Einsums in an order, as a plain value: what all that reads or makes a cascade works on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self, TypeVar

from constantdict import constantdict

from ..arguments import TEXT, described, expect
from ..errors import CascadeError
from .terms import Einsum, SizeParam, Tensor

AnyCascade = TypeVar("AnyCascade", bound="EinsumSequence")
"""The kind of cascade that goes in and comes out."""


class Rewriting(Protocol):
    """A cascade made from another by algebra: a frozen, ordered value whose outputs equal those of what it is applied to."""

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The rewritten cascade, which records the rewriting; :class:`CascadeError` if the precondition does not hold."""


@dataclass(frozen=True, repr=False)
class EinsumSequence:
    """Einsums in an order in which every tensor is written before it is read; :class:`~.cascade.Cascade` is one that can do more."""

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
        expect(name, TEXT, "the name of the Einsum", CascadeError)
        for einsum in self.einsums:
            if einsum.name == name:
                return einsum
        raise CascadeError(f"the cascade has no Einsum {described(name)}", hint=f"It has {', '.join(e.name for e in self.einsums)}.")

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that no Einsum writes, in order of first appearance."""
        written = {e.output.tensor for e in self.einsums}
        return tuple(dict.fromkeys(a.tensor for e in self.einsums for a in e.operands if a.tensor not in written))

    @cached_property
    def intermediates(self) -> tuple[str, ...]:
        """The tensors that are written and are no outputs."""
        return tuple(dict.fromkeys(e.output.tensor for e in self.einsums if e.output.tensor not in self.outputs))

    @cached_property
    def size_parameters(self) -> tuple[str, ...]:
        """The names of the symbolic sizes, in order of first appearance."""
        sizes = [size for einsum in self.einsums for size in einsum.sizes.values()]
        sizes += [size for tensor in self.tensors.values() for size in tensor.shape]
        return tuple(dict.fromkeys(size.name for size in sizes if isinstance(size, SizeParam)))

    def fills_output(self, einsum: Einsum) -> bool:
        """Whether the values of an Einsum's output variables are the elements of its output, each once: ``Z[m, 25*c + d]``."""
        axes = zip(einsum.output.indices, self.tensors[einsum.output.tensor].shape, strict=True)
        digits = [index.digits(einsum.sizes, size) for index, size in axes]
        return all(digits) and sum(map(len, digits)) == len(einsum.output_variables)

    def fixed_shape(self, tensor: str, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The shape with size parameters replaced; :class:`CascadeError` if one is missing."""
        expect(tensor, TEXT, "the tensor", CascadeError)
        if tensor not in self.tensors:
            raise CascadeError(f"the cascade has no tensor {described(tensor)}", hint=f"It has {', '.join(self.tensors)}.")
        shape = []
        for size in self.tensors[tensor].shape:
            if isinstance(size, SizeParam):
                if sizes is None or size.name not in sizes:
                    raise CascadeError(f"tensor {tensor} has the symbolic size {size.name}", hint="Give it a value.")
                size = sizes[size.name]
            shape.append(size)
        return tuple(shape)

    def changed(
        self, einsums: tuple[Einsum, ...], tensors: Mapping[str, Tensor], outputs: tuple[str, ...], rewritings: tuple[Rewriting, ...] = ()
    ) -> Self:
        """The same kind of cascade of other Einsums."""
        return dataclasses.replace(self, einsums=einsums, tensors=constantdict(tensors), outputs=outputs, rewritings=rewritings)

    def rewritten(self, einsums: tuple[Einsum, ...], tensors: Mapping[str, Tensor], by: Rewriting) -> Self:
        """The cascade of the Einsums and tensors that a rewriting made."""
        return self.changed(einsums, tensors, self.outputs, (*self.rewritings, by))

    def __repr__(self) -> str:
        lines = []
        for title, names in (("inputs", self.inputs), ("intermediates", self.intermediates), ("outputs", self.outputs)):
            if names:
                lines.append(f"{title + ':':<15}{', '.join(str(self.tensors[name]) for name in names)}")
        for einsum in self.einsums:
            lines.append(f"# {einsum.name}")
            lines.append(repr(einsum))
        return "\n".join(lines)
