"""The model held against AccelForge itself on random cases.

``python -m benchmarks.accelforge_cases draw | PYTHON benchmarks/accelforge_figures.py | gzip -n > FIGURES`` asks AccelForge, where PYTHON
is an interpreter 3.12 with the package ``accelforge`` and FIGURES is ``benchmarks/accelforge_data/figures.jsonl.gz``. The committed figures
are those of commit 1c1929c2 (12 August 2026), since release 1.0.467 reverses copies; they are rounded to seven digits, which is what single
precision has. ``python -m benchmarks.accelforge_cases judge`` draws the same cases again and compares every action, energy, latency and use
of a memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.formats.arch import Memory
from feinsum_fuse.formats.spec import Spec
from tests.generators.single_einsums import EINSUMS, WINDOWS, Draw
from tests.generators.trees import random_tree

DATA = Path(__file__).with_name("accelforge_data") / "figures.jsonl.gz"
SINGLES, TREES, COPIES, NETWORKS, NETWORKED_COPIES, SPREAD = 600, 200, 200, 300, 60, 240
TOLERANCE = 2e-5
"""AccelForge's tables are single precision, and sums of them less."""


class Case(Draw):
    """A random case as text, with all that an architecture may say."""

    networks = False
    spread = False
    """Whether networks stand at the array, where tiles that loops in space spread are carried."""

    def number(self, *choices: float) -> float:
        """One of some numbers."""
        return self.chance.choice(choices)

    def component(self, kind: str, name: str, actions: str, more: str = "") -> str:
        """A component with leakage, scales and, sometimes, a fanout of its own."""
        own = f", spatial: [{{name: {name}X, fanout: {self.chance.choice([2, 4])}}}]" if self.chance.random() < 0.2 else ""
        scales = ["", "", ", latency_scale: 2", ", throughput_scale: 4", ", n_parallel_instances: 2", ", energy_scale: 3"]
        scale = self.chance.choice(scales)
        leak = f"leak_power: {self.number(0, 0.5, 1)}, leak_power_scale: {self.number(1, 1, 2)}"
        entries = ", ".join(
            f"{{name: {a}, energy: {self.number(0, 1, 3)}, throughput: {self.number(1, 4, 16)}"
            + self.chance.choice(["", "", ", latency_scale: 4", ", throughput_scale: 0.5"])
            + "}"
            for a in actions.split()
        )
        ports = self.chance.choice(["", "", ', total_latency: "max(a.n_calls / a.throughput for a in actions)"'])
        return f"  - !{kind} {{name: {name}, {leak}, area: 0{scale}{own}{ports}{more}, actions: [{entries}]}}"

    def memory(self, name: str) -> str:
        """A memory of any size."""
        bits = self.chance.choice(["", ", bits_per_action: 4", ", bits_per_action: 16", ", bits_per_value: {Inputs: 6}"])
        return self.component("Memory", name, "read write", f", size: 1000000000, skip_initial_output_write: {self._flag()}{bits}")

    def arch(self) -> str:
        """Three memories, a two-dimensional array and a multiplier."""
        reuse = [self.chance.choice(["All", "All", "Nothing", "Inputs", "Outputs"]) for _ in range(2)]
        array = f"[{{name: X, fanout: 6, may_reuse: {reuse[0]}}}, {{name: Y, fanout: 6, may_reuse: {reuse[1]}}}]"
        array = f"  - !Container {{name: PE, spatial: {array}}}"
        unit = self.component("Compute", "MAC", "compute", f", skip_initial_output_write: {self._flag()}")
        nodes = [self.memory("Main"), self.memory("Buffer"), array, self.memory("Register"), unit]
        if self.networks:
            places = self.chance.sample([2, 3] if self.spread else range(1, len(nodes)), self.chance.choice([1, 1, 2]))
            for number, place in enumerate(sorted(places, reverse=True)):
                nodes.insert(place, self.network(f"Network{number}"))
        return "\n".join(["arch:", "  nodes:", *nodes, ""])

    def network(self, name: str) -> str:
        """A network of any kind."""
        widths = self.chance.choice(["", ", bits_per_action: 4", ", bits_per_action: 16", ", bits_per_value: {Inputs: 6}"])
        scales = ["", "", ", actions_scale: 2", ", throughput_scale: 4", ", n_parallel_instances: 2", ", energy_scale: 3"]
        scale = self.chance.choice(scales)
        latency = self.chance.choice(["", "", ", total_latency: max_hops + max_link_traffic"])
        kind = f"topology: {self.chance.choice(['mesh', 'mesh', 'all_to_all'])}, leak_power: {self.number(0, 0.5)}, area: 0"
        hop = f"{{name: hop, energy: {self.number(0, 1, 3)}, latency: {self.number(0, 1, 3)}, throughput: {self.number(1, 4, 16)}}}"
        return f"  - !Network {{name: {name}, {kind}{widths}{scale}{latency}, actions: [{hop}]}}"

    def single(self) -> str:
        """One Einsum, its tiles dividing or not."""
        self.perfect = self.chance.random() < 0.6
        einsum, variables, tensors = self.chance.choice((*EINSUMS, *WINDOWS))
        sizes = {v: self.chance.choice([1, 2, 3, 4, 6]) for v in variables}
        bounds = ", ".join(f"{v}: 0 <= {v} < {size}" for v, size in sizes.items())
        names = dict(zip(("output", "input", "weight"), tensors, strict=False))
        renames = ", ".join(f"{name}: {tensor}" for name, tensor in {"weight": "Nothing", **names}.items())
        item = f"{{einsum: '{einsum}', n_instances: {self.chance.choice([1, 1, 3])}, renames: {{{renames}}}}}"
        width = self.chance.choice([1, 8])
        text = f"workload: {{bits_per_value: {{All: {width}}}, iteration_space_shape: {{{bounds}}}, einsums: [{item}]}}\n"
        return text + self.arch() + self.mapping(sizes, list(tensors))

    def tree(self) -> str:
        """Several Einsums under shared loops."""
        text = "operations:"
        while "operations:" in text:  # which AccelForge does not have
            text = random_tree(self.chance.randrange(1 << 30)).spec.replace(opencl=None).to_yaml()
        return text.replace("leak_power: 0.0", f"leak_power: {self.number(0, 0.5, 1)}")

    def copy(self) -> str:
        """A copy between tensors of any widths, and what reads it."""
        size = {"M": self.chance.choice([2, 5, 6]), "K": self.chance.choice([1, 3])}
        reads = self.chance.random() < 0.5
        widths = {"J": self.chance.choice([4, 8, 32]), "I": self.chance.choice([4, 8, 32])} | ({"Z": 16} if reads else {})
        einsums = '{einsum: "I[m, k] = J[m, k]", is_copy_operation: true, renames: {input: J, output: I, weight: Nothing}}'
        einsums += ', {einsum: "Z[m] = I[m, k]", renames: {input: I, output: Z, weight: Nothing}}' if reads else ""
        text = f"workload: {{rank_sizes: {json.dumps(size)}, bits_per_value: {json.dumps(widths)}, einsums: [{einsums}]}}\n"
        loops = "!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: k, tile_shape: 1}"
        if self.networks:
            loops = f"!Spatial {{rank_variable: m, tile_shape: 1, name: X, component: PE}}, {loops}"
        where = self.chance.choice(["Buffer", "Buffer", "Main"])
        copied = f"{loops}, !Compute {{einsum: I, component: MAC}}"
        if reads:
            reader = f"{loops}, !Compute {{einsum: Z, component: MAC}}"
            copied = f"!Sequential {{nodes: [!Nested {{nodes: [{copied}]}}, !Nested {{nodes: [{reader}]}}]}}"
        outer = f"!Storage {{tensors: [J{', Z' if reads else ''}], component: Main}}, !Storage {{tensors: [I], component: {where}}}"
        return f"{text}{self.arch()}mapping: {{nodes: [{outer}, {copied}]}}\n"

    def network_single(self) -> str:
        """One Einsum, its tiles carried by networks."""
        self.networks = True
        return self.single()

    def network_spread(self) -> str:
        """One Einsum with loops in space right below a network or above it."""
        self.networks = self.spread = True
        text = self.single()
        while text.count("!Spatial") < self.chance.choice([1, 2]):
            text = self.single()
        return text

    def network_copy(self) -> str:
        """A copy, its tiles carried by networks."""
        self.networks = True
        return self.copy()


