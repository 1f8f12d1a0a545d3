"""Several files, includes, merges and what they may reach."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.reading.document import Data
from feinsum_fuse.formats.reading.files import read_files, read_string
from tests.formats.cases import ARCH, MAPPING, MATMUL, WHOLE


def data(text: str, **variables: object) -> Data:
    return {key: value.plain() for key, value in read_string(text, variables).root.items()}


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {<<: {x: 1, y: 2}, x: 3}", {"x": 3, "y": 2}),
        ("a: {<<: [{x: 1}, {x: 2, y: 2}], z: 3}", {"x": 1, "y": 2, "z": 3}),
        ("a: {<<: {x: {p: 1}}, x: {q: 2}}", {"x": {"q": 2}}),
        ("a: {<<<: {x: {p: 1, r: 3}}, x: {q: 2, r: 4}}", {"x": {"p": 1, "q": 2, "r": 4}}),
        ("a: {<<<: {x: [1, 2]}, x: [3]}", {"x": [3]}),
        ("a: {<<<: {x: {p: 1}}, x: !nomerge {q: 2}}", {"x": {"q": 2}}),
        ("a: {<<: !Memory {size: 1}, name: M}", {"type": "Memory", "name": "M", "size": 1}),
        ("a: !Temporal {tile_shape: 1}", {"type": "Temporal", "tile_shape": 1}),
        ("a: {x: 1e3, y: 0x10, z: 1_000, w: true, v: yes, u: ~, t: '1', s: .inf, r: 2020-01-01}",
         {"x": 1000.0, "y": 16, "z": 1000, "w": True, "v": "yes", "u": None, "t": "1", "s": float("inf"), "r": "2020-01-01"}),
    ],
)  # fmt: skip
def test_yaml_values_and_merges(text: str, expected: Data) -> None:
    assert data(text)["a"] == expected


def test_merge_takes_aliases() -> None:
    assert data("x: &x {p: 1}\na: {<<: *x, q: 2}\n")["a"] == {"p": 1, "q": 2}


@pytest.mark.parametrize(
    "text", ["a: {<<: {x: 1}, <<<: {y: 1}}", "a: {<<: 3}", "a: {<<: [3]}", "a: {x: 1, x: 1}", "a: {[1]: 2}", "a: !Memory 3"]
)
def test_refused_mappings(text: str) -> None:
    with pytest.raises(ff.SpecError):
        read_string(text, {})


def test_top_keys_come_from_any_file(tmp_path: Path) -> None:
    write(tmp_path, w=MATMUL, a=ARCH, m=MAPPING)
    parts = ff.load(tmp_path / "w.yaml", tmp_path / "a.yaml", tmp_path / "m.yaml")
    assert parts == ff.loads(WHOLE)
    assert ff.load(str(tmp_path / "*.yaml"), tmp_path / "w.yaml") == parts


def test_equal_top_keys_are_one(tmp_path: Path) -> None:
    write(tmp_path, one=MATMUL, two=MATMUL.replace("32, K", "32,  K"))
    assert ff.load(tmp_path / "one.yaml", tmp_path / "two.yaml") == ff.loads(MATMUL)


def test_different_top_keys_are_refused(tmp_path: Path) -> None:
    write(tmp_path, one=MATMUL, two=MATMUL.replace("32", "33"))
    with pytest.raises(ff.SpecError) as caught:
        ff.load(tmp_path / "one.yaml", tmp_path / "two.yaml")
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    assert str(caught.value) == (
        f"{two}:1:1: workload: The top key 'workload' is given again, with other contents than in {one}.\n"
        "  Give each top key once, or give the same contents."
    )


def test_bindings_of_a_device_and_types_of_a_workload_go_together(tmp_path: Path) -> None:
    bindings, types = "opencl: {memories: {MainMemory: global}}\n", "opencl: {dtypes: {All: float64}}\n"
    write(tmp_path, one=MATMUL + types, two=bindings, same=types, other=types.replace("64", "32"))
    opencl = ff.load(tmp_path / "one.yaml", tmp_path / "two.yaml", tmp_path / "same.yaml").opencl
    assert opencl is not None and (dict(opencl.dtypes), dict(opencl.memories)) == ({"All": "float64"}, {"MainMemory": "global"})
    with pytest.raises(ff.SpecError, match=r"other\.yaml:1:1: opencl: The top key 'opencl' is given again"):
        ff.load(tmp_path / "one.yaml", tmp_path / "other.yaml")


def test_includes(tmp_path: Path) -> None:
    write(
        tmp_path,
        sub__sizes="M: {{ M }}\nK: 16\nN: 8\n",
        sub__einsums="workload: {einsums: ['Z[m, n] = A[m, k] * B[k, n]']}\n",
        text="    M: 32\n    K: 16\n    N: 8\n",
    )
    tail = '  bits_per_value: {All: 8}\n  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]\n'
    expected = ff.loads(MATMUL)
    for head in (
        "workload:\n  rank_sizes: !include sub/sizes.yaml\n",
        "workload:\n  rank_sizes: {{ include('sub/sizes.yaml') }}\n",
        "workload:\n  rank_sizes: {{ include(find_path('sub/s*.yaml')) }}\n",
        "workload:\n  rank_sizes: {{ include('sub/sizes.yaml', inherit_parse_data=False, M=32) }}\n",
        "workload:\n  rank_sizes:\n{{ include_text('text.yaml') }}\n",
        "{{ add_to_path('sub') }}workload:\n  rank_sizes: {{ include('sizes.yaml') }}\n",
        "{% if path_exists('sub/sizes.yaml') and not path_exists('no') %}workload:{% endif %}\n  rank_sizes: !include sub/sizes.yaml\n",
        "workload:\n  rank_sizes: {{ include(cwd() ~ '/sub/sizes.yaml') }}\n",
    ):
        assert ff.loads(head + tail, {"M": 32}, base=tmp_path) == expected, head
    head = "workload:\n  rank_sizes: {M: 32, K: 16, N: 8}\n  bits_per_value: {All: 8}\n"
    keyed = head + "  einsums: {{ include('sub/einsums.yaml') }}.workload.einsums\n"
    assert ff.loads(keyed, base=tmp_path) == expected
    assert ff.loads(keyed.replace("') }}.work", "', 'work").replace(".einsums\n", ".einsums') }}\n"), base=tmp_path) == expected
    several = keyed.replace("{{ include('sub/einsums.yaml') }}.workload.einsums", "{{ include_all('sub/e*.yaml', 'workload.einsums') }}")
    assert ff.loads(several, base=tmp_path) == expected


def test_included_values_keep_their_places(tmp_path: Path) -> None:
    write(tmp_path, sizes="# sizes\nM: 32\nK: -1\nN: 8\n", spec=MATMUL.replace("{M: 32, K: 16, N: 8}", "!include sizes.yaml"))
    with pytest.raises(ff.SpecError) as caught:
        ff.load(tmp_path / "spec.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'sizes.yaml'}:3:4: workload.rank_sizes.K: ")


def test_included_text_keeps_its_places(tmp_path: Path) -> None:
    spec = MATMUL.replace(" {M: 32, K: 16, N: 8}", "\n{{ include_text('text.yaml') }}")
    write(tmp_path, text="    M: 32\n    K: {{ -1 }}\n    N: 8", spec=spec)
    with pytest.raises(ff.SpecError) as caught:
        ff.load(tmp_path / "spec.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'text.yaml'}:2:8: workload.rank_sizes.K: ")


def test_includes_stay_below_their_folder(tmp_path: Path) -> None:
    write(tmp_path, secret="M: 32\nK: 16\nN: 8\n", inside__spec=MATMUL.replace("{M: 32, K: 16, N: 8}", "!include ../secret.yaml"))
    with pytest.raises(ff.SpecError, match="lies outside the folders that may be read"):
        ff.load(tmp_path / "inside" / "spec.yaml")
    assert ff.loads(MATMUL) == read(tmp_path / "inside" / "spec.yaml", tmp_path)
    (tmp_path / "inside" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    write(tmp_path, inside__linked=MATMUL.replace("{M: 32, K: 16, N: 8}", "!include link.yaml"))
    with pytest.raises(ff.SpecError, match="lies outside the folders that may be read"):
        ff.load(tmp_path / "inside" / "linked.yaml")


def read(path: Path, allowed: Path) -> object:
    from feinsum_fuse.formats.reading.load import load

    return load(path, include_dirs=[allowed])


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    write(tmp_path, a="workload: !include b.yaml\n", b="workload: !include a.yaml\n", c="{{ include_text('c.yaml') }}\n")
    for name in ("a.yaml", "c.yaml"):
        with pytest.raises(ff.SpecError, match="include each other"):
            ff.load(tmp_path / name)


def test_a_text_without_a_base_includes_nothing() -> None:
    with pytest.raises(ff.SpecError, match="base"):
        ff.loads("workload: !include x.yaml\n")


def test_reading_needs_regular_utf8_files(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"workload: \xe9\n")
    folder = "is a folder, not a file.\n  Name the files in it: latin.yaml"
    for name, message in (("latin.yaml", "is not UTF-8 text"), ("", folder), ("none.yaml", "There is no file")):
        with pytest.raises(ff.SpecError, match=message):
            read_files([tmp_path / name], {})
    with pytest.raises(ff.SpecError, match="No file is given"):
        read_files([], {})
    with pytest.raises(ff.SpecError, match=r"No file matches .*\*\.none\.$"):
        read_files([tmp_path / "*.none"], {})
    with pytest.raises(ff.SpecError, match=r"An Einsum stands in a file, in the list workload\.einsums"):
        read_files(["Z[m, n] = A[m, k] * B[k, n]"], {})


def test_variables_may_be_numpy_scalars_and_must_be_data() -> None:
    text = MATMUL.replace("M: 32", "M: {{ M }}")
    assert ff.loads(text, {"M": np.int64(32)}) == ff.loads(MATMUL)
    assert ff.loads(text.replace("{{ M }}", "{{ M[0].size }}"), {"M": [{"size": np.int32(32)}]}) == ff.loads(MATMUL)
    with pytest.raises(ff.SpecError, match="The template variable M is a builtin_function_or_method"):
        ff.loads(text, {"M": print})
    with pytest.raises(ff.SpecError, match="The template variable M is a ndarray"):
        ff.loads(text, {"M": np.arange(3)})


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(MATMUL, encoding="utf-8-sig")
    assert ff.load(tmp_path / "spec.yaml") == ff.loads(MATMUL)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "loop.yaml"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    with pytest.raises(ff.SpecError):
        ff.load(tmp_path / name)
    quoted = json.dumps(name)
    for text in (f"workload: !include {quoted}\n", f"{{{{ include({quoted}) }}}}\n", f"{{{{ find_paths({quoted}) }}}}\n"):
        with pytest.raises(ff.SpecError):
            ff.loads(text, base=tmp_path)


def test_patterns_reach_few_folders(tmp_path: Path) -> None:
    with pytest.raises(ff.SpecError, match="more than 2 folders with wildcards"):
        ff.loads("{{ find_paths('*/*/*/*.yaml') }}\n", base=tmp_path)
