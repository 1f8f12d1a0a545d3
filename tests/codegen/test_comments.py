"""Whatever a name is made of, it stays in its comment."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.statements import commented

LINES = ["T[m] = A[m, k] * B[k]"]


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\\\nb", "a\u2028b", "a\x0bb", "\x00", "x\\", "x??/", "\ud800"])
def test_a_comment_is_one_line_that_ends_there(name: str) -> None:
    line = commented(name)
    assert line.isprintable()
    assert line.startswith("// ")
    assert not line.endswith(("\\", "??/"))


@pytest.mark.parametrize("name", ["x\\", "x??/", "*/ x /*", '"', "a // b"])
def test_a_kernel_is_right_whatever_its_einsum_is_called(name: str) -> None:
    cascade = ff.cascade([{"name": name, "einsum": LINES[0]}], sizes={"M": 4, "K": 3})
    assert ff.measure(ff.spec(cascade), repeats=1).outcome == "ok"


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x00b", "a\x1b[31mb", "\ud800", "\uffff", "\u202eabc"])
def test_einsums_have_names_that_can_be_printed(name: str) -> None:
    with pytest.raises(ff.SpecError, match="cannot be printed") as raised:
        ff.cascade([{"name": name, "einsum": LINES[0]}], sizes={"M": 4, "K": 3})
    assert not set(str(raised.value)) & set("\x1b\x00\r")