KINDS = {
    "single": SINGLES,
    "tree": TREES,
    "copy": COPIES,
    "network_single": NETWORKS,
    "network_copy": NETWORKED_COPIES,
    "network_spread": SPREAD,
}


def names() -> list[str]:
    """Of all."""
    return [f"{kind} {number}" for kind, count in KINDS.items() for number in range(count)]


def text_of(name: str) -> str:
    """The case of a name."""
    return str(getattr(Case(random.Random(name)), name.split()[0])())


def cases() -> Iterator[tuple[str, str]]:
    """(name, text) of all."""
    return ((name, text_of(name)) for name in names())


def compared(text: str, right: dict[str, float]) -> list[str]:
    """What disagrees with AccelForge's figures of a case."""
    return disagreements(ff.loads(text), right)


def disagreements(spec: Spec, right: dict[str, float]) -> list[str]:
    """What the prediction of a Spec says otherwise than AccelForge's figures."""
    p = ff.predict(spec)
    said: dict[str, float] = {
        "Total|energy": p.energy,
        "Total|latency": p.latency,
        "Total|leak_energy": p.total_leak_energy,
    }
    for key in right:
        einsum, what, *rest = key.split("|")
        names = tuple(None if name == "None" else name for name in rest)
        if what == "action":
            said[key] = p.actions[(einsum, *names)]
        elif what == "energy" and rest:
            said[key] = p.leak_energy[einsum, rest[0]] if rest[-1] == "leak" else p.action_energy[(einsum, *names)]
        elif what == "latency" and rest:
            said[key] = p.component_latency[einsum, rest[0]]
        elif what == "usage" and rest[0] == "memory":
            memory = spec.arch.component(rest[1]).for_einsum(einsum) if spec.arch else None
            size = memory.size if isinstance(memory, Memory) else math.inf
            said[key] = p.occupancy[einsum, rest[1], rest[2]] / size if math.isfinite(size) else 0.0
    return [f"{key}: {said[key]:g} instead of {right[key]:g}" for key in said if not _close(said[key], right[key])]


