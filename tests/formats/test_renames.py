"""Renames, and the set expressions that they and widths are written in."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.sets import element_set, resolve, tensor_set
from feinsum_fuse.formats.spec import Spec
from tests.formats.cases import document

CHAIN = """
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {All: 8, }
  einsums:
  - {einsum: "T[m, k] = A[m, n] * B[n, k]", tensor_accesses: [{name: B, persistent: true}]RENAMES}
  - "Z[m, n] = T[m, k] * C[k, n]"
"""


def load(own: str = "", top: str = "") -> Spec:
    return ff.loads(CHAIN.replace("RENAMES", f", renames: {own}" if own else "") + top)


def renames(own: str = "", top: str = "", einsum: str = "T") -> dict[str, set[str]]:
    return {name: set(elements) for name, elements in load(own, top).workload.einsum(einsum).renames.items()}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("All", "T A B"), ("Tensors", "T A B"), ("Nothing", ""), ("Inputs", "A B"), ("Outputs", "T"), ("Intermediates", "T"),
        ("Shared", "T"), ("Persistent", "B"), ("A", "A"), ("C", ""), ("~A", "T B"), ("Inputs - A", "B"), ("A | T", "A T"),
        ("Inputs & Persistent", "B"), ("Inputs ^ (A | T)", "B T"), ("~(Inputs | Outputs)", ""), ("Outputs()", "T"),
        ("All.tensors", "T A B"),
        ("Inputs if len(All) == 3 else Nothing", "A B"), ("Persistent or A", "B"), ("Nothing or A", "A"), ("A if A in Inputs else B", "A"),
        ("A if A <= Inputs else B", "A"), ("A if Inputs >= A and not A == B else B", "A"), ("A if A.bits_per_value == 8 else B", "A"),
    ],
)  # fmt: skip
def test_set_expressions(expression: str, expected: str) -> None:
    assert tensor_set(expression, load().workload, "T") == set(expected.split())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Inputs.rank_variables - Outputs.rank_variables", "n"), ("m", "m"), ("A.rank_variables", "m n"), ("m | k", "m k"), ("~m", "n k"),
        ("All.rank_variables.rank_variables", "m n k"),
    ],
)  # fmt: skip
def test_rank_variable_sets(expression: str, expected: str) -> None:
    found = element_set(expression, load().workload, load().workload.einsum("T"))
    assert (found.elements, found.space) == (set(expected.split()), "rank variables")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("Inptus", "Did you mean Inputs?"), ("A | m", "tensors and a set of rank variables cannot be combined"), ("3", "not a set"),
        ("A + B", "unsupported operand"), ("All.elements", "not a set"), ("Inputs.bits_per_value", "Only a set of one tensor"),
        ("m.tensors", "has no tensors"), ("A | 3", "cannot be combined"), ("len(A)", "not a set"), ("m", "tensors are expected"),
        ("All.__class__", "no attribute"), ("A & ", "Cannot read"),
    ],
)  # fmt: skip
def test_bad_set_expressions(expression: str, message: str) -> None:
    with pytest.raises(ff.SpecError, match=message.replace("?", r"\?")):
        tensor_set(expression, load().workload, "T")


def test_tables_keyed_by_sets() -> None:
    workload = load().workload
    assert resolve({"A": 1, "Other": 2}, workload, "T") == {"A": 1, "B": 2, "T": 2}
    assert resolve({"Inputs & Persistent": 1, "Outputs": 2}, workload, "T") == {"B": 1, "T": 2}
    assert resolve({"Nothing": 1, "C": 2}, workload, "T") == {}
    with pytest.raises(ff.SpecError, match="both cover tensor A"):
        resolve({"A": 1, "Inputs": 2}, workload, "T")


def test_both_forms() -> None:
    assert renames("{input: A, out: Outputs}") == {"input": {"A"}, "out": {"T"}}
    assert renames("[{name: input, source: A, expected_count: 1}, {name: rest, source: ~input}]") == {"input": {"A"}, "rest": {"B", "T"}}
    assert renames("{reduced: Inputs.rank_variables - Outputs.rank_variables, r: ~reduced}") == {"reduced": {"n"}, "r": {"m", "k"}}


DEFAULT = """
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs - Persistent, expected_count: 1 if Persistent else 2}
    - {name: weight, source: ~(input | output)}
    - {name: output, source: Outputs}
    rank_variables: {reduced: Inputs.rank_variables - Outputs.rank_variables}
  - name: Z
    tensor_accesses: {input: C}
    rank_variables: []
"""


def test_defaults_hold_unless_overridden_name_by_name() -> None:
    assert renames("", DEFAULT) == {"input": {"A"}, "weight": {"B"}, "output": {"T"}, "reduced": {"n"}}
    assert renames("{input: B}", DEFAULT) == {"input": {"B"}, "weight": {"A"}, "output": {"T"}, "reduced": {"n"}}


def test_a_top_level_entry_for_a_named_einsum_is_honoured() -> None:
    assert renames("", DEFAULT, "Z") == {"input": {"C"}, "weight": {"T"}, "output": {"Z"}, "reduced": {"k"}}


def test_the_documents_renames() -> None:
    workload = ff.loads(document("gpt3.yaml")).workload
    assert {e.name: {k: sorted(v) for k, v in e.renames.items()} for e in workload.einsums if e.name in ("I", "V", "QK", "AV")} == {
        "I": {"weight": [], "input": ["I_in"], "output": ["I"]},
        "V": {"weight": ["WV"], "input": ["I"], "output": ["V"]},
        "QK": {"weight": ["K"], "input": ["Q"], "output": ["QK"]},
        "AV": {"weight": ["V"], "input": ["QK_softmax"], "output": ["AV"]},
    }


@pytest.mark.parametrize(
    ("own", "top", "message"),
    [
        ("[{name: input, source: Inputs, expected_count: 1}]", "", "denotes 2 elements (A, B); expected_count is 1"),
        ("{a: b, b: a}", "", "refer to each other"),
        ("{a: Wrong}", "", "The name 'Wrong' is not known"),
        ("{a: len(All)}", "", "not a set of tensors or rank variables"),
        ("[{name: a}]", "", "Renames are {new name: set expression}, or a list"),
        ("", "renames: {einsums: [{name: Q, tensor_accesses: {a: All}}]}", "There is no Einsum Q to rename in"),
        ("", "renames: {einsums: [{name: T, tensor_accesses: {a: All}}, {name: T}]}", "given twice"),
        ("", "renames: {einsums: [{name: T, rank_variables: {a: Inputs}}]}", "denotes tensors; rank variables are expected"),
    ],
)
def test_bad_renames(own: str, top: str, message: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        load(own, top)
    assert message in str(caught.value)
