"""Flipped operands: which of an Einsum's two operands the architecture's ``input`` is, and which its ``weight``.

An architecture whose constraints name ``input`` and ``weight`` says what its two ports do, not which operand goes to which. A product does
not care, so a search may connect them either way; the Spec that it returns has the renames that it chose.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from ...formats.arch import Arch, Memory, Toll
from ...formats.spec import Spec
from ...formats.workload import Workload, WorkloadEinsum

ROLES = ("input", "weight")
NAME = re.compile(r"[A-Za-z_]\w*")


def roles(spec: Spec, einsum: WorkloadEinsum) -> tuple[WorkloadEinsum, ...]:
    """The Einsum as it is, and with its operands flipped where both ways make sense.

    They do if each role is one operand, neither persists (what persists is where it is), and a constraint names one of the roles.
    """
    held = [einsum.renames.get(role, frozenset()) for role in ROLES]
    operands = {access.name for access in einsum.inputs if not access.persistent}
    if any(len(one) != 1 or not one <= operands for one in held) or held[0] == held[1]:
        return (einsum,)
    assert spec.arch is not None
    if any(_named(leaf.expressions.values()) for leaf in spec.arch.components):
        return (einsum,)  # Numbers of the architecture were found with the roles as they are.
    return (einsum, flipped(einsum)) if _named(_expressions(spec.arch)) else (einsum,)


def flipped(einsum: WorkloadEinsum) -> WorkloadEinsum:
    """The Einsum with the other operand in each role."""
    first, second = (einsum.renames[role] for role in ROLES)
    return dataclasses.replace(einsum, renames=einsum.renames.set(ROLES[0], second).set(ROLES[1], first))


def with_einsums(workload: Workload, einsums: Iterable[WorkloadEinsum]) -> Workload:
    """The workload with these Einsums in place of those of the same names."""
    table = {einsum.name: einsum for einsum in einsums}
    chosen = tuple(table.get(einsum.name, einsum) for einsum in workload.einsums)
    return workload if chosen == workload.einsums else dataclasses.replace(workload, einsums=chosen)


def differing(one: Workload, other: Workload) -> Sequence[str]:
    """The Einsums whose roles differ between two workloads of the same Einsums."""
    pairs = zip(one.einsums, other.einsums, strict=True)
    return [a.name for a, b in pairs if any(a.renames.get(role) != b.renames.get(role) for role in ROLES)]


def _named(expressions: Iterable[str]) -> bool:
    """Whether an expression names a role."""
    return any(role in NAME.findall(expression) for expression in expressions for role in ROLES)


def _expressions(arch: Arch) -> Iterator[str]:
    """The set expressions of an architecture."""
    for leaf in arch.components:
        yield str(leaf.enabled)
        if isinstance(leaf, Memory | Toll):
            rules = leaf.tensors
            yield from (rules.back, rules.no_refetch_from_above, rules.no_resend_to_below, rules.keep or "", rules.may_keep or "")
            yield from (expression for option in rules.tensor_order_options for expression in option)
            yield from (comparison.expression for comparison in rules.tile_shape)
            yield from leaf.bits_per_value
    for fanout in (fanout for fanouts in arch.fanouts.values() for fanout in fanouts):
        yield from (fanout.reuse, fanout.may_reuse)
        yield from (comparison.expression for comparison in fanout.loop_bounds)
