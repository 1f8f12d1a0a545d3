"""Tasks on several processes: the same answers in the same order for any number of them."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from ..einsum.chain import Budget

T = TypeVar("T")
_held: tuple[Sequence[Callable[[], object]], Budget] | None = None
"""In a child: all tasks, and the budget that they count on."""


def answers(tasks: Sequence[Callable[[], T]], jobs: int, budget: Budget) -> list[T]:
    """What the tasks return, by at most so many processes; what they spend is counted here.

    The processes are forks: a task needs no form in which it travels, its answer does. Where a system cannot fork there is one process.
    """
    if jobs == 1 or len(tasks) < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [task() for task in tasks]
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_begin, initargs=(tasks, budget))
    try:
        result: list[T] = []
        for answer, evaluated in pool.map(_answer, range(len(tasks))):
            result.append(answer)  # type: ignore[arg-type]
            budget.evaluated += evaluated
        return result
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(tasks: Sequence[Callable[[], object]], budget: Budget) -> None:
    """What a child inherits. An interrupt ends its task, never its waiting."""
    global _held
    _held = tasks, budget
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _answer(number: int) -> tuple[object, int]:
    assert _held is not None
    tasks, budget = _held
    before = budget.evaluated
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return tasks[number](), budget.evaluated - before
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
