"""Somebody who writes einsums as strings and wants fast kernels: the path of the documentation, and the mistakes on the way."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff

LINES = ["T[m, n] = A[m, k] * B[k, n]", "Y[m, n] = relu(T[m, n])"]
SIZES = {"M": 12, "K": 7, "N": 9}


def test_from_einsums_to_a_recorded_time(tmp_path: Path) -> None:
    cascade = ff.cascade(LINES, sizes=SIZES)
    program = ff.compile(ff.spec(cascade))
    generator = np.random.default_rng(0)
    given = {name: generator.random(shape, dtype=np.float32) for name, shape in program.input_shapes.items()}
    np.testing.assert_allclose(program(**given)["Y"], np.maximum(given["A"] @ given["B"], 0), rtol=1e-5)
    measured = ff.measure(program, repeats=2)
    assert measured.outcome == "ok"
    url = str(tmp_path / "facts.sqlite3")
    ff.record(measured, url=url)
    assert len(ff.query(cascade, "pthread", url=url)) == 1
    np.testing.assert_allclose(ff.einsum("mk,kn->mn", given["A"], given["B"], url=url), given["A"] @ given["B"], rtol=1e-5)


MISTAKES = [
    (["T[m, n] = A[m, k] * B[k, n"], SIZES, "SpecError", r"\]"),
    (["T[m, n] = A[m, k] * B[k, n]"], {"M": 12, "K": 7}, "SpecError", "variable n is not bounded"),
    (["T[m, n] = A[m, k] * B[k, n]"], {**SIZES, "M": -3}, "Error", "-3"),
    (["T[m, n] = A[m, k] * B[k, n]"], {**SIZES, "M": "12.5"}, "Error", "12.5"),
    (["T[m] = softmx(A[m, k])"], SIZES, "Error", "softmax"),
    (["T[m, m] = A[m]"], {"M": 4}, "SpecError", "RANK: index"),
    (["T[m] = A[m]", "T[m] = B[m]"], {"M": 4}, "Error", "T"),
    (["T[m] = T[m] * A[m]"], {"M": 4}, "Error", "T"),
    (["A[m] = B[m]", "B[m] = A[m]"], {"M": 4}, "Error", "A|B"),
]


@pytest.mark.parametrize(("lines", "sizes", "kind", "named"), MISTAKES, ids=lambda value: str(value)[:30])
def test_a_mistake_in_an_einsum_is_one_error_that_names_it(lines: list[str], sizes: dict[str, int | str], kind: str, named: str) -> None:
    with pytest.raises(getattr(ff, kind), match=named) as raised:
        ff.compile(ff.spec(ff.cascade(lines, sizes=sizes)))
    assert len(str(raised.value).splitlines()) <= 4


def test_mistakes_with_arrays() -> None:
    program = ff.compile(ff.spec(ff.cascade(LINES, sizes=SIZES)))
    a, b = np.ones((12, 7), np.float32), np.ones((7, 9), np.float32)
    for given, named in (
        ({"A": a}, "B"),
        ({"A": a, "B": b.T}, "B"),
        ({"A": a, "B": b, "C": b}, "C"),
        ({"A": a, "B": b.astype(complex)}, "B"),
        ({"A": a, "B": "b"}, "B"),
    ):
        with pytest.raises(ff.Error, match=named):
            program(**given)
    for subscripts, operands in (("mk,kn->mn", (a,)), ("mk,kn->mq", (a, b)), ("mk,kn->mn", (a, a)), ("m k->", (a, b)), (7, (a, b))):
        with pytest.raises(ff.Error):
            ff.einsum(subscripts, *operands)  # type: ignore[arg-type]


def test_a_device_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(ff.Error, match=r"(?s)no OpenCL device matches 'nonesuch'.*There are"):
        ff.compile(ff.spec(ff.cascade(LINES, sizes=SIZES)), device="nonesuch")


def test_what_does_not_fit_is_an_outcome_with_the_bytes() -> None:
    huge = ff.cascade(["Y[m] = A[m, k]"], sizes={"M": 10**6, "K": 10**9})
    measured = ff.measure(ff.spec(huge), repeats=1)
    assert measured.outcome != "ok"
    assert re.search(r"\bbytes\b|[GTP]iB", measured.message), measured.message