def _close(said: float, right: float) -> bool:
    return math.isclose(said, right, rel_tol=TOLERANCE, abs_tol=1e-12)


def judge(verbose: bool) -> None:
    """Print how many cases of each kind agree, and what the others are."""
    texts = dict(cases())
    outcomes: Counter[tuple[str, str]] = Counter()
    for line in gzip.decompress(DATA.read_bytes()).decode().splitlines():
        row = json.loads(line)
        kind = row["name"].partition(" ")[0]
        try:
            wrong = compared(texts[row["name"]], row["figures"]) if "figures" in row else None
        except ff.Error as error:
            outcome = "both refuse" if "error" in row else f"refused here: {error.args[0]}"[:100]
        else:
            refused = "predicted here, refused there: " + row.get("error", "")[:60]
            outcome = refused if wrong is None else "agrees" if not wrong else "disagrees"
            if verbose and wrong:
                print(row["name"], "; ".join(wrong[:4]))
        if outcome.startswith("predicted here"):
            try:
                ff.predict(ff.loads(texts[row["name"]]))
            except ff.Error:
                outcome = "both refuse"
        outcomes[kind, outcome] += 1
    for (kind, outcome), count in sorted(outcomes.items()):
        print(f"{kind}: {count} {outcome}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["draw", "judge"])
    parser.add_argument("--all", action="store_true", help="print every case that disagrees")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.verb == "judge":
        judge(given.all)
        return
    for name, text in cases():
        print(json.dumps({"name": name, "text": text}))


if __name__ == "__main__":
    main()
