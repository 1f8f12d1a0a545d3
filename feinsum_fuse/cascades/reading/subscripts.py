"""The subscripts of ``numpy.einsum``, read by opt_einsum's parser and written as Einsums of a cascade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import opt_einsum
from opt_einsum.parser import convert_interleaved_input, get_symbol, parse_einsum_input

from ...arguments import described
from ...errors import CascadeError

LABELS = 52
"""How many labels NumPy has: letters of either case, or the numbers below this."""
LETTERS = "".join(map(get_symbol, range(LABELS)))
EXHAUSTIVE_OPERANDS = 5
"""Up to so many operands the best order of contraction is searched for; beyond that it is chosen greedily."""

OrderArgument = str | tuple[tuple[int, ...], ...] | None
"""The operands multiplied next, one pair after the other, or how opt_einsum chooses them; ``None`` leaves that to :func:`products`."""


@dataclass(frozen=True)
class Subscripts:
    """Labels of every operand's axes and of the result's."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"


def read_arguments(arguments: Sequence[object]) -> tuple[str, list[object]]:
    """The subscripts and operands of a call: ``("ij,jk", A, B)``, or ``(A, [0, 1], B, [1, 2], [0, 2])``."""
    if not arguments:
        raise CascadeError("einsum needs subscripts and operands")
    if isinstance(arguments[0], str):
        return arguments[0], list(arguments[1:])
    pairs = 2 * (len(arguments) // 2)
    for item in (*arguments[1:pairs:2], *arguments[pairs:]):
        if not isinstance(item, Sequence) or isinstance(item, str) or not all(_is_label(label) for label in item):
            hint = f"After each operand come the labels of its axes, 0 to {LABELS - 1} or an ellipsis."
            raise CascadeError(f"{described(item)} is no list of labels", hint=hint)
    text, operands = convert_interleaved_input(arguments)
    return text, list(operands)


def _is_label(label: object) -> bool:
    return label is ... or (isinstance(label, int) and 0 <= label < LABELS)


def read_subscripts(text: str, shapes: Sequence[tuple[int, ...]]) -> Subscripts:
    """Subscripts for operands of these shapes, with labels in place of every ellipsis.

    Without an output it holds the axes of the ellipsis, then the labels that occur once, in alphabetical order. Raises
    :class:`CascadeError` for what means nothing to NumPy.
    """
    for label in text:
        if label not in f"{LETTERS}.,-> ":
            hint = "Labels are letters, as in 'ij,jk->ik'. What is written 'Z[m,n] = A[m,k] * B[k,n]' goes to ff.compile."
            raise CascadeError(f"{label!r} in the subscripts {text!r} is no label", hint=hint)
    try:
        left, output, _ = parse_einsum_input((text, *shapes), shapes=True)
    except (ValueError, IndexError) as error:
        reason = str(error).rstrip(".")
        raise CascadeError(f"the subscripts {text!r} of operands with {_axes(shapes)} axes mean nothing: {reason}") from None
    if "," in output:
        raise CascadeError(f"the subscripts {text!r} name two outputs, and there is one", hint="Write one for each einsum.")
    inputs, arrow, result = text.replace(" ", "").partition("->")
    hidden = any("." in part and len(shape) > len(part) - 3 for part, shape in zip(inputs.split(","), shapes, strict=True))
    if arrow and "." not in result and hidden:
        raise CascadeError(f"the output of {text!r} lacks the ellipsis of the operands", hint="Write ... in the output too.")
    return Subscripts(tuple(left.split(",")), output)


def _axes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(len(shape)) for shape in shapes) or "no"


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
class LabelledTensor:
    """A tensor in a product: its axes' labels, and whether it is complex."""

    name: str
    labels: str
    is_complex: bool = False


@dataclass(frozen=True)
class Product:
    """``output = sum over the other labels of the product of the factors``."""

    output: LabelledTensor
    factors: tuple[LabelledTensor, ...]


