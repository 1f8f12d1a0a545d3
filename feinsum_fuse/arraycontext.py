"""The hook by which array contexts hand their programs to this package.

arraycontext's classes call ``transform_loopy_program(t_unit)`` once with each program that they generate, and run what it returns. Neither
arraycontext nor pytato is imported here: :doc:`compilers` shows how a class of theirs calls this one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import loopy as lp

from .archive.key.device_identity import Device
from .archive.tables.address import Url
from .arguments import expect, instance
from .errors import MatchError
from .optimization.answer import Optimized
from .optimization.optimization import optimize

logger = logging.getLogger(__name__)

Transformation = Callable[[lp.TranslationUnit], lp.TranslationUnit]


def transform_loopy_program(
    t_unit: lp.TranslationUnit, device: Device = "portable", *, own: Transformation | None = None, url: Url | None = None
) -> lp.TranslationUnit:
    """The program with the same entry point, arguments and options, as fast as what is known makes it.

    A program that is a cascade goes through :func:`feinsum_fuse.optimize`, which verifies what it makes. ``own`` is the context's own
    transformation: it is timed beside, and is the answer for programs that are no cascade; without it these come back as they are.
    ``device`` is that of the context's queue, ``url`` names the database of facts. What was done is logged (``feinsum_fuse.arraycontext``,
    level INFO). Raises :class:`~feinsum_fuse.errors.MatchError` for what is no loopy program.
    """
    return transformed(t_unit, device, own=own, url=url).kernel


def transformed(
    t_unit: lp.TranslationUnit, device: Device = "portable", *, own: Transformation | None = None, url: Url | None = None
) -> Optimized:
    """What :func:`transform_loopy_program` returns, and how it came about."""
    expect(t_unit, instance("a loopy TranslationUnit", lp.TranslationUnit), "the program", MatchError)
    found = optimize(t_unit, device, own=None if own is None else lambda: own(t_unit), url=url)
    logger.info("%s: %s", t_unit.default_entrypoint.name, found)
    return found
