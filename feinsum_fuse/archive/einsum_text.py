"""The subscripts of ``numpy.einsum``, read and written as Einsums of a cascade."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import opt_einsum

from ..errors import CascadeError

LETTERS = string.ascii_uppercase + string.ascii_lowercase
EXHAUSTIVE = 5
"""Up to so many operands the best order of contraction is searched for; beyond that it is chosen greedily."""


@dataclass(frozen=True)
class Subscripts:
    """Labels of every operand's axes and of the result's."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"


def read_subscripts(arguments: Sequence[object]) -> tuple[Subscripts, list[object]]:
    """The subscripts and operands of a call: ``("ij,jk", A, B)``, or ``(A, [0, 1], B, [1, 2], [0, 2])``.

    Without an output it holds the labels that occur once, in alphabetical order. Raises :class:`CascadeError` for anything else, an
    ellipsis included.
    """
    if not arguments:
        raise CascadeError("einsum needs subscripts and operands")
    if not isinstance(arguments[0], str):
        return _interleaved(arguments)
    text, operands = arguments[0].replace(" ", ""), list(arguments[1:])
    if "." in text:
        raise CascadeError(f"the ellipsis in {text!r} is not supported", hint="Write a label for each axis.")
    left, arrow, right = text.partition("->")
    inputs = tuple(left.split(","))
    for label in (*left.replace(",", ""), *right):
        if label not in LETTERS:
            raise CascadeError(f"{label!r} in the subscripts {text!r} is no label", hint="Labels are letters.")
    if len(inputs) != len(operands):
        raise CascadeError(f"the subscripts {text!r} are for {len(inputs)} operands, and {len(operands)} are given")
    return _checked(Subscripts(inputs, right if arrow else _implicit(inputs))), operands


def _interleaved(arguments: Sequence[object]) -> tuple[Subscripts, list[object]]:
    pairs, rest = divmod(len(arguments), 2)
    lists = [*arguments[1 : 2 * pairs : 2], *arguments[2 * pairs :]]
    numbers = [_numbers(item) for item in lists]
    inputs = tuple("".join(LETTERS[n] for n in labels) for labels in numbers[:pairs])
    output = "".join(LETTERS[n] for n in numbers[-1]) if rest else _implicit(inputs)
    return _checked(Subscripts(inputs, output)), list(arguments[0 : 2 * pairs : 2])


def _numbers(item: object) -> list[int]:
    if not isinstance(item, Sequence) or isinstance(item, str) or not all(isinstance(n, int) and 0 <= n < len(LETTERS) for n in item):
        hint = f"After each operand come the labels of its axes, 0 to {len(LETTERS) - 1}."
        raise CascadeError(f"{item!r:.60} is no list of labels", hint=hint)
    return list(item)


def _implicit(inputs: Sequence[str]) -> str:
    return "".join(sorted(label for label, times in Counter("".join(inputs)).items() if times == 1))


def _checked(subscripts: Subscripts) -> Subscripts:
    for label, times in Counter(subscripts.output).items():
        if times > 1:
            raise CascadeError(f"the output of {subscripts} has the label {label!r} {times} times")
        if label not in "".join(subscripts.inputs):
            raise CascadeError(f"the output label {label!r} of {subscripts} is not in the inputs")
    return subscripts


