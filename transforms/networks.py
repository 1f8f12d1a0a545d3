"""Layers of networks: attention, perceptrons, norms and elementwise chains, whose intermediates stay with the rows that they belong to."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.one_pass import OnePass
from feinsum_fuse.errors import TransformError
from feinsum_fuse.patterns.parameters import OneOf, Powers
from feinsum_fuse.patterns.roles import Pattern
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform

PRODUCT = Pattern(operands=(2, None), contracted=(1, None))
REDUCED_ROW = Pattern(operands=(1, None), contracted=0, summed=(1, None), window=0)
ROW_BY_ROW = Pattern(operands=(1, None), window=0, where=lambda e: bool(e.summed or e.contracted) and not (e.left and e.right))
"""A reduction of rows of one operand or several: no matrix product, whose rows share columns."""
ELEMENTWISE = Pattern(operands=(1, None), contracted=0, summed=0, window=0)


@transform(
    PRODUCT,
    ELEMENTWISE,
    PRODUCT,
    parameters={"tile": Powers(4, 256, 32), "down": OneOf((4, 1, 2, 6, 8)), "vectors": OneOf((2, 1, 3, 4))},
    source="MLP fusion: FuseMax, MICRO 2024; DNNFusion, PLDI 2021",
)
def fused_perceptron(sketch: Sketch, tile: int, down: int, vectors: int) -> Sketch:
    """Two layers with an activation between them: a group takes rows through all of it, and the hidden rows stay in its cache.

    ::

        for tiles of rows on groups
          hidden[rows, :] = x[rows, :] * W1      in local memory
          hidden = activation(hidden)
          y[rows, :] = hidden * W2
    """
    row = sketch.matched[0].longest("left", "batch")
    return sketch.decided(rows=(sketch.matched[0].name, row), tile=tile, down=down, vectors=vectors)


@transform(
    REDUCED_ROW,
    Pattern(operands=(2, None), window=0),
    parameters={"tile": Powers(1, 256, 16), "along": OneOf(("rows", "elements")), "together": OneOf(("fitting", 1, 2, 4, 8))},
    source="Milakov and Gimelshein, Online normalizer calculation for softmax, 2018 (the safe form, a row at a time)",
)
def rows_at_once(sketch: Sketch, tile: int, along: str, together: int | str) -> Sketch:
    """Softmax and norms: a row is read once from memory, and every pass but the first finds it in the nearest cache.

    ::

        for tiles of rows on groups
          for a few rows together
            reduce each row    lanes = elements of a row, or one row each
            what follows, on the same rows
    """
    roles = sketch.matched[0]
    row = roles.longest("left", "right", "batch")
    lane = roles.longest("summed") if along == "elements" else row
    for one in sketch.matched:
        known = lane if lane in one.einsum.variables else None
        sketch = sketch.decided(one.name, lane=known, rows=(roles.name, row)) if known is not None else sketch
    return sketch.decided(None, rows=(roles.name, row), tile=tile, sums=along == "elements", **{"pass": together})


def in_parts(sketch: Sketch, parts: int) -> Sketch:
    """The first reduction, and what depends on it, in so many parts; as it is where there are not two."""
    roles = sketch.matched[0]
    variable = roles.longest("summed", "contracted")
    assert variable is not None  # the pattern has one
    count = min(parts, roles.length(variable))
    return sketch.rewritten(OnePass(roles.name, variable, count)) if count > 1 else sketch


@transform(
    ROW_BY_ROW,
    Pattern(window=0),
    parameters={"length": Powers(32, 4096, 256), "tile": Powers(1, 256, 16), "vectors": OneOf((1, 2, 4))},
    source="Neptune, arXiv 2510.08726; RedFuser, arXiv 2603.10026; online softmax: Milakov and Gimelshein, 2018; Welford, 1962",
)
def one_pass(sketch: Sketch, length: int, tile: int, vectors: int) -> Sketch:
    """Reductions that depend on one another read their input once: parts that fit the nearest cache, corrected where they meet.

    ::

        for tiles of rows on groups
          for parts b                      M_part, L_part[b] by M_part[b]
            reduce the part; reduce what depends on it
          M from M_part; L from L_part, corrected by M
    """
    roles = sketch.matched[0]
    variable, row = roles.longest("summed", "contracted"), roles.longest("left", "right", "batch")
    sketch = in_parts(sketch, -(-roles.length(variable) // length) if variable is not None else 1)
    return sketch.decided(tile=tile, vectors=vectors, **({"rows": row} if row is not None else {}))


@transform(
    ROW_BY_ROW,
    Pattern(window=0),
    parameters={"parts": Powers(2, 64, 16), "down": OneOf((4, 1, 2, 8))},
    source="Flash-Decoding: T. Dao et al., 2023; split keys by the general rule for cascaded reductions",
)
def split_keys(sketch: Sketch, parts: int, down: int) -> Sketch:
    """Few rows and a long axis: groups take parts of the axis through all reductions, and a second kernel puts the parts together.

    ::

        for parts b on groups
          M_part[b], L_part[b], O_part[b, ..]    each by its own maximum
        M, L, O from the parts, corrected
    """
    return in_parts(sketch, parts).decided(down=down)


@transform(
    ELEMENTWISE,
    ELEMENTWISE,
    parameters={"tile": Powers(1, 1024, 64)},
    source="loop fusion: Kennedy and McKinley, 1993",
)
def elementwise_chain(sketch: Sketch, tile: int) -> Sketch:
    """One pass over memory for a chain of elementwise steps: what lies between them stays in the nearest cache.

    ::

        for tiles of rows on groups
          first step       in local memory
          second step
    """
    first = sketch.matched[0]
    return sketch.decided(rows=(first.name, first.longest("batch", "left", "right")), tile=tile)


LINE = 16
"""Elements of float32 in a line of most caches: groups that take columns take whole lines."""


@transform(
    ELEMENTWISE,
    parameters={"along": OneOf(("written", "read")), "groups": OneOf(("rows", "columns")), "tile": Powers(1, 1024, 64)},
    source="blocked transposition and streaming: Intel, Optimization Reference Manual, 3.7 and 5.7",
)
def element_by_element(sketch: Sketch, along: str, groups: str, tile: int) -> Sketch:
    """One Einsum without a reduction: lanes along what lies together in the output, or in an operand that lies otherwise.

    ::

        for tiles of rows, or of lines of columns, on groups
          for rows
            for vectors: lanes = elements that are written, or read, together
              Y[row, lanes] = f(X[row, lanes])
    """
    if len(sketch.cascade.einsums) > 1:
        raise TransformError("the cascade has other Einsums, whose rows these are", hint="networks.elementwise_chain takes a chain.")
    (roles,) = sketch.matched
    written = roles.einsum.output_variables
    last = [access.variables[-1] for access in roles.einsum.operands if access.variables]
    lane = next((variable for variable in last if along == "read" and variable in written[:-1]), written[-1])
    others = [variable for variable in written if variable != lane and roles.length(variable) > 1]
    row = max(others, key=roles.length) if others and groups == "rows" else lane
    return sketch.decided(rows=(roles.name, row), tile=tile * LINE if row == lane else tile).decided(roles.name, lane=lane)
