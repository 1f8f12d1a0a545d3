"""``any`` and ``all``: what counts as true, of which type the result is, and kernels that say it their way."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.library.reduction import AnyReductionOperation
from loopy.symbolic import Reduction
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from tests.cascades.randomness import run

DOMAIN = "{[m, n, k]: 0 <= m < 4 and 0 <= n < 5 and 0 <= k < 3}"
RULES = "A_(m, k) := A[m, k]\nB_(k, n) := B[k, n]\n"


def kernel(text: str, dtype: type = np.float64) -> lp.TranslationUnit:
    shapes = {"A": (4, 3), "B": (3, 5), "C": (4, 5)}
    arguments = [lp.GlobalArg(name, dtype, shape=shape, is_input=name != "C") for name, shape in shapes.items()]
    return lp.make_kernel(DOMAIN, RULES + text, arguments, lang_version=(2018, 2))


def sparse(dtype: type) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {name: generator.integers(0, 2, shape).astype(dtype) for name, shape in (("A", (4, 3)), ("B", (3, 5)))}


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("term", ["A_(m, k) * B_(k, n)", "if(A_(m, k) > B_(k, n), 2, 0)"])
def test_kernels_of_loopys_own_are_matched_and_scheduled(name: str, dtype: type, term: str) -> None:
    t_unit = kernel(f"C[m, n] = reduce({name}, k, {term})", dtype)
    found = ff.match(t_unit)
    arrays = sparse(dtype)
    a, b = arrays["A"][:, :, None], arrays["B"][None]
    expected = getattr(np, name)(a * b if "*" in term else a > b, axis=1)
    np.testing.assert_array_equal(found.reference(**arrays)["C"], expected)
    explicit = Schedule((Explicate(),)).apply(found.prepared, names=found.names)
    np.testing.assert_array_equal(run(explicit, **arrays)["C"], expected)


def test_a_map_that_is_a_truth_is_the_same_without_saying_so() -> None:
    """``any(A)`` and ``any(A != 0)``; ``any(where(m < k, A, 0))`` and ``any(where(m < k, A != 0, 0))``."""
    sizes = {"M": 4, "K": 3}
    keys = [ff.cascade([f"Z[m] = any({text})"], sizes=sizes).key for text in ("A[m, k]", "A[m, k] != 0", "where(A[m, k] != 0, 1, 0)")]
    assert len(set(keys)) == 1
    masked = [ff.cascade([f"Z[m] = any(where(m < k, {text}, 0))"], sizes=sizes).key for text in ("A[m, k]", "A[m, k] != 0")]
    assert len(set(masked)) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_counts_as_true(dtype: str) -> None:
    cascade = ff.cascade(["X[m] = any(A[m, k])", "Y[m] = all(A[m, k])"], sizes={"M": 5, "K": 11}, dtypes={"All": dtype})
    values = np.zeros((5, 11), dtype)
    values[0], values[1, 10], values[2, 3], values[3], values[4] = -0.0, np.nan, np.inf, np.nan, -np.inf
    expected = {"X": [0, 1, 1, 1, 1], "Y": [0, 0, 0, 1, 1]}
    for found in (cascade.reference(A=values), run(cascade.kernel(), A=values), ff.compile(ff.spec(cascade))(A=values)):
        assert {tensor: array.tolist() for tensor, array in found.items()} == expected
        assert not any(np.isnan(array).any() for array in found.values())


def test_the_initial_value_is_a_truth() -> None:
    text = "workload: {bits_per_value: {All: 32}, rank_sizes: {M: 4, K: 3}, einsums: [{einsum: 'Z[m] = A[m, k]', operations: {OP}}]}"
    assert ff.cascade(ff.loads(text.replace("OP", "reduce: all, populate: 0"))).reference(A=np.ones((4, 3)))["Z"].tolist() == [0] * 4
    with pytest.raises(ff.CascadeError, match="initial value 5; that of any is 0 or 1"):
        ff.cascade(ff.loads(text.replace("OP", "reduce: any, populate: 5"))).kernel()


def test_a_reduction_that_is_in_no_table_is_refused() -> None:
    class Exclusive(AnyReductionOperation):  # type: ignore[misc]
        """Whether an odd number is true."""

    t_unit = kernel("C[m, n] = reduce(any, k, A_(m, k) * B_(k, n))  {id=C}")
    insn = t_unit.default_entrypoint.id_to_insn["C"]
    other = insn.copy(expression=Reduction(Exclusive(), insn.expression.inames, insn.expression.expr, allow_simultaneous=False))
    t_unit = t_unit.with_kernel(t_unit.default_entrypoint.copy(instructions=[other]))
    with pytest.raises(ff.MatchError, match="not by any of sum, max, min, prod, any, all"):
        ff.match(t_unit)
