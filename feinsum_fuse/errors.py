"""Every error that this package raises for bad input; nothing else escapes.

A message says what is wrong, where (``file:line:column``, or the step and loop), why, and what to do about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""What terminals obey or hide instead of showing it: controls but line feed and tabulator, marks of direction and of no width, and halves
of characters, which cannot be printed."""


def shown(text: str) -> str:
    """The text with what a terminal would obey written out: ``\\x1b`` for an escape. For all that comes from files and devices."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


@dataclass(frozen=True)
class Location:
    """Where in a user's file a value stands; lines and columns count from 1."""

    file: str
    line: int | None = None
    column: int | None = None
    path: str = ""
    """The path inside the document, for example ``workload.einsums[0].name``."""

    def __str__(self) -> str:
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{position}: {self.path}" if self.path else position


class Error(Exception):
    """The base of every error of this package.

    ``location`` is set where a user's file is at fault; ``hint`` says what to do. Both are part of the message.
    """

    def __init__(self, message: str, *, location: Location | None = None, hint: str = "") -> None:
        self.message = message
        self.location = location
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.location}: {self.message}" if self.location else self.message
        return shown(f"{text}\n  {self.hint}" if self.hint else text)


class SpecError(Error):
    """A workload, architecture, mapping or renames file that does not mean anything we can honour."""


class MappingError(SpecError):
    """A LoopTree that does not fit its workload or architecture."""


class CascadeError(Error):
    """Einsums that cannot be computed: unknown function, contradictory shapes, a cycle."""


class UnsupportedTypeError(CascadeError):
    """An element type that the device or the code generator lacks."""


class MatchError(Error):
    """A loopy kernel that is no batched einsum; the message names the instruction and the reason.

    ``instructions`` are the identifiers of all that are known to be none, that one among them.
    """

    def __init__(self, message: str, *, location: Location | None = None, hint: str = "", instructions: tuple[str, ...] = ()) -> None:
        super().__init__(message, location=location, hint=hint)
        self.instructions = instructions


class ScheduleError(Error):
    """A schedule step whose precondition does not hold."""


class LoweringError(Error):
    """A legal mapping that cannot be turned into a kernel yet."""


class ModelError(Error):
    """A prediction that cannot be made, or a name that the prediction does not know."""


class DeviceError(Error):
    """No such device, or a device that cannot do what is asked."""


class ArchiveError(Error):
    """A database that cannot be read or written."""


class ArchiveBusyError(ArchiveError):
    """A database that somebody else holds for longer than anybody waits."""


class SearchError(Error):
    """A search for a mapping that cannot be made, or whose result contradicts the model."""


class TransformError(Error):
    """A transform of the catalogue that does not apply, or parameters that it does not take."""


class SpecWarning(UserWarning):
    """Something in a user's file is accepted and has no effect, or another one than it may seem."""


class ConstraintWarning(SpecWarning):
    """A mapping breaks a constraint of its architecture: no mapper returns it, and its figures hold all the same."""


class WaitingWarning(UserWarning):
    """Somebody else holds what is needed, or it is not there yet: what is waited for, and for how long."""
