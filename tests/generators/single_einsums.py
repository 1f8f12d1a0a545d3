"""Random small specs of one Einsum, for the walk and for the invariants: text, so that the loader is exercised too."""

from __future__ import annotations

import random
from dataclasses import dataclass

from feinsum_fuse import loads
from feinsum_fuse.formats.spec import Spec

EINSUMS = (
    ("Z[m, n] = A[m, k] * B[k, n]", "mnk", "ZAB"),
    ("Z[m] = A[m, k] * B[k]", "mk", "ZAB"),
    ("Z[b, m, n] = A[b, m, k] * B[b, k, n]", "bmnk", "ZAB"),
    ("Z[m, n] = A[m, n]", "mn", "ZA"),
    ("Z[m] = A[m, n] * B[m, k]", "mnk", "ZAB"),
)
"""(text, rank variables, tensors, the output first)."""
WINDOWS = (("O[p] = I[H: p + r] * F[r]", "pr", "OIF"), ("O[c, p] = I[C: c, H: p + r] * F[c, r]", "cpr", "OIF"))
STRIDES = (("O[p] = I[H: 2*p + r] * F[r]", "pr", "OIF"), ("O[c, p] = I[C: c, H: 3*p + r] * F[c, r]", "cpr", "OIF"))
Kinds = tuple[tuple[str, str, str], ...]

ACTIONS = "actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]"


@dataclass
class Draw:
    """One random spec under construction."""

    chance: random.Random
    perfect: bool = True

    def divisor(self, number: int) -> int:
        """A tile shape for a tile of this size."""
        return self.chance.choice([d for d in range(1, number + 1) if not self.perfect or number % d == 0])

    def spec(self, einsums: Kinds = EINSUMS) -> Spec:
        """A random spec: shapes, architecture and mapping."""
        einsum, variables, tensors = self.chance.choice(einsums)
        sizes = {v: self.chance.choice([1, 2, 3, 4, 6]) for v in variables}
        bounds = ", ".join(f"{v}: 0 <= {v} < {size}" for v, size in sizes.items())
        text = f"workload: {{bits_per_value: {{All: 1}}, iteration_space_shape: {{{bounds}}}, einsums: ['{einsum}']}}\n"
        return loads(text + self.arch() + self.mapping(sizes, list(tensors)))

    def arch(self) -> str:
        """Three memories, a two-dimensional array, and flags at random."""
        reuse = [self.chance.choice(["All", "All", "Nothing", "Inputs", "Outputs"]) for _ in range(2)]
        return "\n".join(
            [
                "arch:",
                "  nodes:",
                self._memory("Main"),
                self._memory("Buffer"),
                "  - !Container",
                "    name: PE",
                f"    spatial: [{{name: X, fanout: 6, may_reuse: {reuse[0]}}}, {{name: Y, fanout: 6, may_reuse: {reuse[1]}}}]",
                self._memory("Register"),
                f"  - !Compute {{name: MAC, leak_power: 0, area: 0, skip_initial_output_write: {self._flag()},",
                "    actions: [{name: compute, energy: 1, throughput: 1}]}",
                "",
            ]
        )

    def _memory(self, name: str) -> str:
        return f"  - !Memory {{name: {name}, size: inf, leak_power: 0, area: 0, skip_initial_output_write: {self._flag()}, {ACTIONS}}}"

    def _flag(self) -> str:
        return self.chance.choice(["true", "true", "false"])

    def mapping(self, sizes: dict[str, int], tensors: list[str]) -> str:
        """Loops and holders at random: the buffer's above all spatial loops, the registers' below."""
        current = dict(sizes)
        lines = [f"- !Storage {{tensors: [{', '.join(tensors)}], component: Main}}"]
        self._level(lines, current, [t for t in tensors if self.chance.random() < 0.7], "Buffer")
        for dimension in "XY":
            if self.chance.random() < 0.6:
                variable = self.chance.choice(list(sizes))
                lines.append(self._loop(variable, current, f", name: {dimension}, component: PE", "Spatial"))
        self._level(lines, current, [t for t in tensors if self.chance.random() < 0.6], "Register")
        rest = list(sizes)
        self.chance.shuffle(rest)
        lines += [f"- !Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in rest]
        lines.append(f"- !Compute {{einsum: {tensors[0]}, component: MAC}}")
        return "mapping:\n  nodes:\n" + "\n".join("  " + line for line in lines)

    def _level(self, lines: list[str], current: dict[str, int], tensors: list[str], memory: str) -> None:
        """Some loops with a memory's holders among them."""
        order: list[tuple[str, str]] = [("hold", t) for t in tensors] + [("loop", v) for v in current if self.chance.random() < 0.6]
        self.chance.shuffle(order)
        for kind, name in order:
            if kind == "hold":
                lines.append(f"- !Storage {{tensors: [{name}], component: {memory}}}")
            else:
                lines.append(self._loop(name, current))

    def _loop(self, variable: str, current: dict[str, int], more: str = "", kind: str = "Temporal") -> str:
        current[variable] = self.divisor(current[variable])
        return f"- !{kind} {{rank_variable: {variable}, tile_shape: {current[variable]}{more}}}"
