"""Loops over scalars whose text asks for a group's index, by a compiler that makes no vectors of those."""

from __future__ import annotations

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import mapped, seconds, with_variables

CALLED = {"group_index_times": 16.0, "launch_seconds": 1e-9}
"""A loop that asks takes so many times as long as one that does not."""
KNOWN = {**CALLED, "group_index_times": 1.0}


def copied(loops: str, rows: int = 96) -> Spec:
    """Rows doubled one element after another."""
    return mapped(
        f"{{rank_sizes: {{M: {rows}, N: 200}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = 2 * A[m, n]']}}",
        "[A, Z]",
        f"{loops}- !Temporal {{rank_variable: m, tile_shape: 1}}\n  - !Temporal {{rank_variable: n, tile_shape: 1}}",
    )


def moved_twice() -> Spec:
    """A product whose tile of sums is read back and written back for each part of the reduction, one element after another."""
    return mapped(
        "{rank_sizes: {M: 96, N: 192, K: 64}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}",
        "[A, B, Z]",
        "- !Spatial {rank_variable: m, tile_shape: 48, component: Core, name: core}\n  - !Temporal {rank_variable: k, tile_shape: 16}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 64}\n"
        "  - !Storage {tensors: [Z], component: Local}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


GROUPS = "- !Spatial {rank_variable: m, tile_shape: 48, component: Core, name: core}\n  "


def test_loops_that_ask_for_a_groups_index_are_no_vectors() -> None:
    """``Z[200*(48*gid(0) + m) + n]`` is no vector along ``n``; with no groups there is nothing to ask for."""
    assert seconds(copied(GROUPS), **CALLED) > 2 * seconds(copied(GROUPS), **KNOWN)
    assert seconds(copied(""), **CALLED) == seconds(copied(""), **KNOWN)


def test_where_a_part_starts_that_two_axes_decide_is_asked_for_before() -> None:
    """``m_start = 96*gid(1) + 48*gid(0)`` stands at the top."""
    spec = copied(f"- !Temporal {{rank_variable: m, tile_shape: 96}}\n  {GROUPS}", 192)
    assert seconds(spec, **CALLED) == seconds(spec, **KNOWN)


def test_what_two_loops_ask_for_is_asked_for_before() -> None:
    """Both the loop that reads a tile back and the one that writes it use ``Z_at``."""
    assert seconds(moved_twice(), **CALLED) == seconds(moved_twice(), **KNOWN)


def test_ends_that_ask_are_known_before_the_loop() -> None:
    """``n < (gid(0) == 1 ? 72 : 128)`` has a name, so that sums in a tile are vectors along ``n``; the loop that writes them is not."""
    ragged = mapped(
        "{rank_sizes: {N: 200, K: 512}, bits_per_value: {All: 32}, einsums: ['Z[n] = A[k] * A[k]']}",
        "[A, Z]",
        "- !Spatial {rank_variable: n, tile_shape: 128, component: Core, name: core}\n  - !Storage {tensors: [Z], component: Local}\n"
        "  - !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}",
    )
    assert seconds(ragged, **CALLED) < 1.1 * seconds(ragged, **KNOWN)


def beside_an_index(tile: int) -> Spec:
    """Sums over ``k`` of what a tile of rows that a group has is moved by, and results whose rows are the same: ``Z[24*M_at + n]``."""
    return with_variables(
        mapped(
            "{rank_sizes: {M: 48, N: 24, K: 512}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = (X[k] - A[m]) * (X[k] - B[n])']}",
            "[X, A, B, Z]",
            "- !Spatial {rank_variable: m, tile_shape: 24, component: Core, name: core}\n  - !Temporal {rank_variable: n, tile_shape: 1}\n"
            f"  - !Temporal {{rank_variable: m, tile_shape: {tile}}}\n  - !Storage {{tensors: [Z], component: Register}}\n"
            "  - !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}",
        ),
        summed_seconds=1e-13,
    )


def test_an_index_that_other_arrays_share_is_asked_for_before() -> None:
    """``M_at = 24*gid(0) + 8*m`` has a name, since rows of ``Z`` begin there, too; ``24*gid(0) + m`` is too short for one."""
    assert seconds(beside_an_index(8), **CALLED) == seconds(beside_an_index(8), **KNOWN)
    assert seconds(beside_an_index(1), **CALLED) > 2 * seconds(beside_an_index(1), **KNOWN)
