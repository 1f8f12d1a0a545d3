"""What a choice rested on: the facts about some structures and the calibration of a device, and whether they are still the same.

Imports neither loopy nor SQLAlchemy, but for a server's archive, which nobody else can ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..archive.tables.place import Stamp, digest_of_facts
from ..whole_file import state_of

FileState = tuple[int, int, int] | None


@dataclass(frozen=True)
class Knowledge:
    """The state of an archive and of a device's calibration when a program was chosen."""

    address: str
    """Of the archive, as :func:`~feinsum_fuse.archive.tables.place.text_of` writes it."""
    structures: tuple[str, ...]
    """Those that were asked about."""
    digest: str
    """Of the facts about them."""
    archive: tuple[FileState, ...]
    """The state of the archive's files; empty for a server's."""
    calibration: str
    """The device's file."""
    calibrated: FileState

    @classmethod
    def now(cls, address: str, structures: Sequence[str], calibration: Path) -> Knowledge:
        """As things are; raises :class:`~feinsum_fuse.errors.ArchiveError` for an archive that cannot be read."""
        stamp = Stamp.of(address)
        digest = _digest(address, structures)
        if digest is None:
            from ..archive.tables.schema import digest_of_facts as asked

            digest = asked(address, structures)
        files = stamp.files if stamp is not None else ()
        return cls(address, tuple(structures), digest, files, str(calibration), state_of(calibration))

    def renewed(self) -> Knowledge | None:
        """The same with the state of today's files, if nothing has changed that the choice rested on, else ``None``."""
        if state_of(self.calibration) != self.calibrated:
            return None
        stamp = Stamp.of(self.address)
        if stamp is not None and stamp.files == self.archive:
            return self
        if _digest(self.address, self.structures) != self.digest:
            return None
        return replace(self, archive=stamp.files if stamp is not None else ())

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Knowledge:
        """The inverse."""
        data = json.loads(text)
        archive = tuple(None if state is None else tuple(state) for state in data["archive"])
        calibrated = None if data["calibrated"] is None else tuple(data["calibrated"])
        return cls(data["address"], tuple(data["structures"]), data["digest"], archive, data["calibration"], calibrated)


def _digest(address: str, structures: Sequence[str]) -> str | None:
    if "://" not in address:
        return digest_of_facts(address, structures)
    from ..archive.tables.schema import digest_of_facts as asked

    return asked(address, structures)
