"""Convolutions: directly, as a product with a gathered operand, and chains of them over tiles with halos."""

from __future__ import annotations

from feinsum_fuse.cascades.rewriting.packing import Pack
from feinsum_fuse.patterns.parameters import OneOf, Powers
from feinsum_fuse.patterns.roles import Pattern, Roles
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform

WINDOW = Pattern(operands=2, window=(1, None))


def _moving(roles: Roles) -> tuple[str, ...]:
    """The output's variables that move a window, the last axis last."""
    windows = set(roles.variables["window"])
    found = {v for access in roles.einsum.operands for index in access.indices if windows & set(index.variables) for v in index.variables}
    return tuple(v for v in roles.einsum.output_variables if v in found)


@transform(
    WINDOW,
    parameters={"down": OneOf((4, 1, 2, 6, 8)), "vectors": OneOf((2, 1, 3, 4)), "along": OneOf(("pixels", "channels"))},
    source="E. Georganas et al., Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures, SC 2018",
)
def direct(sketch: Sketch, down: int, vectors: int, along: str) -> Sketch:
    """A register tile of output channels by neighbouring pixels; the input is read through the cache, again for each tap.

    ::

        for channels, lines on groups
          for down channels x vectors of pixels    sums in registers
            for input channels, taps
              sum += weight * input[line + tap, pixels + tap]
    """
    for roles in sketch.matched:
        moving = _moving(roles)
        others = [v for v in roles.einsum.output_variables if v not in moving]
        channel = max(others, key=roles.length, default=None)
        pixel = moving[-1] if moving else None
        lane, second = (pixel, channel) if along == "pixels" else (channel, pixel)
        sketch = sketch.decided(roles.name, lane=lane, second=second, down=down, vectors=vectors)
    return sketch


@transform(
    WINDOW,
    parameters={"down": OneOf((6, 4, 8, 12)), "vectors": OneOf((2, 1, 3, 4)), "block": Powers(32, 512, 128)},
    source="K. Chellapilla, S. Puri and P. Simard, High Performance Convolutional Neural Networks for Document Processing, 2006",
)
def as_product(sketch: Sketch, down: int, vectors: int, block: int) -> Sketch:
    """The input's windows are gathered once into a matrix; what remains is a product of register tiles.

    ::

        I'[channel, taps, pixels] = I[channel, pixels + taps]
        O[k, pixels] = sum over channel, taps of W * I'
    """
    for roles in sketch.matched:
        position = roles.operand("window")
        windowed = next((k for k, a in enumerate(roles.einsum.operands) if any(len(i.variables) > 1 for i in a.indices)), position)
        assert windowed is not None  # the pattern has a window
        read = roles.einsum.operands[windowed].variables
        moving = [v for v in _moving(roles) if v in read]
        order = (*(v for v in read if v not in moving), *moving)
        sketch = sketch.rewritten(Pack(roles.name, windowed, order))
        lane = moving[-1] if moving else None
        others = [v for v in roles.einsum.output_variables if v != lane]
        channel = max((v for v in others if v not in moving), key=roles.length, default=None)
        sketch = sketch.decided(roles.name, lane=lane, second=channel, down=down, vectors=vectors, block=block)
    return sketch


@transform(
    WINDOW,
    WINDOW,
    parameters={"tile": Powers(1, 64, 8), "vectors": OneOf((2, 1, 4))},
    source="M. Alwani et al., Fused-Layer CNN Accelerators, MICRO 2016; LoopTree, 2024",
)
def chain_with_halos(sketch: Sketch, tile: int, vectors: int) -> Sketch:
    """Two convolutions over tiles of lines: each tile of the second keeps the lines of the first that its windows need.

    ::

        for tiles of lines on groups
          first: the tile's lines and their halo, in local memory
          second: the tile's lines
    """
    last = sketch.matched[-1]
    lines = _moving(last)
    return sketch.decided(rows=(last.name, lines[0]) if lines else None, tile=tile, vectors=vectors)
