from __future__ import annotations

import json
import random

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.batching import Batch, Unbatch
from feinsum_fuse.cascades.rewriting.contraction_order import ContractionOrder, best_order
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json, rewritten
from feinsum_fuse.cascades.rewriting.softmax import ExpandSoftmax
from tests.cascades.randomness import largest_error, random_inputs, run
from tests.sweeps import SEED, sweep_size


def check(before: Cascade, after: Cascade, on_device: bool = True) -> None:
    """Both cascades have the same outputs, and so has the second one's kernel."""
    arrays = random_inputs(before, 0)
    expected, got = before.reference(**arrays), after.reference(**arrays)
    assert set(expected) == set(got)
    for tensor, value in expected.items():
        np.testing.assert_allclose(got[tensor], value, rtol=1e-9, atol=1e-12)
    if on_device:
        device = run(after.kernel(), **arrays)
        for tensor, value in expected.items():
            assert largest_error(device[tensor], value) <= after.tolerance()[tensor]


DIVERGENCE = ff.cascade(["Z[e,i] = J[x,r,e] * D[r,i,j] * U[x,e,j]"], sizes={"E": 17, "X": 3, "R": 3, "I": 6, "J": 6})
MTTKRP = ff.cascade(["Z[i,r] = T[i,j,k] * B[j,r] * C[k,r]"], sizes={"I": 7, "J": 5, "K": 6, "R": 3})


@pytest.mark.parametrize("cascade", [DIVERGENCE, MTTKRP], ids=["divergence", "mttkrp"])
def test_contraction_order_found(cascade: Cascade) -> None:
    after = cascade.contract("Z")
    assert [len(einsum.operands) for einsum in after.einsums] == [2, 2]
    assert after.einsums[-1].name == "Z"
    assert after.intermediates == ("Z_part1",)
    assert [type(r) for r in after.rewritings] == [ContractionOrder]
    check(cascade, after)


@pytest.mark.parametrize("path", [((0, 1), (0, 1)), ((1, 2), (0, 1)), ((0, 2), (0, 1)), ((2, 0), (1, 0)), ((0, 1, 2),)])
def test_contraction_order_given(path: tuple[tuple[int, ...], ...]) -> None:
    check(DIVERGENCE, DIVERGENCE.contract("Z", path))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("Z[a] = A[a,b] * B[b,c,d]", ((1,), (0, 1))),
        ("Z[a,b] = A[a,b,c] * B[a,b,d]", ((0,), (0, 1))),  # what is left of A is no more than B has: its sum is taken on the way
        ("Z[a,b] = A[a,c] * B[b,d]", ((0,), (0,), (0, 1))),
        ("Z[a] = A[b] * B[a]", ((0,), (0, 1))),  # to a number
        ("Z[a] = B[a,c] * exp(A[a,b])", ((0,), (0, 1))),
        ("Z[a,b] = A[a,c] * B[c,b]", ((0, 1),)),
        ("Z[a] = A[a,b,c] * B[a,b]", ((0, 1),)),
        ("Z[a,d] = A[a,b] * B[b,c] * C[b,d]", ((1,), (1, 2), (0, 1))),
    ],
)
def test_sums_over_one_factor_come_first(line: str, path: tuple[tuple[int, ...], ...]) -> None:
    cascade = ff.cascade([line], sizes={"A": 5, "B": 3, "C": 7, "D": 2})
    assert best_order(cascade.einsum("Z")).path == path
    check(cascade, cascade.contract("Z"))


def test_columns_of_intermediates_are_recorded_where_there_are_some() -> None:
    plain, turned = ContractionOrder("Z", ((0, 2), (0, 1))), ContractionOrder("Z", ((0, 2), (0, 1)), ("j",))
    assert "columns" not in rewritings_to_json([plain]) + repr(plain)
    assert rewritings_from_json(rewritings_to_json([plain, turned])) == (plain, turned)
    assert [access.variables[-1] for access in (made.apply(MTTKRP).einsums[0].output for made in (plain, turned))] == ["r", "j"]
    check(MTTKRP, turned.apply(MTTKRP))


def test_factors_of_several_operands_stay_together() -> None:
    cascade = ff.cascade(["Z[m] = exp(A[m,k] - B[k]) * C[k,n] / (2 + abs(D[n])) * 3"], sizes={"M": 4, "K": 5, "N": 6})
    after = cascade.contract("Z")
    check(cascade, after)
    assert len(after.einsums) == 2


