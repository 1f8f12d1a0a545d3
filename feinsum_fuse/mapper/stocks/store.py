"""Tables that searches share: on disk, in a folder of files that are complete or not there, or in the memory of one process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SearchError
from ...whole_file import replacing
from ..enumeration.block import Packed
from ..enumeration.prefixes import Frame, Held

MOST_BYTES = 1 << 30
"""What a folder holds; beyond it the files that were used longest ago go."""
MOST_ROWS = 2_000_000
"""What is kept in memory, some 200 MB; beyond it the tables that were used longest ago go."""
SOURCES = ("mapper/einsum/*.py", "mapper/enumeration/*.py", "mapper/stocks/*.py", "mapper/merging.py", "model/accelforge/*.py")
"""The code that tables depend on."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Store:
    """A folder of tables."""

    folder: Path

    @classmethod
    def at(cls, path: str) -> Store:
        """The folder of this path, made if it is not there; :class:`SearchError` if it cannot be."""
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SearchError(f"The folder of tables {path} cannot be made: {error.strerror}.", hint="Give another as cache.") from error
        return cls(folder)

    def load(self, key: str) -> tuple[Any, list[Packed]] | None:
        """What was saved under a key; ``None`` if nothing was, or it cannot be read."""
        file = self._file(key)
        try:
            with np.load(file, allow_pickle=False) as arrays:
                header = json.loads(str(arrays["header"]))
                blocks = _unpacked(header["blocks"], arrays["integers"], arrays["numbers"])
            os.utime(file)
        except UNREADABLE:
            return None
        return header["about"], blocks

    def save(self, key: str, about: object, blocks: Sequence[Packed] = ()) -> None:
        """Keep blocks, and what JSON can say of them; a folder that cannot be written to keeps nothing."""
        header = json.dumps({"about": about, "blocks": [_header(block) for block in blocks]})
        integers = [a.ravel() for block in blocks for a in (block.tiles, block.origin, block.steps)]
        numbers = [a.ravel() for block in blocks for a in (block.cost, block.reserved)]
        with contextlib.suppress(OSError):
            with replacing(self._file(key)) as place, place.open("wb") as file:
                whole = np.concatenate([np.zeros(0, dtype=np.int64), *integers]), np.concatenate([np.zeros(0), *numbers])
                np.savez(file, header=np.array(header), integers=whole[0], numbers=whole[1])
            self._trim()

    def _file(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(f'{version()} {key}'.encode()).hexdigest()}.npz"

    def _trim(self) -> None:
        """Remove what was used longest ago, until the folder holds no more than it may."""
        files = []
        for path in self.folder.glob("*.npz"):
            with contextlib.suppress(OSError):
                about = path.stat()
                files.append((about.st_mtime, about.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


@dataclass
class Shelf:
    """Tables in memory, kept as :class:`Store` keeps them."""

    _kept: dict[str, tuple[Any, tuple[Packed, ...]]] = field(default_factory=dict, repr=False)
    """What was used last comes last."""

    def load(self, key: str) -> tuple[Any, list[Packed]] | None:
        """As of a folder."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._kept[key] = found
        return found[0], list(found[1])

    def save(self, key: str, about: object, blocks: Sequence[Packed] = ()) -> None:
        """As of a folder."""
        self._kept.pop(key, None)
        self._kept[key] = about, tuple(blocks)
        rows = sum(block.rows for _, own in self._kept.values() for block in own)
        while rows > MOST_ROWS:
            rows -= sum(block.rows for block in self._kept.pop(next(iter(self._kept)))[1])


@cache
def version(sources: tuple[str, ...] = SOURCES) -> str:
    """Of the code in these files of the package: other code, other tables."""
    package = Path(__file__).resolve().parents[2]
    files = [file for some in sources for file in sorted(package.glob(some))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _header(block: Packed) -> dict[str, object]:
    frame, held = block.frame, [[[h.tensor, h.memory, h.depth, h.sunk] for h in some] for some in block.held]
    shapes = [list(a.shape) for a in (block.tiles, block.origin, block.steps, block.cost, block.reserved)]
    return {"frame": [frame.homes, frame.loops, frame.depths, frame.spaces], "held": held, "shapes": shapes}


def _unpacked(headers: Sequence[Any], integers: Any, numbers: Any) -> list[Packed]:
    """The blocks of a file."""
    result = []
    place = [0, 0]
    for header in headers:
        arrays = []
        for number, shape in enumerate(header["shapes"]):
            sort = int(number > 2)
            size = int(np.prod(shape))
            arrays.append((integers, numbers)[sort][place[sort] : place[sort] + size].reshape(shape))
            place[sort] += size
        tiles, origin, steps, cost, reserved = arrays
        frame = Frame(*(tuple(part) for part in header["frame"]))
        held = tuple(tuple(Held(*h) for h in some) for some in header["held"])
        result.append(Packed(frame, held, tiles, cost, reserved, origin, steps))
    return result
