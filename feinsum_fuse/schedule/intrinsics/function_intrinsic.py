"""Intrinsics of anybody: a meaning as an Einsum, and a function of OpenCL C that computes it.

Source of the two halves: Feng et al., TensorIR (ASPLOS 2023, arXiv 2207.04296), section 4.1. A buffer of TensorIR's has a scope, a layout
and strides: here each tensor has a memory, maybe an index along which its elements lie together, and distances that are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from constantdict import constantdict
from pymbolic.typing import Expression

from ...arguments import described
from ...cascades.maps import product_of, variables_in
from ...formats.language.einsum_text import ParsedEinsum, parse_einsum
from ...formats.opencl import AddressSpace
from ...number_types import BFLOAT16
from ..kernel.operations import C_TYPES
from .intrinsic import IndexRole, roles_of

_MEMORIES: tuple[AddressSpace, ...] = ("global", "local", "private")
_DIGITS = 12
"""Of a digest in hexadecimal, that go into names."""


@dataclass(frozen=True)
class FunctionIntrinsic:
    """A block's computation by a function of OpenCL C, whose parameters :attr:`prototype` gives.

    The function adds to the output's elements, or writes them where the meaning reduces nothing. It is told where the first element of
    each tensor is, how far apart neighbours along each index lie, and how many iterations of each index count.
    """

    name: str
    meaning: str
    """An Einsum whose indices are variables, such as ``Z[m,n] = A[m,k] * B[k,n]``."""
    types: constantdict[str, str]
    """Tensor -> the NumPy type of its elements."""
    text: str
    """OpenCL C that defines the function and all that it calls."""
    memories: constantdict[str, AddressSpace]
    """Tensor -> where it lies."""
    sizes: constantdict[str, int] = field(default_factory=constantdict)
    """Index -> how many iterations it has to have; the function takes any number of the others."""
    together: constantdict[str, str] = field(default_factory=constantdict)
    """Tensor -> the index along which its elements have to lie next to one another."""
    is_usual: bool = False
    """Whether ``lower`` asks for it wherever it computes a block."""
    pays_from: constantdict[str, int] = field(default_factory=constantdict)
    """Index -> the iterations from which on it does so."""
    lanes: str = ""
    """The index along which the function takes vectors, by which its time is counted; empty where it takes one element after another."""
    idea: str = ""

    @cached_property
    def parsed(self) -> ParsedEinsum:
        """The meaning, read."""
        return parse_einsum(self.meaning)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The output and the operands, in the order of the arguments."""
        return (self.parsed.output, *(name for name, _ in self.parsed.inputs))

    @cached_property
    def indices(self) -> Mapping[str, tuple[str, ...]]:
        """Tensor -> the indices that move it, in their order."""
        both = ((self.parsed.output, self.parsed.output_projection), *self.parsed.inputs)
        return {name: tuple(v for index in projection.values() for v in index.variables) for name, projection in both}

    @cached_property
    def roles(self) -> Mapping[str, IndexRole]:
        """Index -> its characteristic vector."""
        return roles_of(self.parsed)

    @property
    def reduce(self) -> str | None:
        """The reduction by which the function adds to the output; ``None`` where it writes each element once."""
        return self.parsed.operation.reduce if any(not role[0] for role in self.roles.values()) else None

    @property
    def map(self) -> Expression:
        """What is computed at a point."""
        found = self.parsed.operation.map
        return product_of(len(self.parsed.inputs)) if found is None else found

    @property
    def function(self) -> str:
        """What the text calls the function."""
        return self.name.rpartition(".")[2]

    @property
    def prototype(self) -> str:
        """How the function has to be declared."""
        return f"void {self.function}({', '.join(' '.join(parameter) for parameter in self._parameters())})".replace("* ", "*")

    def _parameters(self) -> Iterator[tuple[str, str]]:
        """Type and name of each parameter."""
        for tensor in self.tensors:
            constant = "" if tensor == self.parsed.output else "const "
            yield f"__{self.memories[tensor]} {C_TYPES[self.types[tensor]]} {constant}*", tensor
        yield from (("int", f"{tensor}_{index}") for tensor in self.tensors for index in self.indices[tensor])
        yield from (("int", index) for index in self.roles)

    @cached_property
    def digest(self) -> str:
        """What tells it from another intrinsic of the same name."""
        said = (self.meaning, self.text, *(sorted(table.items()) for table in (self.types, self.memories, self.sizes, self.together)))
        return sha256(repr(said).encode()).hexdigest()[:_DIGITS]

    def takes(self, types: tuple[str, ...]) -> bool:
        """Whether it computes with an output and operands of these types, the latter in any order."""
        return types[:1] == self._output_type and sorted(types[1:]) == self._operand_types

    @cached_property
    def _output_type(self) -> tuple[str, ...]:
        return (self.types[self.parsed.output],)

    @cached_property
    def _operand_types(self) -> list[str]:
        return sorted(self.types[name] for name, _ in self.parsed.inputs)

    @property
    def key(self) -> str:
        """How steps call it, so that a record says which one it was."""
        return f"{self.name}@{self.digest}"

    def __str__(self) -> str:
        return f"{self.name}: {self.meaning}"

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with it, and what to do."""
        yield from self._faults_of_meaning()
        yield from self._faults_of_tables()

    def _faults_of_meaning(self) -> Iterator[tuple[str, str]]:
        if len(set(self.tensors)) < len(self.tensors):
            yield f"{self.meaning} names a tensor twice", "Give each operand a name of its own: they are arguments of the function."
        both = (self.parsed.output_projection, *(projection for _, projection in self.parsed.inputs))
        if any(index.bare is None for projection in both for index in projection.values()):
            yield f"{self.meaning} has an index that is no variable", "Write variables alone; any array is given by its distances."
        same = [pair for pair in ((a, b) for a in self.roles for b in self.roles if a < b) if self.roles[pair[0]] == self.roles[pair[1]]]
        if same:
            yield f"{' and '.join(same[0])} index the same tensors", "Write one index: loops over it that lie one after another are joined."
        named = variables_in(self.map) & self.roles.keys()
        if named:
            yield f"{self.meaning} computes with {', '.join(sorted(named))} itself", "Give the function tensors alone."

    def _faults_of_tables(self) -> Iterator[tuple[str, str]]:
        takes = [dtype for dtype in C_TYPES if dtype != BFLOAT16]
        tensors, indices = ", ".join(self.tensors), ", ".join(self.roles)
        for word, table, keys, known in (
            ("types", self.types, self.tensors, takes),
            ("memories", self.memories, self.tensors, _MEMORIES),
            ("together", self.together, self.tensors, self.roles),
        ):
            for key, value in table.items():
                if key not in keys:
                    yield f"{word} has {described(key)}, which is no tensor of {self.meaning}", f"These are {tensors}."
                elif value not in known:
                    yield f"{word} has {described(value)} for {key}", f"There are {', '.join(known)}."
        for key in self.tensors:
            if key not in self.types:
                yield f"types says nothing of {key}", "Give the type of its elements, or one for all."
        for index, count in self.sizes.items():
            if index not in self.roles:
                yield f"sizes has {described(index)}, which is no index of {self.meaning}", f"These are {indices}."
            elif not isinstance(count, int) or isinstance(count, bool) or count < 1:
                yield f"sizes has {described(count)} for {index}", "Give a number of iterations, or leave the index out for any."

    def fault_of_text(self) -> tuple[int | None, str]:
        """The line of the text, from 1, at which the function is not declared as :attr:`prototype` says, and what stands there."""
        bare = re.sub(r"//[^\n]*|/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found[0]), self.text, flags=re.DOTALL)
        found = re.search(rf"\bvoid\s+{re.escape(self.function)}\s*\(([^)]*)\)\s*{{", bare)
        if found is None:
            return None, f"its text defines no function {self.function}"
        given = [_without_name(parameter) for parameter in found[1].split(",")]
        if given == [_without_name(" ".join(parameter)) for parameter in self._parameters()]:
            return None, ""
        line = bare[: found.start()].count("\n") + 1
        return line, f"line {line} of its text declares void {self.function}({' '.join(found[1].split())})"


_QUALIFIERS = {"restrict", "__restrict", "__restrict__", "static", "inline"}


def _without_name(parameter: str) -> tuple[str, ...]:
    """The words of a parameter's type, in one order: ``__global const float *`` is ``__global float const *``."""
    words = re.findall(r"\w+|\*", parameter)[:-1]
    words = [f"__{word}" if word in _MEMORIES else word for word in words if word not in _QUALIFIERS]
    return tuple(sorted(word for word in words if word != "__private"))
