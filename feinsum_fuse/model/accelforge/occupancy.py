"""Occupancy: the bits of a memory that a tensor reserves (accelforge.md, section 5.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...formats.arch import Memory
from ..quantity import Number
from .component import bits_per_value
from .einsum_nest import Holder, NestLoop, Reservation
from .value_traffic import TensorNest


@dataclass(frozen=True)
class Reserved:
    """Space taken in a memory for one tensor of one Einsum."""

    component: str
    tensor: str
    depth: int
    """Loops above the reservation; -1 for a persistent tensor, which outlives them all."""
    bits: Number
    backs: frozenset[str] = frozenset()
    """The tensors that live here."""


def occupancy(tensor: TensorNest, n_instances: int) -> Iterator[Reserved]:
    """The reservations of one tensor: ``tile at the reservation point * bits_per_value``; persistent ones for all instances.

    Two tensors of a copy that share a memory are one space there, of the smaller width (section 5.7).
    """
    for place, node in enumerate(tensor.nodes):
        if isinstance(node, Reservation) and isinstance(node.holder.component, Memory):
            accesses = node.holder.also or (tensor.access,)
            size = tensor.tile(place) * min(bits_per_value(node.holder.component, a.name, a.bits_per_value) for a in accesses)
            depth = sum(1 for above in tensor.nodes[:place] if isinstance(above, NestLoop))
            if node.holder.persistent:
                depth, size = -1, size * n_instances
            yield Reserved(node.holder.component.name, tensor.access.name, depth, size, _backs(tensor, node.holder))


def _backs(tensor: TensorNest, holder: Holder) -> frozenset[str]:
    """The tensors that a holder backs: its own, or for a copy each that lives in its memory."""
    if not tensor.nest.einsum.is_copy_operation:
        return frozenset({holder.tensor}) if holder.backing else frozenset()
    return frozenset(name for name, home in tensor.nest.homes.items() if home.component == holder.component.name)
