"""A kernel as others write it, brought into the grammar that :mod:`feinsum_fuse.cascades.matching.match` reads.

Each rewriting maps a kernel to a kernel that computes the same, and leaves alone what it cannot rewrite; matching says then what stands in
the way. A kernel in the grammar stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import loopy as lp

from .assignments import without_private_values
from .bounds import with_known_bounds
from .boxes import with_whole_boxes
from .callees import with_callees_in_place
from .draft import Draft
from .inferred_types import with_types
from .operands import with_rules
from .reductions import with_own_reductions
from .state import as_made
from .targets import with_bare_targets

REWRITINGS: tuple[Callable[[Draft], Draft], ...] = (
    as_made,
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
