"""Who decides how a cascade runs: a given mapping, else the best known fact, else the model, else the rules of the default mapping.

A fact is taken as it is where this user's own archive shows that it beats the default mapping on this device at these sizes. Any other one
has to win against the default mapping here, in a few turns: times that were taken elsewhere, at other sizes, or by somebody else decide
nothing. So has the model's choice, since the model may err.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import loopy as lp
import numpy as np
from constantdict import constantdict

from ..archive.facts.fact import Fact
from ..archive.facts.question import Fit, Trust
from ..archive.facts.retrieval import query, retrieve
from ..archive.key.identity import identify
from ..archive.tables.place import text_of
from ..cascades.cascade import Cascade
from ..cascades.joining import shapes_before
from ..cascades.reading.reader import cascade as cascade_of
from ..device.catalogue import default_file, target
from ..device.program.building import lowered
from ..device.program.origin import ChosenBy, Origin
from ..device.program.program import Program
from ..device.timing.outcome import KernelError
from ..device.timing.turns import least
from ..errors import ArchiveError, Error, LoweringError, ScheduleError
from ..formats.opencl import OpenCL, level_of
from ..formats.reading.assembly import spec as spec_of
from ..formats.spec import Spec, expect_spec
from ..lowering.lowering import lower
from ..mappings.default_mapping import default_schedule, indexed
from ..mappings.forms.joined_axes import with_joined_axes
from ..mappings.forms.suited import suited
from ..progress import Stage
from ..tuning.model_choice import convincing, predictions
from ..tuning.tuner import tune
from .knowledge import Knowledge
from .known_programs import Chosen
from .making import BuildOptions, Way, made
from .own_transformations import matched_arrays

SMALL_POINTS = 1 << 20
"""Points of a cascade below which nothing is searched and no fact from elsewhere is tried: a call costs more than can be gained."""
SEARCH_S = 1.0
"""Seconds of search by the model."""
SEARCH_RUNS = 200
"""Runs of the program that a search may take, beyond its first candidates: whoever compiles a program runs it more often than that."""
WORTH_TIMING = 0.95
"""The part of the default mapping's predicted time below which another mapping is timed beside it: this costs one more build."""


def selected(asked: object, options: BuildOptions) -> Chosen:
    """The program of a Spec, a cascade or a loopy kernel, and what its choice rested on.

    Raises :class:`~feinsum_fuse.errors.Error` for what cannot be lowered, and
    :class:`~feinsum_fuse.device.timing.outcome.KernelError` for a kernel that fails or computes something else.
    """
    given = _computation(asked, options)
    original = given if isinstance(given, Cascade) else cascade_of(given)
    what, options = _joined(given, original, options)
    usual = _usual(what, options)
    if usual.origin.by is ChosenBy.mapping:
        return Chosen(made(usual, options), None)
    cascade = what if isinstance(what, Cascade) else cascade_of(what)
    if why := _is_bound(what, cascade):
        return Chosen(made(replace(usual, origin=Origin(ChosenBy.default, why)), options), None)
    here = target(options.device)
    forms = tuple(dict.fromkeys((cascade, usual.cascade, suited(cascade, here), original, suited(original, here))))
    with Stage("asking the archive", options.progress):
        fact, doubt = _known(forms, options)
    knowledge = _knowledge(forms, options)
    if fact is not None and _is_proven(fact, usual, options):
        return Chosen(_first_that_runs([fact, usual], options), knowledge)
    if fact is not None:
        return Chosen(_faster([fact, usual], options), knowledge)
    with Stage("searching by the model", options.progress):
        choice, why = _by_model(cascade, options)
    detail = "; ".join(filter(None, (doubt, why)))
    usual = replace(usual, origin=Origin(ChosenBy.default, detail))
    return Chosen(_faster([choice, usual] if choice is not None else [usual], options), knowledge)


