"""Matrix-vector products and sums: each element of the matrix is used once, so that memory is what there is to be kept busy."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.patterns.parameters import OneOf, Powers
from feinsum_fuse.patterns.roles import Pattern
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform

PRODUCT = Pattern(operands=2, contracted=(1, None), window=0, where=lambda e: e.points("left") == 1 or e.points("right") == 1)


@transform(
    PRODUCT,
    parameters={"down": OneOf((4, 1, 2, 6, 8)), "tile": Powers(4, 1024, 64)},
    source="BLAS level 2: the inner-product form",
)
def by_rows(sketch: Sketch, down: int, tile: int) -> Sketch:
    """A row of the matrix times the vector: lanes along what is reduced, several rows at once so that the vector is loaded once for all.

    ::

        for tiles of rows on groups
          for down rows             vectors of partial sums
            for k: lanes = k
              sum += A[row, k] * x[k]
    """
    for roles in sketch.matched:
        row = roles.longest("left", "right", "batch")
        sketch = sketch.decided(roles.name, tile=tile, sums=True, lane=roles.longest("contracted"), second=row, down=down)
    return sketch


@transform(
    PRODUCT,
    parameters={"vectors": OneOf((4, 1, 2, 3)), "tile": Powers(16, 1024, 128)},
    source="BLAS level 2: the axpy form",
)
def by_columns(sketch: Sketch, vectors: int, tile: int) -> Sketch:
    """Columns of the matrix are added up: lanes along the output, whose sums stay in registers while the reduction runs outside.

    ::

        for tiles of the output on groups
          for vectors: lanes = output      sums in registers
            for k
              sum += A[k, output] * x[k]
    """
    for roles in sketch.matched:
        lane = roles.longest("left", "right", "batch")
        sketch = sketch.decided(roles.name, tile=tile, lane=lane, second=None, vectors=vectors)
    return sketch


@transform(
    Pattern(summed=(1, None), contracted=0, window=0, where=lambda e: e.summed[0] >= 4 * e.points("batch", "left", "right")),
    parameters={"parts": Powers(2, 64, 16, "summed")},
    source="two-stage reductions: M. Harris, Optimizing Parallel Reduction in CUDA, 2007",
)
def split_sums(sketch: Sketch, parts: int) -> Sketch:
    """Long reductions with few outputs: parts on groups, then the parts' results reduced once more.

    ::

        for parts b on groups
          for k in the part: lanes = k or the output
        reduce over b
    """
    for roles in sketch.matched:
        variable = roles.longest("summed")
        count = min(parts, roles.length(variable)) if variable is not None else 1
        sketch = sketch.rewritten(SplitReduction(roles.name, variable, count) if variable is not None and count > 1 else None)
    return sketch


@transform(
    Pattern(summed=(1, None), contracted=0, window=0),
    parameters={"down": OneOf((4, 1, 2, 8)), "tile": Powers(4, 1024, 64)},
    source="row reductions as in BLAS level 1, several rows at once",
)
def summed_rows(sketch: Sketch, down: int, tile: int) -> Sketch:
    """Each output reduces a row: lanes along the row, several rows at once for independent chains of additions.

    ::

        for tiles of rows on groups
          for down rows             vectors of partial results
            for k: lanes = k
    """
    for roles in sketch.matched:
        row = roles.longest("left", "right", "batch")
        sketch = sketch.decided(roles.name, tile=tile, sums=True, lane=roles.longest("summed"), second=row, down=down)
    return sketch
