"""Batched einsums: several outputs over the same indices, as in feinsum's definition."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...arguments import described, iterable
from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.language.caps import shown
from ...formats.workload import operand_name
from ..cascade import Cascade
from ..element_types import checked, computing_type, default_accumulator
from ..maps import primitive, variables_in
from ..sequence import Rewriting
from ..terms import Access, Einsum, Size, SizeParam, Tensor

Rho = Callable[..., Expression]
Length = int | str | float | SizeParam


@runtime_checkable
class ArrayLike(Protocol):
    """Anything with a shape and an element type, such as a NumPy array."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


OperandArgument = Tensor | str | ArrayLike
Entry = OperandArgument | tuple[OperandArgument, ...] | list[OperandArgument]


def array(name: str, shape: Sequence[Length], dtype: str = "float64") -> Tensor:
    """A tensor by name, shape and element type; a length is a number, a name (symbolic), or infinity (symbolic, named by its index)."""
    if not isinstance(name, str) or not name.isidentifier():
        raise CascadeError(f"{described(name)} is no name for an array", hint="Write letters, digits and underscores, a letter first.")
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise CascadeError(f"{described(shape)} is no shape of {name}", hint="Write a tuple of lengths.")
    lengths: list[Size] = []
    for axis, length in enumerate(shape):
        if isinstance(length, SizeParam):
            lengths.append(length)
        elif isinstance(length, int | np.integer) and not isinstance(length, bool) and length > 0:
            lengths.append(int(length))
        elif isinstance(length, str) and length.isidentifier():
            lengths.append(SizeParam(length))
        elif isinstance(length, float) and math.isinf(length):
            lengths.append(SizeParam(""))
        else:
            raise CascadeError(f"axis {axis} of {name} has the length {shown(length)}", hint="Give a positive number, a name, or infinity.")
    return Tensor(name, tuple(lengths), checked(dtype))


@dataclass(frozen=True, repr=False)
class BatchedEinsum(Cascade):
    """A cascade of independent Einsums over the same indices: the definition's 4-tuple of an indexing expression, an argument matrix,
    element types and shapes."""

    subscripts: str = ""
    """The indexing expression, one letter per index, as in ``numpy.einsum``."""
    arguments: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """The argument matrix: per output and operand, the arrays whose elements at the operand's indices make its value."""

    def changed(
        self, einsums: tuple[Einsum, ...], tensors: Mapping[str, Tensor], outputs: tuple[str, ...], rewritings: tuple[Rewriting, ...] = ()
    ) -> Self:
        """A plain cascade: other Einsums have no subscripts in common."""
        return cast(Self, Cascade(einsums, constantdict(tensors), outputs, rewritings))

    @property
    def dtypes(self) -> dict[str, str]:
        """Input array -> element type."""
        return {name: self.tensors[name].dtype for name in self.inputs}

    @property
    def shapes(self) -> dict[str, tuple[Size, ...]]:
        """Input array -> shape."""
        return {name: self.tensors[name].shape for name in self.inputs}


