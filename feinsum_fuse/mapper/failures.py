"""Why a search gives no mapping."""

from __future__ import annotations

from ..errors import SearchError


class NoMappingError(SearchError):
    """No mapping is legal; the message says which constraint or memory leaves none."""


class UnsearchedError(SearchError):
    """The search cannot honour what the files or the caller ask for; the message names it."""


class UnprovedError(SearchError):
    """A limit ended the search before it had any mapping."""


class LateError(UnprovedError):
    """A search's seconds are over, or its caller has interrupted it."""
