"""Cascades as networks have them, small: skips, diamonds, several outputs, a decoder's layer, twenty Einsums."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper import Result
from tests.sweeps import SLOW

from .brute_force import BruteForce
from .specs import OUTER, arch, compute, memory, spec, two_memories, workload

SIZES = {"H": 2, "M": 4, "P": 4, "E": 2, "D": 4, "F": 8}


def test_a_holder_stays_above_one_of_a_memory_further_in() -> None:
    """``A`` would be smaller below the loop over ``b``; but it stands above ``B``, which would then be fetched anew."""
    main = memory("Main", "inf", 64, tensors=OUTER)
    outer = memory("Shared", 96, 8, tensors="tensors: {keep: A, may_keep: All}")
    inner = memory("Local", 48, 1, tensors="tensors: {keep: B, may_keep: All}")
    bound = spec(arch(main, outer, inner, compute()), workload(["T[b] = A[a,b] * B[a]", "Z[b] = T[b] * D[b]"], bits=16, A=2, B=3))
    for objective in ("energy", "latency"):
        best = BruteForce(bound).optima([objective])[objective]
        assert ff.search(bound, objective).value == pytest.approx(best.value)  # type: ignore[arg-type]


def block(number: int, x: str) -> list[str]:
    """A block of GPT: heads, two skip connections, a perceptron."""
    i = number
    return [
        *(f"{t}{i}[h,m,e] = {x}[m,d] * W{t}{i}[h,d,e]" for t in "QKV"),
        f"S{i}[h,m,p] = Q{i}[h,m,e] * K{i}[h,M: p,e]",
        f"X{i}[h,m,p] = exp(S{i}[h,m,p])",
        f"A{i}[h,m,e] = X{i}[h,m,p] * V{i}[h,M: p,e]",
        f"O{i}[m,d] = A{i}[h,m,e] * WO{i}[h,e,d]",
        f"R{i}[m,d] = O{i}[m,d] + {x}[m,d]",
        f"F{i}[m,f] = R{i}[m,d] * WF{i}[d,f]",
        f"G{i}[m,d] = F{i}[m,f] * WG{i}[f,d]",
    ]


CASCADES = {
    "skip": (["T[m,n] = A[m,k] * B[k,n]", "U[m,n] = exp(T[m,n])", "Z[m,n] = U[m,n] + T[m,n]"], {"M": 4, "K": 2, "N": 3}),
    "diamond": (["T[m] = A[m,k] * B[k]", "U[m] = exp(T[m])", "V[m] = T[m] * T[m]", "Z[m] = U[m] * V[m]"], {"M": 4, "K": 3}),
    "outputs": (["T[m] = A[m,k] * B[k]", "Y[m] = T[m] * C[m]", "Z[m,n] = T[m] * D[n]"], {"M": 4, "K": 2, "N": 3}),
}


@pytest.mark.parametrize("size", [40, 90] if SLOW else [60])
@pytest.mark.parametrize("name", CASCADES)
def test_small_graphs_against_brute_force(name: str, size: int) -> None:
    einsums, sizes = CASCADES[name]
    bound = spec(two_memories(size), workload(einsums, **sizes))
    best = BruteForce(bound).optima()
    for objective in ("energy", "latency"):
        result = ff.search(bound, objective)  # type: ignore[arg-type]
        assert result.proved
        assert result.value == pytest.approx(best[objective].value, rel=1e-9)


def layers(*blocks: list[str], size: int) -> Result:
    return ff.search(spec(two_memories(size), workload([line for one in blocks for line in one], **SIZES)), seconds=600)


def test_twenty_einsums_are_searched() -> None:
    """Where both blocks fit, the second costs what the first does."""
    one, two = layers(block(1, "X"), size=4000), layers(block(1, "X"), block(2, "G1"), size=4000)
    assert one.proved and two.proved
    assert len(two.best.workload.einsums) == 20
    assert one.value < two.value < 2 * one.value


def test_a_gated_layer_with_grouped_queries_is_searched() -> None:
    """A layer of Llama's kind: keys and values serve several queries, and two Einsums feed a product."""
    layer = [
        "Q[g,h,m,e] = X[m,d] * WQ[g,h,d,e]",
        "K[g,m,e] = X[m,d] * WK[g,d,e]",
        "V[g,m,e] = X[m,d] * WV[g,d,e]",
        "S[g,h,m,p] = Q[g,h,m,e] * K[g,M: p,e]",
        "Y[g,h,m,p] = exp(S[g,h,m,p])",
        "A[g,h,m,e] = Y[g,h,m,p] * V[g,M: p,e]",
        "O[m,d] = A[g,h,m,e] * WO[g,h,e,d]",
        "R[m,d] = O[m,d] + X[m,d]",
        "U[m,f] = R[m,d] * WU[d,f]",
        "T[m,f] = R[m,d] * WT[d,f]",
        "L[m,f] = U[m,f] * T[m,f]",
        "Z[m,d] = L[m,f] * WZ[f,d]",
    ]
    result = ff.search(spec(two_memories(2000), workload(layer, G=2, **SIZES)), seconds=600)
    assert result.proved
    unfused = spec(two_memories(2000).replace("keep: ~Intermediates", "keep: All"), workload(layer, G=2, **SIZES))
    assert result.value < ff.search(unfused, fused=0).value
