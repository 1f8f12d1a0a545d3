"""Bits per value of every access: the workload's set expressions, overridden by the accesses' own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...errors import Location, SpecError
from ..sets import resolve
from ..workload import Workload


def resolved_widths(workload: Workload, locate: Callable[[int | None], Location], own: dict[tuple[int, str], int]) -> Workload:
    """The workload with the width of every access filled in; a tensor has one width in all Einsums.

    ``own`` holds widths that accesses give themselves, by Einsum index and tensor; one access's own width holds for the tensor everywhere.
    ``locate`` gives the place of an Einsum, or of the workload's table for ``None``.
    """
    overrides: dict[str, int] = {}
    for (index, tensor), bits in own.items():
        if overrides.setdefault(tensor, bits) != bits:
            message = f"Tensor {tensor} has {overrides[tensor]} bits per value in one Einsum and {bits} in another."
            raise SpecError(message, location=locate(index))
    found: dict[str, int] = {}
    einsums = []
    for index, einsum in enumerate(workload.einsums):
        try:
            table = resolve(workload.bits_per_value, workload, einsum.name)
        except SpecError as error:
            raise SpecError(f"For Einsum {einsum.name}: {error.message}", location=locate(None), hint=error.hint) from None
        accesses = []
        for access in einsum.tensor_accesses:
            width = overrides.get(access.name, table.get(access.name))
            if width is None:
                raise SpecError(
                    f"Tensor {access.name} of Einsum {einsum.name} has no bits per value.",
                    location=locate(index),
                    hint="Give bits_per_value: {All: 8} in the workload, or bits_per_value in the tensor access.",
                )
            if found.setdefault(access.name, width) != width:
                raise SpecError(
                    f"Tensor {access.name} has {width} bits per value in Einsum {einsum.name}, but {found[access.name]} in an earlier one.",
                    location=locate(index),
                )
            accesses.append(replace(access, bits_per_value=width))
        einsums.append(replace(einsum, tensor_accesses=tuple(accesses)))
    return replace(workload, einsums=tuple(einsums))
