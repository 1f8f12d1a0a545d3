"""Workloads: every field, bounds, widths, persistence, and what must agree between Einsums."""

from __future__ import annotations

import re
import warnings

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import SpecWarning
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.workload import Operation, Workload
from tests.formats.cases import MATMUL, document


def workload(text: str, **variables: object) -> Workload:
    return ff.loads(text, variables).workload


def one(einsum: str, sizes: str = "M: 8, K: 4, P: 8", more: str = "") -> Workload:
    sizes = ", ".join(size for size in sizes.split(", ") if re.search(rf"\b{size[0]}\b", einsum, re.IGNORECASE))
    return workload(f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 8}}\n{more}  einsums:\n  - {einsum}\n")


def test_long_form_equals_one_line() -> None:
    long = """
- name: Z
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: {K: k, N: n}}
    - {name: Z, projection: {M: m, N: n}, output: true}
"""
    assert workload(MATMUL.replace('- "Z[m, n] = A[m, k] * B[k, n]"', long.strip())) == workload(MATMUL)


def test_einsums_may_be_nested_lists() -> None:
    text = 'workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: [["B[m] = A[m]", ["C[m] = B[m]"]], "D[m] = C[m]"]}'
    assert [einsum.name for einsum in workload(text).einsums] == ["B", "C", "D"]


def test_every_field_is_read() -> None:
    text = """
variables: {base: 4, twice: base * 2}
workload:
  rank_sizes: {M: twice * 2, K: 2**3}
  iteration_space_shape: {m: 0 <= m < 12}
  bits_per_value: {Inputs: base * 4, Other: 32}
  persistent_tensors: W
  n_instances: 3
  einsums:
  - name: Z
    tensor_accesses:
    - {name: A, projection: [m, k], backing_storage_size_scale: 0.5}
    - {name: W, projection: {K: k}}
    - {name: Z, projection: [m], output: true, bits_per_value: 64}
    iteration_space_shape: [k < m]
    rank_sizes: {K: 6}
    n_instances: 2
    renames: {input: A}
    operations: {map: exp(A - W), reduce: max, populate: -inf}
"""
    read = workload(text)
    einsum = read.einsum("Z")
    assert (read.n_instances, einsum.n_instances) == (3, 2)
    assert dict(einsum.bounds) == {"m": 11, "k": 6}
    assert {access.name: access.bits_per_value for access in einsum.tensor_accesses} == {"A": 16, "W": 16, "Z": 64}
    assert {access.name: access.persistent for access in einsum.tensor_accesses} == {"A": False, "W": True, "Z": False}
    assert einsum.inputs[0].backing_storage_size_scale == 0.5
    assert einsum.operation.reduce == "max"
    assert einsum.operation.populate == float("-inf")
    assert read.shape("A") == {"M": 16, "K": 6}


def test_a_list_or_one_text_constrains_an_einsum() -> None:
    for constraints in ("0 <= m < 5", "[0 <= m, m < 5]"):
        read = one(f'{{einsum: "Z[m] = A[m, k]", iteration_space_shape: "{constraints}"}}' if constraints[0] != "[" else
                   f'{{einsum: "Z[m] = A[m, k]", iteration_space_shape: {constraints}}}')  # fmt: skip
        assert dict(read.einsum("Z").bounds) == {"m": 5, "k": 4}


@pytest.mark.parametrize(
    ("einsum", "sizes", "shapes", "bounds"),
    [
        ("O[p] = I[H: 2*p+r] * F[r]", "H: 20", "{r: 0 <= r < 3, p: 0 <= p}", {"p": 10, "r": 3}),
        ("O[p] = I[H: 2*p+r] * F[r]", "P: 4, R: 3", "{}", {"p": 4, "r": 3}),
        ("O[p] = I[H: p-r] * F[r]", "P: 4, R: 3, H: 8", "{}", {"p": 4, "r": 3}),
        ("O[m] = I[m, k]", "M: 8", "{k: 0 <= k <= m}", {"m": 8, "k": 8}),
        ("O[m] = I[m]", "M: 100", "{m: 3 <= m < 9}", {"m": 6}),
        ("O[m] = I[m]", "M: 100", "{m: -3 < m <= 9}", {"m": 10}),
        ("O[m] = I[m]", "M: 100", '{m: "0 <= m < 9 and (m < 2 or m > 5)"}', {"m": 9}),
        ("O[m] = I[m]", "M: 100", '{m: "exists (a: m = 7*a) and m >= 1"}', {"m": 92}),
        ("O[m] = I[M: 3*m]", "M: 100", "{}", {"m": 34}),
    ],
)
def test_bounds_come_from_all_constraints(einsum: str, sizes: str, shapes: str, bounds: dict[str, int]) -> None:
    read = one(f'"{einsum}"', sizes, f"  iteration_space_shape: {shapes}\n")
    assert dict(read.einsums[0].bounds) == bounds