def test_affine_accesses_and_initial_values() -> None:
    text = {"einsum": "O[p] = I[C:c, X:2*p+r] * W[c,r] * S[c]", "operations": {"populate": 2}}
    cascade = ff.cascade([text], sizes={"P": 5, "C": 3, "R": 3})
    for path in (((0, 1), (0, 1)), ((1, 2), (0, 1)), ((0, 2), (0, 1))):
        check(cascade, cascade.contract("O", path))


@pytest.mark.parametrize("number", range(sweep_size(200)))
def test_random_paths(number: int) -> None:
    chooser = random.Random(SEED + number)
    letters = "abcdef"
    operands = ["".join(chooser.sample(letters, chooser.randint(1, 3))) for _ in range(chooser.randint(2, 5))]
    used = sorted(set("".join(operands)))
    output = "".join(chooser.sample(used, chooser.randint(1, len(used))))
    text = f"Z[{','.join(output)}] = " + " * ".join(f"T{k}[{','.join(operand)}]" for k, operand in enumerate(operands))
    cascade = ff.cascade([text], sizes={letter.upper(): chooser.randint(1, 4) for letter in used}, dtypes={"All": "float64"})
    path, left = [], len(operands)
    while left > 1:
        path.append(tuple(chooser.sample(range(left), 2)))
        left -= 1
    check(cascade, cascade.contract("Z", path), on_device=number % 4 == 0)
    check(cascade, best_order(cascade.einsum("Z"), "greedy").apply(cascade), on_device=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Z[m] = max(A[m,k] * B[k] * C[k])", "max"),
        ("Z[X:p+r] = A[p] * B[r] * C[p]", "bare variables"),
        ("Z[m] = A[m,k] + B[k]", None),
    ],
)
def test_what_is_no_sum_of_products(text: str, reason: str | None) -> None:
    cascade = ff.cascade([text], sizes={"M": 4, "K": 5} if "m" in text else {"P": 4, "R": 3})
    if reason is None:
        assert len(cascade.contract("Z").einsums) == 1
        return
    with pytest.raises(ff.CascadeError, match=reason):
        cascade.contract("Z")


@pytest.mark.parametrize("path", [((0, 1),), ((0, 3), (0, 1)), ((0, 0), (0, 1)), ((), (0, 1, 2))])
def test_paths_that_do_not_fit(path: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ff.CascadeError, match="path"):
        DIVERGENCE.contract("Z", path)


def test_columns_that_the_einsum_does_not_have() -> None:
    with pytest.raises(ff.CascadeError, match="Einsum Z has no rank variable q"):
        ContractionOrder("Z", ((0, 2), (0, 1)), ("q",)).apply(MTTKRP)


def test_what_is_no_path_and_no_way_to_find_one() -> None:
    with pytest.raises(ff.CascadeError, match="no path of a contraction"):
        MTTKRP.contract("Z", 5)  # type: ignore[arg-type]
    with pytest.raises(ff.CascadeError, match="'fastest' is no way to find an order"):
        MTTKRP.contract("Z", optimize="fastest")