def tuned(asked: object, options: BuildOptions, seconds: float | None) -> Program:
    """The program that a search finds which measures, for so many seconds; what was measured before is not measured again."""
    search = partial(tune, _computation(asked, options), options.device, url=options.url, progress=options.progress, resume=True)
    found = search() if seconds is None else search(seconds=seconds)
    gain = found.default.median / found.measurement.median
    told = f"{found.measured} candidates measured, {gain:.3g} times as fast as the default mapping"
    return replace(found.program, origin=Origin(ChosenBy.tuned, told))


def _computation(asked: object, options: BuildOptions) -> Spec | Cascade:
    """A Spec or a cascade; that of a kernel all of whose operands are elements of arrays."""
    if isinstance(asked, Cascade):
        return asked
    if not isinstance(asked, lp.TranslationUnit):
        return expect_spec(asked)
    return matched_arrays(asked, options.progress).cascade


def _joined(given: Spec | Cascade, original: Cascade, options: BuildOptions) -> tuple[Spec | Cascade, BuildOptions]:
    """What is asked for with axes joined, unless a mapping names its loops, and the options with the shapes of the caller's arrays."""
    cascade = with_joined_axes(original, target(options.device))
    shapes = shapes_before(original, cascade)
    if not shapes or (isinstance(given, Spec) and given.mapping is not None):
        return given, options
    options = replace(options, shapes=shapes)
    if isinstance(given, Cascade):
        return cascade, options
    workload = replace(spec_of(cascade).workload, n_instances=given.workload.n_instances)
    return given.replace(workload=workload), options


def _usual(what: Spec | Cascade, options: BuildOptions) -> Way:
    """The given mapping, or the default one."""
    spec = _workload(what) if isinstance(what, Cascade) else what
    if spec is None:
        assert isinstance(what, Cascade)
        return Way(what, default_schedule(what, target(options.device)), None, Origin(ChosenBy.default))
    mapped, schedule = lowered(spec, options.device, options.progress)
    source = ChosenBy.mapping if spec.mapping is not None else ChosenBy.default
    return Way(cascade_of(mapped), schedule, mapped, Origin(source))


def _workload(cascade: Cascade) -> Spec | None:
    """The cascade as a Spec without a mapping; ``None`` where no workload says what it computes."""
    if not all(indexed(einsum) >= set(einsum.sizes) for einsum in cascade.einsums):
        return None
    opencl = OpenCL(
        dtypes=constantdict({name: tensor.dtype for name, tensor in cascade.tensors.items()}),
        accumulate=constantdict({e.output.tensor: e.accumulate for e in cascade.einsums}),
    )
    return spec_of(cascade, opencl=opencl)


def _is_bound(what: Spec | Cascade, cascade: Cascade) -> str:
    """Why nothing but the default mapping is considered; empty where there is a choice."""
    if cascade.size_parameters:
        return "sizes are symbolic"
    opencl = what.opencl if isinstance(what, Spec) else None
    if opencl is not None and any(level_of(kind) == "local" for kind in opencl.fanouts.values()):
        return "the opencl key asks for work-items"
    return ""


def _knowledge(forms: Sequence[Cascade], options: BuildOptions) -> Knowledge | None:
    try:
        structures = sorted({identify(form).structure for form in forms})
        return Knowledge.now(text_of(options.url), structures, default_file(options.device))
    except ArchiveError:
        return None


def _known(forms: Sequence[Cascade], options: BuildOptions) -> tuple[Way | None, str]:
    """The best fact about the cascade in any of its forms, and why there is none."""
    facts: list[tuple[Fact, Cascade]] = []
    why = ""
    for form in forms:
        try:
            fact = retrieve(form, options.device, options.url, progress=options.progress)
        except ArchiveError as error:
            if options.url is not None:
                raise
            return None, f"the archive cannot be asked: {error.message}"
        if fact and fact.schedule is not None and _speaks(fact, form):
            facts.append((fact, form))
        why = why or (f"the nearest fact says nothing here, {fact.detail}" if fact else fact.detail)
    if not facts:
        return None, why
    fact, form = min(facts, key=lambda pair: (list(Fit).index(pair[0].found), pair[0].distance, pair[0].measurement.median))
    assert fact.schedule is not None
    told = "; ".join(filter(None, (f"{fact.known.id[:12]}, {fact.trust}", fact.detail)))
    return Way(form, fact.schedule, _workload(form), Origin(ChosenBy.fact, told)), ""


