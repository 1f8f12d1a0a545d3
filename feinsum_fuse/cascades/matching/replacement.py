"""Somebody's kernel with its matched instructions in the place of others that compute the same: a rewriting of the cascade, in a kernel."""

from __future__ import annotations

import dataclasses

from constantdict import constantdict

from ...errors import MatchError
from ..cascade import Cascade
from ..joining import shapes_before
from .grammar import shares_loops, written_anew
from .match import Match
from .preparation.draft import Draft, Preparation


def rewritten_match(matched: Match, cascade: Cascade) -> Match:
    """The match for a cascade that was made of the matched one by rewritings, which the prepared kernel then computes.

    Before: ``D[e, i] = sum((r, j), J[r, e]*S[r, i, j]*u[e, j])``. After ``ContractionOrder``, with an array of the kernel's own::

        D_part1[e, r, i] = sum(j, S[r, i, j]*u[e, j])
        D[e, i] = sum(r, J[r, e]*D_part1[e, r, i])

    Arguments, other instructions and their order stay. Raises :class:`~feinsum_fuse.errors.MatchError` where other instructions share loops
    with the matched ones, or a rewriting took an Einsum away or joined axes.
    """
    if cascade.rewritings == matched.cascade.rewritings:
        return matched
    if shapes_before(matched.cascade, cascade):
        raise MatchError("the kernel's arrays keep their axes, of which the rewritten cascade has joined some")
    kernel, chosen = matched.prepared.default_entrypoint, tuple(matched.names.instructions.values())
    if gone := sorted({einsum.name for einsum in matched.cascade.einsums} - {einsum.name for einsum in cascade.einsums}):
        raise MatchError(f"Einsum {gone[0]} is none of the rewritten cascade's, and the kernel's instruction has nothing in its place")
    if shares_loops(kernel, chosen):
        raise MatchError(f"{', '.join(chosen)} cannot be rewritten: other instructions run in the same loops")
    draft = Draft(matched.prepared, kernel, chosen)
    computed = constantdict({tensor: body for tensor, body in matched.computed.items() if tensor in cascade.tensors})
    prepared, names = written_anew(draft, cascade, matched.names, computed)
    done = tuple(Preparation("rewritten", str(one)) for one in cascade.rewritings[len(matched.cascade.rewritings) :])
    return dataclasses.replace(
        matched, cascade=cascade, names=names, prepared=prepared, computed=computed, rewritings=(*matched.rewritings, *done)
    )
