"""Asking the archive: what is known about a cascade on a device, best first.

A fact that claims less than the time below which nothing can have run was not measured, or not what it says. The rates behind that time are
far above those of any device, since a fact that is doubted wrongly is lost until it is measured anew.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import loopy as lp
from constantdict import constantdict
from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from ...arguments import COUNT, HOOK, NOTHING, TEXT, expect
from ...arguments import described as argument_text
from ...cascades.cascade import Cascade
from ...cascades.maps import variables_in
from ...cascades.matching.replacement import rewritten_match
from ...device.catalogue import DeviceInfo, target_of
from ...device.timing.measurement import HARNESS, Measurement
from ...device.timing.outcome import Outcome
from ...errors import ArchiveError, Error, MatchError, ScheduleError
from ...mappings.forms.variants import variants
from ...number_types import kind_of
from ...progress import Hook, Stage
from ...schedule.function import functions_by_name
from ..key.device_identity import Device, described, device_family, device_identity
from ..key.identity import identify
from ..key.recognition import parts
from ..tables.address import Url, locate
from ..tables.schema import ask
from ..tables.storage import record_of
from ..tables.table_rows import CascadeRow, DeviceRow, MeasurementRow
from .fact import Fact
from .forgetting import forgotten_among
from .question import SHIPPED, Answer, Askable, Fit, Question, Trust, about_match, question
from .record import FactKey, Record, about, best_sizes
from .recording import measurement_in, record_from
from .shipped_facts import shipped_records

FAULTS = frozenset({Outcome.wrong_result, Outcome.crashed, Outcome.timeout})
"""After one of these a schedule is not handed out any more, until it has been measured successfully again."""


NO_STRUCTURE = "nothing of this structure"
MOST_REWRITTEN = 8
"""Einsums of a kernel up to which rewritings of it are asked about, too: each of them is put in a canonical form."""


def query(
    x: Askable,
    device: Device,
    *,
    limit: int | None = None,
    outcome: str | None = "ok",
    functions: Iterable[Callable[[lp.TranslationUnit], lp.TranslationUnit] | str] = (),
    url: Url | None = None,
    progress: Hook | None = None,
) -> tuple[Fact, ...]:
    """Facts about ``x`` on ``device``, best first, at most ``limit``.

    First those of the same sizes on the same device, then the same structure at other sizes (nearest first), then devices of the same
    family; among equals times of today's harness first, warm before cold, then by median time (failures: newest first). ``outcome``
    filters; ``None`` gives all.
    Facts about kernels that a function made are among them; those of ``functions``, as for :func:`retrieve`, can be applied.
    Facts that ship with the package lie beneath those of the database at ``url``. Reads only; an empty tuple if nothing is known.
    ``progress`` is told of each fact that was compared with ``x``.
    """
    expect(progress, HOOK, "progress", ArchiveError)
    expect(outcome, TEXT | NOTHING, "the outcome", ArchiveError)
    expect(limit, COUNT | NOTHING, "the limit", ArchiveError)
    if outcome is not None and outcome not in set(Outcome):
        raise ArchiveError(f"{argument_text(outcome)} is no outcome", hint=f"There are {', '.join(Outcome)}; None stands for all.")
    if limit is not None and limit < 0:
        raise ArchiveError(f"a limit of {limit} facts makes no sense")
    asked = question(x, device, functions_by_name(functions))
    known = _answers(asked, url, progress)
    answers = [answer for answer in known if outcome is None or answer.record.measurement.outcome == outcome]
    answers.sort(key=lambda answer: (answer.rank, _order(answer.record)))
    best = best_sizes(answer.record for answer in known)
    return tuple(Fact.of(answer, asked, best.get(about(answer.record), ())) for answer in answers[:limit])


def retrieve(
    x: Askable,
    device: Device,
    url: Url | None = None,
    *,
    functions: Iterable[Callable[[lp.TranslationUnit], lp.TranslationUnit] | str] = (),
    progress: Hook | None = None,
) -> Fact:
    """The best known schedule that applies to ``x`` on ``device``; the fact says how it was found, and may be ``nothing``.

    Schedules are compared by the median of their medians at equal sizes on equal devices. One whose latest measurement there was wrong,
    crashed or hung is passed over. What somebody else measured (:class:`~.question.Trust`) comes after what was measured here, or ships
    with the package, at the same sizes; it says nothing about schedules that were measured here, and is passed over if its times are
    impossible. At sizes or on a device other than recorded, a schedule must be legal for ``x``. Reads only.

    A kernel that a Python function made is answered where the caller allows it: ``functions`` holds the function, or its name
    ``module:function``, which is imported then. Others are passed over and named.

    Of a kernel the fact may be about the cascade as it is rewritten (:mod:`feinsum_fuse.mappings.forms.variants`), and says so. If
    nothing is known about all Einsums of a kernel together, the fact is about some that follow one another, and its detail names them.
    ``progress`` is told of each fact that was compared with ``x``, and of the parts of a kernel that were asked about.
    """
    expect(progress, HOOK, "progress", ArchiveError)
    allowed = functions_by_name(functions)
    if not isinstance(x, lp.TranslationUnit):
        return _best(question(x, device, allowed), url, progress)
    info, failure = described(device), None
    best: Fact | None = None
    try:
        best = _best_of_variants(question(x, info, allowed), url, progress)
    except MatchError as error:
        failure = error
    if best:
        return best
    with Stage("asking about parts of the kernel", progress) as asking:
        for matched in parts(x):
            fact = _best(about_match(matched, info), url, None)
            asking.advance()
            only = f"of the kernel, {', '.join(matched.names.instructions.values())} alone"
            told = dataclasses.replace(fact, detail="; ".join(filter(None, (only, fact.detail))))
            if fact:
                return told
            if best is None or (best.detail.startswith(NO_STRUCTURE) and not fact.detail.startswith(NO_STRUCTURE)):
                best = told
    if best is None:
        assert failure is not None
        raise failure
    return best


def _best_of_variants(asked: Question, url: Url | None, progress: Hook | None) -> Fact:
    """The best fact about what a kernel was matched to, or about that as it may be rewritten; the former of two that fit as well."""
    facts = [_best(asked, url, progress)]
    assert asked.matched is not None
    for cascade in variants(asked.cascade, target_of(asked.device)) if len(asked.cascade.einsums) <= MOST_REWRITTEN else ():
        if cascade.rewritings == asked.cascade.rewritings:
            continue
        try:
            after = rewritten_match(asked.matched, cascade)
        except MatchError:
            continue
        facts.append(_best(about_match(after, asked.device, cascade.rewritings), url, progress))
    return min(facts, key=lambda fact: (list(Fit).index(fact.found), *(_order(fact.known)[:2] if fact else ())))


def _best(asked: Question, url: Url | None, progress: Hook | None) -> Fact:
    """The best fact that answers a question."""
    groups: dict[tuple[tuple[int, float], FactKey], list[Answer]] = defaultdict(list)
    answered = _answers(asked, url, progress)
    for answer in answered:
        groups[answer.rank, answer.record.key].append(answer)
    believed = [(rank, _believed(answers)) for (rank, _), answers in groups.items()]
    rated = [(rank, *_rating(answers)) for rank, answers in believed if _trusted(answers)]
    refused = ""
    for *_, best in sorted(rated, key=lambda entry: entry[:5]):
        try:
            asked.require(best)
        except ScheduleError as error:
            refused = refused or "; " + ": ".join(filter(None, (best.detail, error.message)))
            continue
        return Fact.of(best, asked, best_sizes(answer.record for answer in answered).get(about(best.record), ()))
    known = sum(len(answers) for answers in groups.values())
    names = {a.record.function for answers in groups.values() for a in answers if a.record.function is not None and a.function is None}
    if names:
        refused += f"; made by {', '.join(map(str, sorted(names)))}, which the caller has not handed over (functions=[...])"
    if known:
        detail = f"of {known} facts about this structure, none has a schedule that applies{refused}"
    else:
        detail = near_misses(asked, lambda structure: [record for record, _ in _records(structure, url)]) or NO_STRUCTURE
    return Fact(Fit.nothing, f"{detail} on {asked.device} or its family", asked.device)


def history(measurement: Measurement, url: Url | None = None) -> tuple[Measurement, ...]:
    """Earlier recorded measurements of the same cascade, schedule and device, oldest first: what today's figures are compared with.

    Only successes in the same cache state and of the same harness count, and not ``measurement`` itself, nor what ships with the package:
    that was measured on another machine, if one of the same kind. Reads only.
    """
    today = record_from(measurement_in(measurement))
    same = [
        record.measurement
        for record, _ in _own_records(today.key.structure, url)
        if (record.cascade_key, record.key) == (today.cascade_key, today.key)
        and record.measurement.outcome is Outcome.ok
        and record.measurement.cache_state == measurement.cache_state
        and record.measurement.provenance.harness == measurement.provenance.harness
        and record.measurement != today.measurement
    ]
    return tuple(sorted(same, key=lambda earlier: earlier.provenance.date))


def _own_records(structure: str, url: Url | None) -> list[tuple[Record, str]]:
    """The records of a structure in the user's database, with that database's name."""
    address = locate(url)
    return [(record, str(address)) for record in ask(address, lambda connection: _of_structure(connection, structure)) or ()]


def _records(structure: str, url: Url | None) -> list[tuple[Record, str]]:
    """All records of a structure with where each was found: the user's database, and beneath it what ships and was not forgotten."""
    shipped = shipped_records(structure)
    forgotten = forgotten_among([record.id for record in shipped], url)
    beneath = {record.id: (record, SHIPPED) for record in shipped if record.id not in forgotten}
    return list({**beneath, **{record.id: (record, source) for record, source in _own_records(structure, url)}}.values())


