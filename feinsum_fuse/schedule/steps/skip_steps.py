"""Leaving out what a mask makes count for nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_

import islpy as isl

from ...formats.affine import Affine
from ...formats.integer_sets import conditions_of, equal, integer_map, integer_set, projected
from ..refusals import BindingConflictError, NestOrderError, NothingMaskedError, ProducerConsumerError
from ..sameness import KEPT_WORKLOADS, Same
from ..statement import Place, Statement
from ..step import Step
from ..tree.loops import check_alone, enclosing, find, replace_loop
from ..tree.masks import KEPT_SETS, Masks, SamePoint, elements, placed, points_at, points_using, same_point
from ..tree.nest import For, LoopRef, Nest, NestItem, PlacedStatement
from ..tree.polyhedra import points


@dataclass(frozen=True)
class SkipTiles(Step):
    """End a loop where all that is left of it is masked.

    For ``S[m,p] = where(p <= m, A[m,p], 0)`` and ``Z[m] = sum_p S[m,p]`` in tiles of 4 by 4. Before: ``for m/0: for p/0 in [0, n): ...``.
    After: ``for m/0: for p/0 in [0, n), m/0 - p/0 >= 0: ...``. Invariant: an iteration that is left out changes no element that is read
    afterwards or is an output: all that it adds is the neutral element of the reduction (0 of a sum, minus infinity of a maximum) at every
    point, or its results go nowhere but into what is left out as well. Inputs are taken to be finite numbers.

    ``per`` are the loops around it that the end may depend on. The loop runs at least once, so that initial values that move into its
    first iteration later are set. Where a loop around it goes over blocks of the same variable, the end is where the variable's live values
    end, in whichever block that is. Consumers are cut first: what nobody reads any more need not be computed. Loops are cut before they are
    shared and before tiles are placed.
    """

    loop: LoopRef
    per: tuple[LoopRef, ...]

    def apply(self, nest: Nest) -> Nest:
        loop = find(nest, self.loop, self)
        if nest.tiles:
            raise NestOrderError(f"{self}: the nest holds tiles already", hint="Skip tiles before any is placed.")
        if loop.binding != "loop":
            raise BindingConflictError(f"{self}: the loop is bound to {loop.binding}", hint="Skip tiles before binding.")
        check_alone(nest, loop, self)
        around = enclosing(nest, loop)[:-1]
        names = {find(nest, ref, self).name for ref in self.per}
        if not names <= {other.name for other in around}:
            raise NestOrderError(f"{self}: not all of these loops stand around {self.loop}")
        masks = Masks.of(nest)
        limits = self._limits(nest, masks, loop, (*(other for other in around if other.name in names),), around)
        if not limits:
            raise NothingMaskedError(
                f"{self}: no mask excludes the last iterations of {self.loop} as a whole",
                hint="Cut the loops of its consumers first, or name more loops in 'per'.",
            )
        root = (*around, loop)[0]
        result = nest.replace(body=tuple([_ended(Same(node), Same(loop), limits) if node is root else node for node in nest.body]))
        self._check(nest, result, masks, around, loop, limits)
        return result

    def _limits(self, nest: Nest, masks: Masks, loop: For, per: Sequence[For], around: Sequence[For]) -> tuple[Affine, ...]:
        """Conditions that all live iterations and the first ones satisfy, and some others do not.

        They are conditions of the parts, moved until they hold on all parts. The convex hull can be tighter, by conditions with steep
        slopes, but takes time exponential in the number of loops.
        """
        names = tuple([other.name for other in per])
        above = tuple(map(Same, (*around, loop)))
        parts: list[Same[isl.Set]] = []
        whole = Affine.variable(loop.name)
        for statement, part in live_points(nest, masks, loop, len(around)):
            reached, is_everything = _reached(above, names, Same(part))
            if is_everything:
                return ()  # as of most loops over what no mask looks at, and of most first statements that are asked about
            parts.append(reached)
            values = [value.restricted({*names, loop.name}) for value in statement.values.values() if loop.name in value.variables]
            whole = next((value for value in values if len(value.variables) > 1), whole)
        return _hull(above, names, tuple(parts), whole)

    def _check(self, before: Nest, after: Nest, masks: Masks, around: Sequence[For], loop: For, limits: tuple[Affine, ...]) -> None:
        """Raise :class:`ProducerConsumerError` if what these limits of the loop leave out is missed."""
        whole, depth = _wanted_whole(after), len(around)
        for above, statement in before.points:
            if not _stands_at(above, depth, loop):
                continue
            source, neutral = statement.target.source, masks.neutral(above, statement)
            readers = None if source in whole else _readers(source, after.points)
            if readers == ():
                continue
            missed = _missed(same_point((above, statement)), None if neutral is None else Same(neutral), limits, readers)
            if not missed.is_empty():
                raise ProducerConsumerError(f"{self}: {missed} of {source} would not be computed, and are needed")


@lru_cache(KEPT_SETS)
def _ended(root: Same[For], loop: Same[For], limits: tuple[Affine, ...]) -> NestItem:
    """A node of a nest with further limits of a loop in it: one object from mapping to mapping, as long as the node itself is."""
    new = loop.value.changed(limits=loop.value.limits + limits)
    (node,) = replace_loop((root.value,), new.name, (new,))
    return node


@lru_cache(KEPT_SETS)
def _everything(above: tuple[Same[For], ...], names: tuple[str, ...]) -> isl.Set:
    """All iterations of the last of these loops and of those with these names around it."""
    return projected(points([loop.value for loop in above]), {*names, above[-1].value.name})


@lru_cache(KEPT_SETS)
def _reached(above: tuple[Same[For], ...], names: tuple[str, ...], part: Same[isl.Set]) -> tuple[Same[isl.Set], bool]:
    """Those of them in which there is a point of this part, and whether they are all."""
    found = projected(part.value, {*names, above[-1].value.name})
    return Same(found), _everything(above, names).is_subset(found)


@lru_cache(KEPT_SETS)
def _hull(above: tuple[Same[For], ...], names: tuple[str, ...], parts: tuple[Same[isl.Set], ...], whole: Affine) -> tuple[Affine, ...]:
    """Conditions on the last of these loops that hold in all of these of its iterations, and in its first ones.

    ``whole`` is the variable of which it, and maybe loops over blocks around it, are parts: what ends the variable is one condition, where
    iterations of a block end in each block otherwise.
    """
    name, everything = above[-1].value.name, _everything(above, names)
    first = everything & integer_set([*names, name], equal(Affine.variable(name), 0))
    kept = [other for other in names if other not in whole.variables]
    first, box, *live = [_of_whole(part, kept, name, whole) for part in (first, everything, *(part.value for part in parts))]
    box = box.polyhedral_hull()
    hull = reduce(or_, live, first).coalesce().remove_divs().simple_hull().align_params(box.get_space())
    hull = hull.gist(box.align_params(hull.get_space()))  # neither need know every symbol of the other
    return tuple(limit.substituted({name: whole}) for limit in conditions_of(hull) if name in limit.variables)


def _of_whole(part: isl.Set, kept: Sequence[str], name: str, whole: Affine) -> isl.Set:
    """Iterations of loops as values of those that are kept and of a variable, under a loop's name."""
    if whole.terms == Affine.variable(name).terms:
        return part
    found = part.apply(integer_map(part.get_var_names(isl.dim_type.set), [*map(Affine.variable, kept), whole]))
    for position, own in enumerate((*kept, name)):
        found = found.set_dim_name(isl.dim_type.set, position, own)
    return found


