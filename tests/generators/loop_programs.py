"""Random loopy kernels that read what they write: updates, several writers of an array, conditions, private values, rules, nested sums.

Every axis of every array is :data:`LENGTH` long and every loop takes at most :data:`POINTS` values, so that indices at a distance,
backwards or in steps of two stay inside. Instructions of a nest run in one loop, in order; they depend on all earlier ones, or on those
with which they share an array.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

import loopy as lp
import numpy as np

LENGTH = 9
POINTS = 4
NAME = re.compile(r"[a-z_]\w*")


@dataclass
class LoopProgram:
    """One to three nests of one to three instructions each."""

    seed: int
    lines: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.axes = {name: self.random.choice((1, 1, 2)) for name in ("x", "y", "z", "w", "t")}
        self.written: list[tuple[str, set[str]]] = []
        """Of each instruction: what it writes, and all that it names."""
        for nest in range(self.random.choice((1, 1, 2, 2, 3))):
            self._nest(nest)

    def kernel(self) -> lp.TranslationUnit:
        """The kernel; outer loops are in the order in which they are named."""
        used = set(NAME.findall("\n".join((*self.lines, *self.rules))))
        written = {array for array, _ in self.written}
        arguments = [
            lp.GlobalArg(name, np.float64, shape=(LENGTH,) * axes, is_input=True, is_output=name in written)
            for name, axes in self.axes.items()
            if name in used
        ]
        arguments += [lp.ValueArg("alpha", np.float64)] if "alpha" in used else []
        text = "\n".join((*self.rules, *self.lines))
        return lp.make_kernel(
            self.domains,
            text,
            [*arguments, ...],
            lang_version=(2018, 2),
            name=f"loops_{self.seed}",
            loop_priority=frozenset((f"i{n}", f"j{n}") for n in range(len(self.domains)) if f"i{n}" in used and f"j{n}" in used),
        )

    def inputs(self) -> dict[str, np.ndarray | np.float64]:
        """What lies in all arrays before."""
        generator = np.random.default_rng(self.seed)
        values: dict[str, np.ndarray | np.float64] = {name: generator.uniform(-1, 1, (LENGTH,) * axes) for name, axes in self.axes.items()}
        values["alpha"] = np.float64(0.7)
        names = {argument.name for argument in self.kernel().default_entrypoint.args}
        return {name: value for name, value in values.items() if name in names}

    def _nest(self, number: int) -> None:
        random = self.random
        loops = [f"{letter}{number}" for letter in random.choice(("i", "i", "ij", "ij"))]
        count = random.choice((1, 1, 2, 2, 3))
        inner = [[f"k{number}_{position}", f"l{number}_{position}"] for position in range(count)]
        bounds = [f"{random.choice((0, 0, 0, 1))} <= {loop} < {random.choice((POINTS, POINTS, 3))}" for loop in loops]
        if len(loops) == 2 and random.random() < 0.15:
            bounds.append(f"{loops[1]} <= {loops[0]}")
        reduced = [loop for some in inner for loop in some]
        bounds += [f"0 <= {loop} < {random.choice((2, 3))}" for loop in reduced]
        if random.random() < 0.15:
            bounds.append(f"{reduced[0]} <= {loops[0]}")
        self.private: list[str] = []
        self.waiting: list[str] = []
        """Private values that no instruction has read."""
        self.nest: list[str] = []
        """What the instructions of this nest write."""
        for position, own in enumerate(inner):
            self._instruction(loops, own, f"n{number}_{position}")
        self.domains.append(f"{{[{', '.join((*loops, *reduced))}] : {' and '.join(bounds)}}}")

    def _instruction(self, loops: list[str], inner: list[str], name: str) -> None:
        random = self.random
        value = self._value(loops, inner)
        value = f"{self.waiting.pop()}*({value})" if self.waiting else value
        if random.random() < 0.2:
            target = random.choice((f"p_{name}", *self.private))
            start = target if target in self.private else f"<float64> {target}"
            self.private += [] if target in self.private else [target]
            self.waiting.append(target)
        else:
            wide = [array for array in "yyzt" if self.axes[array] >= len(loops)]
            target = start = self._target(random.choice(wide or ["y", "z", "t"]), loops)
            value = f"{target} + {value}" if random.random() < 0.35 else value
            self.nest.append(target)
        condition = f",if={self._condition(loops)}" if random.random() < 0.15 and "[" in target else ""
        array, names = target.partition("[")[0], set(NAME.findall(f"{target} {value} {condition}"))
        while more := {n for rule in self.rules if rule.partition("(")[0] in names for n in NAME.findall(rule)} - names:
            names |= more
        self.written.append((array, names))
        before = [k for k, (other, read) in enumerate(self.written[:-1]) if other in names or array in read]
        if random.random() < 0.6:
            before = list(range(len(self.written) - 1))
        waits = f",dep={':'.join(f's{k}' for k in before)}" if before else ""
        self.lines.append(f"{start} = {value} {{id=s{len(self.written) - 1}{waits}{condition},inames={':'.join(loops)}}}")

    def _target(self, array: str, loops: list[str]) -> str:
        """An element for each point of the loops, or for some of them the same."""
        random = self.random
        axes = self.axes[array]
        chosen = random.sample(loops, min(axes, len(loops)))
        moved = ("{}", "{}", "{}", "{} + 1", f"{{}} + {POINTS}", "2*{}", f"{LENGTH - 1} - {{}}")
        indices = [random.choice(moved).format(loop) for loop in chosen]
        while len(indices) < axes:
            indices.insert(random.randint(0, len(indices)), str(random.randint(0, 2)))
        return f"{array}[{', '.join(indices)}]"

    def _read(self, loops: list[str]) -> str:
        random = self.random
        array = random.choice(("x", "w") if random.random() < 0.9 else ("y", "z", "t"))
        before = [target for target in self.nest if target.partition("[")[0] == array]
        if before and random.random() < 0.6:
            return random.choice(before)
        indices = []
        for _ in range(self.axes[array]):
            loop = random.choice(loops)
            plain = (loop, loop, loop, loop)
            indices.append(random.choice((*plain, f"{loop} + 1", f"{LENGTH - 1} - {loop}", f"{POINTS} - {loop}", f"2*{loop}", "0", "3")))
        return f"{array}[{', '.join(indices)}]"

    def _condition(self, loops: list[str]) -> str:
        random = self.random
        other = random.choice((loops[-1], "1", "2"))
        choices = [f"{loops[0]} <= {other}", f"{loops[-1]} > 0", f"w[{loops[0]}] > 0" if self.axes["w"] == 1 else f"{loops[0]} < 2"]
        return random.choice(choices)

    def _value(self, loops: list[str], inner: list[str]) -> str:
        random = self.random
        kind = random.choice(("map", "map", "sum", "sum", "nested", "two", "choice", "private", "rule", "scan"))
        if kind == "map":
            return self._product(loops)
        if kind == "sum":
            total = f"reduce({random.choice(('sum', 'sum', 'max'))}, {inner[0]}, {self._product([*loops, inner[0]])})"
            return random.choice((total, f"0.5*{total} + {self._read(loops)}", f"{self._read(loops)} - {total}"))
        if kind == "nested":
            within = f"sum({inner[1]}, {self._product([*loops, *inner])})"
            return f"sum({inner[0]}, {self._read([*loops, inner[0]])}*{within})"
        if kind == "two":
            return f"sum({inner[0]}, {self._product([*loops, inner[0]])}) * sum({inner[1]}, {self._read([*loops, inner[1]])})"
        if kind == "choice":
            return f"if({self._condition(loops)}, {self._product(loops)}, {random.choice(('0.0', self._read(loops)))})"
        if kind == "private" and self.private:
            return f"{random.choice(self.private)}*{self._read(loops)}"
        if kind == "rule":
            name = f"r{len(self.rules)}_"
            captured = random.choice((*loops, "u"))
            self.rules.append(f"{name}(u) := {self._product(['u', captured])}")
            return f"{name}({random.choice((loops[0], f'{loops[0]} + 1', '2'))})*{self._read(loops)}"
        return f"alpha*{self._read(loops)} + 0.25"

    def _product(self, loops: list[str]) -> str:
        random = self.random
        reads = [self._read(loops) for _ in range(random.choice((1, 1, 2)))]
        return random.choice(("{}", "0.5*{}", "exp(0.2*{})", "({} - 0.3)")).format(" * ".join(reads))

