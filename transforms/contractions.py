"""Contractions of two tensors whose axes lie in another order than a product of matrices wants them."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.packing import Pack, Unpack
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.patterns.parameters import OneOf
from feinsum_fuse.patterns.roles import Pattern
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform

TENSORS = Pattern(
    operands=2, left=(1, None), right=(1, None), contracted=(1, None), window=0, where=lambda e: len(e.left + e.right + e.contracted) > 3
)


@transform(
    TENSORS,
    parameters={
        "moved": OneOf(("fitting", "nothing", "output", "columns", "operands")),
        "lanes": OneOf(("written", "read")),
        "second": OneOf(("fitting", "longest", "shortest")),
        "down": OneOf(("fitting", 4, 6, 8, 12)),
        "vectors": OneOf(("fitting", 1, 2, 3, 4)),
    },
    source="P. Springer and P. Bientinesi, Design of a High-Performance GEMM-like Tensor-Tensor Multiplication, ACM TOMS 44(3), 2018",
)
def permuted(sketch: Sketch, moved: str, lanes: str, second: str, down: int | str, vectors: int | str) -> Sketch:
    """Lanes run along the output's last axis; an operand that has them apart is moved, or the output, where that is smaller.

    ::

        A'[rows, k], B'[.., k, columns]    copies of what is used often enough
        for tiles of the output's axes on groups
          for down rows x vectors of columns: sums in registers
            for k in the order in which it lies
        Z[.., columns]                     where Z' was summed along an operand's lanes
    """
    for roles in sketch.matched:
        written, columns = roles.einsum.output_variables, roles.einsum.operands[roles.operand("right") or 0].variables
        free, last = [v for v in columns if v in written], columns[-1]
        rows = [v for v in written if v not in columns]
        for place, access in enumerate(roles.einsum.operands):
            wanted = [v for v in (*written[:-1], *roles.einsum.reduction_variables, written[-1]) if v in access.variables]
            if wanted != list(access.variables) and (moved == "operands" or (moved == "columns" and written[-1] in wanted)):
                sketch = sketch.rewritten(Pack(roles.name, place, tuple(wanted)))
        if moved == "output" and last in free:
            sketch = sketch.rewritten(Unpack(roles.name, (*free[:-1], *rows, last)))
        if moved == "nothing" and lanes == "read" and last in free:
            sketch = sketch.decided(roles.name, lane=last)
        if second != "fitting":
            sketch = sketch.decided(second=(max if second == "longest" else min)(rows, key=roles.length))
    if moved == "fitting":
        sketch = sketch.rewritten(*suited(sketch.cascade, sketch.target).rewritings[len(sketch.cascade.rewritings) :])
    return sketch.decided(down=down, vectors=vectors)
