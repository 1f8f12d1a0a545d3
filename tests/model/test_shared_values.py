"""What statements of one loop have in common: computed and loaded once, and kept out of memory where nothing else reads it."""

from __future__ import annotations

import pytest
from constantdict import constantdict
from pymbolic.primitives import Variable

import feinsum_fuse as ff
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.workload import operand_name
from feinsum_fuse.model.kernel.basic_blocks import CodeLine
from feinsum_fuse.model.kernel.compiler.shared_values import values_before
from feinsum_fuse.model.kernel.kernel_time import KernelTime, kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.statement import Place, Statement
from feinsum_fuse.schedule.tree.nest import For, Nest, Tile
from tests.model.test_kernel_time import DEVICE

LANES = """      - !Temporal {rank_variable: n, tile_shape: 8}
      - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}
"""
SCALARS = "      - !Temporal {rank_variable: n, tile_shape: 1}\n"
VECTORS = 16 * 1024 // 8
"""Of the arrays below."""


def pair(first: str, second: str, *, operands: str, tiles: str = "[R]", third: str = "") -> KernelTime:
    """Elementwise Einsums of rows of 1,024 elements whose loops over vectors are one; ``third`` has one over elements."""
    einsums = [first, second, *([third] if third else [])]
    names = [text.partition("[")[0] for text in einsums]

    def branch(name: str) -> str:
        return (
            f"    - !Nested\n      nodes:\n{SCALARS if name == 'Y' else LANES}"
            f"      - !Compute {{einsum: {name}, component: MAC}}\n"
        )

    head, _, _ = DEVICE.partition("workload:")
    text = f"""{head}workload:
  rank_sizes: {{M: 16, N: 1024}}
  bits_per_value: {{All: 32}}
  einsums: {einsums}
mapping:
  nodes:
  - !Storage {{tensors: {operands}, component: Main}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Storage {{tensors: {tiles}, component: Local}}
  - !Sequential
    nodes:
{"".join(map(branch, names))}"""
    spec = ff.loads(text)
    machine = Machine.of(spec)
    assert machine is not None
    return kernel_time(spec, machine)


def counted(time: KernelTime) -> tuple[float, float, float]:
    """Vector operations, loads and stores, for each vector."""
    return tuple(sum(getattr(part.code, name) for part in time.parts) / VECTORS for name in ("arithmetic", "loads", "stores"))  # type: ignore[return-value]


SQUARE = "R[m, n] = (X[m, n] - U[m, n]) * (X[m, n] - U[m, n])"


def test_what_two_statements_of_a_loop_compute_and_load_is_there_once() -> None:
    """A difference and its square, then the same difference times the square, both on vectors of eight; the square is no array."""
    shared = counted(pair(SQUARE, "Z[m, n] = (X[m, n] - U[m, n]) * R[m, n]", operands="[X, U, Z]"))
    other = counted(pair(SQUARE, "Z[m, n] = (X[m, n] - V[m, n]) * R[m, n]", operands="[X, U, V, Z]"))
    assert shared == pytest.approx((3, 2, 1))
    assert other == pytest.approx((4, 3, 1))


def test_a_tile_that_another_loop_reads_is_stored() -> None:
    """Both have the loop over vectors; the third Einsum's, over single elements, reads the squares again."""
    second = "Z[m, n] = X[m, n] * R[m, n]"
    alone = pair(SQUARE, second, operands="[X, U, Z]")
    again = pair(SQUARE, second, operands="[X, U, Z, Y]", third="Y[m, n] = 2 * R[m, n]")
    assert [time.parts[0].code.stores / VECTORS for time in (alone, again)] == pytest.approx([1, 2])


def statement(target: str, *read: str) -> CodeLine:
    """The product of two arrays at one place, on eight lanes."""
    lane = For("lane", 8, (), binding="vector")
    index = (Affine.variable("lane"),)
    product = Variable(operand_name(0)) * Variable(operand_name(1))
    return CodeLine(Statement(target, "map", Place(target, index), product, tuple([Place(name, index) for name in read])), (), lane)


def test_parts_of_what_was_written_since_are_computed_again() -> None:
    tiles = {name: Tile(name, name, "local", (8,), "float32", (Affine((), 0),), (0,)) for name in "ABCYZ"}
    nest = Nest((), constantdict(), constantdict(tiles))
    first, between, last = statement("Z", "A", "B"), statement("A", "C", "C"), statement("Y", "A", "B")
    assert values_before(nest, (first, last)) == {id(last): {last.statement.value}}
    assert values_before(nest, (first, between, last)) == {}
