"""What a process needs to build and run a program: OpenCL C, argument descriptions and launches, and no loopy."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from ..errors import DeviceError
from ..field_types import FEW, Count, Integer, Word
from ..number_types import memory_type, numbers_of

ArgumentRole = Literal["input", "output", "temporary"]


@dataclass(frozen=True)
class Argument:
    """A kernel argument of known element type and shape.

    ``strides`` counts elements (not bytes) and is empty for row-major arrays. A vector element type is written as a last axis of lanes.
    ``by_value`` marks scalars that are passed in the argument list itself.
    """

    name: Word
    dtype: Word
    shape: Annotated[tuple[Count, ...], FEW]
    role: ArgumentRole
    strides: Annotated[tuple[Integer, ...], FEW] = ()
    by_value: bool = False

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis."""
        if self.strides:
            return self.strides
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def elements(self) -> int:
        """How many elements the buffer spans, gaps between strides included."""
        if not all(self.shape):
            return 0
        return 1 + sum(stride * (length - 1) for stride, length in zip(self.element_strides, self.shape, strict=True))

    @property
    def nbytes(self) -> int:
        """The size of the buffer in bytes."""
        return self.elements * self.held.itemsize

    @property
    def held(self) -> np.dtype:
        """The type of its elements as memory holds them: bfloat16 is no type of NumPy's own, and its bits are whole numbers there."""
        return memory_type(self.dtype)

    def numbers(self, array: np.ndarray) -> np.ndarray:
        """The numbers that an array of held elements stands for."""
        return numbers_of(array, self.dtype)

    @property
    def row_major(self) -> bool:
        """Whether the elements lie without gaps, last axis fastest; axes of length 1 do not count."""
        plain = dataclasses.replace(self, strides=()).element_strides
        return all(length <= 1 or a == b for length, a, b in zip(self.shape, self.element_strides, plain, strict=True))

    def view(self, buffer: np.ndarray) -> np.ndarray:
        """The array that lies in a flat buffer of :attr:`elements` elements, as a view."""
        strides = tuple(stride * buffer.itemsize for stride in self.element_strides)
        return np.lib.stride_tricks.as_strided(buffer, shape=self.shape, strides=strides)


@dataclass(frozen=True)
class Launch:
    """One kernel of the program on a grid; sizes count work-items, ``arguments`` are names in the kernel's order.

    ``writes`` names those that it writes, in that order; it is empty where nobody knows.
    """

    kernel: Word
    global_size: Annotated[tuple[Count, ...], FEW]
    local_size: Annotated[tuple[Count, ...], FEW]
    arguments: tuple[Word, ...]
    writes: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Executable:
    """OpenCL C with its build options, its arguments and the launches that run it, in order."""

    source: str
    options: tuple[str, ...]
    arguments: tuple[Argument, ...]
    launches: tuple[Launch, ...]
    vectors: tuple[tuple[Word, Count], ...] = ()
    """(argument, lanes) where the kernel's own element type is a vector: such an array has to lie at a multiple of it."""

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The arguments that a caller must give."""
        return tuple(a for a in self.arguments if a.role == "input")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that a caller gets back."""
        return tuple(a for a in self.arguments if a.role == "output")

    @property
    def source_hash(self) -> str:
        """SHA-256 of source, options and launches, in hexadecimal: what was built and how it is run."""
        launches = json.dumps([{k: v for k, v in dataclasses.asdict(x).items() if k != "writes"} for x in self.launches], sort_keys=True)
        return hashlib.sha256("\0".join([self.source, *self.options, launches]).encode()).hexdigest()

    def argument(self, name: str) -> Argument:
        """The argument of this name; ``KeyError`` if there is none."""
        for argument in self.arguments:
            if argument.name == name:
                return argument
        raise KeyError(name)

    def alignment(self, name: str) -> int:
        """Bytes of which an array's address has to be a multiple: those of an element, or of a vector (three lanes lie as four)."""
        return self.argument(name).held.itemsize * (1 << (dict(self.vectors).get(name, 1) - 1).bit_length())

    def renamed(self, names: Mapping[str, str]) -> Executable:
        """The same program with arguments called otherwise; names that are missing stay. The source passes arguments by position."""
        arguments = tuple(dataclasses.replace(a, name=names.get(a.name, a.name)) for a in self.arguments)
        launches = tuple(
            dataclasses.replace(x, arguments=tuple(names.get(a, a) for a in x.arguments), writes=tuple(names.get(a, a) for a in x.writes))
            for x in self.launches
        )
        vectors = tuple((names.get(name, name), lanes) for name, lanes in self.vectors)
        return dataclasses.replace(self, arguments=arguments, launches=launches, vectors=vectors)

    def shaped(self, shapes: Mapping[str, tuple[int, ...]]) -> Executable:
        """The same program with row-major arguments under other shapes; names that are missing, and what is held otherwise, keep theirs."""

        def of(argument: Argument) -> Argument:
            shape = shapes.get(argument.name, argument.shape)
            same = argument.row_major and math.prod(shape) == math.prod(argument.shape)
            return dataclasses.replace(argument, shape=shape, strides=()) if same else argument

        return dataclasses.replace(self, arguments=tuple(map(of, self.arguments)))

    def to_json(self) -> str:
        """JSON text; :meth:`from_json` gives back an equal value."""
        data = dataclasses.asdict(self)
        data["launches"] = [{name: value for name, value in launch.items() if value or name != "writes"} for launch in data["launches"]]
        return json.dumps({name: value for name, value in data.items() if value or name != "vectors"}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Executable:
        """The value that :meth:`to_json` wrote; :class:`~feinsum_fuse.errors.DeviceError` for any other text."""
        from ..formats.validation.adapter import Adapter

        return Adapter[Executable](Executable, "executable", DeviceError).read(text)

    @classmethod
    def from_parent(cls, text: str) -> Executable:
        """The same in the child process, which believes its parent and starts without what checks a text."""
        data = json.loads(text, object_hook=lambda fields: {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()})
        arguments = tuple(Argument(**fields) for fields in data.pop("arguments"))
        launches = tuple(Launch(**fields) for fields in data.pop("launches"))
        vectors = tuple((name, lanes) for name, lanes in data.pop("vectors", ()))
        return cls(**data, arguments=arguments, launches=launches, vectors=vectors)

    def __str__(self) -> str:
        lines = [f"Executable {self.source_hash[:12]}, {len(self.source)} characters of OpenCL C, options {' '.join(self.options)}"]
        lines += [f"  {a.role:9} {a.name}: {a.dtype}[{', '.join(map(str, a.shape))}]" for a in self.arguments]
        lines += [f"  {x.kernel}({', '.join(x.arguments)}) on {x.global_size} in groups of {x.local_size}" for x in self.launches]
        return "\n".join(lines)
