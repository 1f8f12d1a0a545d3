"""Schedules applied to part of somebody else's kernel, by :meth:`Schedule.apply` alone."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest

from feinsum_fuse.cascades.kernel.tags import EinsumTag
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite
from feinsum_fuse.schedule.tree.nest import LoopRef

from .runs import queue


def grouped(einsum: str, row: str, operand: str) -> Schedule:
    """Rows in groups of four, one operand in local memory, a private accumulator."""
    return Schedule(
        (
            Explicate((einsum,)),
            Split(LoopRef(einsum, row), 4),
            Bind(LoopRef(einsum, row, "0"), "group.0"),
            CacheRead((einsum,), operand, LoopRef(einsum, row, "0"), "local"),
            CacheWrite(einsum, LoopRef(einsum, row, "1"), "private"),
        )
    )


def crowded() -> lp.TranslationUnit:
    """Two products among others' names, loops, a reduction and a call of which the schedule knows nothing."""
    halves = lp.make_function(
        "{[i]: 0 <= i < 10}",
        "b[i] = a[i] / 2",
        [lp.GlobalArg("a, b", np.float32, shape=(10,))],
        name="halves",
        lang_version=(2018, 2),
    )
    kernel = lp.make_kernel(
        [
            "{[x, y]: 0 <= x < 14 and 0 <= y < 10}",
            "{[z]: 0 <= z < 6}",
            "{[u, v]: 0 <= u < 14 and 0 <= v < 9}",
            "{[w]: 0 <= w < 10}",
            "{[x_0, x_1]: 0 <= x_0 < 14 and 0 <= x_1 < 10}",
            "{[s, t]: 0 <= s, t < 10}",
            "{[p, q]: 0 <= p < 14 and 0 <= q < 10}",
        ],
        """
        scaled(a, b) := inner(a, b) * weight[a]
        inner(a, b) := P[a, b]
        right(a, b) := Q[a, b]
        first(a, b) := T[a, b]
        last(a, b) := R[a, b]
        weight[x] = 1 + x  {id=one_init}
        T[x, y] = sum(z, scaled(x, z) * right(z, y))  {id=one, dep=one_init}
        Q_local[x_0] = sum(x_1, T[x_0, x_1])  {id=rows, dep=one}
        out[u, v] = sum(w, first(u, w) * last(w, v))  {id=two, dep=one}
        [t]: halved[t] = halves([s]: T[2, s])  {id=call, dep=one}
        copy[x, y] = 3 * T[x, y]  {id=copy, dep=one}
        more[p, q] = T[p, q] - 1  {id=more, dep=one}
        """,
        [
            lp.GlobalArg("out", np.float32, shape=(14, 9)),
            lp.GlobalArg("P", np.float32, shape=(14, 6)),
            lp.GlobalArg("Q", np.float32, shape=(6, 10), order="F"),
            lp.GlobalArg("R", np.float32, shape=(10, 9)),
            lp.GlobalArg("Q_local", np.float32, shape=(14,)),
            lp.GlobalArg("halved", np.float32, shape=(10,)),
            lp.GlobalArg("copy, more", np.float32, shape=(14, 10)),
            lp.TemporaryVariable("T", np.float32, shape=(14, 10), address_space=lp.AddressSpace.GLOBAL),
            lp.TemporaryVariable("weight", np.float32, shape=(14,), address_space=lp.AddressSpace.GLOBAL),
        ],
        lang_version=(2018, 2),
        name="crowded",
    )
    return lp.merge([lp.prioritize_loops(kernel, "q, p"), halves])


def results(t_unit: lp.TranslationUnit) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    shapes = {"P": (14, 6), "Q": (6, 10), "R": (10, 9)}
    inputs = {name: generator.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    inputs["Q"] = np.asfortranarray(inputs["Q"])
    t_unit = lp.set_options(t_unit, return_dict=True)
    _, outputs = t_unit.executor(queue().context)(queue(), **inputs, out_host=True)
    return {name: np.array(value) for name, value in outputs.items()}


def transformed(kernel: lp.TranslationUnit, instruction: str) -> lp.TranslationUnit:
    found = match(kernel, [instruction])
    (einsum,) = found.cascade.einsums
    row, operand = einsum.variables[0], einsum.operands[1].tensor
    return grouped(einsum.name, row, operand).apply(kernel, names=found.names)


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("instructions", [("one",), ("two",), ("one", "two"), ("two", "one")])
def test_the_rest_of_a_kernel_survives(instructions: tuple[str, ...]) -> None:
    kernel = crowded()
    fast = kernel
    for instruction in instructions:
        fast = transformed(fast, instruction)
    before, after = kernel.default_entrypoint, fast.default_entrypoint
    assert not set(instructions) & after.id_to_insn.keys()
    for name in before.id_to_insn.keys() - set(instructions):
        old, new = before.id_to_insn[name], after.id_to_insn[name]
        assert (old.assignee_var_names(), old.tags) == (new.assignee_var_names(), new.tags)
    assert [a.name for a in before.args] == [a.name for a in after.args]
    assert [getattr(a, "dim_tags", ()) for a in before.args] == [getattr(a, "dim_tags", ()) for a in after.args]
    assert before.substitutions == after.substitutions
    assert ("q", "p") in after.loop_priority
    assert fast["halves"].instructions == kernel["halves"].instructions
    same(results(kernel), results(fast))


def test_tags_of_ours_are_replaced_and_others_stay() -> None:
    kernel = crowded()
    inner = kernel.default_entrypoint
    tag = EinsumTag("Somebody's")
    marked = kernel.with_kernel(
        inner.copy(instructions=[insn.tagged(tag) if insn.id in {"one", "copy"} else insn for insn in inner.instructions])
    )
    fast = transformed(marked, "one")
    assert not any(tag in insn.tags for insn in fast.default_entrypoint.instructions)
    same(results(kernel), results(fast))


def test_a_value_that_each_iteration_overwrites_keeps_its_instruction_in_the_loop() -> None:
    kernel = lp.make_kernel(
        "{[x, y, z]: 0 <= x < 16 and 0 <= y < 12 and 0 <= z < 8}",
        """
        left(a, b) := P[a, b]
        right(a, b) := Q[a, b]
        factor = raw[x]  {id=scale}
        out[x, y] = sum(z, left(x, z) * right(z, y))  {id=product, dep=scale}
        scaled[x] = out[x, 0] * factor  {id=use, dep=product:scale}
        """,
        [lp.GlobalArg("P, Q, out, raw, scaled", np.float32, shape=lp.auto), lp.TemporaryVariable("factor", np.float32, shape=())],
        lang_version=(2018, 2),
    )
    found = match(kernel, ["product"])
    with pytest.raises(ScheduleError, match="instruction scale cannot leave loop x, in which use stands as well"):
        Schedule((Explicate(("product",)),)).apply(kernel, names=found.names)
