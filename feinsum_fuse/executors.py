"""What runs calls somewhere else, as callers hand it in: an executor of ``concurrent.futures``, Dask's client, anything with ``submit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .arguments import NOTHING, Kind

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A result that comes later: a future, whosever."""

    def result(self, timeout: float | None = None, /) -> T_co:
        """The result, waited for so many seconds at the most."""
        ...


class Executor(Protocol):
    """Whatever has ``submit``."""

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Pending[T]:
        """Start a call somewhere."""
        ...


EXECUTOR = Kind("an executor, which has a method submit", lambda value: callable(getattr(value, "submit", None))) | NOTHING
