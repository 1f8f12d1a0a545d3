"""Programs that are ready in a new process: without what it takes to make them, and only while what they rest on is as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.terms import SizeParam
from feinsum_fuse.compilation import selection
from feinsum_fuse.compilation.known_programs import request_of
from feinsum_fuse.compilation.texts import Files, written
from feinsum_fuse.device.program.building import build
from feinsum_fuse.device.program.origin import ChosenBy

HEAVY = ("loopy", "islpy", "sqlalchemy", "pydantic", "pymbolic", "jinja2", "ruamel")
EINSUMS = ["T[m,n] = A[m,k] * B[k,n]", "Z[m,n] = relu(T[m,n])"]
SIZES = {"M": 5, "N": 4, "K": 3}
WORKLOAD = """
workload:
  rank_sizes: {M: "{{ M }}", N: 4, K: 3}
  bits_per_value: {All: 32}
  einsums: ["T[m,n] = A[m,k] * B[k,n]", "Z[m,n] = relu(T[m,n])"]
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[ChosenBy]:
    """The origins of the programs that were built."""
    found: list[ChosenBy] = []
    monkeypatch.setattr("feinsum_fuse.compilation.making.build", lambda *a, **k: found.append(k["origin"].by) or build(*a, **k))
    return found


FRESH = """
import sys, json
import numpy as np
import feinsum_fuse as ff
a, b = np.arange(15, dtype="float32").reshape(5, 3), np.ones((3, 4), "float32")
program = ff.compile({einsums}, sizes={sizes})
file = ff.compile({file!r}, variables={{"M": 5}})
result = [program(A=a, B=b)["Z"], file(A=a, B=b)["Z"], ff.einsum("ij,jk->ik", a, b)]
repr(program), program.source, program.input_shapes
print(json.dumps([[float(x.sum()) for x in result], [n for n in {heavy} if n in sys.modules], program.origin.is_kept]))
"""


