"""What is to be computed, as callers write it: Einsums as text, or files. Its request is known before it is read."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..arguments import COUNT, PATH, described
from ..errors import CascadeError, SpecError
from .known_programs import request_of

if TYPE_CHECKING:
    from ..cascades.cascade import Cascade
    from ..formats.spec import Spec

_EINSUM = re.compile(r"\s*[^\W\d][\w.]*\s*\[[^\]]*\]\s*=")
"""How an Einsum begins, and hardly a file's name."""
_ASSIGNMENT = re.compile(r"\s*[^\W\d][\w.]*\s*=")
"""How a text begins that is meant as an Einsum if sizes come with it."""
_LARGEST = 1 << 20
"""Bytes of a file that is hashed; larger ones are refused when they are read."""


@dataclass(frozen=True)
class Texts:
    """Einsums as text."""

    einsums: tuple[str, ...]
    sizes: Mapping[str, int] | None
    dtypes: Mapping[str, str] | None

    @property
    def request(self) -> str | None:
        """What decides about the cascade; ``None`` for what has no text."""
        return request_of("einsums", einsums=self.einsums, sizes=_plain(self.sizes), dtypes=_plain(self.dtypes))

    def read(self) -> Cascade:
        """The cascade."""
        from ..cascades.reading.reader import cascade

        return cascade(list(self.einsums), sizes=self.sizes, dtypes=self.dtypes)


@dataclass(frozen=True)
class Files:
    """Files of a Spec."""

    paths: tuple[str | os.PathLike[str], ...]
    variables: Mapping[str, object] | None

    @property
    def request(self) -> str | None:
        """What decides about the Spec; ``None`` where that is more than these files and variables, since a file may include others."""
        digests = []
        for path in self.paths:
            try:
                if os.path.getsize(path) > _LARGEST:
                    return None
                with open(path, "rb") as file:
                    content = file.read(_LARGEST)
            except OSError:
                return None  # a pattern, or what reading it refuses
            if b"include" in content:
                return None
            digests.append(hashlib.sha256(content).hexdigest())
        return request_of("files", digests=digests, variables=_plain(self.variables))

    def read(self) -> Spec:
        """The Spec."""
        from ..formats.reading.load import load

        return load(*self.paths, variables=self.variables)  # type: ignore[arg-type]


def _plain(given: Mapping[str, object] | None) -> dict[str, object]:
    return {name: int(value) if COUNT.holds(value) else value for name, value in (given or {}).items()}  # type: ignore[call-overload]


Written: TypeAlias = Texts | Files


def written(
    what: object, sizes: Mapping[str, int] | None, dtypes: Mapping[str, str] | None, variables: Mapping[str, object] | None
) -> Written | None:
    """What is written, or ``None`` for an object of Python's; raises one of our errors for arguments that do not go together."""
    parts = _parts(what)
    begins = (_EINSUM, _ASSIGNMENT) if sizes or dtypes else (_EINSUM,)
    are_einsums = [isinstance(part, str) and any(pattern.match(part) for pattern in begins) for part in parts or ()]
    if parts and all(are_einsums):
        if variables:
            raise SpecError("variables are for files", hint="Give the sizes of Einsums with sizes={...}.")
        return Texts(tuple(map(str, parts)), sizes, dtypes)
    if sizes or dtypes:
        hint = "Einsums are such as 'Z[m,n] = A[m,k] * B[k,n]'; ff.einsum takes those of NumPy, such as 'ij,jk->ik'."
        raise CascadeError(f"sizes and dtypes are for Einsums as text, not for {described(what)}", hint=hint)
    if parts and all(PATH.holds(part) for part in parts) and not any(are_einsums):
        return Files(tuple(parts), variables)
    if variables:
        raise SpecError(f"variables are for files, not for {described(what)}")
    if parts is not None:
        hint = "Einsums are such as 'Z[m,n] = A[m,k] * B[k,n]'."
        raise CascadeError("a list is to hold Einsums as text, or names of files, and nothing else", hint=hint)
    return None


def _parts(what: object) -> list[str | os.PathLike[str]] | None:
    """The texts or paths in what was given; ``None`` for an object that is no list."""
    if isinstance(what, str | os.PathLike):
        return [what]
    return list(what) if isinstance(what, Sequence) and not isinstance(what, bytes) else None
