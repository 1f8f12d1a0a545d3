"""Values told apart by which object they are: keys of what is kept for them, where comparing them would take long or mean too little."""

from __future__ import annotations

from typing import Generic, TypeVar

KEPT_WORKLOADS = 32
"""Workloads of which something is kept: a search has a few, one for each rewriting."""

_Value = TypeVar("_Value")


class Same(Generic[_Value]):
    """A value that is told from others by its identity: workloads are equal whatever the order of a tensor's ranks."""

    __slots__ = ("value",)

    def __init__(self, value: _Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