def test_a_new_process_needs_nothing_heavy(tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(WORKLOAD)
    ff.compile(EINSUMS, sizes=SIZES)
    ff.compile(file, variables={"M": 5})
    ff.einsum("ij,jk->ik", np.ones((5, 3), "float32"), np.ones((3, 4), "float32"))
    code = FRESH.format(einsums=EINSUMS, sizes=SIZES, file=str(file), heavy=HEAVY)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    sums, heavy, is_kept = json.loads(answer)
    assert sums == [420.0, 420.0, 420.0] and heavy == [] and is_kept


@pytest.mark.usefixtures("no_programs")
def test_nothing_is_built_twice_under_any_name(made: list[ChosenBy]) -> None:
    first = ff.compile(EINSUMS, sizes=SIZES)
    a, b = np.ones((5, 3), "float32"), np.ones((3, 4), "float32")
    again = ff.compile(EINSUMS, sizes=SIZES)
    other = ff.compile(["Sum[i,j] = L[i,l] * R[l,j]", "Out[i,j] = relu(Sum[i,j])"], sizes={"I": 5, "J": 4, "L": 3})
    assert made == [ChosenBy.default]
    assert again.origin.is_kept and other.origin.is_kept and not first.origin.is_kept
    assert again.source == other.source == first.source
    np.testing.assert_array_equal(other(L=a, R=b)["Out"], first(A=a, B=b)["Z"])
    np.testing.assert_array_equal(again(A=a, B=b, outputs=["T"])["T"], np.full((5, 4), 3.0))


def test_how_a_kept_program_was_made_is_known() -> None:
    first, again = (ff.compile(EINSUMS, sizes=SIZES) for _ in range(2))
    assert again.cascade.key == first.cascade.key and again.schedule == first.schedule
    assert again.spec is not None and first.spec is not None and again.spec.mapping == first.spec.mapping
    assert str(again.kernel) == str(first.kernel)
    measured = ff.measure(again, repeats=2)
    assert measured.outcome == "ok" and measured.subject is not None


def test_new_facts_and_a_new_calibration_are_seen(made: list[ChosenBy], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite"
    assert ff.compile(EINSUMS, sizes=SIZES, url=url).origin.by is ChosenBy.default
    other = ff.cascade(["Y[m] = X[m,k]"], sizes={"M": 3, "K": 2})
    ff.record(ff.measure(ff.spec(other), repeats=2), url=url)
    assert ff.compile(EINSUMS, sizes=SIZES, url=url).origin.by is ChosenBy.default
    monkeypatch.setattr(selection, "retrieve", lambda *_, **__: pytest.fail("facts about something else were taken for news"))
    ff.compile(EINSUMS, sizes=SIZES, url=url)
    monkeypatch.undo()
    ff.record(ff.measure(ff.spec(ff.cascade(EINSUMS, sizes=SIZES)), repeats=2), url=url)
    assert ff.compile(EINSUMS, sizes=SIZES, url=url).origin.by is ChosenBy.fact


def test_other_archives_have_other_programs(tmp_path: Path) -> None:
    first = ff.compile(EINSUMS, sizes=SIZES, url=tmp_path / "a.sqlite")
    ff.record(ff.measure(first, repeats=2), url=tmp_path / "b.sqlite")
    assert ff.compile(EINSUMS, sizes=SIZES, url=tmp_path / "b.sqlite").origin.by is ChosenBy.fact
    assert ff.compile(EINSUMS, sizes=SIZES, url=tmp_path / "a.sqlite").origin.by is ChosenBy.default


def test_a_damaged_entry_is_made_anew(no_programs: Path, made: list[ChosenBy]) -> None:
    ff.compile(EINSUMS, sizes=SIZES)
    for file in no_programs.iterdir():
        file.write_text(file.read_text()[:-9])
    assert not ff.compile(EINSUMS, sizes=SIZES).origin.is_kept
    assert len(made) == 2


@pytest.mark.parametrize(
    ("what", "given", "message"),
    [
        ([], {}, "a list is to hold Einsums as text, or names of files"),
        ([3], {}, "a list is to hold Einsums as text, or names of files"),
        (["Z[m] = A[m]", "file.yaml"], {}, "a list is to hold"),
        ("nothing.yaml", {}, "There is no file nothing.yaml"),
        ("Z[m] = A[m]", {"variables": {"M": 3}}, "variables are for files"),
        ("nothing.yaml", {"sizes": {"M": 3}}, "sizes and dtypes are for Einsums as text"),
        ("Z = A[m]", {"sizes": {"M": 3}}, "'Z' is not a tensor with indices"),
        ("Z[m] = A[m]", {"sizes": {"M": "M"}}, "M"),
        ("Z[m] = A[m", {}, "was never closed"),
        (b"Z[m] = A[m]", {}, "a Spec is expected, not bytes"),
        ("Z[m] = A[m]", {"tune": "yes"}, "tune is to be a truth value or a number of seconds"),
        ("Z[m] = A[m]", {"sizes": 3}, "sizes is to be a mapping from ranks to sizes"),
        ("Z[m] = A[m]", {"dtypes": "float32"}, "such as {'All': 'float32'}"),
    ],
)
def test_refusals(what: object, given: dict[str, object], message: str) -> None:
    with pytest.raises(ff.Error, match=message):
        ff.compile(what, **given)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_sizes() -> None:
    ours, numpys = (written("Z[m] = A[m]", {"M": number(3)}, None, None) for number in (int, np.int64))
    assert ours is not None and numpys is not None
    assert ours.request == numpys.request
    assert ours.read() == numpys.read()


def test_a_file_that_includes_others_has_no_request(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("workload: !include b.yaml\n")
    assert Files((file,), None).request is None
    file.write_text(WORKLOAD)
    first = Files((file,), {"M": 5}).request
    assert first is not None and first != Files((file,), {"M": 6}).request
    file.write_text(WORKLOAD + "\n")
    assert Files((file,), {"M": 5}).request not in (None, first)


def test_requests_of_what_has_no_text() -> None:
    assert request_of("a", x=object()) is None and request_of("a", x=float("nan")) is None
    text = written("Z[m] = A[m]", {"M": SizeParam("m")}, None, None)  # type: ignore[dict-item]
    assert text is not None and text.request is None
