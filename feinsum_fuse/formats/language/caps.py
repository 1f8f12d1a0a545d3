"""How large values from files may grow, what reading one Spec may cost, and how values are shown without printing them whole."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ...errors import SpecError

MAX_TEXT = 300_000
MAX_BITS = 4_096
MAX_WEIGHT = 50_000
MAX_LOAD_STEPS = 200_000
MAX_ISL_SECONDS = 0.3


def shortened(text: str, width: int = 80) -> str:
    """The text on one line, cut to ``width`` characters."""
    flat = " ".join(text[: 10 * width].split())
    return flat if len(flat) <= width and len(text) <= 10 * width else f"{flat[: width - 3]}..."


def clipped(message: str) -> str:
    """A message that may quote a user's text, cut where nobody would read on."""
    return message if len(message) <= 2_000 else f"{message[:2_000]}..."


def shown(value: object) -> str:
    """A value for a message: numbers and short texts as they are, anything else by its kind."""
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int | float | None) and not (isinstance(value, int) and value.bit_length() > MAX_BITS):
        return shortened(repr(value))
    return f"a {type(value).__name__}"


def weight(value: object) -> int:
    """How many elements (and pieces of 64 characters) a value has if all of it were printed; sharing counts as often as it prints.

    Raises :class:`SpecError` beyond :data:`MAX_WEIGHT`, and for whole numbers of more than :data:`MAX_BITS` bits.
    """
    if isinstance(value, float | bool | None):
        return 1
    total, pending = 0, [value]
    while pending:
        current = pending.pop()
        total += 1
        if isinstance(current, str):
            total += len(current) // 64
        elif isinstance(current, Mapping):
            pending += [*current.keys(), *current.values()]
        elif isinstance(current, list | tuple):
            pending += current
        elif isinstance(current, int) and current.bit_length() > MAX_BITS:
            raise SpecError(f"A number has more than {MAX_BITS} bits.")
        if total > MAX_WEIGHT:
            raise SpecError("A value is too large.")
    return total


@dataclass
class _Costs:
    """What the expressions and ISL sets of one load may still cost together."""

    steps: int = MAX_LOAD_STEPS
    isl_seconds: float = MAX_ISL_SECONDS


_COSTS: ContextVar[_Costs | None] = ContextVar("_COSTS", default=None)


@contextmanager
def one_load() -> Iterator[None]:
    """All expressions and ISL sets evaluated inside share one allowance."""
    token = _COSTS.set(_Costs())
    try:
        yield
    finally:
        _COSTS.reset(token)


def spend_steps(steps: int) -> None:
    """Count steps of expressions; :class:`SpecError` if the load has none left."""
    costs = _COSTS.get()
    if costs is not None:
        costs.steps -= steps
        if costs.steps < 0:
            raise SpecError(f"The expressions of the file take more than {MAX_LOAD_STEPS} steps together.")


@contextmanager
def isl_time() -> Iterator[None]:
    """Count the processor time spent inside on ISL; :class:`SpecError` if the load has none left."""
    costs = _COSTS.get()
    if costs is not None and costs.isl_seconds <= 0:
        raise SpecError("The constraints of the file take ISL too long together.", hint="Simplify iteration_space_shape.")
    start = time.process_time()
    try:
        yield
    finally:
        if costs is not None:
            costs.isl_seconds -= time.process_time() - start
