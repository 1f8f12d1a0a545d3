"""Einsums that YAML takes apart: the message says to quote the line, and the line it gives is right."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff

HEAD = "workload:\n  rank_sizes: {M: 8, P: 4}\n  bits_per_value: {All: 32}\n  einsums:"


@pytest.mark.parametrize(
    "line",
    [
        "- Z[m, P: p] = A[m, p]",
        "- Z[m, p] = A[m, P: p]",
        "- Z[m, P: p] = A[m, P: p]",
        "- Z[m, P: p + 2] = 2 * exp(A[m, P: p])  # shifted",
        "- einsum: Z[m, p] = A[m, P: p]",
        "- einsum: Z[m, P: p] = A[m, P: p]",
        "-   Z[M: m, P: p] = where(m == p, A[M: m, P: p], 0)",
    ],
)
def test_the_line_that_is_given_is_the_einsum_that_was_meant(line: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        ff.loads(f"{HEAD}\n  {line}\n")
    hint = caught.value.hint
    assert hint.startswith("Quote the line, which YAML takes apart at its colons: - ")
    assert caught.value.location is not None and caught.value.location.line == 5
    spec = ff.loads(f"{HEAD}\n  {hint.partition('colons: ')[2]}\n")
    assert spec.workload.einsums[0].name == "Z"
    assert "#" not in hint


@pytest.mark.parametrize("items", ["[Z[m, P: p] = A[m, P: p]]", "[Z[m, p] = A[m, p], Y[m] = Z[m, p]]"])
def test_a_list_in_brackets(items: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        ff.loads(f"{HEAD} {items}\n")
    assert caught.value.hint.startswith("Quote each Einsum of the list")


@pytest.mark.parametrize("text", ["workload: [a, b\nfoo: }\n", f"{HEAD}\n  - {{nmae: Z}}\n", f"{HEAD}\n  - 'Z[m, P: q] ='\n"])
def test_other_mistakes_are_told_otherwise(text: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        ff.loads(text)
    assert "Quote" not in str(caught.value)


def test_lines_without_colons_need_no_quotes() -> None:
    assert ff.loads(f"{HEAD}\n  - Z[m, p] = A[m, p]\n  - einsum: Y[m] = Z[m, p]\n    name: sums\n").workload.einsums[1].name == "sums"
