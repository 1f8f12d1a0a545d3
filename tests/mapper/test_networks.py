"""Hops across networks are part of what a search adds up, and the order of loops in space is part of its space."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Spatial
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper.failures import UnsearchedError
from feinsum_fuse.mapper.options import RULES

from .optima import known
from .specs import OUTER, arch, compute, container, memory, spec, workload

PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=2, N=6)
ARRAY = "{name: X, fanout: 2, may_reuse: All}, {name: Y, fanout: 3, may_reuse: All}"


def network(hop: str = "energy: 3, latency: 0.5, throughput: 4", more: str = "") -> str:
    return f"  - !Network {{name: Mesh, leak_power: 0, area: 0, actions: [{{name: hop, {hop}}}]{more}}}\n"


def crossed(network: str, dimensions: str = ARRAY) -> Spec:
    local = memory("Local", 200, 0.1, rate=64)
    return spec(arch(memory("Main", "inf", 8, tensors=OUTER), network, container("PEs", dimensions), local, compute()), PRODUCT)


def spread(best: Spec) -> list[tuple[str, str]]:
    """(dimension, variable) of each loop in space, outermost first."""
    assert best.mapping is not None
    loops = [placed.node for path in best.mapping.paths() for placed in path if isinstance(placed.node, Spatial)]
    return [(loop.name, str(loop.rank_variable)) for loop in loops]


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
@pytest.mark.parametrize("topology", ["mesh", "all_to_all"])
def test_no_rule_costs_the_optimum_where_tensors_cross_a_network(topology: str, objective: ff.mapper.options.Objective) -> None:
    given = crossed(network(more=f", topology: {topology}"))
    best = ff.search(given, objective)
    assert best.proved
    assert not best.omitted
    assert ff.search(given, objective, without=RULES).value == pytest.approx(best.value)


def test_hops_that_cost_much_keep_an_einsum_in_few_instances() -> None:
    cheap, dear = (ff.search(crossed(network(f"energy: {energy}, latency: 0, throughput: inf")), "edp") for energy in (0.01, 1000))
    assert len(spread(cheap.best)) > len(spread(dear.best))


def test_the_order_of_loops_in_space_is_searched() -> None:
    """The best mapping with its loops in space exchanged has more hops."""
    given = crossed(network("energy: 3, latency: 0, throughput: inf"), ARRAY.replace("{", "{min_usage: 1, "))
    best = ff.search(given)
    loops = spread(best.best)
    assert len(loops) == 2
    text = best.best.to_yaml()
    first, second = (next(line for line in text.splitlines() if f"name: {name}" in line and "Spatial" in line) for name, _ in loops)
    other = text.replace(first, "@").replace(second, first).replace("@", second)
    assert ff.predict(ff.loads(other)).energy > best.front[0].energy


def test_a_network_without_time_is_refused_by_name() -> None:
    with pytest.raises(UnsearchedError, match="A hop of the network Mesh has no latency"):
        ff.search(crossed(network("energy: 3, throughput: 4")))


def test_a_network_that_takes_time_for_nothing_is_refused_by_name() -> None:
    with pytest.raises(UnsearchedError, match="Mesh, which takes time even if nothing hops"):
        ff.search(crossed(network(more=", total_latency: 1 + max_hops")))


def test_a_time_of_its_own_counts() -> None:
    given = crossed(network(more=", total_latency: 3 * max_hops + max_link_traffic"))
    best = ff.search(given, "latency")
    assert best.value == ff.predict(best.best).latency
    assert ff.search(given, "latency", without=RULES).value == pytest.approx(best.value)


def test_loops_below_the_first_holder_save_space_and_keep_tiles_large_for_the_network() -> None:
    """Case 10015: T1 takes a value of the register, whose loops stand below it, since B1 crosses the network once for all of them."""
    row = next(row for row in known() if row.number == 10015)
    assert ff.search(row.case().spec).value == pytest.approx(row.values["energy"])
