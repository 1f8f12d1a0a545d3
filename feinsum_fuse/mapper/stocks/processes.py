"""Tasks on several processes: the same answers in the same order for any number of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from functools import partial
from multiprocessing.synchronize import Event
from typing import TypeVar

from ...executors import end_with
from ..budget import Budget
from ..failures import LateError

T = TypeVar("T")
PATIENCE = 0.25
"""Seconds of work that one process does by itself: starting others costs a tenth of that."""
_held: tuple[Sequence[Callable[[], object]], Budget] | None = None
"""In a child: all tasks, and the budget that they count on."""
GLANCE = 0.1
"""Seconds between two looks at the clock while others work, and of a child at whether its answer is still wanted."""


def answers(tasks: Sequence[Callable[[], T]], jobs: int, budget: Budget) -> Generator[T, None, None]:
    """What the tasks return, in their order, by at most so many processes; what they spend is counted here.

    The first are done here, as long as processes would cost more than they save. The processes are forks: a task needs no form in which
    it travels, its answer does. Each may hold its share of the rows that are left. Where a system cannot fork there is one process.
    """
    alone = jobs == 1 or "fork" not in multiprocessing.get_all_start_methods()
    begun = time.perf_counter()
    done = 0
    while done < len(tasks) and (alone or done == len(tasks) - 1 or time.perf_counter() < begun + PATIENCE):
        yield tasks[done]()
        done += 1
    if rest := tasks[done:]:
        yield from _forked(rest, min(jobs, len(rest)), budget)


def _forked(tasks: Sequence[Callable[[], T]], jobs: int, budget: Budget) -> Generator[T, None, None]:
    """The answers of so many processes."""
    context = multiprocessing.get_context("fork")
    over = context.Event()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(tasks, budget, jobs, over, os.getpid()))
    try:
        for answer in [pool.submit(_answer, number) for number in range(len(tasks))]:
            while not wait([answer], GLANCE).done:
                budget.check()
            result, evaluated = answer.result()
            budget.evaluated += evaluated
            yield result  # type: ignore[misc]
    finally:
        over.set()
        pool.shutdown(cancel_futures=True)


def _begin(tasks: Sequence[Callable[[], object]], budget: Budget, jobs: int, over: Event, parent: int) -> None:
    """What a child inherits. An interrupt ends its task, never its waiting; so does the end of what its parent waits for."""
    global _held
    end_with(parent)
    _held = tasks, budget
    budget.tell_every(GLANCE, partial(_go_on, over))
    budget.max_rows = budget.held + (budget.max_rows - budget.held) // jobs
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _go_on(over: Event) -> None:
    """:class:`LateError` where nobody waits for this process any more."""
    if over.is_set():
        raise LateError("The search is over.")


def _answer(number: int) -> tuple[object, int]:
    assert _held is not None
    tasks, budget = _held
    before = budget.evaluated
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return tasks[number](), budget.evaluated - before
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
