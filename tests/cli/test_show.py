"""``check``, ``show`` and ``predict`` on the examples."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.schedule import Schedule
from tests.cli.conftest import Invoke
from tests.cli.files import ARCH, SUMMED, write


@pytest.fixture
def matvecs(root: Path) -> list[str]:
    """The mapping documentation's LoopTree with its workload and architecture."""
    return [str(root / "examples" / "matvecs" / f"{name}.yaml") for name in ("workload", "arch", "mapping")]


def test_check_prints_the_cascade_and_the_tree(invoke: Invoke, matvecs: list[str]) -> None:
    ended = invoke("check", *matvecs)
    assert (ended.code, ended.err) == (0, "")
    assert "EinsumA  A[nA] = I[nI] * WA[nI, nA]  add over nI" in ended.out
    assert "└ ComputeUnit computes EinsumB" in ended.out
    assert ended.out.endswith("\nok: workload, arch, mapping, opencl\n")


def test_check_as_json(invoke: Invoke, matvecs: list[str]) -> None:
    found = json.loads(invoke("check", *matvecs, "--json", "--set", "N=12").out)
    assert found["tensors"]["WA"] == {"shape": [12, 12], "dtype": "float32"}
    assert (found["inputs"], found["intermediates"], found["outputs"]) == (["I", "WA", "WB"], ["A"], ["B"])


def test_show_prints_cascade_tree_and_schedule(invoke: Invoke, matvecs: list[str]) -> None:
    ended = invoke("show", *matvecs)
    assert ended.code == 0
    assert [line for line in ended.out.splitlines() if line.isupper()] == ["CASCADE", "TREE", "SCHEDULE"]
    assert "ShareLoop" in ended.out


def test_the_schedule_that_show_prints_as_json_is_the_one_that_runs(invoke: Invoke, matvecs: list[str]) -> None:
    text = json.dumps(json.loads(invoke("show", *matvecs, "--schedule", "--json").out)["schedule"])
    assert Schedule.from_json(text) == ff.lower(ff.load(*matvecs))


def test_every_prefix_of_the_schedule_can_be_shown(invoke: Invoke, matvecs: list[str]) -> None:
    steps = len(ff.lower(ff.load(*matvecs)))
    for count in (0, 1, steps - 1, steps):
        ended = invoke("show", *matvecs, "--kernel", "--upto", count)
        assert ended.code == 0
        assert "EinsumA" in ended.out
    assert invoke("show", *matvecs, "--source").out == invoke("show", *matvecs, "--source", "--upto", steps).out


def test_the_source_is_opencl(invoke: Invoke, matvecs: list[str]) -> None:
    assert "__kernel void" in invoke("show", *matvecs, "--source").out


def test_show_draws(invoke: Invoke, matvecs: list[str], tmp_path: Path) -> None:
    assert invoke("show", *matvecs, "--png", tmp_path / "tree.png").code == 0
    assert (tmp_path / "tree.png").read_bytes()[:4] == b"\x89PNG"
    unsaid = invoke("show", *matvecs, "--png", tmp_path / "tree")
    assert unsaid.code == 2 and "tree does not say what it is" in " ".join(unsaid.err.split())
    for name, files in (("tree", matvecs), ("cascade", matvecs[:1])):
        drawing = tmp_path / f"{name}.svg"
        ended = invoke("show", *files, "--svg", drawing)
        assert (ended.code, ended.out, ended.err) == (0, "", f"wrote {drawing}\n")
        assert ElementTree.parse(drawing).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_predict_says_where_the_kernel_is_not_that_of_the_mapping(invoke: Invoke, tmp_path: Path) -> None:
    summed = tmp_path / "summed.yaml"
    summed.write_text("\n".join([SUMMED, ARCH]).replace("{% set M = M | default(8) %}\n", ""))
    said = "sums of rank variables index what O writes, element by element: the prediction is of the mapping, not of its kernel"
    assert said in invoke("predict", summed).out
    (found,) = json.loads(invoke("predict", summed, "--json").out).values()
    assert found["prediction_reservation"] == said


def test_predict_prints_what_the_model_says(invoke: Invoke, matvecs: list[str]) -> None:
    prediction = ff.predict(ff.load(*matvecs))
    floor = ff.bounds(ff.load(*matvecs))
    ratio = f"The predicted latency is {prediction.latency / floor.latency:.2f} times the least."
    assert invoke("predict", *matvecs).out == f"{prediction}\n\n{floor}\n\n{ratio}\n"
    found = json.loads(invoke("predict", *matvecs, "--json").out)
    assert {one["floor"]["latency"] for one in found.values()} == {floor.latency}
    assert found["mapping"]["latency"] == prediction.latency


