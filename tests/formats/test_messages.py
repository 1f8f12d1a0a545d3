"""What users read when a file is wrong: the whole text of each message."""

from __future__ import annotations

from pathlib import Path

import pytest

import feinsum_fuse as ff
from tests.formats.cases import ARCH, MATMUL, WHOLE


def message(text: str, folder: Path) -> str:
    """The message for a file ``spec.yaml`` with this text, without the folder's name."""
    path = folder / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ff.SpecError) as caught:
        ff.load(path)
    return str(caught.value).replace(f"{folder}/", "")


def test_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "workload.yaml").write_text(MATMUL, encoding="utf-8")
    with pytest.raises(ff.SpecError) as caught:
        ff.load(tmp_path / "worklaod.yaml")
    assert str(caught.value) == f"There is no file {tmp_path}/worklaod.yaml.\n  Did you mean workload.yaml?"


CASES = {
    "not YAML": ("workload: [a, b\nfoo: }\n", "spec.yaml:2:4: This is not YAML: expected ',' or ']', but got ':'."),
    "a tab": ("workload:\n\tfoo: 1\n", "spec.yaml:2:1: This is not YAML: found character '\\t' that cannot start any token."),
    "no mapping of keys": ("- a\n- b\n", "spec.yaml:1:1: A file is a mapping of top keys (workload, arch, mapping, ...)."),
    "no workload": (
        "variables: {width: 8}\n",
        "spec.yaml has no workload.\n  A Spec has one of the top keys workload, arch, mapping and renames.",
    ),
    "unknown top key": (
        MATMUL.replace("workload", "workloads"),
        "spec.yaml:1:1: workloads: 'workloads' is no top key.\n  Did you mean workload?",
    ),
    "unknown field": (
        MATMUL.replace("einsums:", "einsum:"),
        "spec.yaml:4:3: workload.einsum: The field 'einsum' is not known here.\n  Did you mean einsums?",
    ),
    "unknown field without a neighbour": (
        MATMUL.replace("bits_per_value:", "density: 1\n  bits_per_value:"),
        ("spec.yaml:3:3: workload.density: The field 'density' is not known here.\n"
        "  The fields are einsums, rank_sizes, iteration_space_shape, n_instances, bits_per_value, persistent_tensors."),
    ),
    "unknown field of a component": (
        MATMUL + ARCH.replace("    size: inf", "    sizes: inf"),
        "spec.yaml:10:5: arch.nodes[0].sizes: The field 'sizes' is not known here.\n  Did you mean size?",
    ),
    "missing field": (
        MATMUL + ARCH.replace("    size: inf\n", ""),
        "spec.yaml:8:5: arch.nodes[0]: The field 'size' is missing.",
    ),
    "wrong kind of value": (
        MATMUL.replace("{M: 32, K: 16, N: 8}", "32"),
        "spec.yaml:2:15: workload.rank_sizes: A mapping of names to values is expected, not '32'.",
    ),
    "a key given twice": (MATMUL.replace("M: 32", "M: 32, M: 33"), "spec.yaml:2:23: The key 'M' is given twice."),
    "a tensor that no Einsum has": (
        WHOLE.replace("[A, B, Z], component: Main", "[A, B, Y], component: Main"),
        "spec.yaml:34:31: mapping.nodes[0].tensors[2]: No Einsum has a tensor Y.\n  Known: A, B, Z.",
    ),
    "a missing storage node": (
        WHOLE.replace("tensors: [A, B, Z]", "tensors: [A, B]"),
        ("spec.yaml:40:5: mapping.nodes[6]: Tensor Z of Einsum Z has no Storage node above its Compute.\n"
        "  Add !Storage {tensors: [Z], component: ...} above it."),
    ),
    "a loop over an unknown rank variable": (
        WHOLE.replace("rank_variable: n", "rank_variable: nn"),
        "spec.yaml:38:31: mapping.nodes[4].rank_variable: No Einsum has a rank variable nn.\n  Did you mean n?",
    ),
    "a tile larger than the bound": (
        WHOLE.replace("tile_shape: 4", "tile_shape: 64"),
        ("spec.yaml:35:46: mapping.nodes[1].tile_shape: The tile shape 64 of m exceeds its bound, 32, in Einsum Z.\n"
        "  Tile shapes shrink from the outermost loop to the innermost."),
    ),
    "sizes that do not fit each other": (
        MATMUL + '  - {einsum: "Y[n, p] = Z[M: p, n]", rank_sizes: {N: 9, P: 4}}\n',
        ("spec.yaml:6:5: workload.einsums[1]: The rank variable n runs over 8 values in Einsum Z and over 9 in Einsum Y.\n"
        "  Give the two different names, such as p1 and p2, or make their sizes agree."),
    ),
    "sizes that leave no point": (
        MATMUL + "  iteration_space_shape: {m: 40 <= m < 50}\n",
        "spec.yaml:5:5: workload.einsums[0]: Einsum Z: No value of the rank variable m satisfies all constraints.",
    ),
    "a size that is missing": (
        MATMUL.replace("M: 32, ", ""),
        ("spec.yaml:5:5: workload.einsums[0]: Einsum Z: The rank variable m is not bounded.\n"
        "  Give the size of a rank that m indexes, or a constraint such as 0 <= m < 32 in iteration_space_shape."),
    ),
    "a size that is no size": (
        MATMUL.replace("M: 32", "M: -32"),
        "spec.yaml:2:19: workload.rank_sizes.M: The size of rank M is -32; a whole number of at least 1 is expected.",
    ),
    "a size that no integer holds": (
        MATMUL.replace("M: 32", f"M: {2**62}"),
        f"spec.yaml:2:19: workload.rank_sizes.M: The size of rank M is {2**62}; a whole number below 2**62 is expected.",
    ),
    "a missing inner loop": (
        WHOLE.replace("  - !Temporal {rank_variable: k, tile_shape: 1}\n", ""),
        ("spec.yaml:39:5: mapping.nodes[5]: Missing loop with tile shape 1 for the rank variable k in Einsum Z.\n"
        "  Add !Temporal {rank_variable: k, tile_shape: 1} above the Compute."),
    ),
    "a fanout exceeded": (
        WHOLE.replace("tile_shape: 4", "tile_shape: 8"),
        ("spec.yaml:37:45: mapping.nodes[3].tile_shape: The mapping uses 8 spatial instances of PEArray dimension X, "
        "but its fanout is only 4.\n  Use a larger tile shape, or another dimension for some of the loops."),
    ),
    "a comma that is missing": (
        "workload: {rank_sizes: {M: 4, N: 4, K: 4}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k n]']}\n",
        ("spec.yaml:1:81: workload.einsums[0]: Cannot read the expression 'A[m, k] * B[k n]': invalid syntax. "
        "Perhaps you forgot a comma?"),
    ),
    "bits that are missing": (
        MATMUL.replace("{All: 8}", "{Inputs: 8}"),
        ("spec.yaml:5:5: workload.einsums[0]: Tensor Z of Einsum Z has no bits per value.\n"
        "  Give bits_per_value: {All: 32} in the workload, or bits_per_value in the tensor access."),
    ),
    "bits given twice": (
        MATMUL.replace("{All: 8}", "{All: 8, Inputs: 16}"),
        ("spec.yaml:3:19: workload.bits_per_value: For Einsum Z: The keys 'All' and 'Inputs' both cover tensor A in Einsum Z.\n"
        "  Keys must not overlap; use set differences or the key Other."),
    ),
    "inconsistent ranks": (
        ("workload:\n  bits_per_value: {All: 8}\n  einsums:\n"
        '  - "T1[n0, n1] = T0[m, n0] * W0[k, n0]"\n'
        '  - "T2[m, n2] = T1[m, n1] * W1[n1, n2]"\n'),
        ("spec.yaml:5:5: workload.einsums[1]: Inconsistent ranks: tensor T1 has the ranks [N0, N1] in Einsum T1 and [M, N1] in Einsum T2.\n"
        "  A tensor has the same ranks wherever it is written or read, and [a, b] means {A: a, B: b}. "
        "Write T1[N0: m, n1] if it is to be read by other variables."),
    ),
    "one tensor by other variables": (
        "workload: {rank_sizes: {K: 4, I: 4}, bits_per_value: {All: 32}, einsums: ['Z[i, j] = X[k, i] * X[k, j]']}\n",
        ("spec.yaml:1:75: workload.einsums[0]: Inconsistent ranks: tensor X has the ranks [K, I] in Einsum Z and [K, J] in Einsum Z.\n"
        "  A tensor has the same ranks wherever it is written or read, and [a, b] means {A: a, B: b}. "
        "Write X[k, I: j] if it is to be read by other variables."),
    ),
    "other numbers of ranks": (
        "workload: {rank_sizes: {K: 4, I: 4}, bits_per_value: {All: 32}, einsums: ['Z[i] = X[k, i] * X[k]']}\n",
        ("spec.yaml:1:75: workload.einsums[0]: Inconsistent ranks: tensor X has the ranks [K, I] in Einsum Z and [K] in Einsum Z.\n"
        "  A tensor has the same ranks wherever it is written or read, and [a, b] means {A: a, B: b}. "
        "Write a dictionary to index a rank by another variable."),
    ),
    "an undefined variable of a template": (
        "# sizes come from outside\n" + MATMUL.replace("M: 32", "M: {{ MM }}"),
        "spec.yaml:3:22: The template variable 'MM' is not defined.\n  Give it a value, or write MM | default(...).",
    ),
    "a value behind a template": (
        "{% for i in range(3) %}\n# {{ i }}\n{% endfor %}\n" + MATMUL.replace("M: 32, K: 16", "M: {{ 2 * 16 }}, K: {{ 0 }}"),
        "spec.yaml:5:36: workload.rank_sizes.K: The size of rank K is 0; a whole number of at least 1 is expected.",
    ),
    "code in a file": (
        MATMUL + "config: {expression_custom_functions: [functions.py]}\n",
        ("spec.yaml:6:10: config.expression_custom_functions: expression_custom_functions would run code from files that the "
        "document names; this is refused.\n  Remove it, and write the numbers that it would compute."),
    ),
    "an include that is not there": (
        MATMUL.replace("{M: 32, K: 16, N: 8}", "!include spc.yaml"),
        "spec.yaml:2:15: There is no file spc.yaml to include.\n  Did you mean spec.yaml?",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_message(name: str, tmp_path: Path) -> None:
    text, expected = CASES[name]
    assert message(text, tmp_path) == expected
