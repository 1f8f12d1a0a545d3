"""Constraints of an architecture: what a mapping breaks is told with both places, and evaluated all the same."""

from __future__ import annotations

import warnings

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import ConstraintWarning
from feinsum_fuse.formats.checking.constraint_check import broken_by
from feinsum_fuse.formats.spec import Spec

WORKLOAD = """
workload: {rank_sizes: {M: 4, K: 4, N: 4}, bits_per_value: {All: 8}, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}
renames: {einsums: [{name: default, tensor_accesses: {input: A, weight: B, output: Outputs}}]}
"""
ACTIONS = "leak_power: 0, actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]"
ARCH = """
arch:
  variables: {most: 2}
  nodes:
  - !Memory {name: Main, size: inf, ACTIONS}
  - !Memory {name: Buffer, size: inf, ACTIONS, MEMORY}
  - !Container {name: PE, spatial: [{name: X, fanout: 4, FANOUT}]}
  - !Compute {name: MAC, component_class: Dummy, UNIT}
"""
MAPPING = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: Main}
  - !Temporal {rank_variable: n, tile_shape: 2}
  - !Storage {tensors: [A], component: Buffer}
  - !Storage {tensors: [Z], component: Buffer}
  - !Spatial {rank_variable: m, tile_shape: 2, name: X, component: PE}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""


def text(memory: str = "", fanout: str = "", unit: str = "") -> str:
    arch = ARCH.replace("ACTIONS", ACTIONS).replace(", MEMORY", f", {memory}" if memory else "")
    arch = arch.replace(", FANOUT", f", {fanout}" if fanout else "").replace(", UNIT", f", {unit}" if unit else "")
    return WORKLOAD + arch + MAPPING


def spec(memory: str = "", fanout: str = "", unit: str = "") -> Spec:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)
        return ff.loads(text(memory, fanout, unit))


KEPT = [
    "tensors: {keep: A | Z}",
    "tensors: {keep: ~B}",
    "tensors: {keep: A, may_keep: All}",
    "tensors: {may_keep: ~weight}",
    "tensors: {keep: output | input & Main}",
    "tensors: {keep: output | Above - weight}",
    "tensors: {tile_shape: [{expression: n, operator: <=, value: most}]}",
    "tensors: {tile_shape: [{expression: 'm | n', operator: product==, value: 2}]}",
    "tensors: {tile_shape: [{expression: m, operator: '==', value: 1}]}",  # no loop over m above
    "tensors: {no_refetch_from_above: Z}",  # n moves Z
    "tensors: {tensor_order_options: [[Z, A], [A, Z]]}",
    "tensors: {tensor_order_options: [[A | Z]]}",
    "enabled: len(All) == 3",
    "enabled: weight",
]
BROKEN = {
    "tensors: {keep: All}": "must keep B in Buffer (keep: All).",
    "tensors: {keep: A}": "may not keep Z in Buffer (keep: A).",
    "tensors: {may_keep: Z}": "may not keep A in Buffer (may_keep: Z).",
    "tensors: {may_keep: Z, keep: Nothing}": "may not keep A in Buffer (may_keep: Z).",
    "tensors: {back: Z, may_keep: All}": "must have Z live in Buffer (back: Z).",
    "tensors: {tile_shape: [{expression: n, operator: ==, value: 4}]}": "has tiles of 2 along n in Buffer (tile_shape: n == 4).",
    "tensors: {no_refetch_from_above: input}": "fetches A more than once through Buffer, by the loop over n (no_refetch_from_above).",
    "tensors: {no_resend_to_below: A}": "sends A more than once through Buffer, by the loop over n (no_resend_to_below).",
    "tensors: {tensor_order_options: [[Z, A]]}": "holds A, Z in Buffer in this order, which is none of tensor_order_options.",
    "enabled: len(All) == 2": "uses Buffer, which is enabled only if len(All) == 2.",
}


@pytest.mark.parametrize("memory", KEPT)
def test_a_constraint_that_holds_is_not_told(memory: str) -> None:
    assert broken_by(spec(memory)) == ()


