"""Instructions of a prepared kernel that nothing rearranges, on many groups all the same."""

from __future__ import annotations

import loopy as lp
from loopy.kernel.data import GroupInameTag
from pymbolic.primitives import Subscript

from ...cascades.kernel.tags import SeparateTag
from ...cascades.matching.instruction import loop_extents
from ...cascades.matching.preparation.draft import names_in
from ...cascades.names import Identifiers

ELEMENTS = 1 << 12
"""That a group writes: against so many, starting a group costs little on any device, and an array worth the time has many times more."""
AXES = 3
"""Along which groups are numbered in OpenCL."""


def separate(kernel: lp.LoopKernel, after: frozenset[str]) -> frozenset[str]:
    """Those of some instructions whose iterations are independent by construction, and which wait for none of the others."""
    needed = kernel.recursive_insn_dep_map()
    return frozenset(name for name in after if kernel.id_to_insn[name].tags_of_type(SeparateTag) and not needed[name] & after)


def spread_out(kernel: lp.LoopKernel, name: str) -> lp.LoopKernel:
    """Before: ``for i: for j: C[i, j] = C_box[i - 1, j]``. After, where a group takes 32 of the rows::

        for i_0 (groups): for i_1 < 32: for j: C[32*i_0 + i_1, j] = C_box[32*i_0 + i_1 - 1, j]

    So with loops of its own, of which the outer ones become groups: as many as leave :data:`ELEMENTS` to each.
    """
    target = kernel.id_to_insn[name].assignee
    assert isinstance(target, Subscript)
    old = list(names_in(target.index_tuple, kernel.id_to_insn[name].within_inames))
    fresh = Identifiers({*kernel.all_variable_names(), *kernel.inames})
    new = [fresh(f"{iname}_own") for iname in old]
    kernel = lp.duplicate_inames(kernel, old, f"id:{name}", new_inames=new, tags={})
    kernel = lp.remove_unused_inames(kernel, old)
    extents = [extent if isinstance(extent, int) else ELEMENTS for extent in loop_extents(kernel, new).values()]
    inner, place = 1, len(new) - 1
    while place > 0 and inner * extents[place] <= ELEMENTS:
        inner *= extents[place]
        place -= 1
    rows = max(1, ELEMENTS // inner)
    outer, rest = fresh(f"{new[place]}_groups"), fresh(f"{new[place]}_rows")
    kernel = lp.split_iname(kernel, new[place], rows, outer_iname=outer, inner_iname=rest)
    groups = (outer, *reversed(new[:place]))[:AXES]
    return lp.tag_inames(kernel, {iname: GroupInameTag(axis) for axis, iname in enumerate(groups)})
