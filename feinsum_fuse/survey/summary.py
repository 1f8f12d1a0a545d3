"""The page that a survey ends with, made of its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ..device.catalogue import DeviceInfo
from ..device.timing.measurement import time_text
from ..presentation import table
from .survey_journal import SurveyJournal

_RATES = ("multiply_adds_float32", "multiply_adds_float64", "launch_seconds", "group_seconds", "multiply_add_latency_seconds")
_LONGEST_MESSAGE = 160
SurveyLine = Mapping[str, object]


def summary(journal: SurveyJournal) -> str:
    """What ran, what it ran on, what failed, and how fast it was."""
    parts = [_devices(journal), _steps(journal), _rates(journal), _kernels(journal), _tuned(journal), _peers(journal), _model(journal)]
    return "\n\n".join(part for part in (*parts, "\n".join(failures(journal))) if part) + "\n"


def _devices(journal: SurveyJournal) -> str:
    found = list(journal.read("devices"))
    lines = []
    for line in found:
        device = line.get("device")
        if isinstance(device, dict):
            chosen = "surveyed" if line.get("chosen") else "there, too"
            lines.append(f"{chosen}: {DeviceInfo(**device)}")
    missing = [text for line in found if isinstance(texts := line.get("missing"), list) for text in texts]
    return "\n".join([*lines, *(f"missing: {text}" for text in missing)])


def _steps(journal: SurveyJournal) -> str:
    rows = []
    for line in journal.read("steps"):
        seconds, limit = (_number(line, name) for name in ("seconds", "limit"))
        rows.append([str(line["name"]), str(line["outcome"]), f"{seconds:.0f} of {limit:.0f} s"])
    return table(["step", "outcome", "time"], rows, numbers=0) if rows else ""


def _rates(journal: SurveyJournal) -> str:
    lines = list(journal.read("calibrate"))
    variables = lines[-1].get("variables") if lines else None
    if not isinstance(variables, dict):
        return ""
    return "\n".join(f"{name}: {variables[name]:.4g}" for name in _RATES if isinstance(variables.get(name), float))


def _kernels(journal: SurveyJournal) -> str:
    rows = [_kernel(step, line) for step in ("smoke", "examples") for line in journal.read(step)]
    text = table(["kernel", "outcome", "median", "error"], rows, numbers=0) if rows else ""
    counts = Counter(str(line.get("outcome")) for line in journal.read("trees"))
    trees = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return "\n\n".join(filter(None, (text, f"random trees with work-items: {trees}" if trees else "")))


def _kernel(step: str, line: SurveyLine) -> list[str]:
    error = line.get("error")
    shown = f"{error:.1e}" if isinstance(error, float) else ""
    return [f"{step}: {line.get('label')}", str(line.get("outcome")), _time(line, "median_s"), shown]


def _tuned(journal: SurveyJournal) -> str:
    rows = []
    for line in journal.read("tuning"):
        history = line.get("history")
        count = str(len(history)) if isinstance(history, list) else ""
        rows.append([str(line.get("label")), str(line.get("outcome")), _time(line, "median_s"), *_more(line), count])
    return table(["tuned", "outcome", "best", "default", "floor", "candidates"], rows, numbers=0) if rows else ""


def _more(line: SurveyLine) -> list[str]:
    return [_time(line, "default_median_s"), _time(line, "floor_s")]


def _peers(journal: SurveyJournal) -> str:
    rows = []
    notes = []
    for line in journal.read("peers"):
        if "peer" not in line:
            notes.append(str(line.get("message")))
            continue
        ratio = line.get("times_as_fast")
        times = f"{ratio:.2f}" if isinstance(ratio, float) else "computes something else" if not line.get("same") else ""
        rows.append([str(line.get("label")), str(line["peer"]), _time(line, "peer_median_s"), _time(line, "median_s"), times])
    text = table(["workload", "peer", "its time", "ours", "times as fast"], rows, numbers=0) if rows else ""
    return "\n".join(filter(None, (text, *(f"peers: {note}" for note in dict.fromkeys(notes)))))


def _model(journal: SurveyJournal) -> str:
    rows = []
    for line in journal.read("model"):
        if "group" in line:
            figures = [_number(line, name) for name in ("mean_error", "spearman", "regret_1")]
            rows.append([str(line["group"]), str(line["count"]), f"{figures[0]:.0%}", f"{figures[1]:.2f}", f"{figures[2]:.0%}"])
    return table(["model", "kernels", "mean error", "Spearman", "regret"], rows, numbers=0) if rows else ""


def failures(journal: SurveyJournal) -> list[str]:
    """What did not end well, a line each."""
    return list(_failures(journal))


def _failures(journal: SurveyJournal) -> Iterator[str]:
    for step in ("steps", "smoke", "examples", "trees", "tuning", "peers"):
        for line in journal.read(step):
            if line.get("outcome", "ok") not in ("ok", "left out"):
                text = " ".join(str(line.get("message")).split())[:_LONGEST_MESSAGE]
                yield f"{step} {line.get('name', line.get('label'))}: {line['outcome']}: {text}"


def _number(line: SurveyLine, name: str) -> float:
    value = line.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def _time(line: SurveyLine, name: str) -> str:
    value = line.get(name)
    return time_text(value) if isinstance(value, float) else ""