def products(subscripts: Subscripts, sizes: Mapping[str, int], is_complex: Sequence[bool], order: OrderArgument = None) -> list[Product]:
    """The einsum as products in a given order, or of at most two factors in the best order by operations.

    Raises :class:`CascadeError` for an order that does not fit the operands.
    """
    todo = [LabelledTensor(f"A{k}", labels, c) for k, (labels, c) in enumerate(zip(subscripts.inputs, is_complex, strict=True))]
    result: list[Product] = []
    for position, pair in enumerate(_path(todo, subscripts.output, sizes, order)):
        chosen = tuple(todo[k] for k in sorted(pair))
        todo = [factor for k, factor in enumerate(todo) if k not in pair]
        needed = set(subscripts.output).union(*(factor.labels for factor in todo))
        labels = "".join(dict.fromkeys(label for factor in chosen for label in factor.labels if label in needed))
        last = not todo
        name = "Z" if last else f"B{position}"
        product = Product(LabelledTensor(name, subscripts.output if last else labels, any(f.is_complex for f in chosen)), chosen)
        result.append(product)
        todo.append(product.output)
    return result


def _path(factors: Sequence[LabelledTensor], output: str, sizes: Mapping[str, int], order: OrderArgument) -> list[tuple[int, ...]]:
    if isinstance(order, tuple):
        return _checked(order, len(factors))
    if len(factors) <= 2:
        return [tuple(range(len(factors)))]
    text = f"{','.join(factor.labels for factor in factors)}->{output}"
    shapes = [tuple(sizes[label] for label in factor.labels) for factor in factors]
    best = "optimal" if len(factors) <= EXHAUSTIVE_OPERANDS else "greedy"
    found, _ = opt_einsum.contract_path(text, *shapes, shapes=True, optimize=order or best)
    return [tuple(step) for step in cast("Sequence[Sequence[int]]", found)]


def _checked(order: tuple[tuple[int, ...], ...], count: int) -> list[tuple[int, ...]]:
    left = count
    for step in order:
        if not step or len(set(step)) < len(step) or not all(0 <= position < left for position in step):
            raise CascadeError(f"the step {step} of the order of contraction does not fit the {left} operands that are left")
        left -= len(step) - 1
    if left > 1:
        raise CascadeError(f"the order of contraction leaves {left} operands")
    return list(order)


def einsums(steps: Sequence[Product], *, logical: bool = False) -> Iterator[str]:
    """Each product as the text of an Einsum; tensors without axes get one of length 1.

    ``logical`` takes the maximum of products, which is what NumPy computes for truth values.
    """
    for step in steps:
        text = " * ".join(_access(factor.name, factor.labels) for factor in step.factors)
        yield f"{_access(step.output.name, step.output.labels)} = {f'max({text})' if logical else text}"


def _access(name: str, labels: str) -> str:
    """A tensor with its indices; an axis whose label occurred before gets a rank name of its own."""
    if not labels:
        return f"{name}[o]"
    indices = [v if labels.index(label) == k else f"R{k}_{name}: {v}" for k, label in enumerate(labels) for v in [variable(label)]]
    return f"{name}[{', '.join(indices)}]"


def variable(label: str) -> str:
    """The rank variable of a label: letters of either case, or what the parser takes for an ellipsis where letters run out."""
    if label not in LETTERS:
        return f"axis{ord(label)}"
    return label if label.islower() and label != "o" else f"{label.lower()}{label.lower()}" + ("0" if label.islower() else "1")


def rank_sizes(steps: Sequence[Product], sizes: Mapping[str, int]) -> dict[str, int]:
    """Rank -> size for the texts of :func:`einsums`."""
    result: dict[str, int] = {}
    for step in steps:
        for factor in (step.output, *step.factors):
            for axis, label in enumerate(factor.labels):
                if factor.labels.index(label) == axis:
                    result[variable(label).upper()] = sizes[label]
                else:
                    result[f"R{axis}_{factor.name}"] = sizes[label]
            result |= {} if factor.labels else {"O": 1}
    return result
