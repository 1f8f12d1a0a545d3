"""Mappings of masked attention: what a mask excludes is skipped without being asked for, and nothing else changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.steps.skip_steps import SkipTiles
from tests.schedule.runs import run
from tests.sweeps import SLOW

CAUSAL = "p <= m"
WINDOW = "p <= m and m <= p + 20"
PADDING = "p < 33"
SHIFTED = "p + 3 <= m"
CASES: list[tuple[str, str, dict[str, int]]] = [
    ("mapping_one_pass", CAUSAL, {"H": 2, "M": 75, "P": 69, "E": 11, "ROWS": 16, "PT": 16}),
    ("mapping_one_pass", SHIFTED, {"H": 1, "M": 35, "P": 37, "E": 5, "ROWS": 16, "PT": 8}),
    ("mapping_two_passes", CAUSAL, {"H": 2, "M": 41, "P": 53, "E": 11}),
    ("mapping_two_passes", SHIFTED, {"H": 1, "M": 35, "P": 37, "E": 5}),
    ("mapping_unfused", WINDOW, {"H": 1, "M": 41, "P": 35, "E": 11}),
]
SLOW_CASES: list[tuple[str, str, dict[str, int]]] = [
    ("mapping_one_pass", PADDING, {"H": 1, "M": 35, "P": 69, "E": 5, "ROWS": 16, "PT": 16}),
    ("mapping_one_pass", WINDOW, {"H": 1, "M": 131, "P": 131, "E": 5, "ROWS": 16, "PT": 16, "LANES": 16}),
    ("mapping_one_pass", CAUSAL, {"H": 1, "M": 1, "P": 1, "E": 1}),
    ("mapping_two_passes", PADDING, {"H": 1, "M": 35, "P": 69, "E": 5}),
    ("mapping_two_passes", WINDOW, {"H": 1, "M": 75, "P": 69, "E": 5, "LANES": 16}),
    ("mapping_unfused", CAUSAL, {"H": 2, "M": 75, "P": 69, "E": 11}),
]


def masked(root: Path, mapping: str, mask: str, variables: dict[str, int]) -> Spec:
    """The example with a mask in the map of its scores."""
    folder = root / "examples" / "attention"
    plain = "0.125 * Q[h, m, e] * K[h, P: p, e]"
    text = (folder / "workload.yaml").read_text()
    assert plain in text
    workload = text.replace(plain, f"where({mask}, {plain}, -inf)")
    files = [path.read_text() for path in (folder / f"{mapping}.yaml", folder.parent / "cpu.yaml")]
    return ff.loads("\n".join([workload, *files]), variables=variables)


def cuts(schedule: ff.Schedule) -> list[SkipTiles]:
    """The steps that skip tiles."""
    return [step for step in schedule.steps if isinstance(step, SkipTiles)]


@pytest.mark.parametrize("text", ["Z[i, j] = A[i, k] * A[I: j, k]", "Z[i, j] = A[k, i] * A[k, I: j]"])
def test_half_of_a_symmetric_output_ends_at_the_diagonal(text: str) -> None:
    """What mirrors it uses either half in a choice between both: the other one is not even set to nothing."""
    cascade = suited(ff.cascade([text], sizes={"I": 400, "J": 400, "K": 90}))
    half = [step for step in cuts(lower(default_spec(cascade))) if step.loop.einsum == "Z_half"]
    assert [step.loop.variable in {"i", "j"} for step in half] == [True]
    inputs = {"A": np.random.default_rng(3).uniform(-1, 1, cascade.fixed_shape("A")).astype(np.float32)}
    np.testing.assert_allclose(ff.compile(cascade)(**inputs)["Z"], cascade.reference(**inputs)["Z"], atol=1e-4)


@pytest.mark.parametrize(("mapping", "mask", "variables"), CASES + (SLOW_CASES if SLOW else []))
def test_masked_attention_computes_what_it_says(root: Path, mapping: str, mask: str, variables: dict[str, int]) -> None:
    """At sizes where nothing divides, rows that are wholly masked included: these are no numbers, as without the skipping."""
    spec = masked(root, mapping, mask, variables)
    cascade = ff.cascade(spec)
    inputs = {t: np.random.default_rng(3).uniform(-2, 2, cascade.fixed_shape(t)).astype(np.float32) for t in cascade.inputs}
    expected = cascade.reference(**inputs)["O"]
    found = run(cascade, ff.lower(spec), inputs)["O"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.isnan(expected).any() == (mask == SHIFTED)


@pytest.mark.parametrize("mapping", ["mapping_one_pass", "mapping_two_passes", "mapping_unfused"])
def test_every_einsum_over_the_keys_ends_early(root: Path, mapping: str) -> None:
    """One cut each, consumers first, in terms of the query tile; without a mask none."""
    variables = {"H": 1, "M": 256, "P": 256, "E": 8}
    steps = cuts(ff.lower(masked(root, mapping, CAUSAL, variables)))
    assert [step.loop.einsum for step in steps] == ["A", "L", "N", "X", "S"]
    assert all(step.loop.variable == "p" and any(ref.variable == "m" for ref in step.per) for step in steps)
    assert not cuts(ff.lower(masked(root, mapping, "p >= 0", variables)))


def test_the_shared_loop_ends_at_the_query_tile(root: Path) -> None:
    """In one pass the loop over key tiles has one end, which is an expression of the group's number."""
    spec = masked(root, "mapping_one_pass", CAUSAL, {"H": 1, "M": 256, "P": 256, "E": 8})
    text = str(ff.lower(spec).nest(ff.cascade(spec).kernel()))
    loops = [line for line in text.splitlines() if "# S.p/0, X.p/0, N.p/0, L.p/0, A.p/0" in line]
    assert len(loops) == 1 and "-p_S_0 >= 0" in loops[0].replace(",", " ")