def _speaks(fact: Fact, form: Cascade) -> bool:
    """Whether a fact says something about a cascade of this size on this device."""
    if fact.found is Fit.exact:
        return True
    return fact.is_near and points(form) >= SMALL_POINTS


def points(cascade: Cascade) -> int:
    """Of all Einsums."""
    return sum(math.prod(size for size in einsum.sizes.values() if isinstance(size, int)) for einsum in cascade.einsums)


def _is_proven(way: Way, usual: Way, options: BuildOptions) -> bool:
    """Whether the fact is the default mapping itself, or was measured here and is on record beside it."""
    if (way.cascade.key, way.schedule) == (usual.cascade.key, usual.schedule):
        return True
    exact = [fact for fact in _own(way.cascade, options) if fact.schedule == way.schedule]
    return bool(exact) and any(fact.schedule == usual.schedule for fact in _own(usual.cascade, options))


def _own(cascade: Cascade, options: BuildOptions) -> list[Fact]:
    """Facts of this user's about this very cascade on this very device."""
    facts = query(cascade, options.device, url=options.url)
    return [fact for fact in facts if fact.found is Fit.exact and fact.trust is Trust.own]


def _by_model(cascade: Cascade, options: BuildOptions) -> tuple[Way | None, str]:
    """What the model finds faster than the default mapping, by enough to be timed beside it, or why there is nothing."""
    if points(cascade) < SMALL_POINTS:
        return None, "too small for a search to pay"
    if not default_file(options.device).exists():
        return None, "the device is not calibrated, so no model speaks of it (feinsum-fuse calibrate)"
    try:
        predicted = predictions(cascade, options.device, SEARCH_S, runs=SEARCH_RUNS)
    except Error as error:
        return None, f"the model cannot be asked: {error.message}"
    best = convincing(predicted, WORTH_TIMING)
    if best is None:
        return None, f"of {len(predicted)} mappings the model finds none faster that would be worth timing"
    try:
        schedule = lower(best.spec, target=target(options.device))
    except Error as error:
        return None, error.message
    told = f"{predicted[best] / next(iter(predicted.values())):.2f} of the default mapping's predicted time, the best of {len(predicted)}"
    return Way(cascade_of(best.spec), schedule, best.spec, Origin(ChosenBy.model, told)), ""


def _first_that_runs(ways: Sequence[Way], options: BuildOptions) -> Program:
    """The program of the first way that can be built and is right; what the last one raises."""
    reasons: list[str] = []
    for way in ways[:-1]:
        try:
            return made(way, options)
        except (KernelError, LoweringError, ScheduleError) as error:
            reasons.append(f"{way.origin.name}: {error.message}")
    last = ways[-1]
    return made(replace(last, origin=replace(last.origin, reasons=(*last.origin.reasons, *reasons))), options)


def _faster(ways: Sequence[Way], options: BuildOptions) -> Program:
    """The fastest of those that can be built and are right, timed in turns on the same random data."""
    programs: list[Program] = []
    reasons: list[str] = []
    for way in ways:
        try:
            programs.append(made(way, options))
        except (KernelError, LoweringError, ScheduleError) as error:
            if way is ways[-1] and not programs:
                raise
            reasons.append(f"{way.origin.name}: {error.message}")
    if len(programs) > 1:
        with Stage("timing in turns", options.progress):
            times = least([partial(program.runner, programs[0].example.inputs) for program in programs])
        best = int(np.argmin(times))
        for place, (program, taken) in enumerate(zip(programs, times, strict=True)):
            if place != best:
                reasons.append(f"{program.origin.name}: takes {taken / times[best]:.3g} times as long")
        programs = [programs[best]]
    chosen = programs[0]
    return replace(chosen, origin=replace(chosen.origin, reasons=(*chosen.origin.reasons, *reasons)))
