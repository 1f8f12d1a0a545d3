"""What is written loads back to an equal Spec, and a saved mapping leaves the rest of a file alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Compute, Mapping, Storage, Temporal
from feinsum_fuse.formats.spec import Spec
from tests.formats.cases import ARCH, MAPPING, MATMUL, WHOLE, document
from tests.formats.strategies import specs
from tests.sweeps import sweep_size

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore::feinsum_fuse.errors.ConstraintWarning")
@settings(max_examples=sweep_size(1000))
@given(specs())
def test_random_specs(spec: Spec) -> None:
    loaded = ff.loads(spec.to_yaml())
    if not spec.renames:
        assert loaded == spec
    assert replace(loaded, workload=spec.workload) == spec, "top-level renames also stand in the Einsums once they are loaded"
    assert ff.loads(loaded.to_yaml()) == loaded


@pytest.mark.parametrize("name", ["three_matmuls.yaml", "gpt3.yaml"])
def test_documents(name: str) -> None:
    spec = ff.loads(document(name))
    assert ff.loads(spec.to_yaml()) == spec


@pytest.mark.parametrize("mapping", sorted((ROOT / "examples").glob("*/mapping*.yaml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples(mapping: Path) -> None:
    workload, arch = mapping.with_name("workload.yaml"), mapping.with_name("arch.yaml")
    files = [workload, mapping]
    if "cpu.yaml" in mapping.read_text(encoding="utf-8") or not (arch.is_file() or "\narch:" in workload.read_text(encoding="utf-8")):
        files.append(ROOT / "examples" / "cpu.yaml")
    elif arch.is_file():
        files.append(arch)
    spec = ff.load(*files)
    assert spec.mapping is not None
    assert ff.loads(spec.to_yaml()) == spec


def test_numbers_and_texts_survive() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = ff.loads(WHOLE.replace("size: inf", "size: 1e30", 1).replace("energy: 1,", "energy: 0.1,"))
    assert ff.loads(spec.to_yaml()) == spec


DOTTED = """\
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {All: 8}
  einsums:
  - name: Product
    tensor_accesses:
    - {name: A.b, projection: [m, k]}
    - {name: A, projection: [k, n]}
    - {name: Z, projection: [m, n], output: true}
    renames: {input: A.b, weight: ~(A.b | Z)}
"""


def test_a_tensor_with_a_dotted_name_can_be_renamed() -> None:
    spec = ff.loads(DOTTED)
    assert spec.workload.einsums[0].renames["input"] == {"A.b"} and spec.workload.einsums[0].renames["weight"] == {"A"}
    assert ff.loads(spec.to_yaml()) == spec


COMMENTED = f"""\
# What we compute
{MATMUL}
mapping:   # to be replaced
  # everything off chip
  nodes:
  - !Storage {{tensors: [A, B, Z], component: MainMemory}}
{{% for v in ['m', 'n', 'k'] %}}
  - !Temporal {{rank_variable: {{{{ v }}}}, tile_shape: 1}}
{{% endfor %}}

  - !Compute {{einsum: Z, component: MAC}}

# Where we compute it
{ARCH}# the end
"""


def test_only_the_mapping_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(COMMENTED, encoding="utf-8")
    spec = ff.load(path)
    new = ff.loads(WHOLE).mapping
    spec.replace(mapping=new).save_mapping(path)
    assert ff.load(path) == spec.replace(mapping=new)
    text = path.read_text(encoding="utf-8")
    before, after = COMMENTED.split("mapping:")[0], COMMENTED.split("component: MAC}\n")[1]
    assert text.startswith(before)
    assert text.endswith(after)
    assert "to be replaced" not in text
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", [MATMUL + ARCH, MATMUL + ARCH.rstrip("\n"), MAPPING + MATMUL + ARCH, MATMUL + MAPPING + ARCH])
def test_a_file_with_or_without_the_block(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    loops = tuple(Temporal(v, 1) for v in "kmn")
    mapping = Mapping((Storage(("A", "B", "Z"), "MainMemory"), *loops, Compute("Z", "MAC")))
    spec = ff.load(path).replace(mapping=mapping)
    spec.save_mapping(path)
    assert ff.load(path) == spec


def test_nothing_is_written_where_it_cannot_be(tmp_path: Path) -> None:
    spec = ff.loads(WHOLE)
    with pytest.raises(ff.SpecError, match="There is no file"):
        spec.save_mapping(tmp_path / "none.yaml")
    with pytest.raises(ff.SpecError, match="has no mapping to save"):
        ff.loads(MATMUL).save_mapping(tmp_path / "none.yaml")
    path = tmp_path / "twice.yaml"
    path.write_text(MAPPING + MATMUL + MAPPING, encoding="utf-8")
    with pytest.raises(ff.SpecError, match="more than once"):
        spec.save_mapping(path)
    assert path.read_text(encoding="utf-8") == MAPPING + MATMUL + MAPPING


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        (["Z[m, n] = A[m, k] * B[k, n]", "Y[m] = max(Z[m, n])"], {"M": 8, "N": 6, "K": 4}),
        (
            ["S[m, p] = where(p <= m, Q[m, k] * K[M: p, k], -inf)", "P[m, p] = softmax(S[m, p], p)", "O[m, n] = P[m, p] * V[p, n]"],
            {"M": 8, "N": 6, "K": 4, "P": 8},
        ),
    ],
)
def test_cascades_become_specs_that_load_back(texts: list[str], sizes: dict[str, int]) -> None:
    spec = ff.spec(ff.cascade(texts, sizes=sizes))
    assert ff.loads(spec.to_yaml()) == spec
