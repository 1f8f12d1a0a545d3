"""Transformations that are Python functions, from loopy kernel to loopy kernel, known to others by name and version alone.

A function is a caller's own code: it runs when the caller hands it over, or names it, and never because some text names it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, TypeAlias

from ..arguments import described
from ..field_types import Bounded
from .refusals import FunctionError

if TYPE_CHECKING:
    import loopy as lp

    Transform: TypeAlias = Callable[[lp.TranslationUnit], lp.TranslationUnit]

FunctionLocation = Annotated[str, Bounded(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$", max_length=500)]
FunctionVersion = Annotated[str, Bounded(min_length=1, max_length=100)]
VERSION_DIGITS = 16
"""Of the hash of a function's text."""


@dataclass(frozen=True, order=True)
class FunctionName:
    """What a function is called where it is stored."""

    name: FunctionLocation
    """``module:function``, by which it can be imported."""
    version: FunctionVersion
    """Its attribute ``version`` if it has one, else the beginning of its text's SHA-256: what another did says nothing about it."""

    def __str__(self) -> str:
        return f"{self.name} (version {self.version})"


@dataclass(frozen=True)
class KernelFunction:
    """A function that a caller has handed over, and what it is called."""

    name: FunctionName
    transform: Transform = field(repr=False, compare=False)

    @classmethod
    def of(cls, given: object) -> KernelFunction:
        """A function, or the one that a text ``module:function`` names, which is imported.

        Raises :class:`~feinsum_fuse.schedule.refusals.FunctionError` for what is no function of a module, by which others could find it.
        """
        transform = _imported(given) if isinstance(given, str) else given
        name = getattr(transform, "__qualname__", "")
        module = getattr(transform, "__module__", None)
        if not callable(transform) or not name or not module:
            hint = "Give a function of a module, or its name 'module:function'."
            raise FunctionError(f"a value of type {type(given).__name__} is no function", hint=hint)
        if module == "__main__" or not name.isidentifier() or not _is_found(module, name, transform):
            hint = "Define it at the top of a module that other processes can import."
            raise FunctionError(f"{module}:{name} cannot be found again by its name", hint=hint)
        return cls(FunctionName(f"{module}:{name}", _version(transform)), transform)

    def apply(self, kernel: lp.TranslationUnit) -> lp.TranslationUnit:
        """The kernel after the function, its arguments as they were.

        Raises :class:`~feinsum_fuse.schedule.refusals.FunctionError` if the function fails, whatever it raises, or returns anything else.
        """
        import loopy as lp

        try:
            made = self.transform(kernel)
        except Exception as error:
            raise FunctionError(f"{self.name} failed on this kernel: {type(error).__name__}: {error}") from error
        if not isinstance(made, lp.TranslationUnit):
            raise FunctionError(f"{self.name} returned a value of type {type(made).__name__}, not a loopy kernel")
        if arguments(made) != arguments(kernel):
            hint = "Names, order, element types, shapes and strides are the caller's."
            raise FunctionError(f"{self.name} changed the kernel's arguments", hint=hint)
        return made


def functions_by_name(given: Iterable[object]) -> dict[FunctionName, KernelFunction]:
    """Functions that a caller allows, each as :meth:`KernelFunction.of` takes it."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise FunctionError("functions are to be a list of functions or of their names 'module:function'")
    found = [KernelFunction.of(one) for one in given]
    return {one.name: one for one in found}


def arguments(kernel: lp.TranslationUnit) -> tuple[object, ...]:
    """What callers see of a kernel's arguments, to be compared."""
    args = kernel.default_entrypoint.args
    return tuple((a.name, str(a.dtype), getattr(a, "shape", None), str(getattr(a, "dim_tags", None))) for a in args)


def _imported(text: str) -> object:
    module, separator, name = text.partition(":")
    if not separator or not name.isidentifier():
        raise FunctionError(f"{described(text)} names no function", hint="Write 'module:function'.")
    try:
        return getattr(import_module(module), name)
    except (ImportError, ValueError, TypeError) as error:
        raise FunctionError(f"{described(text)} cannot be imported: {error}") from error
    except AttributeError as error:
        raise FunctionError(f"module {module} has no {name}") from error


def _is_found(module: str, name: str, function: object) -> bool:
    """Whether an import by this name gives the same; it has been imported already, since the function is there."""
    try:
        return getattr(import_module(module), name, None) is function
    except ImportError:
        return False


def _version(function: object) -> str:
    said = getattr(function, "version", None)
    if said is not None:
        if not isinstance(said, str | int) or not 1 <= len(str(said)) <= 100:
            raise FunctionError(f"the version of {getattr(function, '__qualname__', '')} is to be a short text or a number")
        return str(said)
    try:
        text = inspect.getsource(inspect.unwrap(function))  # type: ignore[arg-type]
    except (OSError, TypeError) as error:
        raise FunctionError("the function's text cannot be found", hint="Give it an attribute 'version'.") from error
    return hashlib.sha256(text.encode()).hexdigest()[:VERSION_DIGITS]
