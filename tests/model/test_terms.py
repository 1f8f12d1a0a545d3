"""The closed forms give what the model gives, on random mappings of one Einsum over three memories, two fanouts and a toll."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Compute, Mapping, Node, Spatial, Storage, Temporal, Toll
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.accelforge.einsum_terms import Spreads, Terms, monotone
from tests.sweeps import SLOW

ARCH = """
arch:
  nodes:
  - !Memory {name: L0, size: inf, leak_power: 0, area: 0, SKIP0
      actions: [{name: read, energy: 100, throughput: 8, bits_per_action: 4}, {name: write, energy: 120, throughput: 4}]}
  - !Memory {name: L1, size: inf, leak_power: 3, area: 0, total_latency: "max(a.n_calls / a.throughput for a in actions)",
      actions: [{name: read, energy: 10, throughput: 64}, {name: write, energy: 12, throughput: 32}]}
  - !Toll {name: Wire, leak_power: 0, area: 0, direction: DIRECTION, actions: [{name: read, energy: 5, throughput: 16}]}
  - !Container {name: PE, spatial: [{name: X, fanout: 8, may_reuse: REUSE}, {name: Y, fanout: 8, power_gateable: true}]}
  - !Memory {name: L2, size: inf, leak_power: 2, area: 0, SKIP2
      actions: [{name: read, energy: 1, throughput: 256}, {name: write, energy: 2, throughput: 128}]}
  - !Container {name: Lane, spatial: [{name: Z, fanout: 4}]}
  - !Compute {name: C, leak_power: 1, area: 0, actions: [{name: compute, energy: 3, throughput: 4}]}
