"""Kernels that loopy has already prepared for its code generator."""

from __future__ import annotations

import loopy as lp
from loopy.kernel import KernelState

from .draft import Draft, Preparation


def as_made(draft: Draft) -> Draft:
    """Before: a kernel that was preprocessed or linearized. After: the same instructions, to be preprocessed and linearized anew.

    loopy does neither again for a kernel that says that it was done, however its instructions have changed since.
    """
    kernel: lp.LoopKernel = draft.kernel
    if kernel.state == KernelState.INITIAL:
        return draft
    fresh = kernel.copy(state=KernelState.INITIAL, linearization=None)
    return draft.after(Preparation("state taken back", kernel.state.name.lower()), fresh)
