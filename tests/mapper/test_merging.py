"""Variables that index the same tensors are one in chains; what is written out has them apart again."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper.merging import Merging
from feinsum_fuse.mapper.options import Objective
from feinsum_fuse.model.accelforge.einsum_terms import Terms

from .specs import OUTER, arch, compute, container, memory, spec, workload

HEADS = workload(["Q[b,m,h,e] = I[b,m,d] * W[h,e,d]", "S[b,h,m,p] = Q[b,m,h,e] * K[b,h,p,e]"], B=2, M=3, H=2, E=6, D=2, P=2)
PES = container("PEs", "{name: X, fanout: 4, may_reuse: All}, {name: Y, fanout: 3, may_reuse: All}")


def array(cascade: str, size: int = 400) -> Spec:
    register = memory("Register", 24, 0.1, rate=64, tensors="tensors: {may_keep: All - Intermediates}")
    return spec(arch(memory("Main", "inf", 64, tensors=OUTER), memory("Buffer", size, 4), PES, register, compute()), cascade)


def terms(given: Spec, number: int = 0) -> Terms:
    return Terms.of(given, given.workload.einsums[number], "MAC")


def test_variables_of_the_same_tensors_are_merged() -> None:
    """Of a projection: batch and token, head and channel. Of scores: token alone, position alone, batch and head, channel."""
    first, second = (Merging.of(terms(array(HEADS), number)) for number in (0, 1))
    assert first is not None
    assert [sorted(terms(array(HEADS)).variables[v] for v in own) for own in first.classes] == [["b", "m"], ["d"], ["e", "h"]]
    assert second is not None
    assert sorted(len(own) for own in second.classes) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "line",
    [
        "Z[m,n] = A[m,x] * A[M: n,x] * B[m,n]",
        "{einsum: 'Z[m] = A[M: m + n] * B[m, n]', iteration_space_shape: [0 <= m < 4, 0 <= n < 4]}",
        "Z[m] = A[m,n] * B[X: m + n]",
    ],
)
def test_variables_that_figures_tell_apart_are_not(line: str) -> None:
    assert Merging.of(terms(array(workload([line], M=4, N=4, X=4)))) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_of_products_is_split_into_tiles_that_divide_one_another(seed: int) -> None:
    chance = np.random.default_rng(seed)
    own = terms(array(HEADS))
    merging = Merging.of(own)
    assert merging is not None
    bounds = merging.tiles(own.bounds[None])[0]
    factors = np.ones((2, len(bounds)), dtype=np.int64)
    factors[0, 0], factors[1, 2] = chance.choice([1, 2]), chance.choice([1, 3])
    whole = bounds // factors.prod(axis=0)

    def divisor(number: int) -> int:
        return int(chance.choice([d for d in range(1, number + 1) if number % d == 0]))

    outer = [divisor(int(extent)) for extent in whole]
    inner = [divisor(tile) for tile in outer]
    held = [tile * factor for tile, factor in zip(outer, factors.prod(axis=0), strict=True)]
    chain, spread = merging.split(own, own.bounds, [(1, [held]), (2, [outer, inner])], factors)
    (first,), (second, third) = chain
    assert [merging.tiles(np.array([tiles]))[0].tolist() for tiles in (first, second, third)] == [held, outer, inner]
    assert merging.tiles(spread).tolist() == factors.tolist()
    for above, below in ((tuple(own.bounds), first), (first, second), (second, third)):
        assert not np.any(np.array(above) % np.array(below))
    assert not np.any(np.array(first) % (np.array(second) * spread.prod(axis=0)))


@pytest.mark.parametrize("objective", ["energy", "latency"])
@pytest.mark.parametrize("size", [200])
def test_merged_and_single_variables_have_one_optimum(size: int, objective: Objective) -> None:
    given = array(HEADS, size)
    merged, single = ff.search(given, objective), ff.search(given, objective, without=["merge"])
    assert merged.value == pytest.approx(single.value)
    assert merged.front[0].latency == pytest.approx(single.front[0].latency)
