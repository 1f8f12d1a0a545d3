"""The correction that a search on a device ranks by: learned from its archive, judged, and off unless it beats the model alone."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyopencl as cl

from ...archive.facts.record import Record
from ...archive.facts.retrieval import facts_on, recorded
from ...archive.tables.address import Url, locate
from ...device.catalogue import DeviceInfo, default_file
from ...errors import ArchiveError, SearchError
from ...model.kernel.machine import Machine
from .judgement import RECALL, REGRET, Judgement, LeftOut, judged
from .lessons import LESSONS, LessonBook
from .ranker import Ranker, learned, ranker_of

AT_ONCE = 50
"""Facts that are read at once: each holds its cascade and its schedule."""
SAMPLED = 3
"""Facts spread over the archive that tell whether the model is still the one whose terms are kept: each builds a loopy kernel."""
GROWN = 1.25
"""Times as many lessons as were judged last, from which on they are judged anew."""


NONE_JUDGED = Judgement(())


@dataclass(frozen=True)
class Learned:
    """What predictions of a search are corrected by."""

    ranker: Ranker | None = None
    """``None`` where nothing was learned, or where the model alone ranks as well."""
    mappings: int = 0
    """That were learned from."""
    judgement: Judgement = NONE_JUDGED

    def __str__(self) -> str:
        if self.ranker is None:
            return ""
        recalls, regrets = self.judgement.recall, self.judgement.regret
        return (
            f"predictions are corrected by what {self.mappings} mappings of {len(self.judgement.each)} workloads on record say: "
            f"recall@{RECALL} {recalls[0]:.0%} to {recalls[1]:.0%}, regret@{REGRET} {regrets[0]:.1%} to {regrets[1]:.1%} on left-out ones"
        )


NOTHING_LEARNED = Learned()


def correction(device: cl.Device, machine: Machine, url: Url | None, seconds: float, say: Callable[[str, int], None]) -> Learned:
    """What a search ranks by beside the model, if it was found to rank better on this device's archive.

    Nothing is begun after so many seconds. Without LightGBM nothing is learned. ``say`` is told of it, and of how many mappings are known.
    """
    if importlib.util.find_spec("lightgbm") is None:
        return NOTHING_LEARNED
    until = time.monotonic() + seconds
    book = LessonBook.of(_file(device, url), machine)
    say("learning from the archive", 0)
    try:
        changed = _read(book, machine, DeviceInfo.of(device), url, until)
    except ArchiveError:
        return NOTHING_LEARNED  # whoever searches hears of it when the first measurement is written
    lessons = book.lessons()
    count = sum(len(lesson.measured) for lesson in lessons)
    if count and count >= GROWN * book.judged["mappings"]:
        try:
            found = judged(lessons, until)
            ranker = learned(lessons).data if found is not None and found.is_better else None
        except SearchError:
            found = ranker = None  # what is installed cannot be loaded, or does not take these lessons
        if found is not None:
            book.judged = {"mappings": count, "each": [dataclasses.astuple(one) for one in found.each], "ranker": ranker}
            changed = True
    if changed:
        book.write()
    return _kept(book)


def _read(book: LessonBook, machine: Machine, info: DeviceInfo, url: Url | None, until: float) -> bool:
    """Bring the book to where the archive is; whether anything changed."""
    known = facts_on(info, url)
    before = dict(book.notes)
    book.keep(known)
    noted = [fact for fact in known if book.notes.get(fact) is not None]
    some = noted[:: max(1, len(noted) // SAMPLED)][:SAMPLED]
    if not all(book.is_of_this_model(record, machine) for record in _recorded(some, url)):
        book.notes, book.judged = {}, {"mappings": 0}
    new = [fact for fact in known if fact not in book.notes]
    for k in range(0, len(new), AT_ONCE):
        if time.monotonic() > until:
            break
        asked = new[k : k + AT_ONCE]
        records = _recorded(asked, url)
        book.add(records, machine, until)
        # Nobody can replay the others, so that they are not asked for again.
        book.notes |= dict.fromkeys(set(asked).difference(record.id for record in records))
    return book.notes != before


def _recorded(facts: Sequence[str], url: Url | None) -> list[Record]:
    """What can be read of these facts: a damaged record is no lesson."""
    try:
        return recorded(facts, url)
    except ArchiveError:
        if len(facts) == 1:
            return []
        return [record for fact in facts for record in _recorded([fact], url)]


def _kept(book: LessonBook) -> Learned:
    """What was judged last; nothing where that cannot be read."""
    try:
        if not book.judged.get("ranker"):
            return NOTHING_LEARNED
        each = tuple(LeftOut(name, int(n), (r[0], r[1]), (g[0], g[1])) for name, n, r, g in book.judged["each"])
        return Learned(ranker_of(book.judged["ranker"]), int(book.judged["mappings"]), Judgement(each))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return NOTHING_LEARNED


def _file(device: cl.Device, url: Url | None) -> Path:
    """Where lessons of an archive are kept: beside the device file."""
    place = hashlib.sha256(str(locate(url)).encode()).hexdigest()[:12]
    file = default_file(device)
    return file.with_name(f"{file.stem}{LESSONS}{place}.json")
