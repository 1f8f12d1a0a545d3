"""A property whose value is kept: as :class:`functools.cached_property`, without the lock that Python 3.11 takes for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class kept_property(Generic[T]):
    """Computed when it is first asked for, and from then on an entry of the instance's dictionary.

    Two threads that ask at once may both compute it, and one of the values stays. A search asks for hundreds of such properties for each
    candidate; the lock took as long as most of them.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
