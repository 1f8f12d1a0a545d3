"""What all mappings of a workload start from is kept, for that workload alone."""

from __future__ import annotations

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering import lowering
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate


def spec(left: str) -> Spec:
    """A product whose left operand has its ranks in this order."""
    return ff.loads(f"workload: {{rank_sizes: {{M: 4, K: 6, N: 8}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = {left} * B[k, n]']}}")


def test_mappings_of_a_workload_share_it() -> None:
    """A search asks once."""
    one = spec("A[m, k]")
    start = unscheduled(one)
    assert unscheduled(Spec(one.workload)) is start
    assert start.nest(Explicate()) is start.nest(Explicate())


def test_workloads_that_are_equal_up_to_an_order_of_ranks() -> None:
    """Two layouts of an operand are two workloads, whatever ``==`` says of their mappings from ranks to indices."""
    shapes = [unscheduled(spec(left)).cascade.tensors["A"].shape for left in ("A[m, k]", "A[k, m]")]
    assert shapes == [(4, 6), (6, 4)]


def test_other_outputs_are_another_start() -> None:
    """Who reads a tensor afterwards decides what is kept of it."""
    one = spec("A[m, k]")
    assert unscheduled(one, ("Z",)) is not unscheduled(one)


def test_mappings_that_cut_an_einsum_alike_share_what_it_becomes() -> None:
    """Two candidates of a search differ in a few decisions; what they lead to is what their steps lead to one by one."""
    cascade = ff.cascade(["Y[m, n] = A[m, k] * B[k, n]", "Z[m, n] = exp(Y[m, n])"], sizes={"M": 8, "N": 8, "K": 8})
    family = Family(default_space(cascade))
    for width in (8, 4):
        same = {"width": width, "budget": 0, "groups": False}
        one, other = (family.spec.replace(mapping=family.mapping(Given({**same, **more}))) for more in ({}, {"accumulator of Y": None}))
        first = lowering.lower(one)
        known = lowering._cut.cache_info().misses
        second = lowering.lower(other)
        assert lowering._cut.cache_info().misses == known and first != second
        kernel = unscheduled(other).kernel
        assert Schedule(second.steps).nest(kernel) == second.nest(kernel)