def test_the_end_of_a_triangle_in_many_tiles_is_found() -> None:
    """The convex hull of what is left, over all six loops, took minutes."""
    gram = ff.cascade(["Z[m, n] = A[k, M: m] * A[k, M: n]"], sizes={"M": 256, "N": 256, "K": 65536})
    halved = gram.triangle("Z", "m", "n").split_reduction("Z_half", "k", 16)
    assert "Z_half_part.n/0" in {str(step.loop) for step in cuts(ff.lower(default_spec(halved)))}


@pytest.mark.parametrize(("rows", "block"), [(64, 32), (32, 64), (21, 17), (128, 128)])
def test_sums_in_blocks_end_at_the_diagonal_and_not_with_a_block(rows: int, block: int) -> None:
    """Sums over all of the last block computed half a block too much, and made what it reads that of the whole block, too."""
    lines = ["N[m, p] = where(p <= m, S[m, p], 0)", "A[m, f] = N[m, p] * V[P: p, f]"]
    cascade = ff.cascade(lines, sizes={"M": 151, "P": 151, "F": 21})
    tree = f"""
mapping:
  nodes:
  - !Storage {{component: MainMemory, tensors: [S, V, A]}}
  - !Temporal {{rank_variable: m, tile_shape: {rows}}}
  - !Storage {{component: Scratchpad, tensors: [N]}}
  - !Sequential
    nodes:
    - !Nested {{nodes: [!Temporal {{rank_variable: p, tile_shape: 1}}, !Temporal {{rank_variable: m, tile_shape: 1}},
        !Compute {{einsum: N, component: MAC}}]}}
    - !Nested {{nodes: [!Temporal {{rank_variable: p, tile_shape: {block}}}, !Temporal {{rank_variable: m, tile_shape: 4}},
        !Temporal {{rank_variable: p, tile_shape: 1}}, !Temporal {{rank_variable: m, tile_shape: 1}},
        !Temporal {{rank_variable: f, tile_shape: 1}}, !Compute {{einsum: A, component: MAC}}]}}
"""
    spec = dataclasses.replace(default_spec(cascade), mapping=ff.loads(tree).mapping)
    schedule = ff.lower(spec)
    assert [str(step.loop) for step in cuts(schedule)] == ["A.p/0", "A.p/1", "N.p"]
    inputs = {t: np.random.default_rng(3).uniform(-2, 2, cascade.fixed_shape(t)).astype(np.float32) for t in cascade.inputs}
    np.testing.assert_allclose(run(cascade, schedule, inputs)["A"], cascade.reference(**inputs)["A"], rtol=1e-4, atol=1e-4)


ROWS = "!Spatial {rank_variable: m, tile_shape: 1, component: Item, name: item}"
ITEMS = """
workload:
  rank_sizes: {M: 37, P: 41, E: 3, F: 5}
  bits_per_value: {All: 32}
  einsums:
  - "S[m, p] = where(p <= m, Q[m, e] * K[P: p, e], -inf)"
  - {einsum: "X[m] = max(S[m, p])", operations: {online: true}}
  - "N[m, p] = exp(S[m, p] - X[m])"
  - "L[m] = N[m, p]"
  - "A[m, f] = N[m, p] * V[P: p, f]"
  - "O[m, f] = A[m, f] / L[m]"
opencl:
  memories: {Main: global, Shared: local}
  fanouts: {Core: group.0, Item: local.0}
mapping:
  nodes:
  - !Storage {component: Main, tensors: [Q, K, V, O]}
  - !Spatial {rank_variable: m, tile_shape: 8, component: Core, name: core}
  - !Storage {component: Shared, tensors: [X, L, A]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: p, tile_shape: 4}
      - !Storage {component: Shared, tensors: [K, V, S, N]}
      - !Sequential
        nodes:
        - !Nested {nodes: [ROWS, !Temporal {rank_variable: p, tile_shape: 1},
            !Temporal {rank_variable: e, tile_shape: 1}, !Compute {einsum: S, component: MAC}]}
        - !Nested {nodes: [ROWS, !Temporal {rank_variable: p, tile_shape: 1},
            !Compute {einsum: X, component: MAC}]}
        - !Nested {nodes: [ROWS, !Temporal {rank_variable: p, tile_shape: 1},
            !Compute {einsum: N, component: MAC}]}
        - !Nested {nodes: [ROWS, !Temporal {rank_variable: p, tile_shape: 1},
            !Compute {einsum: L, component: MAC}]}
        - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1},
            !Spatial {rank_variable: f, tile_shape: 1, component: Item, name: item},
            !Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: A, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Spatial {rank_variable: f, tile_shape: 1, component: Item, name: item},
        !Compute {einsum: O, component: MAC}]}
"""


def test_groups_of_work_items_with_barriers() -> None:
    """The end depends on the group alone, so that all work-items meet at every barrier."""
    spec = ff.loads(ITEMS.replace("ROWS", ROWS))
    program = ff.compile(spec)
    assert isinstance(program, Program)
    assert cuts(program.schedule) and "barrier(CLK_LOCAL_MEM_FENCE)" in program.source
    assert all(ref.path == "0" for step in cuts(program.schedule) for ref in step.per)
    inputs = {t: np.random.default_rng(3).uniform(-2, 2, s).astype(np.float32) for t, s in program.input_shapes.items()}
    np.testing.assert_allclose(program(**inputs)["O"], program.cascade.reference(**inputs)["O"], rtol=1e-4, atol=1e-5)
