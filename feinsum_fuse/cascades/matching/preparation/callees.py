"""Calls of kernels of the caller's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import islpy as isl
import loopy as lp
from loopy.diagnostic import LoopyError
from loopy.kernel import KernelState
from loopy.kernel.function_interface import CallableKernel
from loopy.kernel.instruction import NoOpInstruction
from loopy.symbolic import ResolvedFunction
from pymbolic import primitives as p

from .draft import Draft, Preparation, without


def with_callees_in_place(draft: Draft) -> Draft:
    """Before: ``[i]: C[i] = twice([j]: A[j])``, where the kernel ``twice`` is ``y[k] = 2*x[k]``. After: ``C[twic_k] = 2*A[twic_k]``.

    So for the kernels of the translation unit that chosen instructions call, wherever this kernel calls them. What loopy cannot put in
    place stays a call.
    """
    for callee in dict.fromkeys(name for insn in draft.chosen for name in _called(draft, insn)):
        draft = _in_place(draft, callee)
    return draft


def _called(draft: Draft, insn: str) -> Iterator[str]:
    """The kernel that an instruction calls, if it does."""
    call = getattr(draft.kernel.id_to_insn[insn], "expression", None)
    function = call.function if isinstance(call, p.Call) else None
    name = str(function.name) if isinstance(function, p.Variable | ResolvedFunction) else ""
    if isinstance(draft.unit.callables_table.get(name), CallableKernel):
        yield name


def _in_place(draft: Draft, callee: str) -> Draft:
    calls = [insn.id for insn in draft.kernel.instructions if callee in _called(draft, insn.id)]
    try:
        unit = lp.inline_callable_kernel(draft.unit, callee)
    except (LoopyError, isl.Error, ValueError, KeyError, AttributeError, AssertionError, NotImplementedError, RuntimeError):
        return draft  # loopy has no one exception for what it does not inline
    # loopy has resolved the calls for it, and would not look for those that a schedule adds.
    kernel = unit[draft.kernel.name].copy(state=KernelState.INITIAL)
    made: dict[str, list[str]] = {}
    waiting: list[str] = []
    for insn in kernel.instructions:  # each call's instructions stand in its place, the last of them under its name
        if insn.id in calls:
            made[insn.id] = waiting
            waiting = []
        elif insn.id not in draft.kernel.id_to_insn:
            waiting.append(insn.id)
    marks = {insn.id for insn in kernel.instructions if isinstance(insn, NoOpInstruction)} - (draft.kernel.id_to_insn.keys() - set(calls))
    for mark in sorted(marks):
        kernel = without(kernel, mark)
    chosen = [part for name in draft.chosen for part in (made[name] if name in calls else [name]) if part not in marks]
    inlined = dataclasses.replace(draft, t_unit=unit)
    return inlined.after(Preparation("callee in place", f"{callee} for {', '.join(calls)}"), kernel, chosen)