def label_sizes(subscripts: Subscripts, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The length of every label; an axis of length 1 goes with any. :class:`CascadeError` for lengths that contradict one another."""
    sizes: dict[str, int] = {}
    for number, (labels, shape) in enumerate(zip(subscripts.inputs, shapes, strict=True)):
        if len(labels) != len(shape):
            raise CascadeError(f"operand {number} of {subscripts} has {len(shape)} axes, and {len(labels)} labels")
        for label, size in zip(labels, shape, strict=True):
            if sizes.setdefault(label, size) == 1:
                sizes[label] = size
            if size not in (1, sizes[label]):
                raise CascadeError(f"the label {label!r} of {subscripts} stands for {sizes[label]} and, in operand {number}, for {size}")
    return sizes


@dataclass(frozen=True)
class Factor:
    """A tensor in a product: its axes' labels, and whether it has an imaginary part."""

    name: str
    labels: str
    is_complex: bool = False

    def parts(self) -> tuple[str, ...]:
        """The real tensors that it is made of."""
        return (self.name, f"{self.name}i") if self.is_complex else (self.name,)


@dataclass(frozen=True)
class Product:
    """``output = sum over the other labels of the product of the factors``."""

    output: Factor
    factors: tuple[Factor, ...]


def products(subscripts: Subscripts, sizes: dict[str, int], is_complex: Sequence[bool]) -> list[Product]:
    """The einsum as products of at most two factors, in the best order by operations."""
    todo = [Factor(f"A{k}", labels, c) for k, (labels, c) in enumerate(zip(subscripts.inputs, is_complex, strict=True))]
    result: list[Product] = []
    for position, pair in enumerate(_path(todo, subscripts.output, sizes)):
        chosen = tuple(todo[k] for k in sorted(pair))
        todo = [factor for k, factor in enumerate(todo) if k not in pair]
        needed = set(subscripts.output).union(*(factor.labels for factor in todo))
        labels = "".join(dict.fromkeys(label for factor in chosen for label in factor.labels if label in needed))
        last = not todo
        name = "Z" if last else f"B{position}"
        product = Product(Factor(name, subscripts.output if last else labels, any(f.is_complex for f in chosen)), chosen)
        result.append(product)
        todo.append(product.output)
    return result


def _path(factors: Sequence[Factor], output: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    if len(factors) <= 2:
        return [tuple(range(len(factors)))]
    text = f"{','.join(factor.labels for factor in factors)}->{output}"
    shapes = [tuple(sizes[label] for label in factor.labels) for factor in factors]
    found, _ = opt_einsum.contract_path(text, *shapes, shapes=True, optimize="optimal" if len(factors) <= EXHAUSTIVE else "greedy")
    return [tuple(step) for step in cast("Sequence[Sequence[int]]", found)]


def einsums(steps: Sequence[Product], *, logical: bool = False) -> Iterator[str]:
    """Each product as the text of an Einsum, or of two for complex numbers; tensors without axes get one of length 1.

    ``logical`` takes the maximum of products, which is what NumPy computes for truth values.
    """
    for step in steps:
        real, imaginary = _expanded(step.factors)
        for name, terms in zip(step.output.parts(), (real, imaginary), strict=False):
            text = " + ".join(terms).replace("+ -", "- ")
            yield f"{_access(name, step.output.labels)} = {f'max({text})' if logical else text}"


def _expanded(factors: tuple[Factor, ...]) -> tuple[list[str], list[str]]:
    """The terms of the real and of the imaginary part."""
    real, imaginary = [""], list[str]()
    for factor in factors:
        first = _access(factor.name, factor.labels)
        second = _access(f"{factor.name}i", factor.labels)
        grown_real = [_times(t, first) for t in real]
        grown_imaginary = [_times(t, first) for t in imaginary]
        if factor.is_complex:
            grown_real += [_times(f"-{t}" if t else "-", second) for t in imaginary]
            grown_imaginary = [_times(t, second) for t in real] + grown_imaginary
        real, imaginary = grown_real, grown_imaginary
    return real, imaginary


def _times(term: str, access: str) -> str:
    return f"{term} * {access}" if term.strip("-") else f"{term}{access}"


def _access(name: str, labels: str) -> str:
    """A tensor with its indices; an axis whose label occurred before gets a rank name of its own."""
    if not labels:
        return f"{name}[o]"
    indices = [v if labels.index(label) == k else f"R{k}_{name}: {v}" for k, label in enumerate(labels) for v in [variable(label)]]
    return f"{name}[{', '.join(indices)}]"


def variable(label: str) -> str:
    """The rank variable of a label: letters of either case."""
    return label if label.islower() and label != "o" else f"{label.lower()}{label.lower()}" + ("0" if label.islower() else "1")


def rank_sizes(steps: Sequence[Product], sizes: dict[str, int]) -> dict[str, int]:
    """Rank -> size for the texts of :func:`einsums`."""
    result: dict[str, int] = {}
    for step in steps:
        for factor in (step.output, *step.factors):
            for axis, label in enumerate(factor.labels):
                if factor.labels.index(label) == axis:
                    result[variable(label).upper()] = sizes[label]
                else:
                    result |= {f"R{axis}_{name}": sizes[label] for name in factor.parts()}
            result |= {} if factor.labels else {"O": 1}
    return result
