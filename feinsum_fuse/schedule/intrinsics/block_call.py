"""The call that computes a block: where its operands begin, how far apart rows and columns lie, and how many of them count."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from pymbolic import var
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ..kernel.operations import BlockFunction, ProductTile, VectorOperation, Verb, c_type
from ..statement import Place, Statement
from ..tree.nest import For, Nest, Tile, statements
from ..tree.parallel import memory_of
from .counts import IterationCount
from .function_intrinsic import FunctionIntrinsic
from .function_matching import MatchedFunction, matched_function
from .intrinsic import BYTE_TYPES
from .matching import MatchedProduct, matched
from .registration import AnyIntrinsic

Read = Callable[[Place], Expression]
Write = Callable[[Affine], Expression]
KeepVectors = Callable[[str, VectorOperation, int], Expression]
"""Makes room for vectors that outlive a call, from a name, what makes one and how many there are: the first of them."""


@dataclass(frozen=True)
class BlockCall:
    """A call for loopy: the first element, or vector, that the block writes, and what becomes of it."""

    operation: VectorOperation
    target: Expression
    value: Expression


def block_call(
    nest: Nest, block: For, intrinsic: AnyIntrinsic, read: Read, expression: Write, keep: KeepVectors
) -> tuple[Statement, BlockCall]:
    """The statement of a block under what is left of its conditions, and the call that computes it.

    ``read`` writes an element, ``expression`` an affine expression, ``keep`` declares vectors. Raises
    :class:`~feinsum_fuse.schedule.refusals.IntrinsicError` for a block that the intrinsic does not compute.
    """
    if isinstance(intrinsic, FunctionIntrinsic):
        function = matched_function(nest, block, intrinsic)
        return dataclasses.replace(function.statement, guards=function.guards), _function_call(nest, function, read, expression)
    product = matched(nest, block, intrinsic)
    return dataclasses.replace(product.statement, guards=product.guards), _product_call(nest, block, product, read, expression, keep)


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


def _product_call(nest: Nest, block: For, found: MatchedProduct, read: Read, expression: Write, keep: KeepVectors) -> BlockCall:
    """The call of a product that was matched."""
    place = found.statement.target
    tile = nest.tiles[place.source]
    origin = {loop.name: Affine((), 0) for loop in found.chain}
    spaces = (memory_of(nest, found.left.source), memory_of(nest, found.right.source))
    kinds = (nest.dtype_of(found.left.source), nest.dtype_of(found.right.source))
    repeated = _repeated(nest, block, found) if kinds[0] in BYTE_TYPES and kinds[0] == kinds[1] else None
    vectors = found.columns.extent // found.lanes
    product = ProductTile(c_type(kinds[0]), c_type(kinds[1]), spaces, found.rows.extent, vectors, keeps=repeated is not None)
    operation = VectorOperation(Verb.PRODUCT, c_type(tile.dtype), found.lanes, tile=product)
    target = var(tile.name)[tuple(map(expression, tile.stored(place.substituted(origin).indices)))]
    kept: tuple[Expression, ...] = ()
    again: tuple[Expression, ...] = ()
    if repeated is not None:
        zeros = VectorOperation(Verb.SPLAT, c_type(tile.dtype), found.lanes)
        kept, again = (keep(f"{found.right.source}_sums", zeros, vectors),), (expression(Affine.variable(repeated.name)),)
    distances = [
        _apart(found.left, found.row, read),
        *_deep(found.left, found.deep, read),
        *_deep(found.right, found.deep, read),
        _apart(found.right, found.lane, read),
    ]
    counts = [_least(count, expression) for count in (found.rows, found.columns, found.depth)]
    places = (target, read(found.left.substituted(origin)), read(found.right.substituted(origin)), *kept)
    return BlockCall(operation, target, var(operation.name)(*places, *again, *_of_sums(tile, found), *distances, *counts))


def _repeated(nest: Nest, block: For, found: MatchedProduct) -> For | None:
    """The loop around a block whose iterations have the same columns of the right operand, summed as far; ``None`` if there is none.

    Its first iteration runs the block whenever a later one does.
    """
    loop = next((loop for loop in nest.all_loops if any(isinstance(node, For) and node.name == block.name for node in loop.body)), None)
    if loop is None or loop.extent in {None, 1} or loop.binding not in {"loop", "unroll"} or loop.fused:
        return None
    conditions = (*found.guards, *found.columns.most, *found.depth.most)
    begins_later = any(limit.coefficients.get(loop.name, 0) > 0 for limit in loop.limits)
    moves = begins_later or loop.name in found.right.loops or any(loop.name in condition.variables for condition in conditions)
    writes = any(statement.target.source == found.right.source for _, statement in statements((loop,)))
    return None if moves or writes else loop


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
    """How far apart groups are, and what is in one; 0 stands for groups that follow one another.

    Of a single value there is no next one. PoCL's compiler dies of loops that stay where they are in local memory, so it is 1 further.
    """
    if len(deep) == 2:
        return _apart(place, deep[0], read), _apart(place, deep[1], read)
    return 0, _apart(place, deep[0], read) if deep else 1


def _least(count: IterationCount, expression: Write) -> Expression:
    """The number of iterations that count."""
    result: Expression = count.extent
    for most in count.most:
        result = var("min")(expression(most), result)
    return result
