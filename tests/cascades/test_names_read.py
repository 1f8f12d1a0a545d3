"""What an instruction reads through substitution rules counts as read."""

from __future__ import annotations

import loopy as lp
import numpy as np
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.preparation.draft import names_read
from feinsum_fuse.mappings.default_mapping import default_schedule
from tests.cascades.randomness import run


def test_rules_that_are_called_and_rules_in_rules() -> None:
    kernel = lp.make_kernel(
        "{[i,k] : 0 <= i,k < 4}",
        """
        row(a, b) := A[a, b]*s[a]
        twice(a) := 2*sum(k, row(a, k))
        C[i] = twice(i) + D[i]  {id=C}
        """,
        [lp.GlobalArg("A", np.float64, shape=(4, 4)), lp.GlobalArg("C,D,s", np.float64, shape=(4,))],
        lang_version=(2018, 2),
    ).default_entrypoint
    assert names_read(kernel.id_to_insn["C"], kernel) == {"A", "s", "D", "i"}


def test_what_another_instruction_reads_through_a_rule_is_a_result() -> None:
    """``T`` would otherwise be an intermediate, of which a schedule keeps a tile at a time."""
    kernel = lp.make_kernel(
        ["{[i,k] : 0 <= i < 5 and 0 <= k < 6}", "{[j] : 0 <= j < 5}", "{[m] : 0 <= m < 7}"],
        """
        later(a) := T[a]
        T[i] = sum(k, A[i,k])  {id=T}
        U[j] = 2*T[j]  {id=U, dep=T}
        z[m] = later(rows[m])  {id=z, dep=T}
        """,
        [
            lp.GlobalArg("A", np.float64, shape=(5, 6)),
            lp.GlobalArg("U", np.float64, shape=(5,)),
            lp.GlobalArg("z", np.float64, shape=(7,)),
            lp.GlobalArg("rows", np.int32, shape=(7,)),
            lp.TemporaryVariable("T", np.float64, shape=(5,), address_space=lp.AddressSpace.GLOBAL),
        ],
        lang_version=(2018, 2),
    )
    matched = ff.match(kernel, ["T", "U"])
    assert set(matched.cascade.outputs) == {"T", "U"}
    given = {"A": np.random.default_rng(2).random((5, 6)), "rows": np.array([4, 0, 1, 3, 2, 2, 0], np.int32)}
    transformed = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    np.testing.assert_allclose(run(transformed, **given)["z"], given["A"].sum(axis=1)[given["rows"]])
