"""A search for the fastest mapping of each workload, for an equal part of the time."""

from __future__ import annotations

from collections.abc import Iterator

from ..formats.reading.load import load
from ..formats.spec import Spec
from ..tuning.tuned import Tried, Tuned
from ..tuning.tuner import tune
from .step_session import SurveySession

MEASUREMENTS = 60
LEAST_SECONDS = 4.0
"""Below that no search is begun."""
OVERHEAD = 0.7
"""Of a workload's time the search gets this part: reading, the reference, and the turns that decide take the rest."""


def workloads(session: SurveySession) -> Iterator[tuple[str, Spec]]:
    """Name -> Spec of each workload of the folder, in the order of their names."""
    for file in sorted(session.folder("workloads").glob("*.yaml")):
        yield file.stem, load(file, variables=dict(session.settings.variables))


def tuning(session: SurveySession) -> None:
    """Tune each workload; every candidate is recorded, and a line says what was tried, predicted and found."""
    done = session.journal.done(session.step)
    open_ = [(label, spec) for label, spec in workloads(session) if label not in done]
    for number, (label, spec) in enumerate(open_):
        seconds = OVERHEAD * session.left / (len(open_) - number)
        if seconds < LEAST_SECONDS:
            session.write(label=label, outcome="left out", message="no time was left")
            continue
        try:
            found = tune(spec, session.device, seconds=seconds, measurements=MEASUREMENTS, url=session.journal.url)
        except Exception as error:  # the next one may be all right
            session.failed(label, error)
            continue
        session.write(**session.keep(label, found.measurement, found.program.source), **_course(found))


def _course(found: Tuned) -> dict[str, object]:
    """The course of a search in plain data, times in seconds."""
    return {
        "default_median_s": found.default.median,
        "floor_s": found.floor,
        "seconds": found.seconds,
        "rewritings": [str(rewriting) for rewriting in found.program.cascade.rewritings],
        "history": [_candidate(tried) for tried in found.history],
    }


def _candidate(tried: Tried) -> dict[str, object]:
    return {
        "variant": tried.variant,
        "origin": tried.origin,
        "outcome": str(tried.outcome),
        "message": tried.message,
        "predicted_s": tried.predicted,
        "measured_s": tried.measured,
        "estimated": tried.estimated,
        "equal": tried.equal,
        "mapping": str(tried.spec.mapping),
    }
