"""The call that computes a block: where its operands begin, how far apart rows and columns lie, and how many of them count."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from pymbolic import var
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ..kernel.operations import BlockFunction, ProductTile, VectorOperation, Verb, c_type
from ..tree.nest import For, Nest, Place, Statement, Tile
from ..tree.parallel import memory_of
from .counts import IterationCount
from .function_intrinsic import FunctionIntrinsic
from .function_matching import MatchedFunction, matched_function
from .matching import MatchedProduct, matched
from .registration import AnyIntrinsic

Read = Callable[[Place], Expression]
Write = Callable[[Affine], Expression]


@dataclass(frozen=True)
class BlockCall:
    """A call for loopy: the first element, or vector, that the block writes, and what becomes of it."""

    operation: VectorOperation
    target: Expression
    value: Expression


def block_call(nest: Nest, block: For, intrinsic: AnyIntrinsic, read: Read, expression: Write) -> tuple[Statement, BlockCall]:
    """The statement of a block under what is left of its conditions, and the call that computes it.

    ``read`` writes an element, ``expression`` an affine expression. Raises :class:`~feinsum_fuse.schedule.refusals.IntrinsicError` for a
    block that the intrinsic does not compute.
    """
    if isinstance(intrinsic, FunctionIntrinsic):
        function = matched_function(nest, block, intrinsic)
        return dataclasses.replace(function.statement, guards=function.guards), _function_call(nest, function, read, expression)
    product = matched(nest, block, intrinsic)
    return dataclasses.replace(product.statement, guards=product.guards), _product_call(nest, product, read, expression)


def _function_call(nest: Nest, found: MatchedFunction, read: Read, expression: Write) -> BlockCall:
    """The call of a function that was matched: places, distances along the indices of each, counts."""
    intrinsic = found.intrinsic
    origin = {loop.name: Affine((), 0) for loop in found.chain}
    places = [read(place.substituted(origin)) for place in found.places]
    distances = [
        _apart(place, found.innermost(index), read)
        for tensor, place in zip(intrinsic.tensors, found.places, strict=True)
        for index in intrinsic.indices[tensor]
    ]
    counts = [_least(found.counts[index], expression) for index in intrinsic.roles]
    axes = tuple(tuple(list(intrinsic.roles).index(index) for index in intrinsic.indices[tensor]) for tensor in intrinsic.tensors)
    function = BlockFunction(intrinsic.name, intrinsic.digest, intrinsic.meaning, intrinsic.text, axes, intrinsic.reduce is not None)
    element = c_type(nest.dtype_of(found.places[0].source))
    operation = VectorOperation(Verb.CALL, element, 1, called=function)
    return BlockCall(operation, places[0], var(operation.name)(*places, *distances, *counts))


def _product_call(nest: Nest, found: MatchedProduct, read: Read, expression: Write) -> BlockCall:
    """The call of a product that was matched."""
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
    return BlockCall(operation, target, var(operation.name)(*places, *_of_sums(tile, found), *distances, *counts))


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
