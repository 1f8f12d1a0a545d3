"""Discontinuous Galerkin and finite element operators: the same small matrix for every element of a mesh."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.contraction_order import best_order
from feinsum_fuse.patterns.parameters import OneOf, Powers
from feinsum_fuse.patterns.roles import Extents, Pattern, Roles
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform


def _has_elements(extents: Extents) -> bool:
    """Whether one index of the output is at least as long as all others together: that of the mesh's elements."""
    free = sorted((*extents.batch, *extents.left, *extents.right), reverse=True)
    reduced = extents.points("contracted", "summed")
    return len(free) > 1 and free[0] >= reduced and free[0] >= free[1] * 2


OPERATOR = Pattern(operands=(2, 4), contracted=(1, 3), window=0, where=_has_elements)


def element(roles: Roles) -> str | None:
    """The variable of the mesh's elements."""
    return roles.longest("batch", "left", "right")


@transform(
    OPERATOR,
    parameters={"tile": Powers(16, 1024, 64), "down": OneOf((4, 1, 2, 3, 6, 8)), "vectors": OneOf((1, 2, 3, 4))},
    source="A. Klöckner et al., Nodal Discontinuous Galerkin Methods on Graphics Processors, J. Comput. Phys. 228(21), 2009",
)
def lanes_of_elements(sketch: Sketch, tile: int, down: int, vectors: int) -> Sketch:
    """A lane is an element of the mesh: the small matrix is read as numbers that all lanes share, nothing is transposed.

    ::

        for tiles of elements on groups
          for down degrees of freedom x vectors of elements     sums in registers
            for j (and directions)
              sum += matrix[i, j] * field[j, elements]
    """
    for roles in sketch.matched:
        lane = element(roles)
        second = max((v for v in roles.einsum.output_variables if v != lane), key=roles.length, default=None)
        sketch = sketch.decided(roles.name, rows=lane, lane=lane, second=second, down=down, vectors=vectors)
    return sketch.decided(tile=tile, layout=None)


@transform(
    OPERATOR,
    parameters={"tile": Powers(4, 512, 32), "down": OneOf((4, 1, 2, 3, 6, 8)), "vectors": OneOf((1, 2))},
    source="batched small products: A. Heinecke et al., LIBXSMM, SC 2016",
)
def lanes_of_nodes(sketch: Sketch, tile: int, down: int, vectors: int) -> Sketch:
    """A lane is a degree of freedom of the output: for fields whose elements lie one after another.

    ::

        for tiles of elements on groups
          for down elements x vectors of nodes     sums in registers
            for j
              sum += matrix[j, nodes] * field[element, j]
    """
    for roles in sketch.matched:
        row = element(roles)
        lane = max((v for v in roles.einsum.output_variables if v != row), key=roles.length, default=None)
        sketch = sketch.decided(roles.name, rows=row, lane=lane, second=row, down=down, vectors=vectors)
    return sketch.decided(tile=tile)


@transform(
    OPERATOR,
    parameters={"tile": Powers(16, 4096, 512), "down": OneOf((4, 1, 2, 3, 6, 8))},
    source="the mapping that a search found for the divergence of order 1, of which no other transform came near",
)
def fields_in_registers(sketch: Sketch, tile: int, down: int) -> Sketch:
    """A vector of elements at a time: what they read is turned into registers once, and no memory near by is written.

    ::

        for tiles of elements on groups
          for vectors of elements
            field[j]                       turned, in registers
            for down degrees of freedom    sums in registers
              for j (and directions)
                sum += matrix[i, j] * field[j]
    """
    for roles in sketch.matched:
        lane = element(roles)
        second = max((v for v in roles.einsum.output_variables if v != lane), key=roles.length, default=None)
        sketch = sketch.decided(roles.name, rows=lane, lane=lane, second=second, down=down, vectors=1, turned=True)
    return sketch.decided(tile=tile, layout=None)


@transform(
    Pattern(operands=(3, 5), contracted=(1, 4), window=0, where=_has_elements),
    parameters={
        "tile": OneOf(("fitting", 16, 32, 64, 128, 256, 512, 1024)),
        "down": OneOf((8, 4, 1, 2, 3, 6, 12)),
        "vectors": OneOf((2, 1, 3, 4)),
    },
    source="K. Kulkarni and A. Klöckner, feinsum, 2023: hoisting of the geometric factors; rows of elements are shared",
)
def factors_first(sketch: Sketch, tile: int | str, down: int, vectors: int) -> Sketch:
    """The element's own factors are multiplied in a step of their own, so that the long sum has two operands; steps share tiles of
    elements, as many as fit a cache unless a number is given. The register tile is that of the matrix, whose vectors serve many elements.

    ::

        for tiles of elements on groups
          T[elements, ..] = factors * field      in local memory
          for down elements x vectors of nodes   sums in registers
            sum += matrix * T
    """
    for roles in sketch.matched:
        sketch = sketch.rewritten(best_order(roles.einsum)).decided(rows=element(roles))
        longest = max(sketch.cascade.einsums, key=lambda step: step.box_points)
        sketch = sketch.decided(longest.name, down=down, vectors=vectors)
    return sketch.decided(tile=tile)
