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
from loopy.symbolic import ResolvedFunction, UncachedWalkMapper
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ....errors import MatchError
from .draft import Draft, Preparation, without

MOST_CALLS = 300
"""Of kernels, those called by what is called among them: loopy looks at the types of each by itself, which takes milliseconds."""
MOST_NESTED = 30
"""Calls inside one another; each takes some fifteen of Python's frames."""


def check_calls(t_unit: lp.TranslationUnit, name: str) -> None:
    """:class:`~feinsum_fuse.errors.MatchError` where kernels call one another in a circle, too deeply or too often for them to be read."""
    kernels = {key: found.subkernel for key, found in t_unit.callables_table.items() if isinstance(found, CallableKernel)}
    if len(kernels) == 1:
        return
    totals: dict[str, int] = {}

    def total(kernel: str, above: tuple[str, ...]) -> int:
        if kernel in above:
            circle = " -> ".join((*above[above.index(kernel) :], kernel))
            raise MatchError(f"kernels call one another without end: {circle}", hint="OpenCL has no recursion. Write a loop.")
        if len(above) > MOST_NESTED:
            raise MatchError(f"kernels call one another more than {MOST_NESTED} deep, from {above[0]} on")
        if kernel not in totals:
            finder = _Callees(frozenset(kernels))
            for insn in kernels[kernel].instructions:
                insn.with_transformed_expressions(finder)
            totals[kernel] = 1 + sum(total(called, (*above, kernel)) for called in finder.found)
        return totals[kernel]

    if (count := total(name, ())) > MOST_CALLS:
        raise MatchError(f"kernel {name} calls kernels {count - 1} times, with those that they call: more than {MOST_CALLS}")


class _Callees(UncachedWalkMapper):  # type: ignore[misc]
    """Collects each call of one of the kernels."""

    def __init__(self, kernels: frozenset[str]) -> None:
        super().__init__()
        self.kernels = kernels
        self.found: list[str] = []

    def __call__(self, expr: Expression) -> Expression:
        super().__call__(expr)
        return expr

    def map_call(self, expr: p.Call) -> None:
        name = str(expr.function.name)
        if name in self.kernels:
            self.found.append(name)
        for parameter in expr.parameters:
            self.rec(parameter)


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
    origins = {part: call for call, parts in made.items() for part in parts}
    return inlined.after(Preparation("callee in place", f"{callee} for {', '.join(calls)}"), kernel, chosen, origins)