def _of_structure(connection: Connection, structure: str) -> list[Record]:
    with Session(connection) as session:
        rows = session.scalars(select(MeasurementRow).join(CascadeRow).where(CascadeRow.structure == structure)).unique()
        return list(_readable(rows))


def facts_on(info: DeviceInfo, url: Url | None = None) -> tuple[str, ...]:
    """The identifiers of successes on this very device, warm, whoever asks for which cascade; those of one cascade follow one another.

    Imported facts and shipped ones are left out. Reads only.
    """
    columns = select(MeasurementRow.fact).join(DeviceRow).where(DeviceRow.identity == device_identity(info))
    columns = columns.where(MeasurementRow.outcome == Outcome.ok, MeasurementRow.origin == "", ~MeasurementRow.cold)
    ordered = columns.order_by(MeasurementRow.cascade_id, MeasurementRow.id)
    return tuple(ask(locate(url), lambda connection: list(connection.scalars(ordered))) or ())


def recorded(facts: Sequence[str], url: Url | None = None) -> list[Record]:
    """The records of these facts of the user's database, in the order in which they were made. Reads only."""

    def wanted(connection: Connection) -> list[Record]:
        with Session(connection) as session:
            return list(_readable(session.scalars(select(MeasurementRow).where(MeasurementRow.fact.in_(facts))).unique()))

    return (ask(locate(url), wanted) if facts else None) or []


