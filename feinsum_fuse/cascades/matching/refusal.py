"""Why an instruction is no Einsum, before it is known which instruction it is."""

from __future__ import annotations


class Refusal(Exception):
    """A reason that :func:`feinsum_fuse.cascades.matching.match.match` turns into a :class:`~feinsum_fuse.errors.MatchError`; it never
    escapes."""
