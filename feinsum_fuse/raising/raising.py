"""``ff.raise_mapping``: the LoopTree of a kernel that exists."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import warnings
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice, product
from time import process_time
from typing import TYPE_CHECKING

from ..arguments import NOTHING, checked, instance
from ..cascades.cascade import Cascade
from ..cascades.kernel.tags import CascadeTag
from ..codegen.generation import executable
from ..errors import Error, MatchError, SpecWarning
from ..formats.mapping import Mapping
from ..formats.opencl import FanoutKind
from ..formats.reading.assembly import spec as spec_of
from ..formats.spec import Spec
from ..lowering.lowering import Lowering
from ..progress import Stage
from ..schedule.kernel.naming import final_form
from ..schedule.kernel.surroundings import entrypoint
from ..schedule.kernel.tagging import NormalFormTag
from ..schedule.target import ANY_DEVICE, Target
from ..schedule.tree.nest import LoopRef, Nest, pretty
from .architecture import Machinery
from .foreign_loops import apart, foreign_paths, run_on
from .neighbours import AddedNodes, neighbours
from .paths import Hoists, paths_of, ways_out
from .tree import TreeMaker

if TYPE_CHECKING:
    import loopy as lp

TRIES = 64
"""Places of loops over work-items that are tried."""
NEIGHBOURS = 1000
"""Trees that differ little from those that these places give, and are tried where none of them lowers to the kernel."""
REFUSED_WITHIN_S = 20.0
"""Processor time after which no more trees are tried: nobody waits minutes for a refusal, and a tree that is found is found early."""


@checked(MatchError, onto=instance("a Spec", Spec) | NOTHING, target=instance("a Target", Target))
def raise_mapping(kernel: lp.TranslationUnit, onto: Spec | None = None, *, target: Target = ANY_DEVICE) -> Spec:
    """The Spec whose LoopTree a scheduled kernel is: ``ff.lower`` of it gives the same kernel.

    The same kernel is the same nest, or the same OpenCL text of one whose parts stand in another order.
    ``kernel``: what :meth:`~feinsum_fuse.schedule.schedule.Schedule.apply` made of ``cascade.kernel()``, such as ``program.kernel``; or a
    kernel of somebody else's that ``ff.match`` recognises once its cut loops are joined: its tree has its loops, in loopy's order, and
    all that it reads and writes in main memory.
    ``onto``: a Spec whose architecture and ``opencl`` key the tree is to name, as ``ff.calibrate`` writes them; without one, all memories
    and axes of OpenCL, with rates of 1. Onto one that has no work-items or fewer groups, such as a processor's, a kernel of
    somebody else's has loops in their place. ``target``: what the kernel was lowered for.

    What lowering adds by itself is in no node: loops over private tiles that are written out, partial results of parallel reductions,
    loops that end early at a mask. Hardware caches make no code, so that none holds anything. Several nodes may stand for one tile: a
    tree that lowers to another kernel is changed node by node until one lowers to this one.
    Raises :class:`MatchError` for a kernel that computes no cascade, or whose tree would become another kernel, with the reason.
    """
    found = entrypoint(kernel)
    carried = next(iter(found.tags_of_type(NormalFormTag)), None)
    origin = next(iter(found.tags_of_type(CascadeTag)), None)
    machinery = Machinery.neutral() if onto is None else Machinery.of(onto)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecWarning)
        if carried is None:
            return _of_foreign(kernel, machinery, target)
        if origin is None:
            raise MatchError(f"The kernel {found.name} was not made from a cascade, and does not say what it computes.", hint=_HINT)
        given = origin.cascade
        cascade = Cascade(given.einsums, given.tensors, given.outputs, given.rewritings)
        return Raising(carried.nest, carried.final, kernel, cascade, machinery, target).spec()


_HINT = "Raise program.kernel, or the kernel before the schedule was applied."


def _of_foreign(kernel: lp.TranslationUnit, machinery: Machinery, target: Target) -> Spec:
    """The tree of a kernel that carries no nest: its loops, shared where Einsums may share them."""
    matched, found = foreign_paths(kernel)
    paths = run_on(machinery, found, matched.cascade)
    reasons: list[str] = []
    for tried in (paths, list(apart(paths))):
        try:
            mapping = TreeMaker(tried, (), matched.cascade, machinery).mapping()
            spec = spec_of(matched.cascade, machinery.arch, mapping, machinery.opencl)
            lowering = Lowering(spec, matched.cascade.outputs)
            with Stage("lowering", None) as stage:
                lowering.schedule(target, stage)
        except Error as error:
            reasons.append(error.message)
            continue
        return spec
    raise MatchError(f"The loops of {kernel.default_entrypoint.name} are those of no LoopTree that can be lowered: {reasons[0]}.")


@dataclasses.dataclass(frozen=True)
class Raising:
    """One kernel's way back to a LoopTree."""

    nest: Nest
    final: Nest
    kernel: lp.TranslationUnit
    cascade: Cascade
    machinery: Machinery
    target: Target

    def spec(self) -> Spec:
        """The first tree that lowers to this nest, else to one of the same OpenCL text: what does not depend on one another may stand in
        another order. A nest does not say where loops over work-items stood that lowering moved inwards.
        """
        end = process_time() + REFUSED_WITHIN_S
        reasons: list[str] = []
        near: dict[tuple[str, ...], Spec] = {}
        ways = list(islice(ways_out(paths_of(self.nest, self.cascade)), TRIES))
        for is_spaced, is_early, is_bare, hoists in product((False, True), (False, True), (False, True), ways):
            if reasons and process_time() > end:
                break
            try:
                spec, remade = self._at(hoists, is_bare=is_bare, is_early=is_early, is_spaced=is_spaced)
            except Error as error:
                reasons.append(error.message)
                continue
            differences = tuple(_differences(self.final, remade))
            if not differences:
                return spec
            near.setdefault(differences, spec)
            reasons.append(f"the nearest tree lowers to another kernel, which has {differences[0]}")
        wanted = executable(self.kernel).source if near else ""
        for spec in near.values():
            again = Lowering(spec, self.cascade.outputs)
            with Stage("lowering", None) as stage:
                if executable(again.schedule(self.target, stage).apply(self.cascade.kernel())).source == wanted:
                    return spec
        if (spec_nearby := self._nearby(near, end)) is not None:
            return spec_nearby
        raise MatchError(f"No LoopTree is known that lowers to this kernel: {reasons[0]}.")

    def _nearby(self, near: dict[tuple[str, ...], Spec], end: float) -> Spec | None:
        """The first tree that lowers to this nest of those that differ in a node from one of these, and so on, before a processor time.

        Each of these comes first, then whichever lowers to a nest with the fewest differences.
        """
        waiting = [(False, len(differences), number, spec.mapping) for number, (differences, spec) in enumerate(near.items())]
        heapq.heapify(waiting)
        seen = {spec.mapping for spec in near.values()}
        choices = self._choices()
        while waiting:
            *_, mapping = heapq.heappop(waiting)
            assert mapping is not None
            for other in neighbours(mapping, choices):
                if other in seen:
                    continue
                if len(seen) > NEIGHBOURS or process_time() > end:
                    return None
                seen.add(other)
                with contextlib.suppress(Error):
                    spec, remade, kernel = self._remade(other)
                    differences = tuple(_differences(self.final, final_form(remade, kernel)))
                    if not differences:
                        return spec
                    heapq.heappush(waiting, (True, len(differences), len(seen), other))
        return None

    def _choices(self) -> AddedNodes:
        """What the architecture has for nodes that make no code of their own."""
        kinds: tuple[FanoutKind, ...] = ("loop", "unroll")
        return AddedNodes(
            [self.machinery.memory("cache")] if self.machinery.has_memory("cache") else [],
            list(dict.fromkeys(variable for einsum in self.cascade.einsums for variable in einsum.variables)),
            [self.machinery.fanout(kind) for kind in kinds if self.machinery.has(kind)],
        )

    def _at(self, hoists: Hoists, *, is_bare: bool, is_early: bool, is_spaced: bool) -> tuple[Spec, Nest]:
        """The tree with loops over work-items in these places, and what it lowers to.

        ``is_bare``: without loops of one iteration. ``is_early``: with Storages above the loops that their reservations sink past.
        ``is_spaced``: with loops in space where these are to stay, not Storages further in.
        """
        written_out: set[LoopRef] = set()
        while True:
            how = {"is_bare": is_bare, "is_early": is_early, "is_spaced": is_spaced}
            maker = TreeMaker.of(self.nest, self.cascade, self.machinery, written_out, hoists, **how)
            spec, again, kernel = self._remade(maker.mapping())
            wanted, done = _unrolled(self.nest), _unrolled(again)
            wrong = {ref.einsum for ref in wanted ^ done}
            explicit = {ref for ref in wanted if ref.einsum in wrong}
            if explicit <= written_out:
                return spec, final_form(again, kernel)
            written_out |= explicit

    def _remade(self, mapping: Mapping) -> tuple[Spec, Nest, lp.LoopKernel]:
        """The Spec of a tree, and the nest that it lowers to, in its own names, with the kernel that this is a nest of."""
        spec = spec_of(self.cascade, self.machinery.arch, mapping, self.machinery.opencl)
        lowering = Lowering(spec, self.cascade.outputs)
        with Stage("lowering", None) as stage:
            return spec, lowering.schedule(self.target, stage).nest(lowering.start.kernel), lowering.start.kernel.default_entrypoint


def _unrolled(nest: Nest) -> set[LoopRef]:
    return {ref for loop in nest.all_loops if loop.binding == "unroll" for ref in loop.refs}


def _differences(wanted: Nest, found: Nest) -> Iterator[str]:
    """The lines in which two nests differ; ``+`` is what the second has."""
    lines = unified_diff(_text(wanted), _text(found), lineterm="", n=0)
    yield from (line for line in lines if line[0] in "+-" and line[:3] not in {"+++", "---"})


def _text(nest: Nest) -> list[str]:
    """All that a kernel is written from: its tiles, and its loops and statements without what the loops are parts of."""
    tiles = [
        f"{t.name}: {t.tensor} in {t.memory} memory, {list(t.shape)} {t.dtype}, axes {t.axes}, padding {t.padding}, {t.lanes} lanes"
        for t in nest.tiles.values()
    ]
    return [*sorted(tiles), *(line.partition("  # ")[0] for line in pretty(nest.body))]