def batched_einsum(
    subscripts: str,
    rows: Sequence[Sequence[Entry]],
    *,
    rho: Sequence[Sequence[Rho | None]] | None = None,
    names: Sequence[str] | None = None,
    sizes: Mapping[str, Length] | None = None,
    dtype: str = "float64",
) -> BatchedEinsum:
    """One Einsum per row of ``rows``, all with the same indices: ``batched_einsum("xre,rij,xej->ei", [[J, D, u], [J, D, v]])``.

    An entry is a tensor (see :func:`array`), a NumPy array (one object is one tensor, called ``A0``, ``A1``, ...), or a name, whose shape
    and type are those of ``sizes`` (index -> length) and ``dtype``; or several of these, which all have the operand's indices.
    ``rho``: per row and operand, a function from its elements (pymbolic expressions) to its value; ``None`` is their product.
    ``names``: the outputs' names. Raises :class:`CascadeError` for subscripts that are not explicit, and for lengths or types that
    contradict each other.
    """
    inputs, output = _parsed(subscripts)
    _require_matrix(rows, len(inputs), f"a batched einsum needs rows of {len(inputs)} arguments, one for each operand of {subscripts!r}")
    arguments = _Arguments(sizes or {}, dtype)
    matrix = [[arguments.entry(entry, indices) for indices, entry in zip(inputs, row, strict=True)] for row in rows]
    tensors: dict[str, Tensor] = {}
    lengths: dict[str, Size] = {}
    for row in matrix:
        for indices, entry in zip(inputs, row, strict=True):
            for tensor in entry:
                _add(tensor, indices, tensors, lengths)
    wanted = iterable(names, "the list of names", CascadeError) if names is not None else (f"R{number}" for number in range(len(matrix)))
    outputs = tuple(wanted)
    are_names = all(isinstance(name, str) and name.isidentifier() for name in outputs)
    if not are_names or len(set(outputs)) != len(outputs) or len(outputs) != len(matrix) or tensors.keys() & set(outputs):
        given = ", ".join(map(described, outputs))
        raise CascadeError(f"{len(matrix)} different names are needed for the outputs that no input has, not {given}")
    functions = rho if rho is not None else [[None] * len(inputs)] * len(matrix)
    _require_matrix(functions, len(inputs), f"rho needs a function or None for each of {len(matrix)} rows and {len(inputs)} operands")
    if len(functions) != len(matrix):
        raise CascadeError(f"rho has {len(functions)} rows, and there are {len(matrix)}")
    einsums = []
    for name, row, row_functions in zip(outputs, matrix, functions, strict=True):
        einsum = _row(name, inputs, output, row, row_functions, lengths)
        stored = computing_type(tuple(tensor.dtype for entry in row for tensor in entry), "int8", False)
        tensors[name] = Tensor(name, tuple(lengths[index] for index in output), stored, _ranks(output))
        einsums.append(dataclasses.replace(einsum, accumulate=default_accumulator(stored)))
    return BatchedEinsum(
        tuple(einsums),
        constantdict(tensors),
        subscripts=f"{','.join(inputs)}->{output}",
        arguments=tuple(tuple(tuple(tensor.name for tensor in entry) for entry in row) for row in matrix),
    )


def _require_matrix(rows: object, columns: int, problem: str) -> None:
    """Raise :class:`CascadeError` unless there are rows, of so many entries each."""
    is_list = isinstance(rows, list | tuple) and bool(rows)
    if not is_list or not all(isinstance(row, list | tuple) and len(row) == columns for row in rows):  # type: ignore[attr-defined]
        raise CascadeError(problem)


class _Arguments:
    """Turns what a caller gives for an array into tensors."""

    def __init__(self, sizes: Mapping[str, Length], dtype: str) -> None:
        self.sizes = sizes
        self.dtype = dtype
        self.arrays: dict[int, tuple[object, Tensor]] = {}

    def entry(self, entry: Entry, indices: str) -> tuple[Tensor, ...]:
        """The tensors of an operand."""
        if isinstance(entry, tuple | list) and not entry:
            raise CascadeError(f"an operand with the indices {indices!r} has no array")
        return tuple(self.tensor(one, indices) for one in (entry if isinstance(entry, tuple | list) else (entry,)))

    def tensor(self, given: OperandArgument, indices: str) -> Tensor:
        if isinstance(given, Tensor):
            return given
        if isinstance(given, str):
            lost = [index for index in indices if index not in self.sizes]
            if lost:
                raise CascadeError(f"the length of the index {lost[0]} of {given} is not known", hint="Give it in sizes.")
            return array(given, [self.sizes[index] for index in indices], self.dtype)
        if isinstance(given, ArrayLike):
            if id(given) not in self.arrays:
                self.arrays[id(given)] = (given, array(f"A{len(self.arrays)}", tuple(map(int, given.shape)), str(given.dtype)))
            return self.arrays[id(given)][1]
        raise CascadeError(f"{shown(given)} is no tensor, array or name")


