"""How values show themselves: what they ask for, and what the writers of texts, pictures and files register here."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def text(value: object) -> str:
    """A value in a terminal."""
    raise TypeError(f"no text is registered for {type(value).__name__}")


@singledispatch
def svg(value: object) -> str:
    """A value as a picture."""
    raise TypeError(f"no picture is registered for {type(value).__name__}")


@singledispatch
def yaml(value: object) -> str:
    """A value as a file that reads back to it."""
    raise TypeError(f"no file is registered for {type(value).__name__}")
