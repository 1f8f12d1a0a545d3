"""Files in the style of AccelForge's own examples: parts of their trees, architectures for any workload, and figures from elsewhere."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import SpecWarning
from feinsum_fuse.formats.arch import Compute, Memory
from feinsum_fuse.formats.reading.files import tree_of
from feinsum_fuse.formats.spec import Spec

TWO = """
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {A: 4, B: 16, Other: 8}
  einsums: ["T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = T[m, n]"]
renames: {einsums: [{name: default, tensor_accesses: {weight: All & B, output: Outputs}}]}
"""
ACTIONS = "actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]"
ARCH = f"""
arch:
  variables:
    weight_bits: weight.bits_per_value if weight else 0
    words: 2 * weight_bits
    histogram: ([1] * 3)
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, {ACTIONS}}}
  - !Memory {{name: Register, size: words + 8 * len(histogram), leak_power: words,
      bits_per_value: {{output: 3 * output.bits_per_value}}, {ACTIONS}}}
  - !Compute {{name: MAC, leak_power: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
"""
MAPPING = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, T, Z], component: Main}
  - !Sequential
    nodes:
"""
for _einsum, _variables in (("T", "mnk"), ("Z", "mn")):
    _loops = ", ".join(f"!Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in _variables)
    _held = f"!Storage {{tensors: [{_einsum}], component: Register}}"
    MAPPING += f"    - !Nested {{nodes: [{_loops}, {_held}, !Compute {{einsum: {_einsum}, component: MAC}}]}}\n"


def quietly(text: str, **options: object) -> Spec:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ff.loads(text, **options)  # type: ignore[arg-type]


def test_each_einsum_has_its_own_numbers() -> None:
    """As in AccelForge, which evaluates an architecture for each Einsum: 2 * 16 bits for T, and none for Z, which reads no weight."""
    spec = ff.loads(TWO + ARCH + MAPPING)
    found = ff.predict(spec)
    seconds = {einsum: max(found.component_latency[einsum, name] for name in ("Main", "Register", "MAC")) for einsum in "TZ"}
    assert found.leak_energy["T", "Register"] == 32 * seconds["T"] and found.leak_energy["Z", "Register"] == 0
    assert found.actions["Z", "Register", "Z", "write"] == 4 * 4 * 24  # written by the unit, in 3 * 8 bits
    assert found.actions["Z", "Main", "Z", "write"] == 4 * 4 * 8


def test_what_depends_on_the_einsum_is_written_as_it_was() -> None:
    spec = ff.loads(TWO + ARCH + MAPPING)
    again = ff.loads(spec.to_yaml())
    assert again.arch is not None and spec.arch is not None
    assert (again.arch.nodes, again.arch.expressions) == (spec.arch.nodes, spec.arch.expressions)


def test_an_architecture_alone_may_wait_for_a_workload() -> None:
    with pytest.warns(SpecWarning, match=r"size of Register is not known: words \+ 8 \* len\(histogram\)"):
        arch = ff.loads(ARCH).arch
    assert arch is not None
    assert set(arch.component("Register").unknown("any")) == {"leak_power", "size", "bits_per_value.output"}


def test_a_slip_is_no_set() -> None:
    with pytest.raises(ff.SpecError, match="The name 'weight_bit' is not known"):
        ff.loads(ARCH.replace("size: words", "size: weight_bit"))
    with pytest.raises(ff.SpecError, match="The name 'wieght' is not known"):
        ff.loads(TWO + ARCH.replace("size: words", "size: wieght.bits_per_value"))


MODELLED = """
arch:
  nodes:
  - !Memory {name: Main, component_class: LPDDR4, size: inf}
  - !Memory {name: Register, component_class: Regfile, size: 64, leak_power: 0,
      actions: [{name: read, energy: 1}, {name: write, throughput: 1}]}
  - !Compute {name: MAC, component_class: IntMAC}
"""


def test_what_a_component_model_would_give_is_asked_for() -> None:
    with pytest.warns(SpecWarning) as caught:
        spec = ff.loads(TWO + MODELLED + MAPPING)
    (message,) = (str(w.message) for w in caught)
    line = next(n for n, text in enumerate((TWO + MODELLED).splitlines(), 1) if "LPDDR4" in text)
    read, write = ("{name: read, energy: ..., throughput: ...}", "{name: write, energy: ..., throughput: ...}")
    assert f"<text>:{line}:" in message
    assert f"Main has numbers that LPDDR4 would give; paste leak_power: ..., actions: [{read}, {write}]" in message
    assert f"Register has numbers that Regfile would give; paste actions: [{read}, {write}]" in message
    with pytest.raises(ff.ModelError) as refused:
        ff.predict(spec)
    assert "Main has no number for read.energy, read.throughput, write.energy, write.throughput, leak_power" in str(refused.value)
    assert "component models such as LPDDR4 are not called here" in str(refused.value)
    assert quietly(spec.to_yaml()).arch == spec.arch
    given = f"leak_power: 0, {ACTIONS}"
    unit = "IntMAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]"
    text = MODELLED.replace("size: inf", f"size: inf, {given}").replace("IntMAC", unit)
    text = text.replace("actions: [{name: read, energy: 1}, {name: write, throughput: 1}]", ACTIONS)
    assert ff.predict(quietly(TWO + text + MAPPING)).energy > 0


def test_functions_of_others_python_are_named_and_never_called() -> None:
    text = ARCH.replace("histogram: ([1] * 3)", "histogram: encoded_slices(spec, words)").replace("len(histogram)", "histogram")
    with pytest.warns(SpecWarning, match="size of Register is not known"):
        spec = ff.loads(TWO + text + MAPPING)
    with pytest.raises(ff.ModelError, match="Register has no number for size"):
        ff.predict(spec)
    with pytest.raises(ff.SpecError, match="The name 'ciel' is not known"):
        ff.loads(TWO + ARCH.replace("len(histogram)", "ciel(2.5)"))


def test_sizes_may_count_what_lies_below() -> None:
    text = ARCH.replace("size: inf", "size: 8 * PE.get_fanout() * Register.get_fanout()")
    below = "  - !Container {name: PE, spatial: [{name: X, fanout: 2 * 2}, {name: Y, fanout: 3}]}\n"
    text = text.replace("  - !Compute", f"{below}  - !Compute")
    arch = quietly(text).arch
    assert arch is not None
    main = arch.component("Main")
    assert isinstance(main, Memory) and main.size == 8 * 12
    assert arch.component("PE").get_fanout() == 12


def test_a_tree_of_files_is_one(tmp_path: Path) -> None:
    """Files of one repository or installed package include each other; others take --include-dir."""
    workloads = tmp_path / "collection" / "workloads"
    (workloads / "deep" / "er").mkdir(parents=True)
    (workloads / "names.yaml").write_text("renames: {einsums: [{name: default, tensor_accesses: {weight: B}}]}\n")
    file = workloads / "deep" / "er" / "model.yaml"
    file.write_text('{{include_text("../../names.yaml")}}\n' + TWO.partition("renames")[0])
    with pytest.raises(ff.SpecError, match=r"outside the folders that may be read.\n.*--include-dir"):
        ff.load(file)
    assert ff.load(file, include_dirs=[workloads]).renames
    (tmp_path / "collection" / "pyproject.toml").touch()
    assert ff.load(file).renames[0].tensor_accesses[0][0] == "weight"


@pytest.mark.parametrize("mark", ["repository/.git", "repository/setup.py", "site-packages/library/a.yaml"])
def test_what_a_tree_is(tmp_path: Path, mark: str) -> None:
    root = (tmp_path / mark).parent
    (root / "deep" / "er").mkdir(parents=True)
    (tmp_path / mark).touch()
    assert tree_of(root / "deep" / "er") == root.resolve()


def test_a_folder_in_which_anyone_may_write_is_no_tree(tmp_path: Path) -> None:
    (tmp_path / "shared" / "work").mkdir(parents=True)
    (tmp_path / "shared" / "setup.py").touch()
    assert tree_of(tmp_path / "shared" / "work") == (tmp_path / "shared").resolve()
    (tmp_path / "shared").chmod(0o1777)
    assert tree_of(tmp_path / "shared" / "work") == (tmp_path / "shared" / "work").resolve()


def test_a_home_folder_under_version_control_is_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert tree_of(tmp_path / "work") == (tmp_path / "work").resolve()


def test_pieces_beside_the_top_keys_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "macro.yaml"
    pieces = f"cell: &cell\n  leak_power: 0\n  {ACTIONS}\n"
    nodes = "  - !Memory {name: Main, size: inf, <<: *cell}\n  - !Compute {name: MAC, component_class: Dummy}\n"
    file.write_text(f"{pieces}arch:\n  nodes:\n{nodes}")
    with pytest.raises(ff.SpecError, match="'cell' is no top key"):
        ff.load(file)
    arch = ff.load(file, top_keys=["arch"]).arch
    assert arch is not None and [type(leaf) for leaf in arch.components] == [Memory, Compute]
    with pytest.raises(ff.SpecError, match="has no top key workload"):
        ff.load(file, top_keys=["workload"])
    for wrong in (5, "arch", [["arch"]]):
        with pytest.raises(ff.SpecError, match="top_keys is to be a list of top keys"):
            ff.load(file, top_keys=wrong)  # type: ignore[arg-type]


def test_mappings_and_renames_alone() -> None:
    spec = ff.loads(MAPPING)
    assert spec.mapping is not None and len(spec.mapping.computes) == 2
    assert ff.loads("renames: {einsums: [{name: Q, tensor_accesses: {weight: B}}]}").renames[0].name == "Q"
    with pytest.raises(ff.MappingError, match="ends in a Storage"):
        ff.loads("mapping: {nodes: [!Storage {tensors: [A], component: Main}]}")
    with pytest.raises(ff.Error):
        ff.predict(spec)