@lru_cache(KEPT_SETS)
def _missed(point: SamePoint, neutral: Same[isl.Set] | None, limits: tuple[Affine, ...], readers: tuple[SamePoint, ...] | None) -> isl.Set:
    """The elements that a statement would not compute within these limits although they are read (all are if ``readers`` is ``None``)."""
    above, statement = placed(point)
    every = points(above, statement.guards)
    removed = every & reduce(or_, [integer_set([other.name for other in above], [-limit - 1]) for limit in limits])
    removed = removed if neutral is None else removed - neutral.value
    lost = elements(removed, statement.target, above)
    read = None if readers is None else _read(statement.target.source, readers)
    return lost if read is None else lost & read


def lives_throughout(uncut: Nest, einsum: str, variables: Collection[str]) -> bool:
    """Whether an Einsum changes something that is wanted at all values of these rank variables, so that no loop over their parts can end
    early for what stands around it: however its loops and those of its readers are cut, what lives in the nest before any step lives.
    """
    return _lives_throughout(Same(uncut), einsum, frozenset(variables))


@lru_cache(KEPT_SETS)
def _lives_throughout(uncut: Same[Nest], einsum: str, variables: frozenset[str]) -> bool:
    above, guards, live = _living(uncut)[einsum]
    names = {loop.name for loop in above if any(ref.variable in variables for ref in loop.refs)}
    return bool(projected(points(above, guards), names).is_subset(projected(live, names)))


