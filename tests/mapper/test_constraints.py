"""Every constraint of an architecture bites: the optimum without it breaks it, and with it no mapping that keeps it is better."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.checking.constraint_check import broken_by
from feinsum_fuse.formats.mapping import Compute, Mapping, Node, Spatial, Storage, Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper import NoMappingError, UnsearchedError

from .specs import arch, compute, container, memory, spec, two_memories, workload

PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=4, N=4)
CUBE = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=16, K=16, N=16)
SIZES = {"m": 4, "k": 4, "n": 4}
KEEP = "keep: ~Intermediates, may_keep: All"


def buffered(outer: str = KEEP, inner: str = "may_keep: All") -> str:
    return arch(
        memory("Main", "inf", 64, rate=8, tensors=f"tensors: {{{outer}}}"),
        memory("Buffer", 100, 4, rate=64, tensors=f"tensors: {{{inner}}}"),
        compute(),
    )


def spread(*dimensions: str) -> str:
    return arch(
        memory("Main", "inf", 64, rate=8, tensors=f"tensors: {{{KEEP}}}"),
        container("PE", ", ".join(dimensions)),
        memory("Buffer", 100, 4, rate=64, tensors="tensors: {may_keep: All}"),
        compute(),
    )


MEMORIES = {
    "keep": buffered(inner="keep: A, may_keep: B"),
    "may_keep": buffered(inner="may_keep: A"),
    "tile_shape": buffered(inner="may_keep: All, tile_shape: [{expression: m, operator: '==', value: 1}]"),
    "product of tiles": buffered(inner="may_keep: All, tile_shape: [{expression: All, operator: 'product<=', value: 1}]"),
    "no_refetch_from_above": buffered(inner="keep: All, no_refetch_from_above: All - A"),
    "no_resend_to_below": buffered(outer=f"{KEEP}, no_resend_to_below: B", inner="may_keep: All"),
    "tensor_order_options": buffered(inner="keep: All, tensor_order_options: [[A, B, Z]]"),
    "back": arch(
        memory("Main", "inf", 64, rate=8, tensors="tensors: {keep: A | Z}"),
        memory("Buffer", 200, 4, rate=64, tensors="tensors: {back: B, may_keep: All}"),
        compute(),
    ),
}
FANOUTS = {
    "loop_bounds": spread("{name: X, fanout: 4, loop_bounds: [{expression: m, operator: '<=', value: 2}]}"),
    "reuse": spread("{name: X, fanout: 4, reuse: A}"),
    "min_usage": spread("{name: X, fanout: 4, min_usage: 0.9}"),
    "may_reuse": spread("{name: X, fanout: 4, may_reuse: Nothing}"),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_a_memory_constraint_is_kept_and_costs_no_more_than_it_must(name: str) -> None:
    free, bound = spec(buffered(), PRODUCT), spec(MEMORIES[name], PRODUCT)
    best, kept = ff.search(free), ff.search(bound)
    if name != "back":
        assert broken_by(replace(bound, mapping=best.best.mapping)), "the constraint does not bite"
        assert kept.value >= best.value
    assert kept.value <= least_of_random(bound)


@pytest.mark.parametrize("name", FANOUTS)
def test_a_fanout_constraint_is_kept_and_costs_no_more_than_it_must(name: str) -> None:
    bound = spec(FANOUTS[name], PRODUCT)
    for objective in ("energy", "latency"):
        assert ff.search(bound, objective).value <= least_of_random(bound, objective)  # type: ignore[arg-type]


def least_of_random(bound: Spec, objective: str = "energy") -> float:
    """The least of a few random mappings that keep the constraints and fit."""
    draw, found = random.Random(1), []
    for _ in range(1000):
        if len(found) == 25:
            break
        candidate = replace(bound, mapping=drawn(bound, draw))
        if not broken_by(candidate):
            try:
                prediction = ff.predict(candidate)
            except ff.Error:
                continue
            found.append(prediction.energy if objective == "energy" else prediction.latency)
    assert found
    return min(found) * (1 + 1e-9)


def drawn(bound: Spec, draw: random.Random) -> Mapping:
    """A random mapping of the product on two memories, with or without a fanout."""
    current = dict(SIZES)
    backed = (
        ["B"]
        if any(
            "back: B" in str(leaf) or (getattr(leaf, "tensors", None) and leaf.tensors.back == "B")
            for leaf in bound.arch.components
            if hasattr(leaf, "tensors")
        )
        else []
    )  # type: ignore[union-attr]
    nodes: list[Node] = [Storage(tuple(t for t in "ABZ" if t not in backed), "Main")]
    inner = [t for t in "ABZ" if t in backed or draw.random() < 0.7]
    draw.shuffle(inner)

    def loops() -> None:
        for v in draw.sample(sorted(current), 3):
            smaller = [d for d in (1, 2, 4) if d < current[v]]
            if smaller and draw.random() < 0.4:
                current[v] = draw.choice(smaller)
                nodes.append(Temporal(v, current[v]))

    if any(leaf.name == "PE" for leaf in bound.arch.components):  # type: ignore[union-attr]
        loops()
        room = 4
        for v in draw.sample(sorted(current), 3):
            factor = draw.choice([f for f in (1, 2, 4) if f <= min(room, current[v])])
            if factor > 1:
                room //= factor
                current[v] //= factor
                nodes.append(Spatial(v, current[v], name="X", component="PE"))
    for tensor in inner:
        loops()
        nodes.append(Storage((tensor,), "Buffer"))
    loops()
    nodes += [Temporal(v, 1) for v, tile in current.items() if tile > 1]
    return Mapping((*nodes, Compute("Z", "MAC")))


@pytest.mark.parametrize(
    ("outer", "inner", "message"),
    [
        (f"{KEEP}, tensor_order_options: [[A, B]]", "may_keep: All", "tensor_order_options of the outermost"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(outer: str, inner: str, message: str) -> None:
    with pytest.raises(UnsearchedError, match=message):
        ff.search(spec(buffered(outer, inner), PRODUCT))


@pytest.mark.parametrize("fanout", [None, 1, 2])
def test_an_inner_memory_may_stand_above_an_outer_one_where_no_order_is_forced(fanout: int | None) -> None:
    """AccelForge 1.0.467 finds these optima: outputs in the inner memory, above the loop that fills the outer one anew."""

    def bound(setting: str, inner: str = "") -> Spec:
        def held(name: str, size: str, price: int, tensors: str) -> str:
            return memory(name, size, price, tensors=f"tensors: {{{tensors}}}").replace(f"energy: {1.5 * price}", f"energy: {price}")

        nodes = [held("Shared", "256", 6, "may_keep: All"), held("Local", "512", 1, f"may_keep: Outputs{inner}")]
        if fanout is not None:
            nodes.insert(fanout - 1, container("PEs", "{name: X, fanout: 4, may_reuse: All}"))
        return spec(arch(held("Main", "inf", 100, KEEP), *nodes, compute()), CUBE, setting)

    forced, free = (ff.search(bound(setting)) for setting in ("", "mapper: {force_memory_hierarchy_order: false}\n"))
    assert forced.proved
    assert (forced.value, free.value) == {None: (2_629_632, 1_536_000), 1: (1_507_328, 1_126_400), 2: (1_921_024, 1_921_024)}[fanout]
    # Between memories on two sides of a fanout the order stays, and is said to.
    assert free.proved == (not free.omitted) == (fanout != 2)
    assert ff.search(bound("", ", force_memory_hierarchy_order: false")).value == free.value


def test_enabled_chooses_the_unit() -> None:
    units = "  - !Compute {name: Fast, leak_power: 0, area: 0, enabled: False, actions: [{name: compute, energy: 0.1, throughput: 9}]}\n"
    both = spec(two_memories(200).replace("  - !Compute", f"{units}  - !Compute"), PRODUCT)
    assert {c.component for c in ff.search(both).front[0].mapping.computes} == {"MAC"}
    free = spec(two_memories(200).replace("  - !Compute", f"{units}  - !Compute").replace("enabled: False, ", ""), PRODUCT)
    assert {c.component for c in ff.search(free).front[0].mapping.computes} == {"Fast"}


def test_what_leaves_nothing_is_named() -> None:
    with pytest.raises(NoMappingError, match="contradict"):
        ff.search(spec(buffered(inner="back: B"), PRODUCT))


def test_a_fanout_too_large_is_used_as_much_as_can_be() -> None:
    wide = spec(spread("{name: X, fanout: 100, min_usage: 1}"), PRODUCT)
    with pytest.warns(ff.errors.ConstraintWarning, match="at most 0.64"):
        result = ff.search(wide)
    assert ff.predict(result.best).usage["Z", "PE", "X"] == pytest.approx(0.64)
