"""``ff.search``: what may be asked, and the result that is reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from ...arguments import COUNT, HOOK, NOTHING, NUMBER, PATH, TEXT, checked, collection, instance
from ...cascades.reading.reader import expanded
from ...formats.spec import Spec, expect_spec
from ...progress import Hook
from ...schedule.target import DeviceLimits
from ..device import for_device
from ..enumeration.pareto import SLACK
from ..failures import UnsearchedError
from ..omissions import INEXPRESSIBLE, Omissions
from ..options import MAX_ROWS, Objective, Options
from ..request.settings import completed
from ..result import Result, value_of
from ..stocks.store import Shelf
from .best_few import best_few
from .front import Front
from .optimum import Optimum, solved
from .search_session import Session


@checked(
    UnsearchedError,
    objective=TEXT | NOTHING,
    top=COUNT,
    pareto=collection("a list of names", TEXT) | NOTHING,
    fused=COUNT | TEXT | NOTHING,
    tolerance=NUMBER,
    seconds=NUMBER | NOTHING,
    jobs=COUNT,
    cache=PATH | NOTHING | instance("tables in memory", Shelf),
    progress=HOOK,
    footprint=TEXT,
    max_rows=COUNT,
    limits=instance("a DeviceLimits", DeviceLimits) | NOTHING,
    resume=PATH | NOTHING,
    without=collection("a list of names", TEXT),
)
def search(
    spec: Spec,
    objective: Objective | None = None,
    *,
    top: int = 1,
    pareto: Sequence[str] | None = None,
    fused: int | Literal["ffmr"] | None = None,
    imperfect: bool = False,
    tolerance: float = 0.0,
    seconds: float | None = None,
    jobs: int = 1,
    cache: str | Shelf | None = None,
    progress: Hook | None = None,
    even: bool = False,
    flip: bool = True,
    head_first: bool = False,
    head_is_tiled_fusion: bool = True,
    footprint: Literal["exact", "sum"] = "exact",
    max_rows: int = MAX_ROWS,
    device: object | None = None,
    limits: DeviceLimits | None = None,
    resume: str | None = None,
    without: Collection[str] = (),
) -> Result:
    """The best LoopTree for a workload on an architecture, by the model of :func:`feinsum_fuse.predict`.

    ``spec`` needs a workload and an architecture; its mapping is ignored. ``objective``: ``energy`` (J), ``latency`` (s) or ``edp`` (J
    s), by default what the ``mapper`` key of the files says, or energy; what else that key asks for holds too (doc/mapper.rst). Equal
    energy is decided by latency, and conversely. ``pareto``: a front over these axes instead. ``fused``: a largest number of fused loops.
    ``progress``: a hook (doc/api.rst). ``seconds``: a time limit, after which the best so far comes back with its gap. What comes back is
    what the model says of it, checked. ``imperfect``: also tiles that leave a remainder. ``top``: so many of the best. ``tolerance``: a
    mapping this fraction above the optimum will do. ``fused="ffmr"``: what Einsums share lives below all loops that they share, or above
    all of them, and all else is held below these loops or whole. ``footprint="sum"``: everything that an Einsum holds stays while loops
    that it shares are open; with ``head_is_tiled_fusion=False`` not while these are loops over heads alone. ``head_first``: fused loops
    begin with a rank called head, one by one, and then one called batch if it indexes all three tensors. ``even``: what a memory holds
    for an Einsum stands in two places among the loops, not each tensor in its own. ``flip=False``: the architecture's ``input`` and
    ``weight`` are the operands that the files say; else they may change places, and the Specs that come back say so. ``device`` (a name,
    or a ``pyopencl.Device``) or ``limits``: only mappings that become kernels there. ``jobs``: so many processes make the tables of the
    Einsums, once one has worked for a moment; the result is the same. ``max_rows``: so many partial mappings, steps of their chains of
    holders and pairs that are joined are held at once, in all tables together; a stage of the search that would hold more is dropped, and
    then nothing is proved unless the floor is reached. ``cache``: a folder that keeps these tables for later searches, of any workload
    that has them. ``resume``: a file that keeps the best mapping and what is proved after each stage; where it is there, the search goes
    on from it. ``without``: rules of :data:`~feinsum_fuse.mapper.options.RULES` to switch off.

    Raises :class:`NoMappingError` if nothing is legal, :class:`UnsearchedError` for what the search does not cover,
    :class:`UnprovedError` if a limit ends it before it has a mapping.
    """
    options = Options(
        objective or "energy", top, tuple(pareto or ()), fused, imperfect, tolerance, seconds, jobs, cache, progress,
        even, flip, head_first, head_is_tiled_fusion, footprint, max_rows,
        None if resume is None else str(resume), frozenset(without),
    )  # fmt: skip
    given = for_device(expect_spec(spec), device, limits)
    bare = expanded(given.replace(mapping=None, opencl=None))
    if bare.arch is None:
        raise UnsearchedError("A search needs an architecture.", hint="Give a file with the key arch.")
    if not bare.workload.einsums:
        raise UnsearchedError("A search needs a workload with Einsums.", hint="Give a file with the key workload.")
    session = Session(bare, given, completed(options, given.mapper, bare.arch, chosen=objective is not None or bool(pareto)))
    return Front(session).result() if session.options.pareto else optimal(session)


def optimal(session: Session) -> Result:
    """Search for the best mapping and report."""
    options = session.options
    asked = options.objective
    optimum, found = solved(session, asked)
    counted = optimum.goal.objective
    factor = value_of(asked, found) / value_of(counted, found) if asked != counted and value_of(counted, found) else 1.0
    front = (found,) if options.top == 1 else best_few(optimum, found, optimum.fused)
    omitted, floor = left_out(optimum)
    complete = options.top == 1 or not (session.late or omitted)
    proved = complete and optimum.value <= floor * (1 + SLACK) * (1 + options.tolerance)
    least = min(floor, value_of(counted, found)) * factor
    if optimum.problem.expressible and not proved:
        omitted = (*omitted, INEXPRESSIBLE)
    size = optimum.problem.size if optimum.problem.listed else 0.0
    return Result(asked, front, least, proved, session.space(size), tuple(session.log), omitted)


def left_out(optimum: Optimum) -> tuple[tuple[str, ...], float]:
    """What the search leaves out, in words, and a floor under that too; nothing is said where it was stopped before it knew its space."""
    if not optimum.problem.listed:
        return (), 0.0
    omissions = Omissions(optimum.problem, optimum.fused)
    return omissions.named, min(optimum.floor, optimum.goal.value(omissions.floor))