@pytest.mark.parametrize("memory", BROKEN)
def test_a_constraint_of_a_memory_is_told(memory: str) -> None:
    assert [str(one) for one in broken_by(spec(memory))] == [f"Einsum Z {BROKEN[memory]}"]


def test_constraints_of_fanouts() -> None:
    """Two of four instances run, by a loop of two over m, which A and Z are indexed by and B is not."""

    def told(fanout: str) -> list[str]:
        return [str(one).removeprefix("Einsum Z ") for one in broken_by(spec(fanout=fanout))]

    assert told("reuse: B, min_usage: 0.5, loop_bounds: [{expression: m, operator: <=, value: 2}]") == []
    assert told("min_usage: 1, usage_scale: 2") == []
    assert told("reuse: A") == ["spreads m over PE along X, which does not reuse A (reuse)."]
    assert told("min_usage: 1") == ["uses 0.5 of PE along X, less than min_usage: 1."]
    assert told("loop_bounds: [{expression: ~k, operator: '<', value: most}]") == [
        "has loops of 2 over m on PE along X (loop_bounds: ~k < 2)."
    ]
    assert told("loop_bounds: [{expression: '{m, n}', operator: '==', value: 1}]") == [
        "has loops of 2 over m on PE along X (loop_bounds: {m, n} == 1)."
    ]


def test_what_a_fanout_must_reuse_is_all_that_it_may() -> None:
    """As in AccelForge: a fanout that reuses B, and says no more, sends A's rows one by one."""
    fanouts = [spec(fanout=more).arch.components[2].spatial[0] for more in ("", "reuse: B", "reuse: B, may_reuse: All")]  # type: ignore[union-attr]
    assert [(fanout.reuse, fanout.may_reuse) for fanout in fanouts] == [("Nothing", "All"), ("B", "B"), ("B", "All")]


def test_a_compute_unit_that_is_off() -> None:
    assert str(broken_by(spec(unit="enabled: 'False'"))[0]) == "Einsum Z uses MAC, which is enabled only if False."


def test_both_places_are_named() -> None:
    with pytest.warns(ConstraintWarning) as caught:
        found = ff.loads(text("tensors: {keep: A}", "min_usage: 1"))
    lines = text("tensors: {keep: A}", "min_usage: 1").splitlines()
    node, fanout, memory = (next(n for n, line in enumerate(lines, 1) if part in line) for part in ("[Z]", "!Spatial", "name: Buffer"))
    first, second = (str(warning.message) for warning in caught)
    assert first.startswith(f"<text>:{node}:") and f"The constraint stands at <text>:{memory}:" in first
    assert first.endswith("arch.nodes[1].tensors.keep")
    assert second.startswith(f"<text>:{fanout}:") and second.endswith("arch.nodes[2].spatial[0].min_usage")
    assert ff.predict(found).energy == ff.predict(spec()).energy


def test_constraints_survive_being_written() -> None:
    memory = "tensors: {keep: A, may_keep: Z, tile_shape: [{expression: n, operator: ==, value: 2}], tensor_order_options: [[A, Z]]}"
    given = spec(memory, "reuse: B, may_reuse: All, loop_bounds: [{expression: m, operator: product<=, value: 2}]")
    assert ff.loads(given.to_yaml()).arch == given.arch


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("tensors: {kep: A}", "The field 'kep' is not known here.\n  Did you mean keep"),
        ("tensors: {tile_shape: [{expression: n, operator: =<, value: 4}]}", "'=<' compares nothing"),
        ("tensors: {tile_shape: [{expression: n, operator: <=, value: x}]}", "The name 'x' is not known"),
        ("tensors: {tile_shape: [{expression: 'n (', operator: <=, value: 1}]}", "Cannot read the expression"),
        ("tensors: {tensor_order_options: [A]}", "expected"),
    ],
)
def test_what_no_constraint_is(memory: str, message: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        ff.loads(text(memory))
    assert message in str(caught.value)
    assert caught.value.location is not None and "arch.nodes[1].tensors" in caught.value.location.path


def test_constraints_of_an_einsum_that_lacks_the_tensor_are_passed_over() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ff.loads(text("tensors: {keep: Nowhere}"))
    assert broken_by(found) == ()
