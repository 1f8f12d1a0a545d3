"""Programs by a caller's own transformation: a schedule, or a Python function from loopy kernel to loopy kernel."""

from __future__ import annotations

import loopy as lp

from ..cascades.cascade import Cascade
from ..cascades.matching.match import Match, match
from ..cascades.reading.reader import cascade as cascade_of
from ..device.program.building import build
from ..device.program.by_function import build_by_function
from ..device.program.origin import ChosenBy, Origin
from ..device.program.program import Program
from ..device.runtime.isolation import TIMEOUT
from ..errors import MatchError
from ..formats.spec import expect_spec
from ..progress import Hook
from ..schedule.function import KernelFunction
from ..schedule.schedule import Schedule
from .making import BuildOptions


def by_hand(asked: object, by: object, options: BuildOptions) -> Program:
    """The program of a Spec, a cascade or a loopy kernel, whole, by what the caller wrote; nothing else is considered.

    Raises :class:`~feinsum_fuse.errors.ScheduleError` for a step that is not legal and a function that fails, else as
    :func:`~feinsum_fuse.device.program.building.build`.
    """
    cascade, matched = _cascade(asked, options)
    timeout_s = options.timeout_s or TIMEOUT
    if isinstance(by, Schedule):
        origin = Origin(ChosenBy.schedule)
        return build(
            cascade,
            by,
            options.device,
            timeout_s=timeout_s,
            reference_bytes=options.reference_bytes,
            progress=options.progress,
            origin=origin,
        )
    return build_by_function(
        cascade,
        KernelFunction.of(by),
        options.device,
        given=asked if isinstance(asked, lp.TranslationUnit) else None,
        names=None if matched is None else matched.names,
        timeout_s=timeout_s,
        reference_bytes=options.reference_bytes,
        progress=options.progress,
    )


def _cascade(asked: object, options: BuildOptions) -> tuple[Cascade, Match | None]:
    if isinstance(asked, Cascade):
        return asked, None
    if not isinstance(asked, lp.TranslationUnit):
        return cascade_of(expect_spec(asked)), None
    matched = matched_arrays(asked, options.progress)
    return matched.cascade, matched


def matched_arrays(kernel: lp.TranslationUnit, progress: Hook | None) -> Match:
    """The match of a kernel all of whose operands are elements of arrays; raises :class:`~feinsum_fuse.errors.MatchError` for others."""
    matched = match(kernel, progress=progress)
    if matched.computed:
        raise MatchError(
            f"the kernel computes {', '.join(matched.computed)} on the way in, which a program of arrays cannot take",
            hint="ff.optimize(kernel, device) gives a loopy kernel with the same arguments; ff.match(kernel).cascade compiles.",
        )
    return matched
