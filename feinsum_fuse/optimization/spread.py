"""A kernel as its author wrote it, each instruction on many groups: what bandwidth alone limits needs no more."""

from __future__ import annotations

from itertools import pairwise

import loopy as lp
from loopy.kernel.data import HardwareConcurrentTag
from pymbolic import primitives as p

from ..archive.facts.application import require_same_kernel
from ..archive.facts.reduced_sizes import points
from ..cascades.matching.match import Match
from ..cascades.matching.preparation.draft import dependencies
from ..device.catalogue import DeviceInfo
from ..errors import LoweringError
from ..schedule.kernel.spreading import spread_out
from ..schedule.kernel.surroundings import entrypoint

MANY_POINTS = 1 << 28
"""Points of a kernel that one work-item may take a second for: such kernels are not run whole to see what groups make of them."""


def spread_kernel(kernel: lp.TranslationUnit, matched: Match, device: DeviceInfo) -> lp.TranslationUnit:
    """The kernel with the loops of each instruction on groups, one instruction after the other, verified at full size.

    The match says that each instruction writes each element once, after what it reads was written. Raises
    :class:`~feinsum_fuse.errors.LoweringError` where there is more in the kernel than that, symbolic lengths, many points, or parallel
    loops already; and :class:`~feinsum_fuse.device.timing.outcome.KernelError` for a kernel that computes something else.
    """
    entry = entrypoint(kernel)
    if any(iname.tags_of_type(HardwareConcurrentTag) for iname in entry.inames.values()):
        raise LoweringError("its loops are bound to the device already")
    if set(matched.instructions) != set(entry.id_to_insn) or matched.cascade.size_parameters:
        raise LoweringError("not all of its instructions are matched, or lengths are symbolic")
    if points(matched.cascade) > MANY_POINTS:
        raise LoweringError("it is too long to be run as it is")
    if any(einsum.is_recurrence for einsum in matched.cascade.einsums):
        raise LoweringError("an instruction reads what it wrote in an earlier iteration")
    before = dependencies(entry)
    order = sorted(entry.id_to_insn, key=lambda name: len(before[name]))
    for name in order:
        if not _writes_its_loops(entry, name):
            raise LoweringError(f"{name} writes something else than an element for each iteration of its loops")
    result = entry
    for name in order:
        result = spread_out(result, name)
    unit = kernel.with_kernel(result)
    for first, second in pairwise(order):
        unit = lp.add_dependency(unit, f"id:{second}", f"id:{first}")
        unit = lp.add_barrier(unit, f"id:{first}", f"id:{second}")
    require_same_kernel(unit, kernel, matched, device)
    return unit


def _writes_its_loops(kernel: lp.LoopKernel, name: str) -> bool:
    """Whether an instruction assigns one element of an array in global memory for each iteration of the loops around it."""
    insn = kernel.id_to_insn[name]
    target = insn.assignee if isinstance(insn, lp.Assignment) else None
    if not isinstance(target, p.Subscript) or kernel.get_var_descriptor(target.aggregate.name).address_space != lp.AddressSpace.GLOBAL:
        return False
    indices = [index.name for index in target.index_tuple if isinstance(index, p.Variable)]
    return len(indices) == len(target.index_tuple) == len(set(indices)) and set(indices) == insn.within_inames
