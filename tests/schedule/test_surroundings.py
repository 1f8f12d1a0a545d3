"""A schedule on somebody's kernel: what is not matched stays, and runs before or after as it did."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pyopencl.array as cla
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.kernel.tags import EinsumTag
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.schedule.kernel.surroundings import in_order
from feinsum_fuse.schedule.kernel.tagging import tagged
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead

from .runs import queue
from .scripts import ref


def kernel() -> lp.TranslationUnit:
    """A product between an instruction that makes one of its operands and one that reads its result, and a loop nest of its own."""
    return lp.make_kernel(
        ["{[i,j,k]: 0<=i<13 and 0<=j<7 and 0<=k<11}", "{[p,q]: 0<=p<11 and 0<=q<7}", "{[r,s]: 0<=r<13 and 0<=s<7}", "{[t]: 0<=t<5}"],
        """
        left(a, b) := A[a, b]
        right(a, b) := B[a, b]
        B[p, q] = 2*C[p, q] + 1          {id=before}
        Z[i, j] = sum(k, left(i, k)*right(k, j))   {id=product, dep=before}
        Y[r, s] = Z[r, s] - 1            {id=after, dep=product}
        X[t] = 3*t                       {id=aside}
        """,
        [
            lp.GlobalArg("A,C", np.float32, shape=lp.auto),
            lp.GlobalArg("B,X,Y,Z", np.float32, shape=lp.auto, is_input=False),
        ],
        name="theirs",
        lang_version=(2018, 2),
        seq_dependencies=False,
    )


def ran(t_unit: lp.TranslationUnit) -> dict[str, np.ndarray]:
    """Everything that the kernel writes, from whole numbers."""
    generator = np.random.default_rng(0)
    arrays = {"A": generator.integers(-3, 4, (13, 11)).astype(np.float32), "C": generator.integers(-3, 4, (11, 7)).astype(np.float32)}
    runner = Runner(executable(t_unit, outputs=["B", "X", "Y", "Z"]), find_device("Portable"))
    shapes = {"B": (11, 7), "X": (5,), "Y": (13, 7), "Z": (13, 7)}
    results = {name: cla.to_device(queue(), np.full(shape, np.nan, np.float32)) for name, shape in shapes.items()}
    runner({name: cla.to_device(queue(), array) for name, array in arrays.items()}, out=results)
    return {name: array.get() for name, array in results.items()}


SCHEDULES: dict[str, tuple[Step, ...]] = {
    "loops": (Split(ref("product.i"), 4),),
    "groups": (Split(ref("product.i"), 4), Bind(ref("product.i/0"), "group.0")),
    "items": (
        Bind(ref("product.i"), "group.0"),
        CacheRead(("product",), "B", ref("product.i"), "local"),
        Bind(ref("product.j"), "local.0"),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_foreign_instructions_keep_their_place(name: str) -> None:
    """By ``Schedule.apply`` alone."""
    theirs = lp.prioritize_loops(kernel(), "p,q")
    matched = ff.match(theirs, ["product"])
    names = {e.name: e for e in matched.cascade.einsums}
    assert list(names) == ["product"]
    ours = Schedule((Explicate(), *SCHEDULES[name])).apply(theirs, matched.names)
    before, after = theirs.default_entrypoint, ours.default_entrypoint
    assert [a.name for a in after.args] == [a.name for a in before.args]
    assert before.loop_priority <= after.loop_priority
    assert before.substitutions == after.substitutions
    wanted = ran(theirs)
    for array, values in ran(ours).items():
        np.testing.assert_array_equal(values, wanted[array], err_msg=array)


def test_tags_are_replaced() -> None:
    """A kernel that says what it is by other names is described anew."""
    theirs = kernel()
    names = ff.match(theirs, ["product"]).names
    entry = theirs.default_entrypoint
    marked = [i.tagged(EinsumTag("old")) if i.id == "product" else i for i in entry.instructions]
    again = tagged(theirs.with_kernel(entry.copy(instructions=marked)), names)
    (insn,) = (i for i in again.default_entrypoint.instructions if i.id == "product")
    assert {tag.einsum for tag in insn.tags_of_type(EinsumTag)} == {"product"}


def test_statements_that_need_nothing_of_one_another_stand_in_the_order_of_the_tree() -> None:
    def placed(*loops: str) -> list[lp.InstructionBase]:
        return [lp.Assignment("x[0]", "0", id=f"s{k}", within_inames=frozenset(names)) for k, names in enumerate(loops)]

    def waits(*loops: str) -> list[frozenset[str]]:
        return [instruction.depends_on for instruction in in_order(placed(*loops), {"g"})]

    assert waits("gq", "gp", "g") == [frozenset(), frozenset({"s0"}), frozenset({"s1"})]
    assert waits("q", "p", "q") == [frozenset()] * 3, "loops that stand in two places have no order"
