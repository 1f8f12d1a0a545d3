"""The signature of a block: its iterators, the regions that it reads and writes, and what its results begin with.

Source: Feng et al., TensorIR (ASPLOS 2023, arXiv 2207.04296), section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..formats.affine import Affine
from ..formats.language.reductions import REDUCTIONS
from .statement import Place, Statement


def signature(extents: Mapping[str, int | None], own: Sequence[Statement], every: Sequence[Statement]) -> Iterator[str]:
    """What a block iterates over, reads and writes, and what its results begin with, a line each.

    ``extents``: its loops and how many iterations they have; ``own``: its statements; ``every``: those of the nest, among which is what
    sets the results.
    """
    moved = {name for statement in own for name in statement.target.loops}
    yield "iterators " + ", ".join(f"{name} in [0, {n})" + ("" if name in moved else " reduced") for name, n in extents.items())
    yield "reads " + (", ".join(dict.fromkeys(_touched(place, extents) for s in own for place in s.operands)) or "nothing")
    yield "writes " + ", ".join(dict.fromkeys(_touched(s.target, extents) for s in own))
    for statement in own:
        if statement.reduce is not None:
            starts = [s for s in every if s.role == "init" and s.target.source == statement.target.source]
            begins = f"begins with {starts[0].value}, set {'in' if starts[0] in own else 'before'} the block" if starts else "goes on"
            yield f"combines by {REDUCTIONS[statement.reduce].infix or statement.reduce}, {begins}"


def _touched(place: Place, extents: Mapping[str, int | None]) -> str:
    """The elements of all iterations, such as ``A[3*m_0 : 3*m_0+2, k]``: along each axis the first and the last."""
    return f"{place.source}[{', '.join(_ends(index, extents) for index in place.indices)}]"


def _ends(index: Affine, extents: Mapping[str, int | None]) -> str:
    low = high = index
    for name, factor in index.terms:
        extent = extents.get(name, 1)
        if extent is None:
            return f"along {index}"
        if name in extents:
            least, most = Affine((), 0), Affine((), extent - 1)
            low = low.substituted({name: least if factor > 0 else most})
            high = high.substituted({name: most if factor > 0 else least})
    return str(low) if low == high else f"{low} : {high}"
