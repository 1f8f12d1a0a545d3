"""Matrix products: register tiles, packed panels, few rows and columns with long reductions, and many small ones."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.interleaving import Interleave
from feinsum_fuse.cascades.rewriting.packing import Pack
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.errors import TransformError
from feinsum_fuse.patterns.parameters import OneOf, Powers
from feinsum_fuse.patterns.roles import Pattern, Roles
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform
from feinsum_fuse.schedule.intrinsics.intrinsic import DOT_PRODUCT

FITS = {"a register tile that fits the vector registers": lambda p, target: p["down"] * p["vectors"] < target.vector_registers}


def tiled(sketch: Sketch, roles: Roles, down: int, vectors: int) -> Sketch:
    """Lanes along the columns, a register tile of ``vectors`` by ``down`` rows."""
    row = roles.longest("left") or roles.longest("batch")
    return sketch.decided(roles.name, lane=roles.longest("right"), second=row, down=down, vectors=vectors)


@transform(
    Pattern(operands=2, left=(1, None), right=(1, None), contracted=(1, None), window=0),
    parameters={"down": OneOf((6, 1, 2, 3, 4, 8, 12)), "vectors": OneOf((2, 1, 3, 4)), "block": Powers(32, 512, 256, "contracted")},
    conditions=FITS,
    source="K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008",
)
def register_tiles(sketch: Sketch, down: int, vectors: int, block: int) -> Sketch:
    """Sums of a tile of the output stay in registers; a loaded vector is used for each of its rows, a number for each of its vectors.

    ::

        for tiles of rows on groups
          for blocks of k
            for tiles of down rows
              for tiles of vectors columns    sums in registers
                for k in the block
                  down x vectors multiply-adds of vectors
    """
    for roles in sketch.matched:
        sketch = tiled(sketch, roles, down, vectors).decided(roles.name, block=block, copied=())
    return sketch


@transform(
    Pattern(operands=2, left=(1, None), right=(1, None), contracted=(1, None), window=0),
    parameters={"down": OneOf((6, 4, 8, 12)), "vectors": OneOf((2, 1, 3, 4)), "block": Powers(64, 512, 256, "contracted")},
    conditions=FITS,
    source="F. Van Zee and R. van de Geijn, BLIS, ACM TOMS 41(3), 2015",
)
def packed_panels(sketch: Sketch, down: int, vectors: int, block: int) -> Sketch:
    """The columns' operand is copied into panels as wide as the register tile before it is used, so that every load is the next line.

    ::

        for tiles of rows on groups
          for blocks of k
            for panels of vectors columns     copy: block x panel in local memory
              for tiles of down rows          sums in registers
                for k in the block
                  down x vectors multiply-adds of vectors
    """
    for roles in sketch.matched:
        position = roles.operand("right")
        assert position is not None  # the pattern has a column
        panel = (roles.einsum.operands[position].tensor,)
        sketch = tiled(sketch, roles, down, vectors).decided(roles.name, block=block, copied=panel)
    return sketch


@transform(
    Pattern(operands=2, left=(1, None), right=(1, None), contracted=(1, None), window=0),
    parameters={
        "tile": OneOf(("fitting", 32, 64, 128, 256, 512)),
        "down": OneOf(("fitting", 4, 6, 8, 12)),
        "vectors": OneOf(("fitting", 1, 2, 3, 4)),
    },
    source="K. Goto and R. van de Geijn, On Reducing TLB Misses in Matrix Multiplication, 2002 (the panel that stays)",
)
def kept_panels(sketch: Sketch, tile: int | str, down: int | str, vectors: int | str) -> Sketch:
    """Groups take columns: what they read of that operand is copied once, whole along the reduction, and stays near for all rows.

    ::

        for tiles of columns on groups
          B'[k, columns] = B                  a panel in local memory, for all k
          for tiles of down rows              sums in registers: written once
            for k
              down x vectors multiply-adds of vectors
    """
    for roles in sketch.matched:
        position, lane = roles.operand("right"), roles.longest("right")
        assert position is not None and lane is not None  # the pattern has a column
        read = roles.einsum.operands[position].variables
        columns = (*(v for v in roles.variables["right"] if v != lane), lane)
        sketch = sketch.rewritten(Pack(roles.name, position, (*(v for v in read if v not in columns), *columns)))
        sketch = sketch.decided(roles.name, lane=lane, second=roles.longest("left"), block=None, copied=())
        sketch = sketch.decided(rows=(roles.name, lane), tile=tile, down=down, vectors=vectors)
    return sketch


@transform(
    Pattern(operands=2, left=(1, None), right=(1, None), contracted=(1, None), window=0),
    parameters={"vectors": OneOf((2, 1, 3, 4)), "down": OneOf((12, 6, 8, 4, 2, 1))},
    conditions=FITS,
    source="D. Khudia et al., FBGEMM, arXiv 2101.05615, 2021; S. Feng et al., TensorIR, ASPLOS 2023 (ReIndex)",
)
def dot_products(sketch: Sketch, vectors: int, down: int) -> Sketch:
    """Products of 8-bit integers, four at a time: the columns' operand is copied so that four values of a column lie together.

    ::

        for panels of columns on groups
          B'[k/4, columns, 4] = B             a panel in local memory
          for tiles of down rows              sums in registers
            for k in groups of four
              down x vectors dot products
    """
    for roles in sketch.matched:
        position, variable = roles.operand("right"), roles.longest("contracted")
        assert position is not None and variable is not None  # the pattern has both
        types = (roles.einsum.accumulate, *(sketch.cascade.tensors[access.tensor].dtype for access in roles.einsum.operands))
        if types not in DOT_PRODUCT.types:
            raise TransformError(f"{roles.name} is no product of 8-bit integers", hint="Take products.register_tiles.")
        sketch = sketch.rewritten(Interleave(roles.name, position, variable, DOT_PRODUCT.deep))
        sketch = tiled(sketch, roles, down, vectors).decided(roles.name, block=None)
    return sketch


@transform(
    Pattern(operands=2, left=(1, None), right=(1, None), contracted=(1, None), window=0),
    parameters={"down": OneOf((6, 4, 8, 12)), "vectors": OneOf((2, 1, 3, 4)), "block": Powers(64, 512, 256, "contracted")},
    conditions=FITS,
    source="P. Springer and P. Bientinesi, Design of a High-Performance GEMM-like Tensor-Tensor Multiplication, ACM TOMS 44(3), 2018",
)
def transposed_operands(sketch: Sketch, down: int, vectors: int, block: int) -> Sketch:
    """Each operand is copied once so that what is contracted lies together in one and the columns in the other; then a plain product.

    ::

        A'[rows, k] = A      B'[k, columns] = B        two transpositions, lines by lines
        the product of register tiles
    """
    for roles in sketch.matched:
        kept = {role: roles.variables[role] for role in ("batch", "left", "right", "contracted")}
        lane = roles.longest("right")
        columns = (*(v for v in kept["right"] if v != lane), lane)
        for position, access in enumerate(roles.einsum.operands):
            has_columns = lane in access.variables
            order = (*kept["batch"], *kept["contracted"], *columns) if has_columns else (*kept["batch"], *kept["left"], *kept["contracted"])
            wanted = tuple(v for v in order if v in access.variables)
            if tuple(index.bare for index in access.indices) != wanted:
                sketch = sketch.rewritten(Pack(roles.name, position, wanted))
        sketch = tiled(sketch, roles, down, vectors).decided(roles.name, block=block)
    return sketch


@transform(
    Pattern(
        operands=2,
        left=(0, None),
        right=(1, None),
        contracted=(1, None),
        window=0,
        where=lambda e: e.contracted[0] >= 2 * e.points("batch", "left", "right") ** 0.5,
    ),
    parameters={"parts": Powers(2, 64, 16, "contracted"), "down": OneOf((4, 1, 2, 6, 8)), "vectors": OneOf((2, 1, 4))},
    conditions=FITS,
    source="J. Demmel et al., Communication-Optimal Parallel Recursive Rectangular Matrix Multiplication, IPDPS 2013 (the k-split)",
)
def split_reduction(sketch: Sketch, parts: int, down: int, vectors: int) -> Sketch:
    """The output is too small to keep all cores busy: each takes a part of what is reduced, and their results are added.

    ::

        for parts b on groups
          for tiles of the output
            for k in the part     sums in registers: Z_part[b, ...]
        Z = sum of Z_part over b
    """
    for roles in sketch.matched:
        variable = roles.longest("contracted")
        assert variable is not None  # the pattern has one
        count = min(parts, roles.length(variable))
        sketch = sketch.rewritten(SplitReduction(roles.name, variable, count) if count > 1 else None)
        sketch = tiled(sketch, roles, down, vectors)
    return sketch


@transform(
    Pattern(operands=2, batch=(1, None), left=(1, None), right=(1, None), contracted=(1, None), window=0,
            where=lambda e: max(e.left[0], e.right[0], e.contracted[0]) <= e.points("batch")),
    parameters={"tile": Powers(1, 256, 16, "batch"), "along": OneOf(("columns", "problems")), "down": OneOf((4, 1, 2, 8))},
    source="A. Heinecke et al., LIBXSMM, SC 2016; and the interleaved layouts of the compact batched BLAS",
)
def batched_small(sketch: Sketch, tile: int, along: str, down: int) -> Sketch:
    """Many small products: a group takes a tile of problems; lanes are a problem's columns, or one problem each.

    ::

        for tiles of problems on groups
          for problems                      | for rows, columns, k
            for down rows: lanes = columns  |   lanes = problems
              for k                         |     one multiply-add for each problem
    """
    for roles in sketch.matched:
        batch = roles.longest("batch")
        lane = roles.longest("right") if along == "columns" else batch
        sketch = sketch.decided(roles.name, rows=batch, tile=tile, lane=lane, second=roles.longest("left"), down=down)
    return sketch