def _readable(rows: Iterable[MeasurementRow]) -> Iterable[Record]:
    """Records whose schedule this version can replay; a step that has changed its meaning since is refused by name when it is asked for."""
    for row in rows:
        try:
            yield record_of(row)
        except ScheduleError:
            continue


def _answers(asked: Question, url: Url | None, progress: Hook | None) -> list[Answer]:
    records = _records(asked.identity.structure, url)
    answers = []
    with Stage("comparing facts", progress, len(records)) as comparing:
        for record, source in records:
            answer = asked.answer(record, source)
            answers += [] if answer is None else [answer]
            comparing.advance()
    return answers


def _order(record: Record) -> tuple[int, bool, float, str, str]:
    """Times of this harness before those of older ones, warm before cold, fast before slow, failures newest first."""
    measurement = record.measurement
    start = HARNESS - measurement.provenance.harness, measurement.cache_state == "cold"
    if measurement.samples_ns:
        return *start, measurement.median, measurement.provenance.date, record.id
    newest_first = "".join(chr(0x10FFFF - ord(character)) for character in measurement.provenance.date)
    return *start, float("inf"), newest_first, record.id


def _believed(answers: list[Answer]) -> list[Answer]:
    """Of the records of one schedule at one size on one device, those that count: none from elsewhere beside own ones, none impossible."""
    known = [answer for answer in answers if answer.trust is not Trust.imported]
    return known or [answer for answer in answers if is_plausible(answer.record)]


def _trusted(answers: list[Answer]) -> bool:
    """Whether there is a time, and no fault after it."""
    times = [answer.record.measurement.provenance.date for answer in answers if answer.record.measurement.outcome is Outcome.ok]
    faults = [answer.record.measurement.provenance.date for answer in answers if answer.record.measurement.outcome in FAULTS]
    return bool(times) and all(max(times) > fault for fault in faults) and answers[0].can_be_applied


