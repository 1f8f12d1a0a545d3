"""Steps never read what an operand computes: a schedule applies alike under different bodies of the substitution rules."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.kernel.data import SubstitutionRule

from .runs import outputs_of, whole_numbers
from .scripts import SCRIPTS, Script


def doubled(t_unit: lp.TranslationUnit, arrays: frozenset[str]) -> lp.TranslationUnit:
    """The kernel whose rules read inputs times two, plus one."""
    kernel = t_unit.default_entrypoint
    rules = {
        name: SubstitutionRule(name, rule.arguments, 2 * rule.expression + 1)
        if lp.symbolic.get_dependencies(rule.expression) & arrays
        else rule
        for name, rule in kernel.substitutions.items()
    }
    return t_unit.with_kernel(kernel.copy(substitutions=rules))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_schedules_apply_under_any_operands(script: Script) -> None:
    """The scheduled kernel with other rules computes what the base kernel with these rules does; the tree is the same."""
    cascade, schedule = script.at((13, 7, 11, 5))
    inputs = whole_numbers(cascade)
    base = cascade.kernel()
    other = doubled(base, frozenset(cascade.inputs))
    assert str(schedule.nest(base)) == str(schedule.nest(other))
    before, after = outputs_of(other, cascade, inputs), outputs_of(schedule.apply(other), cascade, inputs)
    changed = outputs_of(base, cascade, inputs)
    for tensor in cascade.outputs:
        np.testing.assert_array_equal(after[tensor], before[tensor])
        assert not np.array_equal(before[tensor], changed[tensor])
