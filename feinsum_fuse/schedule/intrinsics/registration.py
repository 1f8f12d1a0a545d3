"""Which intrinsics there are: those that ship, those that a program makes, and those that packages register as entry points."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType

from constantdict import constantdict

from ...arguments import COUNT, FLAG, NOTHING, TEXT, checked, described, mapping
from ...errors import Location, SpecError
from ...formats.language.einsum_text import parse_einsum
from ...formats.opencl import AddressSpace
from ..refusals import IntrinsicError
from .four_bit_rows import GROUPS, four_bit_rows
from .function_intrinsic import FunctionIntrinsic
from .intrinsic import INTRINSICS, TensorIntrinsic

AnyIntrinsic = TensorIntrinsic | FunctionIntrinsic
ENTRY_POINTS = "feinsum_fuse.intrinsics"
"""The group of entry points. An entry point is a module that makes intrinsics by the decorator when it is imported."""
_REGISTERED: dict[str, FunctionIntrinsic] = {made.name: made for made in map(four_bit_rows, GROUPS)}
"""Name -> function; our own first."""

_WORDS = mapping("texts by name", TEXT, TEXT)


@checked(
    IntrinsicError,
    meaning=TEXT,
    types=TEXT | _WORDS,
    memories=_WORDS | NOTHING,
    sizes=mapping("numbers by index", TEXT, COUNT) | NOTHING,
    together=_WORDS | NOTHING,
    usual=FLAG,
)
def intrinsic(
    meaning: str,
    *,
    types: Mapping[str, str] | str,
    memories: Mapping[str, AddressSpace] | None = None,
    sizes: Mapping[str, int] | None = None,
    together: Mapping[str, str] | None = None,
    usual: bool = False,
) -> Callable[[Callable[[], str]], FunctionIntrinsic]:
    """Make an intrinsic of a function that returns OpenCL C, and register it under ``module.function``.

    ``meaning``: an Einsum; ``types``: tensor -> NumPy type, or one for all; ``memories``: tensor -> ``global`` (the operands'),
    ``local`` or ``private`` (the output's, unless another is given); ``sizes``: index -> exact number of iterations; ``together``: tensor
    -> the index along which elements lie next to one another; ``usual``: ``ff.lower`` asks for it wherever it computes a block.

    The text defines ``void function(...)`` with the parameters that :attr:`FunctionIntrinsic.prototype` gives; a refusal prints them.
    Raises :class:`~feinsum_fuse.schedule.refusals.IntrinsicError`, with file and line, for what is no intrinsic.
    """

    def decorate(function: Callable[[], str]) -> FunctionIntrinsic:
        if not inspect.isfunction(function):
            raise IntrinsicError(f"{described(function)} is no intrinsic", hint="Decorate a function that returns OpenCL C.")
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        place = Location(function.__code__.co_filename, function.__code__.co_firstlineno)

        def refused(what: str, hint: str) -> IntrinsicError:
            return IntrinsicError(f"{name} is no intrinsic: {what}", location=place, hint=hint)

        if inspect.signature(function).parameters or not inspect.getdoc(function):
            raise refused("it takes parameters, or has no docstring", "Write a function without parameters whose docstring says the idea.")
        text = function()
        if not isinstance(text, str):
            raise refused(f"it returns {described(text)}", "Return OpenCL C as a text.")
        try:
            parsed = parse_einsum(meaning)
        except SpecError as reason:
            raise refused(reason.message, reason.hint or "Write an Einsum such as Z[m,n] = A[m,k] * B[k,n].") from reason
        tensors = (parsed.output, *(tensor for tensor, _ in parsed.inputs))
        own: dict[str, AddressSpace] = {**dict.fromkeys(tensors, "global"), parsed.output: "private", **(memories or {})}
        of_each = dict.fromkeys(tensors, types) if isinstance(types, str) else types
        tables = (constantdict(of_each), constantdict(own), constantdict(sizes or {}), constantdict(together or {}))
        made = FunctionIntrinsic(name, meaning, tables[0], text, *tables[1:], usual, idea=inspect.getdoc(function) or "")
        for what, hint in made.faults():
            raise refused(what, hint)
        _, fault = made.fault_of_text()
        if fault:
            raise refused(fault, f"Declare it as {made.prototype}.")
        return _registered(made, place)

    return decorate


def _registered(made: FunctionIntrinsic, place: Location) -> FunctionIntrinsic:
    """The intrinsic, which the table has from now on.

    Made anew with the same definition it is the same one. Raises :class:`~feinsum_fuse.schedule.refusals.IntrinsicError` for another
    definition under a name that is taken.
    """
    known = _REGISTERED.setdefault(made.name, made)
    if known.digest != made.digest:
        hint = "Give the function, or its module, another name: recorded schedules go by it."
        raise IntrinsicError(f"there is another intrinsic {made.name} ({known.meaning}, {known.digest})", location=place, hint=hint)
    return known


@cache
def _import_entry_points() -> None:
    """Imports what packages register, once; what cannot be imported is left out with a warning."""
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            entry.load()
        except Exception as error:  # whatever foreign code raises when it is imported
            warnings.warn(f"the intrinsics of {entry.name} ({entry.value}) cannot be imported: {error}", stacklevel=2)


def intrinsics() -> Mapping[str, AnyIntrinsic]:
    """All intrinsics by name: ours, then those of packages and of this program."""
    _import_entry_points()
    return MappingProxyType({**INTRINSICS, **_REGISTERED})


def keyed(name: str) -> str:
    """The text by which steps call an intrinsic: of one that is not ours the digest is part of it."""
    known = _REGISTERED.get(name)
    if known is None and "@" not in name and name not in INTRINSICS:
        known = intrinsics().get(name)  # type: ignore[assignment]
    return name if known is None else known.key


def intrinsic_called(key: str) -> AnyIntrinsic:
    """The intrinsic that a step names. :class:`~feinsum_fuse.schedule.refusals.IntrinsicError` if it is not here, or another one is."""
    name, _, digest = key.partition("@")
    known = intrinsics()
    found = known.get(name)
    if found is None:
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(known)}."
        if digest:
            hint = "Import the module that makes it, or install the package that registers it, where the schedule is to run."
        raise IntrinsicError(f"there is no intrinsic {name!r:.60}" + (f" (of digest {digest:.12}) here" if digest else ""), hint=hint)
    own = found.digest if isinstance(found, FunctionIntrinsic) else ""
    if digest and digest != own:
        raise IntrinsicError(
            f"the intrinsic {name} of this schedule has the digest {digest:.12}, and the one here {own or 'none'}",
            hint="Install the version with which the schedule was made, or tensorize anew.",
        )
    return found