def _rating(answers: list[Answer]) -> tuple[bool, int, bool, float, Answer]:
    """From elsewhere or not, by how old a harness, cold or warm, the median of medians, and the answer nearest to it, of one schedule at
    one size: times of different harnesses are not compared."""
    good = [answer for answer in answers if answer.record.measurement.outcome is Outcome.ok]
    newest = max(answer.record.measurement.provenance.harness for answer in good)
    good = [answer for answer in good if answer.record.measurement.provenance.harness == newest]
    warm = [answer for answer in good if answer.record.measurement.cache_state == "warm"] or good
    middle = statistics.median(answer.record.measurement.median for answer in warm)
    best = min(warm, key=lambda answer: (abs(answer.record.measurement.median - middle), answer.record.id))
    return best.trust is Trust.imported, HARNESS - newest, best.record.measurement.cache_state == "cold", middle, best


POINTS_PER_UNIT = 4e12
"""Points of an iteration space that a compute unit takes in a second. A core with two multiply-adds of 64 bytes at 6 GHz takes 0.8e12
of one byte each (Intel 64 and IA-32 Architectures Optimization Reference Manual, 2.1), an H100's multiprocessor 0.25e12 of 32 bits without
matrix units (NVIDIA H100 Tensor Core GPU Architecture, table 3), which OpenCL C cannot reach."""
LEAST_SECONDS = 1e-8
"""Of a launch with the host's clock around it; an enqueueing call alone takes longer."""


def least_seconds(record: Record) -> float:
    """Seconds that the record's cascade takes at the least on its device."""
    return max(LEAST_SECONDS, _points(record.cascade) / (POINTS_PER_UNIT * max(1, record.device.units)))


def is_plausible(record: Record) -> bool:
    """Whether the times that a record claims can be true; a failure claims none."""
    return not record.measurement.samples_ns or record.measurement.minimum >= least_seconds(record)


def _points(cascade: Cascade) -> float:
    """Points that every schedule computes: none of a cascade that may mask some, nor of Einsums that repeat what a compiler may merge."""
    if any(einsum.guards or variables_in(einsum.map) & set(einsum.sizes) for einsum in cascade.einsums):
        return 0.0
    return math.fsum(
        math.prod(float(size) for size in einsum.sizes.values() if isinstance(size, int))
        for einsum in cascade.einsums
        if set(einsum.sizes) <= {variable for operand in einsum.operands for variable in operand.variables}
    )


REAL_TYPES = ("float16", "float32", "float64")


def near_misses(asked: Question, records: Callable[[str], Sequence[Record]]) -> str:
    """In words, what differs between the question and what is known of its structure; empty if nothing is.

    ``records`` gives what is recorded of a structure, by its hash.
    """
    return "; ".join(dict.fromkeys((*_of_other_layout(asked, records(asked.identity.structure)), *_of_other_types(asked, records))))


def _of_other_layout(asked: Question, records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if device_family(record.device) != device_family(asked.device):
            yield f"recorded on {record.device}"
        elif not any(i.shape.strides == record.key.strides for i in asked.identity.mirrored):
            yield f"recorded for {_strides_text(record.key.strides)}, not for {_strides_text(asked.identity.shape.strides)}"


def _strides_text(strides: Sequence[tuple[int, ...]]) -> str:
    return f"strides {', '.join(map(str, strides))}" if any(strides) else "row-major arrays"


def _of_other_types(asked: Question, records: Callable[[str], Sequence[Record]]) -> Iterator[str]:
    """Real numbers of another length alone: whoever asks in float64 may want to know what is known in float32."""
    own = sorted({tensor.dtype for tensor in asked.cascade.tensors.values()})
    for dtype in REAL_TYPES:
        other = _retyped(asked.cascade, dtype)
        if other is None:
            continue
        try:
            found = records(identify(other).structure)
        except Error:
            continue
        if any(device_family(record.device) == device_family(asked.device) for record in found):
            yield f"recorded in {dtype}, not in {' and '.join(own)}"


def _retyped(cascade: Cascade, dtype: str) -> Cascade | None:
    """The cascade with all its floating-point tensors of one type; ``None`` if they are, or if there are none."""
    tensors = {
        name: dataclasses.replace(tensor, dtype=dtype) if kind_of(tensor.dtype) == "f" else tensor
        for name, tensor in cascade.tensors.items()
    }
    if tensors == dict(cascade.tensors):
        return None
    einsums = tuple(
        dataclasses.replace(einsum, accumulate=dtype) if kind_of(einsum.accumulate) == "f" else einsum for einsum in cascade.einsums
    )
    return dataclasses.replace(cascade, einsums=einsums, tensors=constantdict(tensors))
