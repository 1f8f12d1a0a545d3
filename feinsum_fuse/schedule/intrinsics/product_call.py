"""The call that computes a block: where its operands begin, how far apart rows and columns lie, and how many of them count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymbolic import var
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ..kernel.operations import ProductTile, VectorOperation, Verb, c_type
from ..tree.nest import For, Nest, Place, Tile
from ..tree.parallel import memory_of
from .matching import IterationCount, MatchedProduct

Read = Callable[[Place], Expression]
Write = Callable[[Affine], Expression]


@dataclass(frozen=True)
class ProductCall:
    """A call for loopy: the first vector of the tile of sums, and what becomes of it."""

    operation: VectorOperation
    target: Expression
    value: Expression


def product_call(nest: Nest, found: MatchedProduct, read: Read, expression: Write) -> ProductCall:
    """The call of a product that was matched. ``read`` writes an element, ``expression`` an affine expression."""
    place = found.statement.target
    tile = nest.tiles[place.source]
    origin = {loop.name: Affine((), 0) for loop in found.chain}
    spaces = (memory_of(nest, found.left.source), memory_of(nest, found.right.source))
    left, right = (c_type(nest.dtype_of(operand.source)) for operand in (found.left, found.right))
    product = ProductTile(left, right, spaces, found.rows.extent, found.columns.extent // found.lanes)
    operation = VectorOperation(Verb.PRODUCT, c_type(tile.dtype), found.lanes, tile=product)
    target = var(tile.name)[tuple(map(expression, tile.stored(place.substituted(origin).indices)))]
    distances = [
        _apart(found.left, found.row, read),
        *_deep(found.left, found.deep, read),
        *_deep(found.right, found.deep, read),
        _apart(found.right, found.lane, read),
    ]
    counts = [_least(count, expression) for count in (found.rows, found.columns, found.depth)]
    places = (target, read(found.left.substituted(origin)), read(found.right.substituted(origin)))
    return ProductCall(operation, target, var(operation.name)(*places, *_of_sums(tile, found), *distances, *counts))


def _of_sums(tile: Tile, found: MatchedProduct) -> tuple[int, int]:
    """How many vectors lie between rows, and between the vectors of a row."""
    place = found.statement.target
    step, row = 1, 0
    for axis in reversed(tile.axes):
        if found.row is not None:
            row += step * place.indices[axis].coefficients.get(found.row.name, 0)
        size = tile.shape[axis]
        step *= -(-(size + tile.padding) // tile.lanes) if axis == tile.axes[-1] else size
    return row, 1


def _apart(place: Place, loop: For | None, read: Read) -> Expression:
    """How far apart iterations of a loop are: the element that is the second one's, if the first one's were the array's first."""
    if loop is None or not any(loop.name in index.variables for index in place.indices):
        return 0
    return read(Place(place.source, tuple(Affine((), index.coefficients.get(loop.name, 0)) for index in place.indices)))


def _deep(place: Place, deep: tuple[For, ...], read: Read) -> tuple[Expression, Expression]:
    """How far apart groups are, and what is in one; 0 stands for groups that follow one another."""
    if len(deep) == 2:
        return _apart(place, deep[0], read), _apart(place, deep[1], read)
    return 0, _apart(place, deep[0] if deep else None, read)


def _least(count: IterationCount, expression: Write) -> Expression:
    """The number of iterations that count."""
    result: Expression = count.extent
    for most in count.most:
        result = var("min")(expression(most), result)
    return result
