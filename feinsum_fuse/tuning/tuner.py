"""``ff.tune``: nobody has to write a mapping."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import loopy as lp
import pyopencl as cl

from ..archive.tables.address import Url
from ..arguments import AT_LEAST_ONE, FLAG, HOOK, NOTHING, SECONDS, SEEDS, TEXT, checked, collection, instance
from ..cascades.cascade import Cascade
from ..cascades.joining import shapes_before
from ..cascades.matching.match import match
from ..cascades.reading.reader import cascade as cascade_of
from ..device.catalogue import find_device, target
from ..device.checking.example import example
from ..device.checking.room import check_room
from ..device.program.building import build
from ..device.program.program import Program
from ..device.timing.measuring_process import MeasuringProcesses, Sample
from ..device.timing.noise import LEAST_TURNS, beats
from ..device.timing.outcome import KernelError
from ..device.timing.turns import SHORT_ROUNDS, turns
from ..errors import CascadeError, DeviceError, LoweringError, SearchError, WaitingWarning
from ..executors import EXECUTOR, Executor
from ..formats.spec import Spec
from ..mappings.forms.joined_axes import with_joined_axes
from ..patterns.transform import Transform
from ..progress import Hook
from ..schedule.target import Target
from .cluster.cluster import Cluster, RemoteProcesses, is_cluster
from .helpers import Helpers
from .ledger import Ledger
from .measuring import Measured, Measuring, Processes, middle
from .preparation import predict_all
from .sketches.sketching import chosen as sketched
from .task import Asked, Reporter, TuningTask
from .tuned import Tuned
from .tuning_run import TuningRun

PROCESSES = 4
"""That prepare and build at the same time, at most: each takes some 200 MB."""
FINALISTS = 4
LEARNING = 0.05
"""The part of a search's time that may go into learning from the archive before it begins."""
CALLED_S = 0.5
"""Seconds of calls in turns by which the best is compared with the default mapping in the end."""


@checked(
    SearchError,
    device=instance("a device", cl.Device) | TEXT | NOTHING,
    seconds=SECONDS,
    measurements=AT_LEAST_ONE,
    seed=SEEDS,
    executor=EXECUTOR,
    progress=HOOK,
    top=AT_LEAST_ONE,
    resume=FLAG,
    known=FLAG,
    transforms=FLAG | collection("transforms or their names", TEXT | instance("a Transform", Transform)),
    search=FLAG,
    joins=FLAG,
)
def tune(
    what: Spec | Cascade | lp.TranslationUnit,
    device: cl.Device | str | None = None,
    *,
    seconds: float = 180,
    measurements: int = 60,
    seed: int = 0,
    executor: Executor | None = None,
    url: Url | None = None,
    progress: Hook | None = None,
    top: int = 1,
    resume: bool = False,
    known: bool = True,
    transforms: bool | Collection[str | Transform] = False,
    search: bool = True,
    joins: bool = True,
) -> Tuned:
    """The fastest program for a workload that ``measurements`` of candidates within ``seconds`` seconds find.

    ``what``: a Spec (its mapping is one of the candidates), a cascade, or a loopy kernel whose operands are elements of arrays; all sizes
    must be known. Candidates are rewritings of the cascade and mappings of the family (:mod:`feinsum_fuse.mappings`), the default mapping
    first; the kernel model and what was measured so far say which are worth a measurement. What does not beat the default mapping in the
    turns that decide, or is slower when called with NumPy arrays, gives way to it; if ``known`` the best fact takes part. ``url``: where
    every candidate that is run is recorded. ``resume`` takes times that are there instead of measuring again. ``seed`` decides what is
    drawn. ``executor`` prepares candidates, by default processes of its own; of a Dask client's workers, one that holds the resource
    ``opencl`` measures, too. ``top``: how many of the best are in ``finalists``. Ctrl-C ends the search with the best so far.

    ``transforms``: the catalogue's transforms that apply, or those that are given or named, are candidates as well, and the search goes on
    from them; Optuna tunes their parameters beside it (its study lies in the archive's database), or alone without ``search``.
    ``joins``: whether axes that all tensors have side by side are taken as one, where no mapping is given; the program takes the arrays as
    they are, but its cascade and its Spec have fewer axes.

    Raises :class:`~feinsum_fuse.errors.SearchError` if no candidate runs, :class:`~feinsum_fuse.errors.ArchiveError` if the archive cannot
    be written when the search begins, and what reading, matching and devices raise. An archive that fails later ends no search: ``problem``
    of the result says why, and how many measurements are ``unrecorded``.
    """
    begin = time.monotonic()
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    original, given = _asked(what)
    cascade = with_joined_axes(original, target(chosen)) if joins and (given is None or given.mapping is None) else original
    asked = Asked(sketched(cascade, transforms), search, shapes_before(original, cascade))
    if not search and not asked.transforms:
        raise SearchError("there is nothing to tune: no transform is asked for, or none applies, and no other mapping is searched")
    check_room(cascade, chosen)
    ledger = Ledger(chosen, url)
    ledger.check()
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")  # of mappings that nobody keeps
        warnings.simplefilter("always", WaitingWarning)
        count = max(1, min(PROCESSES, os.cpu_count() or 1))
        cluster = Cluster(executor) if is_cluster(executor) else None
        helpers = cluster or executor or stack.enter_context(Helpers(count))
        _warm(helpers, count, target(chosen))
        processes: Processes
        if cluster:
            processes = stack.enter_context(RemoteProcesses(cluster, chosen, cascade, count))
        else:
            processes = stack.enter_context(MeasuringProcesses(chosen, example(cascade), count))
        task = TuningTask(
            cascade, given, chosen, ledger, Reporter(progress, begin, int(measurements)), known, asked, LEARNING * float(seconds)
        )
        width = cluster.width if cluster else count
        run = TuningRun(task, helpers, Measuring(processes), width, begin + float(seconds), int(measurements), int(seed), resume)
        run.search()
        finals = run.decide(max(top, FINALISTS))
    return _result(task, run, finals, top, begin)


