"""Where transforms are found: the catalogue that is installed with the package, and what others register as entry points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType

from ..arguments import checked, described, instance
from ..cascades.cascade import Cascade
from ..errors import TransformError
from .transform import Transform

CATALOGUE = "feinsum_fuse.transforms"
"""The package of our own; the group of entry points of others has the same name. An entry point is a module or package with transforms."""


@cache
def transforms() -> dict[str, Transform]:
    """All transforms that are installed, by name: ours, then those of others, which carry the entry point's name in front.

    What another package registers and cannot be imported is left out with a warning.
    """
    found = {one.name: one for one in _within(import_module(CATALOGUE))}
    for entry in sorted(entry_points(group=CATALOGUE), key=lambda entry: entry.name):
        try:
            module = entry.load()
        except Exception as error:  # whatever foreign code raises when it is imported
            warnings.warn(f"the transforms of {entry.name} ({entry.value}) cannot be imported: {error}", stacklevel=2)
            continue
        named = (replace(one, name=f"{entry.name}.{one.name}") for one in _within(module))
        found.update({one.name: one for one in named})
    return found


def _within(module: ModuleType) -> Iterator[Transform]:
    """The transforms of a module, and of the modules of a package."""
    modules = [module, *(import_module(f"{module.__name__}.{part.name}") for part in iter_modules(getattr(module, "__path__", ())))]
    for one in modules:
        yield from (value for value in vars(one).values() if isinstance(value, Transform))


def transform_called(name: str) -> Transform:
    """The transform of this name. Raises :class:`~feinsum_fuse.errors.TransformError` if there is none."""
    known = transforms()
    if name not in known:
        raise TransformError(f"there is no transform {described(name)}", hint=f"There are {', '.join(known)}.")
    return known[name]


@checked(TransformError, cascade=instance("a Cascade", Cascade))
def transforms_for(cascade: Cascade) -> tuple[Transform, ...]:
    """The catalogue's transforms that apply to a cascade, in the catalogue's order; none for symbolic sizes.

    Patterns look at the roles of indices, the number of operands and the sizes. A transform that rewrites applies if its rewriting does.
    """
    if cascade.size_parameters:
        return ()
    return tuple(one for one in transforms().values() if one.applies_to(cascade))
