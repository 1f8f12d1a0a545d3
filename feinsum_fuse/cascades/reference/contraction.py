"""Sums of products of arrays over named axes, by way of matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum
from numpy.typing import NDArray

NumpyArray = NDArray[Any]
"""What a reference is computed with."""
Labelled = tuple[NumpyArray, tuple[str, ...]]


def contracted(factors: Sequence[Labelled], output: tuple[str, ...]) -> NumpyArray:
    """``sum`` of the product of all factors over the axes that are not in ``output``, whose order the result has.

    Pairwise, in opt_einsum's greedy order, each pair as a batched matrix product. Every label of ``output`` must label a factor.
    """
    remaining = list(factors)
    if len(remaining) > 2:
        symbol = {label: opt_einsum.get_symbol(k) for k, label in enumerate(dict.fromkeys(v for _, labels in factors for v in labels))}
        terms = ",".join("".join(symbol[v] for v in labels) for _, labels in factors)
        text = f"{terms}->{''.join(symbol[v] for v in output)}"
        path, _ = opt_einsum.contract_path(text, *(array.shape for array, _ in factors), shapes=True, optimize="greedy")
    else:
        path = [tuple(range(len(remaining)))]
    for pair in path:
        chosen = [remaining[k] for k in pair]
        remaining = [factor for k, factor in enumerate(remaining) if k not in pair]
        wanted = set(output).union(*(labels for _, labels in remaining))
        while len(chosen) > 1:
            needed = wanted.union(*(labels for _, labels in chosen[2:]))
            left, right = _summed(chosen[0], needed | set(chosen[1][1])), _summed(chosen[1], needed | set(chosen[0][1]))
            chosen = [_pair(left, right, needed), *chosen[2:]]
        remaining.append(_summed(chosen[0], wanted))
    array, labels = remaining[0]
    return array.transpose([labels.index(v) for v in output])


def _summed(factor: Labelled, wanted: set[str]) -> Labelled:
    array, labels = factor
    alone = tuple(k for k, label in enumerate(labels) if label not in wanted)
    return (array.sum(axis=alone), tuple(label for label in labels if label in wanted)) if alone else factor


def _pair(left: Labelled, right: Labelled, wanted: set[str]) -> Labelled:
    """The product of two factors, summed over the labels that nobody else wants, as one batched matrix product."""
    (a, a_labels), (b, b_labels) = left, right
    batch = [v for v in a_labels if v in b_labels and v in wanted]
    inner = [v for v in a_labels if v in b_labels and v not in wanted]
    rows = [v for v in a_labels if v not in b_labels]
    columns = [v for v in b_labels if v not in a_labels]
    length = {**dict(zip(a_labels, a.shape, strict=True)), **dict(zip(b_labels, b.shape, strict=True))}

    def matrix(array: NumpyArray, labels: tuple[str, ...], first: list[str], second: list[str]) -> NumpyArray:
        shape = [length[v] for v in batch] + [math.prod(length[v] for v in part) for part in (first, second)]
        return array.transpose([labels.index(v) for v in (*batch, *first, *second)]).reshape(shape)

    product = matrix(a, a_labels, rows, inner) @ matrix(b, b_labels, inner, columns)
    labels = (*batch, *rows, *columns)
    return np.reshape(product, [length[v] for v in labels]), labels
