"""Mappings of sums that are taken in another type than they are stored in: whatever is spilled, nothing is rounded before the end."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite
from tests.schedule.runs import run

HEAD = """
workload:
  rank_sizes: {{M: {m}, N: {n}, K: {k}{more}}}
  bits_per_value: {{All: 32}}
  einsums: {einsums}
opencl:
  memories: {{MainMemory: global, Scratchpad: local, Register: private}}
  fanouts: {{Core: group.0, Item: local.0}}
  dtypes: {{All: {stored}}}
  accumulate: {{All: {accumulate}}}
mapping:
  nodes:
"""
MATMUL = "['Z[m,n] = A[m,k] * B[k,n]']"
LARGEST = "['Z[m,n] = max(A[m,k] * B[k,n])']"
CHAIN = "['T[m,n] = A[m,k] * B[k,n]', 'Z[m,p] = T[m,n] * C[n,p]']"
MAIN = "  - !Storage {component: MainMemory, tensors: [A, B, Z]}\n"


def loops(text: str) -> str:
    """``m:4 n`` as nodes; ``@m:4`` is bound to groups, ``+n`` to work-items, ``[Register Z]`` holds a tensor."""
    lines = []
    for word in text.split():
        if word.startswith("["):
            component, tensor = word[1:-1].split(",")
            lines.append(f"  - !Storage {{component: {component}, tensors: [{tensor}]}}")
            continue
        where = {"@": "Core", "+": "Item"}.get(word[0])
        variable, _, tile = word.lstrip("@+").partition(":")
        kind = f"!Spatial {{name: x, component: {where}, " if where else "!Temporal {"
        lines.append(f"  - {kind}rank_variable: {variable}, tile_shape: {tile or 1}}}")
    return "\n".join(lines)


TREES = {
    "no tile": "m n k",
    "no tile, sums outermost": "k m n",
    "a tile in registers": "m n [Register,Z] k",
    "partial sums spilled from registers": "k:7 m n [Register,Z] k",
    "partial sums spilled from local to main memory": "k:7 m:4 [Scratchpad,Z] n k m",
    "through two tiles": "m:4 k:7 [Scratchpad,Z] n m [Register,Z] k",
    "groups": "@m:4 k:7 n m k",
    "groups below the sum": "k:7 @m n k",
    "work-items": "@m:4 +m n k",
    "work-items below the sum": "@m:4 k:7 +m n k",
    "work-items share a sum": "@m k:7 +k n",
}


def check(spec: Spec) -> None:
    """The lowered kernel agrees with the reference on numbers whose sums the stored type does not hold on the way."""
    cascade = ff.cascade(spec)
    generator = np.random.default_rng(3)
    inputs = {}
    for tensor in cascade.inputs:
        shape, dtype = cascade.fixed_shape(tensor), np.dtype(cascade.tensors[tensor].dtype)
        inputs[tensor] = generator.integers(-100, 101, shape).astype(dtype)
        if dtype.kind == "f":
            # Neighbours that cancel are far larger than the sum of the rest.
            signs = np.where(np.arange(shape[-1]) % 2, -1, 1) * np.float32(2.0**24)
            inputs[tensor] = (inputs[tensor] + (signs if tensor == "A" else 1)).astype(dtype)
    expected = {t: a.astype(cascade.tensors[t].dtype) for t, a in cascade.reference(**inputs).items()}
    verification = verify(run(cascade, ff.lower(spec), inputs), expected, 1e-7)
    assert verification.passed, verification


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(("einsum", "stored", "accumulate"), [(MATMUL, "float32", "float64"), (LARGEST, "int8", "int32")])
def test_trees(name: str, einsum: str, stored: str, accumulate: str) -> None:
    """Reductions at any depth, with tiles that lie inside them, and on every axis of the device."""
    head = HEAD.format(m=13, n=5, k=51, more="", einsums=einsum, stored=stored, accumulate=accumulate)
    check(ff.loads(head + MAIN + loops(TREES[name]) + "\n  - !Compute {einsum: Z, component: MAC}\n"))


CHAINS = {
    "unfused": "",
    "in local memory": "  - !Temporal {rank_variable: m, tile_shape: 4}\n  - !Storage {component: Scratchpad, tensors: [T]}\n",
    "in registers": "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Storage {component: Register, tensors: [T]}\n",
    "in groups": "  - !Spatial {name: x, component: Core, rank_variable: m, tile_shape: 4}\n"
    "  - !Storage {component: Scratchpad, tensors: [T]}\n",
}


@pytest.mark.parametrize("outer", CHAINS)
@pytest.mark.parametrize(("stored", "accumulate"), [("float32", "float64"), ("int16", "int32")])
def test_chains(outer: str, stored: str, accumulate: str) -> None:
    """An intermediate has its stored type for its consumer, wherever it is held, and is added up in the accumulator's."""
    head = HEAD.format(m=13, n=5, k=51, more=", P: 3", einsums=CHAIN, stored=stored, accumulate=accumulate)
    main = MAIN.replace("Z]", "C, Z]") if CHAINS[outer] else MAIN.replace("Z]", "C, T, Z]")
    inner = "" if outer == "in registers" else "!Temporal {rank_variable: m, tile_shape: 1}, "
    sums = f"{inner}!Temporal {{rank_variable: n, tile_shape: 1}}, !Temporal {{rank_variable: k, tile_shape: 1}}"
    reads = f"!Temporal {{rank_variable: n, tile_shape: 1}}, {inner}!Temporal {{rank_variable: p, tile_shape: 1}}"
    branches = [f"    - !Nested {{nodes: [{t}, !Compute {{einsum: {e}, component: MAC}}]}}" for e, t in (("T", sums), ("Z", reads))]
    check(ff.loads(head + main + CHAINS[outer] + "  - !Sequential\n    nodes:\n" + "\n".join(branches) + "\n"))


def test_no_step_where_nothing_is_rounded() -> None:
    """Sums in their own type, and sums of integers, which wrap around, need no tile."""
    for stored, accumulate in (("float32", "float32"), ("int8", "int32"), ("float64", "float32")):
        head = HEAD.format(m=13, n=5, k=51, more="", einsums=MATMUL, stored=stored, accumulate=accumulate)
        spec = ff.loads(head + MAIN + loops("k m n") + "\n  - !Compute {einsum: Z, component: MAC}\n")
        assert not any(isinstance(step, CacheWrite) for step in ff.lower(spec).steps)
