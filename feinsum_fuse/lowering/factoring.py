"""Where the partial results of a reduction that runs on work-items or lanes are held."""

from __future__ import annotations

from collections.abc import Container, Iterator

from ..formats.mapping import Spatial, Storage
from ..formats.opencl import MEMORIES, nearest_space
from ..schedule.steps.factor_steps import RFactor
from .binding import Bindings
from .branch import Branch, Position


def factored(branch: Branch, position: Position, bindings: Bindings, shared: Container[Position]) -> Iterator[RFactor]:
    """The step that a Spatial over work-items or lanes needs if it runs over a reduction variable of the Einsum; none otherwise.

    Partial results are combined as seldom as possible: they are held above the outermost reduction loop, unless another Einsum runs under a
    loop further in (the positions ``shared``), the output's own tile lies there, or the memory is not seen across a loop in between.
    """
    spatial = next(placed.node for placed in branch.path if placed.position == position)
    ref = branch.refs[position]
    assert isinstance(spatial, Spatial)
    if ref.variable not in branch.einsum.reduction_variables:
        return
    memory = nearest_space({bindings.fanout(spatial)})
    above = [placed for placed in branch.path if placed.position in branch.refs and placed.position < position]
    reductions = [branch.refs[placed.position].variable in branch.einsum.reduction_variables for placed in above]
    depth = reductions.index(True) if True in reductions else len(above)
    for number, placed in enumerate(above, 1):
        is_hidden = isinstance(placed.node, Spatial) and MEMORIES[memory].is_hidden_from(bindings.fanout(placed.node))
        if is_hidden or placed.position in shared:
            depth = max(depth, number)
    depth = max(depth, _tile_depth(branch, position, bindings))
    yield RFactor(ref, branch.refs[above[depth - 1].position] if depth else None, memory)


def _tile_depth(branch: Branch, position: Position, bindings: Bindings) -> int:
    """How many loops lie around the innermost tile of the output that lies above this position."""
    tensor = branch.einsum.output.tensor
    depth = 0
    for start in branch.storages(tensor):
        node = branch.path[start].node
        assert isinstance(node, Storage)
        if branch.path[start].position < position and MEMORIES[bindings.memory(node.component)].holds_copies:
            end = start if start == branch.storages(tensor)[0] else branch.reservation(start, tensor)
            depth = sum(placed.position in branch.refs for placed in branch.path[:end])
    return depth
