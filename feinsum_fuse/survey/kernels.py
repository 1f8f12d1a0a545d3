"""Kernels that are verified and timed: one small product, the examples, random trees."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from ..archive.facts.recording import record
from ..cascades.reading.reader import cascade
from ..device.catalogue import DeviceInfo, target
from ..device.program.building import build, lowered
from ..device.program.program import Program
from ..device.timing.harness import measure
from ..device.timing.measurement import Measurement, Provenance, Subject
from ..device.timing.outcome import KernelError, Outcome
from ..errors import LoweringError, MappingError, ScheduleError
from ..executors import end_with
from ..formats.reading.load import load
from ..formats.spec import Spec
from ..lowering.lowering import lower
from ..mappings.default_mapping import default_spec
from ..schedule.target import Target
from .step_session import SurveySession

REPEATS = 7
"""Samples of each kernel: what is measured here is whether it is right."""
PROCESSES = 4
"""That verify trees at the same time, at most; each has a process that runs its kernel."""
LONGEST_KERNEL_S = 30.0
"""Seconds after which a kernel counts as hanging; less where the step has less."""
ARCHITECTURE = "gpu.yaml"
"""What the examples' mappings are bound to on a device whose lanes are work-items."""
SMALLER: tuple[dict[str, int], ...] = ({}, *({"ROWS": rows, "FT": 2 * rows, "PT": rows} for rows in (64, 32, 16, 8, 4)))
"""What the examples' mappings are told of their tiles, until these fit the local memory."""
GROUP_ITEMS = (64, 32, 16, 8, 4)
"""Work-items of a group, of which the most are taken with which a mapping has tiles that fit."""


def smoke(session: SurveySession) -> None:
    """The default mapping of a product whose sizes nothing divides."""
    sizes = {"M": 67, "N": 131, "K": 97}
    product = cascade(["C[m,n] = A[m,k] * B[k,n]"], sizes=sizes, dtypes={"All": "float32"})
    found = _measured(session, "product of 67 x 97 x 131", default_spec(product, target=target(session.device)))
    record(found, url=session.journal.url)


def examples(session: SurveySession) -> None:
    """Every mapping of the examples' folder: by ``gpu.yaml`` if it can, else by the architecture beside it."""
    _measure_all(session, _examples(session))


def trees(session: SurveySession) -> None:
    """Every Spec of the folder of random trees: verified by several processes at once, and not timed."""
    verified = session.journal.done(session.step)
    files = [file for file in sorted(session.folder("trees").glob("*.yaml")) if file.stem not in verified]
    context = multiprocessing.get_context("spawn")  # OpenCL does not survive a fork
    count = max(1, min(PROCESSES, (os.cpu_count() or 1) // 2))
    with ProcessPoolExecutor(count, mp_context=context, initializer=end_with, initargs=(os.getpid(),)) as pool:
        waiting = {pool.submit(_verify, session, file): file.stem for file in files}
        for done in as_completed(waiting):
            if error := done.exception():
                session.write(label=waiting[done], outcome="failed", message=str(error))


def _verify(session: SurveySession, file: Path) -> None:
    """Build a program of the Spec in a file, which verifies it, and write down how it ended."""
    if session.left <= 0:
        session.write(label=file.stem, outcome="left out", message="no time was left")
        return
    try:
        _built(session, file.stem, load(file))
    except Exception as error:  # the next one may be all right
        session.failed(file.stem, error)


Attempt = tuple[Mapping[str, object], list[Path]]
"""Template variables, and files that make a Spec together."""


def _examples(session: SurveySession) -> Iterator[tuple[str, list[Attempt]]]:
    """Name of each mapping of the examples -> what to try for it."""
    folder = session.folder("examples")
    asked: dict[str, object] = dict(session.settings.variables)
    found = list(tilings(target(session.device)))
    for mapping in sorted(folder.glob("*/mapping*.yaml")):
        workload, own = mapping.with_name("workload.yaml"), mapping.with_name("arch.yaml")
        attempts: list[Attempt] = [({**asked, **tiles}, [workload, folder / ARCHITECTURE, mapping]) for tiles in found]
        if own.exists():
            attempts.append((asked, [workload, own, mapping]))
        yield f"{mapping.parent.name} {mapping.stem}", attempts


def tilings(device: Target) -> Iterator[dict[str, int]]:
    """Template variables of the examples' mappings for a device, in the order in which they are tried."""
    for lanes in GROUP_ITEMS if device.lanes_are_items else ():
        yield from ({"LANES": lanes, **tiles} for tiles in SMALLER)
    yield from SMALLER


def _measure_all(session: SurveySession, cases: Iterable[tuple[str, list[Attempt]]]) -> None:
    done = session.journal.done(session.step)
    for label, attempts in cases:
        if label in done:
            continue
        if session.left <= 0:
            session.write(label=label, outcome="left out", message="no time was left")
            continue
        try:
            spec = fitting(attempts, target(session.device))
            found = _measured(session, label, spec)
            if found.subject is not None and found.subject.schedule is not None:
                record(found, url=session.journal.url)
        except Exception as error:  # the next one may be all right
            session.failed(label, error)


def fitting(attempts: list[Attempt], device: Target) -> Spec:
    """The first that can be lowered for a device; raises what the last one raises."""
    for variables, files in attempts[:-1]:
        try:
            spec = load(*files, variables=dict(variables))
            lower(spec, target=device)
            return spec
        except (LoweringError, ScheduleError, MappingError):
            continue
    variables, files = attempts[-1]
    return load(*files, variables=dict(variables))


def _measured(session: SurveySession, label: str, spec: Spec) -> Measurement:
    """A Spec built, verified and timed, and written down; a kernel that fails is a result."""
    program = _built(session, label, spec, failures_only=True)
    if isinstance(program, Measurement):
        return program
    found = measure(program, repeats=REPEATS, label=label)
    session.write(**session.keep(label, found, program.source))
    return found


def _built(session: SurveySession, label: str, spec: Spec, *, failures_only: bool = False) -> Program | Measurement:
    """The verified program of a Spec, or how it failed, which is written down; with ``failures_only`` nothing else is."""
    mapped, schedule = lowered(spec, session.device)
    subject, info = Subject(cascade(mapped), schedule, mapped), DeviceInfo.of(session.device)
    try:
        program = build(subject.cascade, schedule, session.device, spec=mapped, timeout_s=max(1.0, min(LONGEST_KERNEL_S, session.left)))
    except KernelError as error:
        origin = Provenance.now(info, error.executable.source_hash, error.executable.options)
        failed = Measurement(error.outcome, error.stage, error.reason, origin, label=label, subject=subject)
        session.write(**session.keep(label, failed, error.executable.source))
        return failed
    if not failures_only:
        passed = Measurement(Outcome.ok, "verify", "", Provenance.now(info), label=label, subject=subject)
        session.write(**session.keep(label, passed, program.source))
    return program