def _parsed(subscripts: str) -> tuple[list[str], str]:
    if not isinstance(subscripts, str):
        raise CascadeError(f"{shown(subscripts)} is no indexing expression", hint="Write one like 'mk,kn->mn'.")
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if not arrow or not all(letter.isalpha() for letter in left.replace(",", "") + output):
        raise CascadeError(f"{subscripts!r} is no indexing expression", hint="Write letters for indices, and an arrow: 'mk,kn->mn'.")
    lost = [index for index in output if index not in left]
    if lost or len(set(output)) != len(output):
        problem = f"the output's index {lost[0]} is in no operand" if lost else "an index of the output is repeated"
        raise CascadeError(f"{subscripts!r} is no indexing expression: {problem}")
    return inputs, output


def _ranks(indices: str) -> tuple[str, ...]:
    upper = tuple(index.upper() for index in indices)
    return upper if len(set(upper)) == len(upper) else ()


def _add(tensor: Tensor, indices: str, tensors: dict[str, Tensor], lengths: dict[str, Size]) -> None:
    """Enter a tensor and the lengths of its indices; infinite ones become symbolic sizes named after the index."""
    if len(tensor.shape) != len(indices):
        raise CascadeError(f"{tensor.name} has {len(tensor.shape)} axes and is indexed by {indices!r}")
    shape = tuple(SizeParam(f"n_{index}") if size == SizeParam("") else size for index, size in zip(indices, tensor.shape, strict=True))
    known = Tensor(tensor.name, shape, tensor.dtype, tensor.ranks or _ranks(indices))
    other = tensors.setdefault(tensor.name, known)
    if (other.shape, other.dtype) != (known.shape, known.dtype):
        raise CascadeError(f"{tensor.name} has two shapes or element types: {other.dtype}{other.shape} and {known.dtype}{known.shape}")
    for index, size in zip(indices, shape, strict=True):
        if lengths.setdefault(index, size) != size:
            raise CascadeError(f"the index {index} has the lengths {lengths[index]} and {size} (in {tensor.name})")


def _value(function: Rho, elements: list[p.Variable], name: str) -> Expression:
    """What a rho makes of an operand's elements: an expression that a map can be."""
    try:
        value = function(*elements)
    except TypeError as error:
        raise CascadeError(f"a rho of {name} cannot be called with {len(elements)} elements: {error}") from error
    if isinstance(value, bool) or not isinstance(value, int | float | p.ExpressionNode):
        raise CascadeError(f"a rho of {name} returns {shown(value)}, which is no expression")
    foreign = variables_in(primitive(value)) - {element.name for element in elements} - {"inf"}
    if foreign:
        raise CascadeError(f"a rho of {name} uses {', '.join(sorted(foreign))}, which is none of its elements")
    return value


def _row(
    name: str, inputs: list[str], output: str, row: list[tuple[Tensor, ...]], functions: Sequence[Rho | None], lengths: dict[str, Size]
) -> Einsum:
    operands: list[Access] = []
    factors: list[Expression] = []
    for indices, entry, function in zip(inputs, row, functions, strict=True):
        elements = []
        for tensor in entry:
            elements.append(var(operand_name(len(operands))))
            operands.append(Access(tensor.name, tuple(map(Affine.variable, indices))))
        factors += elements if function is None else [_value(function, elements, name)]
    order = dict.fromkeys((*output, *"".join(inputs)))
    return Einsum(
        name,
        Access(name, tuple(map(Affine.variable, output))),
        tuple(operands),
        factors[0] if len(factors) == 1 else p.Product(tuple(factors)),
        constantdict({index: lengths[index] for index in order}),
    )