def test_a_rank_without_a_size_is_as_large_as_its_largest_index_needs() -> None:
    read = one('"O[p] = I[H: 2*p+r] * F[r]"', "P: 4, R: 3")
    assert read.shape("I") == {"H": 9}
    assert read.shape("O") == {"P": 4}


def test_sizes_may_use_other_sizes() -> None:
    assert dict(one('"Z[m] = A[m, k]"', "M: 8, K: ceil(M * 3 / 5)").einsum("Z").bounds) == {"m": 8, "k": 5}
    with pytest.raises(ff.SpecError, match="refer to each other"):
        one('"Z[m] = A[m, k]"', "M: K, K: M")


def test_axes_follow_the_access_that_produces() -> None:
    read = workload(
        'workload: {rank_sizes: {M: 2, N: 3}, bits_per_value: {All: 8}, einsums: ["T[n, m] = A[m, n]", "Z[m] = T[m, n]"]}'
    )
    assert list(read.shape("T")) == ["N", "M"]
    assert list(read.shape("A")) == ["M", "N"]


def test_two_reads_of_one_tensor_are_two_accesses() -> None:
    einsum = one('"Z[m, p] = A[m, k] * A[M: p, k]"').einsum("Z")
    assert [access.name for access in einsum.inputs] == ["A", "A"]
    assert einsum.inputs[1].projection["M"] == Affine.variable("p")
    assert einsum.tensors == ("A", "Z")


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ("{}", Operation()),
        ("{map: null, reduce: null, populate: null}", Operation(reduce="none")),
        ("{map: None, reduce: None, populate: None}", Operation(reduce="none")),
        ("{reduce: max}", Operation(reduce="max")),
        ("{populate: 0.5}", Operation(populate=0.5)),
        ("{map: A}", Operation()),
    ],
)
def test_operations(operations: str, expected: Operation) -> None:
    read = one(f'{{einsum: "Z[m] = A[m, k]", operations: {operations}}}')
    assert read.einsum("Z").operation == expected


def test_long_maps_name_operands_by_tensor_access_or_number() -> None:
    accesses = "[{name: A, projection: [m, k]}, {name: A, projection: {M: p, K: k}}, {name: Z, projection: [m, p], output: true}]"
    line = one('"Z[m, p] = exp(A[m, k] - A[M: p, k])"').einsum("Z")
    for text in ("exp(A[m, k] - A[M: p, k])", "exp(input(0) - input(1))", "exp(A[m,k]-input(1))"):
        assert one(f"{{name: Z, tensor_accesses: {accesses}, operations: {{map: '{text}'}}}}").einsum("Z") == line


@pytest.mark.parametrize("text", ["exp(A)", "input(2)", "A[m, p]", "input(A)", "input(-1)"])
def test_ambiguous_or_unknown_operands_are_refused(text: str) -> None:
    accesses = "[{name: A, projection: [m, k]}, {name: A, projection: {M: p, K: k}}, {name: Z, projection: [m, p], output: true}]"
    with pytest.raises(ff.SpecError):
        one(f"{{name: Z, tensor_accesses: {accesses}, operations: {{map: '{text}'}}}}")


def test_recurrences_read_an_earlier_value_and_have_an_initial_one() -> None:
    read = one('{einsum: "H[m, p] = H[M: m-1, p] * A[m, p]", operations: {populate: 1}}')
    einsum = read.einsum("H")
    assert dict(einsum.bounds) == {"m": 8, "p": 8}
    assert einsum.operation.populate == 1
    assert read.shape("H") == {"M": 8, "P": 8}