"""
WORKLOADS = {
    "product": ("Z[m,n] = A[m,k] * B[k,n]", {"M": 8, "K": 12, "N": 6}),
    "window": ("Z[p,n] = I[H: p+r, n] * W[r,n]", {"H": 11, "N": 6, "P": 8, "R": 4}),
}
MEMORIES = {"L0": 0, "L1": 1, "L2": 4}


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


class RandomMapping:
    """A random mapping with what the closed forms need to know of it."""

    def __init__(self, spec: Spec, terms: Terms, draw: random.Random) -> None:
        self.terms, self.draw = terms, draw
        self.current = terms.bounds.copy()
        self.factors = np.ones((1, len(terms.dimensions), len(terms.variables)), dtype=np.int64)
        names = [access.name for access in terms.accesses]
        self.chains = {t: ["L0"] for t in range(len(names))}
        self.tiles: dict[tuple[int, str], list[int]] = {}
        self.nodes: list[Node] = [Storage(tuple(names), "L0")]
        wanted = {memory: [t for t in self.chains if draw.random() < 0.7] for memory in ("L1", "L2")}
        self.tolled = [t for t in self.chains if draw.random() < 0.5]
        self._hold("L1", wanted["L1"])
        self.nodes += [Toll((names[t],), "Wire") for t in self.tolled]
        self._spread("PE")
        self._hold("L2", wanted["L2"])
        self._spread("Lane")
        self.nodes += [Temporal(v, 1) for v, tile in zip(terms.variables, self.current, strict=True) if tile > 1]
        self.nodes.append(Compute(terms.einsum.name, "C"))
        self.spec = spec.replace(mapping=Mapping(tuple(self.nodes)))

    def _loops(self) -> None:
        for _ in range(self.draw.randint(0, 2)):
            v = self.draw.randrange(len(self.current))
            smaller = divisors(int(self.current[v]))[:-1]
            if smaller:
                self.current[v] = self.draw.choice(smaller)
                self.nodes.append(Temporal(self.terms.variables[v], int(self.current[v])))

    def _hold(self, memory: str, tensors: list[int]) -> None:
        self.draw.shuffle(tensors)
        for t in tensors:
            self._loops()
            self.nodes.append(Storage((self.terms.accesses[t].name,), memory))
            self.chains[t].append(memory)
            self.tiles[t, memory] = list(self.current)
        self._loops()

    def _spread(self, component: str) -> None:
        for number, dimension in enumerate(self.terms.dimensions):
            v = self.draw.randrange(len(self.current))
            counts = [d for d in divisors(int(self.current[v])) if d <= dimension.fanout.fanout]
            count = self.draw.choice(counts)
            if dimension.component == component and count > 1:
                self.current[v] //= count
                self.factors[0, number, v] = count
                self.nodes.append(Spatial(self.terms.variables[v], int(self.current[v]), name=dimension.fanout.name, component=component))

    def figures(self) -> tuple[float, float]:
        """Energy and latency by the closed forms."""
        spreads, one = Spreads(self.factors), np.ones((1, len(self.current)), dtype=np.int64)
        figures = self.terms.compute(spreads)
        for t, chain in self.chains.items():
            for parent, child in zip(chain, [*chain[1:], "C"], strict=True):
                places = (MEMORIES[parent], MEMORIES.get(child, len(self.terms.components) - 1))
                link = self.terms.link(spreads, t, *places, [2] if t in self.tolled and places[0] < 2 < places[1] else [])
                tiles = np.array([self.tiles[t, child]]) if child in MEMORIES else one
                fill, first = self.terms.fill(t, tiles), np.asarray(self.terms.first(t, tiles)).reshape(-1)
                figures = figures + fill[:, None] * link.fill + first[:, None] * link.first
        latency = self.terms.latency(figures)[0]
        return float(figures[0, 0] + self.terms.leak(spreads)[0] * latency), float(latency)


@pytest.mark.parametrize("name", WORKLOADS)
def test_closed_forms_are_the_model(name: str) -> None:
    draw = random.Random(name)
    einsum, sizes = WORKLOADS[name]
    ranks = ", ".join(f"{rank}: {size}" for rank, size in sizes.items())
    agreed = 0
    for _ in range(600 if SLOW else 24):
        text = ARCH.replace("REUSE", draw.choice(["All", "Nothing", "Inputs", "Outputs"]))
        text = text.replace("DIRECTION", draw.choice(["up", "down", "up_and_down"]))
        for skip in ("SKIP0", "SKIP2"):
            text = text.replace(skip, draw.choice(["", "skip_initial_output_write: false,"]))
        shape = "" if name == "product" else "  iteration_space_shape: {p: 0 <= p < 8, r: 0 <= r < 4}\n"
        spec = ff.loads(f"{text}workload:\n  rank_sizes: {{{ranks}}}\n{shape}  bits_per_value: {{All: 8}}\n  einsums:\n  - '{einsum}'\n")
        terms = Terms.of(spec, spec.workload.einsums[0], "C")
        mapping = RandomMapping(spec, terms, draw)
        try:
            prediction = ff.predict(mapping.spec)
        except ff.ModelError:
            continue  # a spatial and a temporal loop would change places
        energy, latency = mapping.figures()
        assert math.isclose(energy, prediction.energy, rel_tol=1e-9), str(mapping.spec.mapping)
        assert math.isclose(latency, prediction.latency, rel_tol=1e-9), str(mapping.spec.mapping)
        agreed += 1
    assert agreed >= 12


@pytest.mark.parametrize(
    ("expression", "grows"),
    [
        ("sum(a.n_calls / a.throughput for a in actions)", True),
        ("max(a.n_calls / a.throughput for a in actions)", True),
        ("2 * max(a.n_calls for a in actions if a.name == 'read') + 1", True),
        ("1 / sum(a.n_calls for a in actions)", False),
        ("10 - max(a.n_calls for a in actions)", False),
        ("sum(a.n_calls for a in actions if a.n_calls < 5)", False),
    ],
)
def test_what_grows_with_calls(expression: str, grows: bool) -> None:
    assert monotone(expression) is grows
