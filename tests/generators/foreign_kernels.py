"""Random loopy kernels as others write them, by no grammar: layouts, types, guards, predicates, loops from above 0 and names vary."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

LENGTHS = (1, 2, 3, 5, 7, 8, 12, 16, 17)
LOOPS = ("i", "j", "k", "x0", "x2", "n", "e", "_pt_dim0")
TYPES = ("float32", "float64")


@dataclass
class ForeignKernel:
    """A kernel with one to three contractions and maps between them; :meth:`inputs` has arrays in its layouts."""

    seed: int
    arguments: dict[str, lp.GlobalArg] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.dtype = self.random.choice(TYPES)
        self.lengths = {letter: self.random.choice(LENGTHS) for letter in "abcd"}
        self.names = self.random.sample(LOOPS, 4)
        previous = None
        for number in range(self.random.choice((1, 1, 2, 3))):
            previous = self._statement(number, previous)

    def kernel(self) -> lp.TranslationUnit:
        """The kernel; types of intermediate results are left to inference."""
        text = "\n".join(self.lines)
        return lp.make_kernel(self.domains, text, [*self.arguments.values(), ...], lang_version=(2018, 2), name=f"foreign_{self.seed}")

    def inputs(self) -> dict[str, np.ndarray]:
        """Random arrays of either sign, in memory as the kernel wants them."""
        return {name: _strided(self.arguments[name], memory) for name, memory in self._memories().items()}

    def _memories(self) -> dict[str, np.ndarray]:
        """What lies in the memory of each input, gaps included."""
        generator = np.random.default_rng(self.seed)
        given = {name: argument for name, argument in self.arguments.items() if argument.is_input}
        return {name: _random(argument, generator) for name, argument in given.items()}

    def run(self, queue: cl.CommandQueue) -> dict[str, np.ndarray]:
        """What the kernel writes as it stands, compiled by loopy itself."""
        memories = {name: cl_array.zeros(queue, _room(argument), argument.dtype.numpy_dtype) for name, argument in self.arguments.items()}
        for name, memory in self._memories().items():
            memories[name].set(memory)
        given = {name: _on_device(self.arguments[name], memory) for name, memory in memories.items()}
        lp.set_options(self.kernel(), no_numpy=True)(queue, **given)
        return {name: _strided(self.arguments[name], memories[name].get()) for name in memories if name.startswith("out")}

    def _argument(self, name: str, letters: str, *, is_input: bool) -> None:
        """An array in row-major or column-major order, in another order of axes, or with gaps."""
        shape = tuple(self.lengths[letter] for letter in letters)
        order = list(range(len(shape)))
        layout = self.random.choice(("C", "C", "F", "axes", "gaps"))
        if layout == "F":
            order.reverse()
        elif layout == "axes":
            self.random.shuffle(order)
        strides, step = [0] * len(shape), self.random.choice((2, 3)) if layout == "gaps" else 1
        for axis in reversed(order):
            strides[axis] = step
            step *= max(shape[axis], 1) + (self.random.choice((0, 1)) if layout == "gaps" else 0)
        dtype = self.random.choice((*(self.dtype,) * 8, *TYPES, "int32")) if is_input else self.dtype
        self.arguments[name] = lp.GlobalArg(
            name, dtype, shape=shape, strides=tuple(strides), is_input=is_input, is_output=not is_input
        )

    def _statement(self, number: int, previous: tuple[str, str] | None) -> tuple[str, str]:
        """One instruction in loops of its own; returns what it writes, and the letters of its axes."""
        loops = {letter: f"{name}{'' if number == 0 else f'_{number}'}" for letter, name in zip("abcd", self.names, strict=True)}
        letters = self.random.sample("abcd", self.random.choice((1, 2, 2, 3)))
        reduced = [letter for letter in "abcd" if letter not in letters][: self.random.choice((0, 1, 1, 2))]
        if previous is not None:
            missing = [letter for letter in previous[1] if letter not in letters]
            reduced = missing + [letter for letter in reduced if letter not in missing]
        output, target = f"out{number}", "".join(letters)
        element = self._element(output, target, loops)
        self._argument(output, target, is_input=False)
        reads = [] if previous is None else [self._element(*previous, loops)]
        for position in range(self.random.choice((1, 2, 2, 3))):
            own = self.random.sample([*letters, *reduced], self.random.randint(1, min(3, len(letters) + len(reduced))))
            name = f"in{number}_{position}"
            self._argument(name, "".join(own), is_input=True)
            reads.append(self._element(name, "".join(own), loops))
        missing_in_reads = [letter for letter in reduced if not any(loops[letter] in read for read in reads)]
        for letter in missing_in_reads:
            name = f"in{number}_{letter}"
            self._argument(name, letter, is_input=True)
            reads.append(self._element(name, letter, loops))
        value, after = self._value(reads, letters, reduced, loops), f",dep=s{number - 1}" if number else ""
        condition = self._predicate(reads, letters, loops) if previous is None and self.random.random() < 0.15 else ""
        self.lines.append(f"{element} = {value} {{id=s{number}{after}{condition}}}")
        starts = {letter: self.random.choice((1, 2)) for letter in letters if self.random.random() < 0.1 and self.lengths[letter] > 2}
        bounds = [f"{starts.get(letter, 0)} <= {loops[letter]} < {self.lengths[letter]}" for letter in (*letters, *reduced)]
        if len(reduced) > 0 and self.random.random() < 0.3:
            triangle = self.random.choice(letters)
            bounds.append(f"{loops[reduced[0]]} <= {loops[triangle]}")
        names = ", ".join(loops[letter] for letter in (*letters, *reduced))
        self.domains.append(f"{{[{names}] : {' and '.join(bounds)}}}")
        return output, target

    def _predicate(self, reads: list[str], letters: list[str], loops: dict[str, str]) -> str:
        """A condition on the whole instruction: of its loops, of a value, or of an array of truth values."""
        kind = self.random.choice(("loops", "value", "truth"))
        if kind == "truth":
            letter = self.random.choice(letters)
            name = f"truth_{letter}"
            self.arguments[name] = lp.GlobalArg(name, np.bool_, shape=(self.lengths[letter],), strides=(1,), is_input=True, is_output=False)
            return f",if={name}[{loops[letter]}]"
        # A comma would end the option in loopy's notation.
        within = [read for read in reads if "," not in read and any(read.endswith(f"[{loops[letter]}]") for letter in letters)]
        if kind == "value" and within:
            return f",if={within[0]} > 0.25"
        return f",if={loops[letters[0]]} <= {loops[letters[-1]]} + 1"

    def _element(self, array: str, letters: str, loops: dict[str, str]) -> str:
        return f"{array}[{', '.join(loops[letter] for letter in letters)}]"

    def _value(self, reads: list[str], letters: list[str], reduced: list[str], loops: dict[str, str]) -> str:
        body = " * ".join(reads)
        wrapping = self.random.choice(("", "", "", "exp", "constant", "guard"))
        if wrapping == "exp":
            body = f"exp(0.1*{reads[0]}) * {' * '.join(reads[1:]) or '1.5'}"
        if wrapping == "constant":
            body = f"0.3*{body} - 0.7"
        if wrapping == "guard":
            one, other = loops[letters[0]], loops[(reduced or letters)[-1]]
            body = f"({body} if {one} <= {other} + 1 else 0.0)"
        if not reduced:
            return body
        operation = self.random.choice(("sum", "sum", "sum", "max"))
        names = ", ".join(loops[letter] for letter in reduced)
        total = f"reduce({operation}, [{names}], {body})"
        return self.random.choice((total, total, f"2.5*{total} + 1.25", f"{total} / 3"))


def _strides(argument: lp.GlobalArg) -> list[int]:
    return [tag.stride for tag in argument.dim_tags or ()]


def _room(argument: lp.GlobalArg) -> int:
    """How many elements an argument occupies, gaps included."""
    return 1 + sum((length - 1) * stride for length, stride in zip(argument.shape, _strides(argument), strict=True))


def _random(argument: lp.GlobalArg, generator: np.random.Generator) -> np.ndarray:
    if argument.dtype.numpy_dtype.kind == "b":
        return generator.integers(0, 2, _room(argument)).astype(np.bool_)
    values = generator.uniform(-3 if argument.dtype.numpy_dtype.kind == "i" else -1, 1, _room(argument))
    return np.round(values).astype(np.int32) if argument.dtype.numpy_dtype.kind == "i" else values.astype(argument.dtype.numpy_dtype)


def _strided(argument: lp.GlobalArg, memory: np.ndarray) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(memory, argument.shape, [stride * memory.itemsize for stride in _strides(argument)])


def _on_device(argument: lp.GlobalArg, memory: cl_array.Array) -> cl_array.Array:
    strides = tuple(stride * memory.dtype.itemsize for stride in _strides(argument))
    return cl_array.Array(memory.queue, argument.shape, memory.dtype, strides=strides, data=memory.base_data)
