"""Types that a kernel leaves to inference, written down."""

from __future__ import annotations

import loopy as lp
from loopy.typing import auto

from .draft import Draft, Preparation


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