def test_online_softmax_is_kept_as_a_call() -> None:
    einsum = one('{einsum: "S[m, p] = softmax(A[m, p], p)", operations: {online: true}}').einsum("S")
    assert einsum.operation.online
    assert einsum.operation.map.function.name == "softmax"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("where(p <= m, S, -inf)", "where(p <= m, S[m, p], -inf)"),
        ("softmax(S, p)", "softmax(S[m, p], p)"),
        ("max(S)", "max(S[m, p])"),
        ("0.5 * S**2 - m", "0.5 * S[m, p]**2 - m"),
        ("gelu(S) / (1 + exp(-S))", "gelu(S[m, p]) / (1 + exp(-S[m, p]))"),
    ],
)
def test_the_long_form_of_a_map_equals_the_line(text: str, line: str) -> None:
    accesses = "[{name: S, projection: [m, p]}, {name: Z, projection: [m, p], output: true}]"
    long = one(f"{{name: Z, tensor_accesses: {accesses}, operations: {{map: '{text}'}}}}")
    assert long == one(f'"Z[m, p] = {line}"')


def test_widths_of_one_access_hold_for_the_tensor() -> None:
    text = """
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T[m] = A[m]", tensor_accesses: [{name: T, bits_per_value: 16}]}
  - "Z[m] = T[m]"
"""
    assert workload(text).einsum("Z").inputs[0].bits_per_value == 16


def test_the_documents_read(recwarn: pytest.WarningsRecorder) -> None:
    matmuls = workload(document("three_matmuls.yaml"))
    assert {variable: size for einsum in matmuls.einsums for variable, size in einsum.bounds.items()} == {
        "m": 128, "n0": 128, "n1": 128, "n2": 128, "n3": 128,
    }  # fmt: skip
    assert matmuls.intermediates == {"T1", "T2"}
    block = workload(document("gpt3.yaml"), BATCH_SIZE=2, N_TOKENS=64)
    assert dict(block.einsum("QK").bounds) == {"b": 2, "m": 64, "h": 32, "e": 128, "p": 64}
    assert block.einsum("QK").inputs[1].projection["M"] == Affine.variable("p")
    assert block.einsum("I").is_copy_operation
    assert [e.name for e in block.einsums if any(a.persistent for a in e.inputs)] == ["V", "K", "Q", "Z", "FFA", "FFB"]
    assert not recwarn.list


def test_text_shows_the_cascade() -> None:
    assert str(workload(document("three_matmuls.yaml"))) == """\
Einsum   computes                            operation
Matmul1  T1[m, n1] = T0[m, n0] * W0[n0, n1]  add over n0
Matmul2  T2[m, n2] = T1[m, n1] * W1[n1, n2]  add over n1
Matmul3  T3[m, n3] = T2[m, n2] * W2[n2, n3]  add over n2

tensor  shape            bits  role
T0      M 128 x N0 128   8     input
W0      N0 128 x N1 128  8     input
T1      M 128 x N1 128   8     intermediate
W1      N1 128 x N2 128  8     input
T2      M 128 x N2 128   8     intermediate
W2      N2 128 x N3 128  8     input
T3      M 128 x N3 128   8     output

Rank variables: m < 128, n0 < 128, n1 < 128, n2 < 128, n3 < 128"""


def test_config_keys_are_named_in_a_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ff.loads(MATMUL + "model: {}\nconfig: {expression_custom_functions: []}\n")
    assert sorted(str(warning.message) for warning in caught) == [
        f"The top key '{key}' is accepted and has no effect." for key in ("config", "model")
    ]


def test_sizes_that_nothing_uses_are_named_in_a_warning() -> None:
    with pytest.warns(SpecWarning) as caught:
        ff.loads(MATMUL.replace("{M: 32", "{MM: 1, M: 32") + "  iteration_space_shape: {mm: 0 <= mm < 3}\n")
    assert [str(warning.message) for warning in caught] == [
        "<text>:2:16: workload.rank_sizes.MM: No tensor has a rank MM; the entry has no effect. Did you mean M?",
        "<text>:6:27: workload.iteration_space_shape.mm: No Einsum has a rank variable mm; the entry has no effect. Did you mean m?",
    ]