@lru_cache(KEPT_WORKLOADS)
def _living(uncut: Same[Nest]) -> dict[str, tuple[tuple[For, ...], tuple[Affine, ...], isl.Set]]:
    """The loops of each Einsum before any step, the guards of what computes it, and the points of that which live."""
    nest = uncut.value
    around = {id(statement): above for above, statement in nest.points}
    living = [(statement, live) for statement, live in live_points(nest, Masks.of(nest)) if statement.role in {"update", "map"}]
    return {statement.einsum: (around[id(statement)], statement.guards, live) for statement, live in living}


def live_points(nest: Nest, masks: Masks, loop: For | None = None, depth: int = 0) -> Iterator[tuple[Statement, isl.Set]]:
    """The points under a loop with so many around it, or of the whole nest, statement by statement, that change what is read later or is an
    output.
    """
    inner = [point for point in nest.points if loop is None or _stands_at(point[0], depth, loop)]
    outside = [point for point in nest.points if loop is not None and not _stands_at(point[0], depth, loop)]
    whole = _wanted_whole(nest)
    living: list[tuple[PlacedStatement, isl.Set]] = []
    for above, statement in reversed(inner):
        source = statement.target.source
        wanted: _Wanted | None = None
        if source not in whole:
            inside = tuple([(same_point(point), Same(part)) for point, part in living if _reads(point[1], source)])
            wanted = _readers(source, outside), inside
        neutral = masks.neutral(above, statement)
        live = _live(same_point((above, statement)), None if neutral is None else Same(neutral), wanted)
        living.append(((above, statement), live))
        yield statement, live


def _stands_at(above: Sequence[For], depth: int, loop: For) -> bool:
    """Whether a loop that has so many around it is one of these: to compare what stands in them takes long."""
    return len(above) > depth and above[depth] is loop


_Wanted = tuple[tuple[SamePoint, ...], tuple[tuple[SamePoint, Same[isl.Set]], ...]]
"""Who reads what a statement writes: statements at all of their points, and others at some of theirs."""


@lru_cache(KEPT_SETS)
def _live(point: SamePoint, neutral: Same[isl.Set] | None, wanted: _Wanted | None) -> isl.Set:
    """The points of a statement that change what is wanted; all that change anything if all of it is wanted (``None``)."""
    above, statement = placed(point)
    domain = points(above, statement.guards)
    if wanted is not None:
        source = statement.target.source
        readers, inside = wanted
        found = _read(source, readers)
        for reader, part in inside:
            around, reading = placed(reader)
            for position, place in _reads(reading, source):
                more = elements(part.value & points_using(reader, position), place, around)
                found = more if found is None else found | more
        domain = isl.Set.empty(domain.get_space()) if found is None else points_at(found, statement.target, above, domain)
    return domain if neutral is None else domain - neutral.value


def _reads(statement: Statement, source: str) -> list[tuple[int, Place]]:
    return [(position, place) for position, place in enumerate(statement.operands) if place.source == source]


def _readers(source: str, among: Sequence[PlacedStatement]) -> tuple[SamePoint, ...]:
    """Those of these statements that read an array."""
    return tuple([same_point(point) for point in among if _reads(point[1], source)])


@lru_cache(KEPT_SETS)
def _read(source: str, readers: tuple[SamePoint, ...]) -> isl.Set | None:
    """The elements of an array that these statements read; ``None`` if there are no readers."""
    found: isl.Set | None = None
    for reader in readers:
        above, statement = placed(reader)
        for position, place in _reads(statement, source):
            part = elements(points_using(reader, position), place, above)
            found = part if found is None else found | part
    return found


def _wanted_whole(nest: Nest) -> frozenset[str]:
    """The outputs, and what substitution rules read, so that what is read of it is not known."""
    ruled = {source.tensor for source in nest.sources.values() if source.is_rule}
    return nest.outputs | {name for name, source in nest.sources.items() if source.tensor in ruled}
