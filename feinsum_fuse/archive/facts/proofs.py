"""What was seen to agree: remembered in this process, and in the user's data directory for later ones."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..tables.place import data_folder

PROOFS = 1_000
"""How many proofs a process remembers."""
MOST_KEPT = 10_000
"""How many files lie in the folder."""


class Proofs:
    """(source before, source after, device) of what has lately been seen to agree; what was not asked for longest goes first.

    With a ``folder``, an empty file named by the digest of a proof stands for it, so that other processes know it too. A folder that cannot
    be written, or is emptied, costs a verification and nothing else.
    """

    def __init__(self, most: int = PROOFS, folder: Callable[[], Path] | None = None) -> None:
        self.most = most
        self.folder = folder
        self._proofs: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def __contains__(self, proof: tuple[str, ...]) -> bool:
        if proof not in self._proofs:
            if self.folder is None or not self._file(self.folder(), proof).exists():
                return False
            self._remember(proof)
        self._proofs.move_to_end(proof)
        return True

    def add(self, proof: tuple[str, ...]) -> None:
        """Remember one more."""
        self._remember(proof)
        if self.folder is not None:
            with suppress(OSError):
                folder = self.folder()
                folder.mkdir(parents=True, exist_ok=True)
                self._file(folder, proof).touch()
                self._thin(folder)

    def _remember(self, proof: tuple[str, ...]) -> None:
        self._proofs[proof] = None
        if len(self._proofs) > self.most:
            self._proofs.popitem(last=False)

    @staticmethod
    def _file(folder: Path, proof: tuple[str, ...]) -> Path:
        return folder / hashlib.sha256("\0".join(proof).encode()).hexdigest()

    @staticmethod
    def _thin(folder: Path) -> None:
        """Remove the older half once there are too many."""
        files = list(folder.iterdir())
        if len(files) > MOST_KEPT:
            for file in sorted(files, key=lambda file: file.stat().st_mtime)[: len(files) // 2]:
                file.unlink(missing_ok=True)


def kept_proofs() -> Proofs:
    """The proofs of this user, which lie beside the database."""
    return Proofs(folder=lambda: data_folder() / "proofs")