def _warm(helpers: Executor, count: int, target: Target) -> None:
    """Let them import what they need while this process reads and reckons."""
    try:
        for _ in range(count):
            helpers.submit(predict_all, [], target)
    except Exception as error:  # whatever a caller's executor raises
        raise SearchError(f"the executor takes no tasks: {error}", hint="Give one that is open, or none.") from error


def _asked(what: object) -> tuple[Cascade, Spec | None]:
    """The cascade, and the Spec if it was one."""
    if isinstance(what, Spec):
        cascade = cascade_of(what)
        given: Spec | None = what
    elif isinstance(what, Cascade):
        cascade, given = what, None
    elif isinstance(what, lp.TranslationUnit):
        matched = match(what)
        if matched.computed:
            raise SearchError(f"the kernel computes {', '.join(matched.computed)} on the way in, which a program of arrays cannot take")
        cascade, given = matched.cascade, None
    else:
        hint = "Give a Spec (ff.load), a cascade (ff.cascade) or a loopy kernel; ff.compile(..., tune=True) takes texts and files."
        raise SearchError(f"a {type(what).__name__} cannot be tuned", hint=hint)
    if cascade.size_parameters:
        symbols = ", ".join(map(str, cascade.size_parameters))
        raise CascadeError(f"the sizes {symbols} are not known", hint="A mapping is tuned for one size: give it.")
    return cascade, given


def _result(task: TuningTask, run: TuningRun, finals: Sequence[tuple[Measured, list[Sample]]], top: int, begin: float) -> Tuned:
    """The best, recorded."""
    program, order = _chosen(finals, run)
    measured = [(one, one.measurement(task.info, samples)) for one, samples in order]
    (best, measurement), *others = measured
    task.say("recording", run.spent)
    task.ledger.write([other for _, other in others])
    task.ledger.finish(measurement)
    fact = None if task.ledger.problem else task.ledger.best(best.cascade)
    task.say("done", run.spent, ended=True)
    return Tuned(
        program=program,
        measurement=measurement,
        default=next((m for one, m in measured if one.candidate == task.first[0]), measured[-1][1]),
        fact=fact if fact else None,
        history=run.tried,
        floor=task.floor,
        seconds=time.monotonic() - begin,
        device=task.info,
        finalists=tuple((one.candidate.spec, found) for one, found in measured[:top]),
        interrupted=run.interrupted,
        unrecorded=len(task.ledger.unrecorded),
        problem=task.ledger.problem,
        learned=str(task.learned),
    )


def _chosen(finals: Sequence[tuple[Measured, list[Sample]]], run: TuningRun) -> tuple[Program, list[tuple[Measured, list[Sample]]]]:
    """The first that can be built in this process and is no slower than the default mapping when called there, and the finals, it first.

    The turns that decide run on memory of the device's own, one run behind the other. A caller's arrays lie elsewhere, and cores sleep
    between calls.
    """
    programs: dict[int, Program] = {}
    problems: list[str] = []
    passed: list[tuple[Measured, list[Sample]]] = []
    default = next((one for one, _ in finals if one.candidate == run.task.first[0]), None)

    def built(one: Measured) -> Program | None:
        if one.number not in programs:
            try:
                programs[one.number] = _built(one, run.task.device, run.task.asked.shapes)
            except (KernelError, LoweringError) as error:
                problems.append(error.message)
        return programs.get(one.number)

    for place, (one, samples) in enumerate(finals):
        program = built(one)
        asks = default is not None and one is not default and program is not None and _can_tell(samples)
        usual = built(default) if asks and default is not None else None
        if program is not None and (usual is None or not _gives_way(program, usual, run)):
            return program, [finals[place], *finals[place + 1 :], *passed]
        passed.append(finals[place])
    raise SearchError(f"no finalist can be built in this process: {'; '.join(problems)}")


def _can_tell(samples: Sequence[Sample]) -> bool:
    """Whether enough calls in turns are done in time, as far as a run's time is known: beside a long run a call costs nothing, either."""
    return not samples or 2 * LEAST_TURNS * middle(samples) <= CALLED_S


def _gives_way(program: Program, usual: Program, run: TuningRun) -> bool:
    """Whether the default mapping is faster than a program when called; after an interrupt, and without memory for such calls, the
    turns before have decided.
    """
    try:
        return called_faster(usual, program)
    except DeviceError:
        return False
    except KeyboardInterrupt:
        run.interrupted = True
        return False


def called_faster(one: Program, other: Program) -> bool:
    """Whether a program takes less time than another one of the same inputs when it is called with NumPy arrays, by more than luck."""
    inputs = one.example.inputs
    mine, its = turns([partial(one.runner, inputs), partial(other.runner, inputs)], SHORT_ROUNDS, CALLED_S)
    return len(mine) >= LEAST_TURNS and beats(mine, its)


def _built(one: Measured, device: cl.Device, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    spec = one.candidate.spec if one.candidate.spec.mapping is not None else None
    return build(one.cascade, one.prepared.schedule, device, spec=spec, shapes=shapes)
