"""Schedules of a few cascades, at any sizes: every step class occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from feinsum_fuse.schedule.steps.inline_steps import Inline
from feinsum_fuse.schedule.steps.loop_steps import Bind, Fuse, Reorder, ShareLoop, Split, Unroll
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite, ComputeAt
from feinsum_fuse.schedule.tree.nest import LoopRef

Sizes = tuple[int, int, int, int]


def ref(text: str) -> LoopRef:
    """``Z.m/0`` as a loop reference."""
    return LoopRef.parse(text)


def refs(text: str) -> tuple[LoopRef, ...]:
    """Loop references, separated by spaces."""
    return tuple(map(ref, text.split()))


def split(loop: str, tile: int, extent: int) -> Split:
    """A split whose tile is at most the extent."""
    return Split(ref(loop), min(tile, extent))


def product(sizes: Sizes) -> Cascade:
    """One matrix product."""
    m, n, k, _ = sizes
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": m, "N": n, "K": k})


def chain(sizes: Sizes) -> Cascade:
    """Two matrix products, the second of which reads what the first writes."""
    m, n, k, p = sizes
    return ff.cascade(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], sizes={"M": m, "N": n, "K": k, "P": p})


def convolution(sizes: Sizes) -> Cascade:
    """A convolution with stride 2 and channels."""
    p, r, c, m = sizes
    return ff.cascade(["O[m,p] = I[c, H: 2*p+r] * W[m,c,r]"], sizes={"P": p, "R": r, "C": c, "M": m})


def extremes(sizes: Sizes) -> Cascade:
    """A maximum and a sum that both consume a product: a diamond with three kinds of reductions."""
    m, n, k, _ = sizes
    texts = ["S[m,n] = A[m,k] * B[k,n]", "X[m] = max(S[m,n])", "D[m] = abs(S[m,n]) * 2", "Z[m] = X[m] + D[m]"]
    return ff.cascade(texts, sizes={"M": m, "N": n, "K": k})


def tiled_product(sizes: Sizes) -> list[Step]:
    """Partial sums kept in private tiles across an outer reduction loop."""
    m, n, k, _ = sizes
    return [
        Explicate(),
        split("Z.m", 4, m),
        split("Z.n", 3, n),
        split("Z.k", 2, k),
        Reorder("Z", refs("Z.m/0 Z.k/0 Z.n/0 Z.k/1 Z.m/1 Z.n/1")),
        Bind(ref("Z.m/0"), "group.0"),
        CacheWrite("Z", ref("Z.m/0"), "local"),
        CacheRead(("Z",), "A", ref("Z.k/0"), "local", (1, 0)),
        CacheRead(("Z",), "B", ref("Z.n/0"), "private"),
        CacheWrite("Z", ref("Z.n/0"), "private"),
        Unroll(ref("Z.m/1")),
    ]


def fused_chain(sizes: Sizes) -> list[Step]:
    """Two products under one loop over groups, with work-items and tiles in every memory."""
    m, _, k, _ = sizes
    return [
        Explicate(),
        split("T.m", 4, m),
        split("Z.m", 4, m),
        split("T.k", 3, k),
        Reorder("T", refs("T.m/0 T.k/0 T.n T.m/1 T.k/1")),
        Reorder("Z", refs("Z.m/0 Z.p Z.n Z.m/1")),
        ShareLoop(refs("T.m/0 Z.m/0")),
        Bind(ref("T.m/0"), "group.0"),
        Bind(ref("T.n"), "local.0"),
        Bind(ref("Z.p"), "local.0"),
        ComputeAt("T", ref("T.m/0"), "local"),
        CacheRead(("T",), "A", ref("T.k/0"), "local"),
        CacheWrite("T", ref("T.n"), "private"),
        CacheWrite("Z", ref("Z.p"), "private"),
        CacheRead(("Z",), "C", ref("Z.m/0"), "local"),
    ]


def cached_convolution(sizes: Sizes) -> list[Step]:
    """Tiles with a halo, in a transposed layout."""
    p, _, _, m = sizes
    return [
        Explicate(),
        split("O.p", 3, p),
        split("O.m", 2, m),
        Reorder("O", refs("O.p/0 O.c O.m/0 O.r O.p/1 O.m/1")),
        Bind(ref("O.p/0"), "group.1"),
        CacheRead(("O",), "I", ref("O.p/0"), "local", (1, 0)),
        CacheRead(("O",), "W", ref("O.c"), "local"),
        CacheWrite("O", ref("O.m/0"), "private"),
        Unroll(ref("O.p/1")),
        Unroll(ref("O.m/1")),
    ]


def shared_diamond(sizes: Sizes) -> list[Step]:
    """Four Einsums under one loop; the intermediates shrink to a row each."""
    m = sizes[0]
    names = ("S", "X", "D", "Z")
    return [
        Explicate(),
        *(split(f"{name}.m", 2, m) for name in names),
        ShareLoop(refs("S.m/0 X.m/0 D.m/0 Z.m/0")),
        ShareLoop(refs("S.m/1 X.m/1 D.m/1 Z.m/1")),
        Bind(ref("S.m/0"), "local.0"),
        ComputeAt("S", ref("S.m/1"), "private"),
        ComputeAt("X", ref("S.m/0"), "private"),
        ComputeAt("D", ref("S.m/1"), "private"),
    ]


@dataclass(frozen=True)
class Script:
    """A cascade at some sizes and the steps for it."""

    name: str
    build: Callable[[Sizes], Cascade]
    steps: Callable[[Sizes], list[Step]]

    def at(self, sizes: Sizes) -> tuple[Cascade, Schedule]:
        """The cascade and the schedule at these sizes."""
        return self.build(sizes), Schedule(tuple(self.steps(sizes)))


def factored_product(sizes: Sizes) -> list[Step]:
    """Work-items share a sum; each keeps two partial sums of its own in registers."""
    m, _, k, _ = sizes
    rest = -(-k // min(3, k))
    return [
        Explicate(),
        split("Z.m", 4, m),
        split("Z.k", 3, k),
        split("Z.k/0", 2, rest),
        Reorder("Z", refs("Z.m/0 Z.k/1 Z.n Z.k/0/0 Z.m/1 Z.k/0/1")),
        Bind(ref("Z.m/0"), "group.0"),
        RFactor(ref("Z.k/1"), ref("Z.m/0"), "local"),
        Bind(ref("Z.k/1"), "local.0"),
        Bind(ref("Z.n"), "local.1"),
        RFactor(ref("Z.k/0/1"), ref("Z.n"), "private"),
        CacheWrite("Z", ref("Z.m/0"), "local"),
        Unroll(ref("Z.k/0/1")),
    ]


def factored_extremes(sizes: Sizes) -> list[Step]:
    """A maximum and a sum over the same loop, each in parts, the maximum in global memory."""
    _, n, k, _ = sizes
    return [
        Explicate(("S", "X", "D", "Z")),
        split("S.k", 2, k),
        split("X.n", 3, n),
        RFactor(ref("S.k/1"), ref("S.n"), "private"),
        RFactor(ref("X.n/0"), None, "global"),
        CacheWrite("X", ref("X.m"), "private"),
    ]


def scaled(sizes: Sizes) -> Cascade:
    """A map that two Einsums read, a sum and a maximum."""
    m, n, k, _ = sizes
    texts = ["T[m,k] = 2 * A[m,k] + 1", "Z[m,n] = T[m,k] * B[k,n]", "Y[m] = max(T[m,k])"]
    return ff.cascade(texts, sizes={"M": m, "N": n, "K": k})


def inlined_map(sizes: Sizes) -> list[Step]:
    """The map is computed where it is read, and then the product is tiled."""
    m, *_ = sizes
    return [Explicate(), Inline("T"), split("Z.m", 4, m), Bind(ref("Z.m/0"), "group.0"), CacheWrite("Z", ref("Z.m/0"), "private")]


def one_axis(sizes: Sizes) -> list[Step]:
    """Rows and columns on one axis of groups, and on one of work-items."""
    m, n, *_ = sizes
    return [
        Explicate(),
        split("Z.m", 4, m),
        split("Z.n", 3, n),
        Reorder("Z", refs("Z.m/0 Z.n/0 Z.m/1 Z.n/1 Z.k")),
        Fuse(ref("Z.m/0"), ref("Z.n/0")),
        Bind(ref("Z.m/0"), "group.0"),
        Fuse(ref("Z.m/1"), ref("Z.n/1")),
        Bind(ref("Z.m/1"), "local.0"),
        CacheRead(("Z",), "B", ref("Z.n/0"), "local"),
        CacheWrite("Z", ref("Z.n/1"), "private"),
    ]


def collapsed(sizes: Sizes) -> list[Step]:
    """Three loops in time as one, a reduction among them."""
    m, *_ = sizes
    return [
        Explicate(),
        split("Z.m", 4, m),
        Reorder("Z", refs("Z.m/0 Z.k Z.m/1 Z.n")),
        Fuse(ref("Z.m/1"), ref("Z.n")),
        Fuse(ref("Z.k"), ref("Z.m/1")),
        CacheWrite("Z", ref("Z.m/0"), "private"),
    ]


def scored(sizes: Sizes) -> Cascade:
    """A product and a map of it."""
    m, n, k, _ = sizes
    return ff.cascade(["T[m,n] = A[m,k] * B[k,n]", "Z[m,n] = abs(T[m,n]) + C[n]"], sizes={"M": m, "N": n, "K": k})


def own_parts(sizes: Sizes) -> list[Step]:
    """Private tiles above loops over work-items: each work-item holds every third column, and tiles of the group are inside."""
    m, n, k, _ = sizes
    return [
        Explicate(),
        split("T.m", 4, m),
        split("T.n", 3, n),
        split("T.k", 2, k),
        split("Z.m", 4, m),
        split("Z.n", 3, n),
        Reorder("T", refs("T.m/0 T.k/0 T.k/1 T.m/1 T.n/0 T.n/1")),
        Reorder("Z", refs("Z.m/0 Z.m/1 Z.n/0 Z.n/1")),
        ShareLoop(refs("T.m/0 Z.m/0")),
        Bind(ref("T.m/0"), "group.0"),
        Bind(ref("T.n/1"), "local.0"),
        Bind(ref("Z.n/1"), "local.0"),
        ComputeAt("T", ref("T.m/0"), "distributed"),
        CacheRead(("Z",), "C", ref("Z.m/0"), "distributed"),
        CacheRead(("T",), "B", ref("T.k/0"), "local"),
        CacheRead(("T",), "A", ref("T.k/1"), "distributed"),
        CacheWrite("Z", ref("Z.m/1"), "distributed"),
        Unroll(ref("T.n/0")),
    ]


SCRIPTS = (
    Script("tiled_product", product, tiled_product),
    Script("fused_chain", chain, fused_chain),
    Script("cached_convolution", convolution, cached_convolution),
    Script("shared_diamond", extremes, shared_diamond),
    Script("factored_product", product, factored_product),
    Script("factored_extremes", extremes, factored_extremes),
    Script("inlined_map", scaled, inlined_map),
    Script("one_axis", product, one_axis),
    Script("collapsed", product, collapsed),
    Script("own_parts", scored, own_parts),
)
