"""Products of three and more factors: MTTKRP, chains of tensor times matrix, and their like."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.contraction_order import best_order
from feinsum_fuse.patterns.parameters import OneOf, Powers
from feinsum_fuse.patterns.roles import Pattern
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform

MANY = Pattern(operands=(3, None), contracted=(1, None), window=0)


@transform(
    MANY,
    parameters={"tile": Powers(4, 256, 64), "down": OneOf((4, 1, 2, 6, 8)), "vectors": OneOf((3, 1, 2, 4))},
    source="D. Smith and J. Gray, opt_einsum, JOSS 3(26), 2018; chains of TTM: T. Kolda and B. Bader, SIAM Review 51(3), 2009",
)
def pairwise(sketch: Sketch, tile: int, down: int, vectors: int) -> Sketch:
    """Two factors at a time along the best path; products that share rows stay in one kernel, tile by tile.

    ::

        T[i, ...] = A * B        for tiles of shared rows on groups
        Z[i, ...] = T * C          T's rows stay in local memory
    """
    for roles in sketch.matched:
        sketch = sketch.rewritten(best_order(roles.einsum))
    return sketch.decided(tile=tile, down=down, vectors=vectors)


@transform(
    MANY,
    parameters={"down": OneOf((4, 1, 2, 6, 8)), "vectors": OneOf((1, 2, 3, 4)), "tile": Powers(1, 256, 16)},
    source="G. Ballard, N. Knight and K. Rouse, Communication Lower Bounds for MTTKRP, IPDPS 2018",
)
def at_once(sketch: Sketch, down: int, vectors: int, tile: int) -> Sketch:
    """All factors are multiplied where they meet, and nothing in between is stored: for products too large to be written.

    ::

        for tiles of rows on groups
          for down rows x vectors columns: lanes = columns    sums in registers
            for all that is contracted
              sum += A * B * C
    """
    for roles in sketch.matched:
        lane = roles.einsum.output_variables[-1] if roles.einsum.output_variables else None
        others = [v for v in roles.einsum.output_variables if v != lane]
        second = max(others, key=roles.length, default=None)
        sketch = sketch.decided(roles.name, tile=tile, lane=lane, second=second, down=down, vectors=vectors)
    return sketch