def test_predict_takes_several_mappings(invoke: Invoke, matvecs: list[str], root: Path) -> None:
    ended = invoke("predict", *matvecs, root / "examples" / "matvecs" / "mapping_unfused.yaml", "--json")
    found = json.loads(ended.out)
    assert list(found) == ["mapping", "unfused"]
    assert found["mapping"]["latency"] < found["unfused"]["latency"]


def test_element_types_from_the_command_line(invoke: Invoke, matvecs: list[str]) -> None:
    def types(*choices: str) -> dict[str, str]:
        arguments = [word for choice in choices for word in ("--dtype", choice)]
        found = json.loads(invoke("check", matvecs[0], "--json", *arguments).out)
        return {name: tensor["dtype"] for name, tensor in found["tensors"].items()}

    assert set(types().values()) == {"float32"}
    assert set(types("float64").values()) == {"float64"}
    assert types("I=float64", "float32") == {"I": "float64"} | dict.fromkeys(("WA", "A", "WB", "B"), "float32")
    assert "double const *" in invoke("show", *matvecs, "--source", "--dtype", "float64").out
    ended = invoke("check", matvecs[0], "--dtype", "float99")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: there is no element type 'float99'\n  Supported are float16, ")
    assert invoke("check", matvecs[0], "--dtype", "float32", "--dtype", "float64").code == 2


def test_the_model_shows_the_caches_that_it_fills(invoke: Invoke, root: Path, tmp_path: Path) -> None:
    folder = root / "examples" / "matmul"
    arch = (folder / "arch.yaml").read_text().replace("name: GlobalBuffer", "name: L1")
    mapping = "\n".join(line for line in (folder / "mapping.yaml").read_text().splitlines() if "GlobalBuffer" not in line)
    text = f"{(folder / 'workload.yaml').read_text()}\n{arch}\n{mapping}\nopencl: {{memories: {{MainMemory: global, L1: cache}}}}\n"
    (tmp_path / "all.yaml").write_text(text)
    assert "L1 holds" in invoke("show", tmp_path / "all.yaml", "--model").out
    assert "L1 holds" not in invoke("show", tmp_path / "all.yaml", "--tree").out


def test_a_picture_that_cannot_be_written(invoke: Invoke, matvecs: list[str], tmp_path: Path) -> None:
    ended = invoke("show", *matvecs, "--svg", tmp_path / "none" / "tree.svg")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"error: cannot write {tmp_path / 'none' / 'tree.svg'}: No such file or directory\n"


def test_without_a_mapping_the_default_one_is_shown_and_said(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workload = write(tmp_path)[0]
    ended = invoke("show", workload)
    assert [line for line in ended.out.splitlines() if line.isupper()] == ["CASCADE", "TREE", "SCHEDULE"]
    assert "no file has a mapping: this is the default one" in ended.err
    assert "default" not in invoke("show", workload, "--cascade").err


def test_a_default_mapping_that_does_not_fit(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workload, arch, _ = write(tmp_path)
    ended = invoke("show", workload, arch)
    assert (ended.code, ended.out.splitlines()[0].split()[0]) == (0, "Einsum")
    assert "the default one does not fit" in ended.err
    assert invoke("show", workload, arch, "--tree").code == 1


LONG = """
workload:
  rank_sizes: {M: 4, K: 300000}
  bits_per_value: {All: 32}
  einsums:
  - Z[m] = A[m, k] * B[k]
"""


def test_the_default_mapping_is_that_of_compile(invoke: Invoke, tmp_path: Path) -> None:
    """A reduction that the output does not spread over groups is in parts, and NumPy still computes what was written."""
    file = tmp_path / "long.yaml"
    file.write_text(LONG)
    parts = [einsum.name for einsum in suited(ff.cascade(ff.load(file))).einsums]
    assert len(parts) == 2
    ended = invoke("show", file, "--schedule")
    assert f"order=[{', '.join(parts)}]" in ended.out
    assert "SplitReduction(einsum='Z', variable='k'" in ended.err
    ran = json.loads(invoke("run", file, "--repeats", 1, "--url", tmp_path / "facts.sqlite3", "--json").out)
    assert (ran["mappings"]["default mapping"]["outcome"], ran["operations"]) == ("ok", 2 * 4 * 300000)
    known, *_ = json.loads(invoke("db", "best", file, "--url", tmp_path / "facts.sqlite3", "--json").out)
    assert (known["found"], known["detail"].partition("(")[0]) == ("exact", "of the workload after SplitReduction")
