"""Blocks of a nest, and the intrinsics that compute them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..intrinsics.function_matching import check_computed
from ..intrinsics.matching import perfect
from ..intrinsics.registration import intrinsic_called, keyed
from ..refusals import BindingConflictError, IntrinsicError, NestOrderError
from ..step import Keyword, Step
from ..tree.loops import check_alone, enclosing, find, replace_loop
from ..tree.nest import For, LoopRef, Nest, walk


@dataclass(frozen=True)
class Blockize(Step):
    """Make a block of all that a loop runs over (TensorIR: blockize), so that one call can compute it.

    Before: ``for k: for m: for n: Z[m, n] += A[m, k] * B[k, n]``. After: ``for k [block]: ...``, with a signature: the iterators ``k``,
    ``m`` and ``n``, which of them index what is written and read, and the statement. Invariant: the same points in the same order; no
    block lies in another, and no loop of it is bound to groups or work-items.
    """

    loop: LoopRef

    def apply(self, nest: Nest) -> Nest:
        loop = find(nest, self.loop, self)
        check_alone(nest, loop, self)
        if any(other.is_block for other in enclosing(nest, loop)) or any(n.is_block for n in walk(loop.body) if isinstance(n, For)):
            raise NestOrderError(f"{self}: a block stands in, or around, {self.loop} already", hint="Make a block of one of the two.")
        for inner in walk((loop,)):
            if isinstance(inner, For) and inner.is_over_grid:
                raise BindingConflictError(
                    f"{self}: {inner.refs[0] if inner.refs else inner.name} is bound to {inner.binding}",
                    hint="A block is what one work-item does: take a loop further in.",
                )
        try:
            perfect(loop)
        except IntrinsicError as reason:
            raise NestOrderError(f"{self}: {reason.message}", hint=reason.hint) from reason
        return nest.replace(body=replace_loop(nest.body, loop.name, (dataclasses.replace(loop, is_block=True),)))


@dataclass(frozen=True)
class Tensorize(Step):
    """Let an intrinsic compute a block (TensorIR: tensorize).

    Before: ``for k [block]: for m: for n in [0, 8) [vector]: Z[m, n] += A[m, k] * B[k, n]``, ``Z`` an array of vectors of int32 and ``A``
    and ``B`` of 8-bit integers. After, by ``dot_product``: ``for k [block by dot_product]: ...``, which is written as one call that adds
    four products at once. Loops are mapped to the intrinsic's indices by their roles, ends that four does not divide are padded with
    zeros. Invariant: the same sums; of whole numbers they are the same to the last bit, of others they are taken in the order of ``k``.

    The map has to be the intrinsic's: this step is algebra, and reads what is computed. An intrinsic that somebody registered is named with
    its digest, ``mine.rank_update@0f3a...``, so that a record says which one it was; the name alone stands for the one that is here.
    """

    effect = "reassociates"
    block: LoopRef
    intrinsic: Keyword

    def __post_init__(self) -> None:
        if isinstance(self.intrinsic, str):
            object.__setattr__(self, "intrinsic", keyed(self.intrinsic))

    def apply(self, nest: Nest) -> Nest:
        loop = find(nest, self.block, self)
        try:
            intrinsic = intrinsic_called(self.intrinsic)
            if not loop.is_block:
                raise NestOrderError(f"{self}: {self.block} is no block", hint="Blockize the loop first.")
            check_computed(nest, loop, intrinsic)
        except IntrinsicError as reason:
            raise IntrinsicError(f"{self}: {reason.message}", hint=reason.hint, reached=reason.reached) from reason
        return nest.replace(body=replace_loop(nest.body, loop.name, (dataclasses.replace(loop, intrinsic=intrinsic.key),)))
