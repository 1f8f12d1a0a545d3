"""Copy Einsums within one memory are aliases; others move data. Each is run on PoCL."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap

import numpy as np
import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.tree.nest import statements
from tests.generators.trees import architecture, bindings

from .programs import nest_of, outcome

SIZES = {"M": 13, "K": 7, "N": 5}


def spec_of(einsums: tuple[str, ...], nodes: str) -> Spec:
    """A Spec in which each Einsum that reads one tensor as it is is a copy; ``nodes`` is the YAML of its mapping."""
    given = [{"einsum": t, "is_copy_operation": True} if re.fullmatch(r"\w+\[[\w,]+\] = \w+\[[\w,]+\]", t) else t for t in einsums]
    ranks = {rank: size for rank, size in SIZES.items() if any(rank.lower() in text for text in einsums)}
    workload = ff.loads(json.dumps({"workload": {"rank_sizes": ranks, "bits_per_value": {"All": 32}, "einsums": given}})).workload
    indented = "".join(f"  {line}\n" for line in nodes.strip("\n").splitlines())
    return ff.loads(Spec(workload, architecture(), opencl=bindings()).to_yaml() + f"\nmapping:\n  nodes:\n{indented}")


def branch(einsum: str, variables: str, above: str = "") -> str:
    """A branch with one loop per variable; ``above`` is a Storage outside them."""
    loops = "".join(f"    - !Temporal {{rank_variable: {v}, tile_shape: 1}}\n" for v in variables)
    held = f"    - !Storage {above}\n" if above else ""
    return f"  - !Nested\n    nodes:\n{held}{loops}    - !Compute {{einsum: {einsum}, component: MAC}}\n"


def tree(held: str, *branches: str) -> str:
    """Branches one after another below a Storage in the outermost memory."""
    return f"- !Storage {{component: MainMemory, tensors: [{held}]}}\n- !Sequential\n  nodes:\n" + "".join(branches)


def arrays_written(spec: Spec) -> set[str]:
    """The arrays that the statements of the lowered tree write."""
    return {s.target.source for _, s in statements(nest_of(spec).body)}


PRODUCT = "Z[m,n] = T[m,k] * B[k,n]"
CASES = {
    "of an input": (("T[m,k] = A[m,k]", PRODUCT), tree("A, B, T, Z", branch("T", "mk"), branch("Z", "mnk"))),
    "of an intermediate": (
        ("S[m,k] = abs(A[m,k])", "T[m,k] = S[m,k]", PRODUCT),
        tree("A, B, S, T, Z", branch("S", "mk"), branch("T", "mk"), branch("Z", "mnk")),
    ),
    "of a copy": (
        ("S[m,k] = A[m,k]", "T[m,k] = S[m,k]", PRODUCT),
        tree("A, B, S, T, Z", branch("S", "mk"), branch("T", "km"), branch("Z", "mnk")),
    ),
    "with a tile further in": (
        ("T[m,k] = A[m,k]", PRODUCT),
        tree("A, B, T, Z", branch("T", "mk"), branch("Z", "mnk", "{component: Scratchpad, tensors: [T]}")),
    ),
    "read beside its source": (
        ("T[m,k] = A[m,k]", "Z[m] = T[m,k] * A[m,k]"),
        tree("A, T, Z", branch("T", "mk"), branch("Z", "mk", "{component: Scratchpad, tensors: [A, T]}")),
    ),
}


@pytest.mark.parametrize("einsums, nodes", CASES.values(), ids=list(CASES))
def test_alias(einsums: tuple[str, ...], nodes: str) -> None:
    """No array for the copy, no statement that writes it; what reads it reads the source."""
    spec = spec_of(einsums, nodes)
    program = ff.compile(spec)
    assert not re.search(r"\bT(_local|_private)?\b", re.sub(r"//.*", "", program.source)), program.source
    assert not {"T", "T_local"} & arrays_written(spec)
    result = outcome(spec)
    assert result.outcome == "ok", result


def test_tile_of_a_copy_and_its_source_is_one() -> None:
    """A tile that holds a copy and its source holds the values once."""
    nest = nest_of(spec_of(*CASES["read beside its source"]))
    assert [tile.tensor for tile in nest.tiles.values()] == ["A"]


MOVES = {
    "an output": (("T[m,k] = A[m,k]",), tree("A, T", branch("T", "mk")), "T"),
    "an output of a copy": (
        ("S[m,k] = A[m,k]", "T[m,k] = S[m,k]"),
        tree("A, S, T", branch("S", "mk"), branch("T", "mk")),
        "T",
    ),
    "permuted": (("T[k,m] = A[m,k]", "Z[m,n] = T[k,m] * B[k,n]"), tree("A, B, T, Z", branch("T", "mk"), branch("Z", "mnk")), "T"),
    "into another memory": (
        ("T[m,k] = A[m,k]", PRODUCT),
        """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Temporal {rank_variable: m, tile_shape: 4}
- !Storage {component: Scratchpad, tensors: [T]}
"""
        + tree("", branch("T", "mk"), branch("Z", "mnk")).partition("\n")[2],
        "T_local",
    ),
}


@pytest.mark.parametrize("einsums, nodes, array", MOVES.values(), ids=list(MOVES))
def test_real_copy(einsums: tuple[str, ...], nodes: str, array: str) -> None:
    """Copies that must move data do, and verify."""
    spec = spec_of(einsums, nodes)
    assert array in arrays_written(spec)
    result = outcome(spec)
    assert result.outcome == "ok", result


def test_copy_that_outlives_its_source() -> None:
    """The source is a tile of an iteration, the copy is held further out: it is a real copy."""
    nodes = """
- !Storage {component: MainMemory, tensors: [A, B, T, Z]}
- !Sequential
  nodes:
  - !Nested
    nodes:
    - !Temporal {rank_variable: m, tile_shape: 4}
    - !Storage {component: MainMemory, tensors: [S]}
    - !Sequential
      nodes:
"""
    nodes += textwrap.indent(branch("S", "mk") + branch("T", "mk"), "    ") + branch("Z", "mnk")
    spec = spec_of(("S[m,k] = abs(A[m,k])", "T[m,k] = S[m,k]", PRODUCT), nodes)
    assert "T" in arrays_written(spec)
    result = outcome(spec)
    assert result.outcome == "ok", result


def test_narrower_copy_converts() -> None:
    """A copy into another element type is no alias."""
    spec = spec_of(*CASES["of an input"])
    narrow = spec.replace(opencl=dataclasses.replace(bindings(), dtypes=constantdict({"T": "float32", "Other": "float64"})))
    cascade = ff.cascade(narrow)
    assert np.dtype(cascade.tensors["T"].dtype) == np.float32
    assert "T" in arrays_written(narrow)
    result = outcome(narrow)
    assert result.outcome == "ok", result