SOFTMAX = {
    "rows": (["P[m,n] = softmax(S[m,n], n)"], {"M": 4, "N": 7}),
    "columns": (["P[m,n] = softmax(S[m,n], m)"], {"M": 4, "N": 7}),
    "masked and scaled": (["P[m,n] = softmax(where(n <= m, 0.5*S[m,n] + B[n], -inf), n)"], {"M": 6, "N": 7}),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax(name: str) -> None:
    texts, sizes = SOFTMAX[name]
    cascade = ff.cascade(texts, sizes=sizes, dtypes={"All": "float64"})
    assert [einsum.name for einsum in cascade.einsums] == ["P.max", "P.exp", "P.sum", "P"]
    assert cascade.rewritings == (ExpandSoftmax("P"),)
    arrays = random_inputs(cascade, 1)
    scores = arrays["S"]
    if name.startswith("masked"):
        scores = np.where(np.arange(7) <= np.arange(6)[:, None], 0.5 * scores + arrays["B"], -np.inf)
    axis = 0 if name == "columns" else 1
    weights = np.exp(scores - scores.max(axis, keepdims=True))
    np.testing.assert_allclose(cascade.reference(**arrays)["P"], weights / weights.sum(axis, keepdims=True), rtol=1e-12)


def test_softmax_of_large_scores() -> None:
    cascade = ff.cascade(["P[m,n] = softmax(S[m,n], n)"], sizes={"M": 3, "N": 50})
    scores = np.random.default_rng(0).uniform(-1e4, 1e4, (3, 50)).astype(np.float32)
    expected, got = cascade.reference(S=scores)["P"], run(cascade.kernel(), S=scores)["P"]
    assert np.isfinite(got).all()
    assert largest_error(got, expected) < 1e-5


def test_batching_takes_the_first_ones_variables() -> None:
    cascade = ff.cascade(
        ["Z[m,n] = A[m,l]*B[l,n]", "Y[a,b] = D[k,b]*exp(C[a,k])", "X[m,n] = Z[m,n] + Y[A:m, B:n]"],
        sizes={"M": 4, "N": 5, "L": 3, "A": 4, "B": 5, "K": 3},
    )
    after = cascade.batch("Z", "Y")
    first, second = after.einsum("Z"), after.einsum("Y")
    assert [access.indices for access in first.operands] == [access.indices for access in second.operands]
    assert first.sizes == second.sizes
    check(cascade, after)
    apart = after.unbatch("Y")
    assert not set(apart.einsum("Y").variables) & set(apart.einsum("Z").variables)
    check(cascade, apart)
    assert apart.key == after.key == cascade.key


@pytest.mark.parametrize(
    ("texts", "names", "reason"),
    [
        (["Z[m] = A[m,k]*B[k]", "Y[k] = A[m,k]*C[m]"], ("Z", "Y"), "differ"),
        (["Z[m] = A[m]*B[m]", "Y[m] = Z[m]*B[m]"], ("Z", "Y"), "writes"),
        (["Z[m] = A[m]*B[m]", "X[m] = 2*Z[m]", "Y[m] = X[m]*B[m]"], ("Z", "Y"), "through other"),
        (["Z[m] = A[m]*B[m]", "Y[n] = C[n]*D[n]"], ("Z", "Y"), "differ"),
        (["Z[m] = A[m,k]", "Y[m] = max(A[m,k])"], ("Z", "Y"), "differ"),
        (["Z[m] = A[m]*B[m]"], ("Z",), "at least two"),
    ],
)
def test_what_is_no_batch(texts: list[str], names: tuple[str, ...], reason: str) -> None:
    used = "".join(texts)
    sizes = {rank: size for rank, size in {"M": 4, "K": 5, "N": 6}.items() if f"{rank.lower()}]" in used or f"{rank.lower()}," in used}
    cascade = ff.cascade(texts, sizes=sizes)
    with pytest.raises(ff.CascadeError, match=reason):
        cascade.batch(*names)


def test_rewritings_are_recorded_and_replayed() -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k]*B[k,n]*C[k]", "Y[m,n] = D[m,k]*E[k,n]*F[k]"], sizes={"M": 4, "N": 5, "K": 3})
    after = cascade.batch("Z", "Y").contract("Z").contract("Y", [(1, 2), (0, 1)]).unbatch("Y")
    assert [type(r).__name__ for r in after.rewritings] == ["Batch", "ContractionOrder", "ContractionOrder", "Unbatch"]
    text = rewritings_to_json(after.rewritings)
    assert rewritings_from_json(text) == after.rewritings
    assert rewritten(cascade, rewritings_from_json(text)) == after
    check(cascade, after)
    assert sorted([Unbatch("b"), Unbatch("a")]) == [Unbatch("a"), Unbatch("b")]
    assert hash(Batch(("a", "b"))) == hash(Batch(("a", "b")))


@pytest.mark.parametrize(
    "step",
    [
        {"rewriting": "Nothing", "version": 1},
        {"rewriting": "Unbatch", "version": 2, "einsum": "Z"},
        {"rewriting": "Unbatch", "version": 1, "einsum": 3},
        {"rewriting": "Unbatch", "version": 1},
        {"rewriting": "Batch", "version": 1, "einsums": [{"a": 1}]},
        "Unbatch",
    ],
)
def test_foreign_json_is_refused(step: object) -> None:
    with pytest.raises(ff.CascadeError):
        rewritings_from_json(json.dumps([step]))
    with pytest.raises(ff.CascadeError):
        rewritings_from_json("[")
