"""A kernel as others write it, brought into the grammar that :mod:`feinsum_fuse.cascades.matching.match` reads.

Each rewriting maps a kernel to a kernel that computes the same, and leaves alone what it cannot rewrite; matching says then what stands in
the way. A kernel in the grammar stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import loopy as lp
from loopy.kernel import KernelState
from loopy.typing import auto

from .assignments import without_private_values
from .bounds import with_known_bounds
from .callees import with_callees_in_place
from .draft import Draft, Preparation, without
from .inner_reductions import with_own_reductions
from .operands import with_rules
from .partial_boxes import with_whole_boxes
from .targets import with_bare_targets


def as_made(draft: Draft) -> Draft:
    """Before: a kernel that was preprocessed or linearized. After: the same instructions, to be preprocessed and linearized anew.

    loopy does neither again for a kernel that says that it was done, however its instructions have changed since.
    """
    kernel: lp.LoopKernel = draft.kernel
    if kernel.state == KernelState.INITIAL:
        return draft
    fresh = kernel.copy(state=KernelState.INITIAL, linearization=None)
    return draft.after(Preparation("state taken back", kernel.state.name.lower()), fresh)


def without_barriers(draft: Draft) -> Draft:
    """Before: ``T = ..; ... gbarrier; C = f(T)``, all instructions chosen. After: ``T = ..; C = f(T)``, the second still after the first.

    Schedules put barriers where their own loops need them. Those between instructions that stay as they are stay, too.
    """
    kernel = draft.kernel
    barriers = [insn.id for insn in kernel.instructions if isinstance(insn, lp.BarrierInstruction)]
    others = kernel.id_to_insn.keys() - set(barriers)
    if not barriers or not others or not others <= set(draft.chosen):
        return draft
    for name in barriers:
        kernel = without(kernel, name)
    chosen = [name for name in draft.chosen if name not in barriers]
    return draft.after(Preparation("barriers left out", ", ".join(barriers)), kernel, chosen)


def with_types(draft: Draft) -> Draft:
    """Before: ``out`` has no type. After: ``out: float64``, as loopy infers it from what is assigned to it.

    A type that cannot be inferred stays open; who needs it says so.
    """
    kernel, inferred = draft.kernel, draft.types.kernel
    named: list[str] = []

    def typed(array: lp.kernel.data.ArrayBase) -> lp.kernel.data.ArrayBase:
        found = inferred.get_var_descriptor(array.name).dtype
        if array.dtype not in (None, auto) or found in (None, auto):
            return array
        named.append(f"{array.name} is {found.numpy_dtype.name if hasattr(found, 'numpy_dtype') else found}")
        return array.copy(dtype=found)

    args = [typed(arg) for arg in kernel.args]
    temporaries = {name: typed(variable) for name, variable in kernel.temporary_variables.items()}
    if not named:
        return draft
    return draft.after(Preparation("types inferred", ", ".join(sorted(named))), kernel.copy(args=args, temporary_variables=temporaries))


REWRITINGS: tuple[Callable[[Draft], Draft], ...] = (
    as_made,
    without_barriers,
    with_callees_in_place,
    with_types,
    with_known_bounds,
    without_private_values,
    with_bare_targets,
    with_whole_boxes,
    with_own_reductions,
    with_rules,
)
"""In the order in which they are done."""


def prepare(t_unit: lp.TranslationUnit, kernel: lp.LoopKernel, chosen: Sequence[str]) -> Draft:
    """A copy of the kernel with the chosen instructions as near to the grammar as the rewritings bring them."""
    draft = Draft(t_unit, kernel, tuple(chosen))
    for rewriting in REWRITINGS:
        draft = rewriting(draft)
    return draft
