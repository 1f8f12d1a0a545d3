"""How Einsums advance together under one loop: what a consumer reads must have been written, if need be by a producer that runs ahead.

A convolution reads a window: with tiles of t, iteration i of its loop reads past what the producer's iteration i writes. The producer
then leads by as many elements as the window is wider than the tile (the halo), takes several of its tiles an iteration where the consumer
steps over several (a stride), and the consumer waits for the iterations in which the producer fills the first window.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import ceil

import islpy as isl
from constantdict import constantdict

from ...formats.affine import Affine
from ..refusals import DifferentExtentsError, IncompleteReductionError, ProducerConsumerError
from ..statement import Place, Statement
from ..step import Step
from .loops import is_reduction, output_indices
from .nest import For, Nest, NestItem, statements
from .polyhedra import extremes, is_one_iteration, relation


@dataclass(frozen=True)
class Pace:
    """How one branch advances: ``ratio`` of its own iterations each, ``lead`` elements of its rank variable ahead."""

    ratio: int = 1
    lead: int = 0


SAME_PACE = Pace()
"""Of branches that advance together."""


@dataclass(frozen=True)
class Flow:
    """A value that one branch writes and another reads."""

    producer: Statement
    consumer: Statement
    place: Place
    written_above: tuple[For, ...]
    read_above: tuple[For, ...]


class Sharing:
    """Loops that are to become one, and the loops that enclose them all."""

    def __init__(self, nest: Nest, loops: Sequence[For], above: tuple[For, ...], step: Step, unfinished: Container[str] = ()) -> None:
        self.nest = nest
        self.loops = loops
        self.above = above
        self.step = step
        self.unfinished = unfinished
        self.common = [loop.name for loop in above]

    def paces(self) -> list[Pace]:
        """One for each branch, the last branch first in being decided; raises if no pace lets consumers find what they read."""
        paces = [SAME_PACE for _ in self.loops]
        for position in reversed(range(len(self.loops))):
            wanted = [SAME_PACE]
            for later in range(position + 1, len(self.loops)):
                for flow in self._flows(self.loops[position], self.loops[later]):
                    wanted.append(self._needed(flow, self.loops[position], self.loops[later], paces[later]))
            ratios = {pace.ratio for pace in wanted if pace != SAME_PACE} or {1}
            if len(ratios) > 1:
                raise ProducerConsumerError(
                    f"{self.step}: consumers read what {self.loops[position].refs[0].einsum} writes at different paces",
                    hint="Leave one of them out of the loop.",
                )
            paces[position] = Pace(ratios.pop(), max(pace.lead for pace in wanted))
        return paces

    def _flows(self, producer_loop: For, consumer_loop: For) -> list[Flow]:
        found = []
        for written_above, producer in statements((producer_loop,)):
            if producer.role not in {"update", "map"} or producer.einsum in self.unfinished:
                continue
            for read_above, consumer in statements((consumer_loop,)):
                for place in consumer.operands:
                    if place.source == producer.target.source:
                        found.append(Flow(producer, consumer, place, written_above, read_above))
        return found

    def _needed(self, flow: Flow, producer_loop: For, consumer_loop: For, pace: Pace) -> Pace:
        """The pace at which the producer has written what the consumer reads."""
        producer, consumer = flow.producer, flow.consumer
        if is_reduction(self.nest, producer_loop, producer.einsum):
            raise IncompleteReductionError(
                f"{self.step}: {consumer.einsum} would read {flow.place} before {producer.einsum} has summed over {producer_loop.refs[0]}",
                hint="Move the loop below the branch, or the consumer out of it.",
            )
        if pace == SAME_PACE and self._is_in_time(flow, producer_loop, consumer_loop):
            return SAME_PACE
        moving = None
        for ours, theirs in zip(output_indices(self.nest, producer), flow.place.indices, strict=True):
            step = ours.coefficients.get(producer_loop.name, 0)
            move = theirs.coefficients.get(consumer_loop.name, 0)
            same_above = ours.restricted(self.common) == theirs.restricted(self.common)
            if not same_above or (step and (move <= 0 or step <= 0 or (move * pace.ratio) % step or moving)):
                raise self._apart(producer, ours, consumer, theirs)
            if step:
                moving = ours, theirs, step, move
        if moving is None or set(moving[0].variables) & set(self.common):
            # Where an enclosing loop moves along this axis as well, the first window of a tile lies in the tile before.
            raise self._halo(flow)
        ours, theirs, step, move = moving
        inner = theirs - theirs.restricted([consumer_loop.name]) - theirs.restricted(self.common)
        need = extremes(inner, (*self.above, *flow.read_above), consumer.guards)[1]
        reach = extremes(ours - ours.restricted([producer_loop.name]), (*self.above, *flow.written_above), producer.guards)
        if need is None or reach[0] is None or reach[1] is None or reach[1] - reach[0] != step - 1:
            raise self._halo(flow)
        unit = self.unit(producer, producer_loop)
        ratio = move * pace.ratio // step
        ahead = move * pace.lead // self.unit(consumer, consumer_loop)
        beyond = need + ahead + move * (pace.ratio - 1) - (step * ratio - 1 + reach[0])
        if step != unit or (move * pace.lead) % self.unit(consumer, consumer_loop):
            raise self._halo(flow)
        return Pace(ratio, max(0, beyond))

    def _is_in_time(self, flow: Flow, producer_loop: For, consumer_loop: For) -> bool:
        """Whether iteration for iteration, what is read was written in this iteration or before it."""
        written = Place(flow.place.source, output_indices(self.nest, flow.producer))
        above, around = (*self.above, *flow.written_above), (*self.above, *flow.read_above)
        advancing = [*((loop, loop) for loop in self.above), (producer_loop, consumer_loop)]
        if all(
            is_one_iteration((written, ours, above), (flow.place, theirs, around), self.common[:position])
            for position, (ours, theirs) in enumerate(advancing)
        ):
            return True
        writes = relation(above, [*self.common, producer_loop.name], written.indices, flow.producer.guards)
        reads = relation(around, [*self.common, consumer_loop.name], flow.place.indices, flow.consumer.guards)
        pairs = reads.apply_range(writes.reverse())
        return bool((pairs & isl.Map.lex_lt(pairs.get_space().domain())).is_empty())

    def unit(self, statement: Statement, loop: For) -> int:
        """How many values of its rank variable one iteration of the loop stands for."""
        found = {value.coefficients.get(loop.name, 0) for value in statement.values.values()} - {0}
        return found.pop() if len(found) == 1 else 0

    def _apart(self, producer: Statement, ours: Affine, consumer: Statement, theirs: Affine) -> ProducerConsumerError:
        return ProducerConsumerError(
            f"{self.step}: in one iteration {producer.einsum} writes {ours} and {consumer.einsum} reads {theirs}; "
            "they do not advance together",
            hint="Cut both with tiles that cover the same elements.",
        )

    def _halo(self, flow: Flow) -> ProducerConsumerError:
        return ProducerConsumerError(
            f"{self.step}: {flow.consumer.einsum} reads {flow.place} before {flow.producer.einsum} has written it (a halo)",
            hint="Share only the outermost loop over this rank, or leave the Einsums unfused.",
        )

    # -- rewriting ---------------------------------------------------------------------------------------------------------------------

    def paced(self, paces: Sequence[Pace]) -> For:
        """The common loop around all branches, each at its pace."""
        name = self.loops[0].name
        sizes, steps = [], []
        for loop, pace in zip(self.loops, paces, strict=True):
            size, unit = self._size(loop)
            sizes.append(size)
            steps.append(unit * pace.ratio)
        lag = max(ceil(pace.lead / step) for pace, step in zip(paces, steps, strict=True))
        count = max(ceil((size - pace.lead) / step) for size, pace, step in zip(sizes, paces, steps, strict=True)) + lag
        body: tuple[NestItem, ...] = ()
        for loop, pace, size in zip(self.loops, paces, sizes, strict=True):
            body += self._branch(loop, pace, size, lag, name)
        return For(name, count, body, (), tuple(ref for loop in self.loops for ref in loop.refs))

    def _size(self, loop: For) -> tuple[int, int]:
        """(extent of the rank variable that the loop cuts, values of it an iteration)."""
        for inner, statement in statements((loop,)):
            if statement.role in {"update", "map"}:
                unit = self.unit(statement, loop)
                value = next((v for v in statement.values.values() if loop.name in v.variables), None)
                if value is None or unit == 0 or is_reduction(self.nest, loop, statement.einsum):
                    break
                high = extremes(value, (*self.above, *inner), statement.guards)[1]
                if high is not None:
                    return high + 1, unit
        raise DifferentExtentsError(
            f"{self.step}: {loop.refs[0]} cannot wait for a producer that runs ahead", hint="Leave its Einsum out of this loop."
        )

    def _branch(self, loop: For, pace: Pace, size: int, lag: int, name: str) -> tuple[NestItem, ...]:
        inner_name = f"{loop.name}_a"
        position = Affine.of({name: pace.ratio}, -pace.ratio * lag)
        if pace.ratio > 1:
            position += Affine.variable(inner_name)
        body = tuple(self._shifted(node, loop, pace, size, position) for node in loop.body)
        return (For(inner_name, pace.ratio, body),) if pace.ratio > 1 else body

    def _shifted(self, node: NestItem, loop: For, pace: Pace, size: int, position: Affine) -> NestItem:
        """The node with the loop's place taken by ``position``, ahead by the lead, and clipped to the rank."""
        unit = self._size(loop)[1]

        def moved(index: Affine) -> Affine:
            factor = index.coefficients.get(loop.name, 0)
            return index.substituted({loop.name: position}) + factor * pace.lead // unit

        if isinstance(node, For):
            return dataclasses.replace(
                node,
                limits=tuple(map(moved, node.limits)),
                body=tuple(self._shifted(child, loop, pace, size, position) for child in node.body),
            )
        place = _whole(self.nest, node, loop)
        changed = dataclasses.replace(
            node,
            target=Place(node.target.source, tuple(map(moved, node.target.indices))),
            operands=tuple(Place(p.source, tuple(map(moved, p.indices))) for p in node.operands),
            values=constantdict({key: moved(value) for key, value in node.values.items()}),
            guards=tuple(map(moved, node.guards)),
        )
        if place is None:
            return changed
        value = moved(place)
        return dataclasses.replace(changed, guards=(*changed.guards, value, Affine((), size - 1) - value))


def _whole(nest: Nest, statement: Statement, loop: For) -> Affine | None:
    """The rank variable that the loop is a part of, at this statement."""
    for value in statement.values.values():
        if loop.name in value.variables:
            return value
    return next((index for index in output_indices(nest, statement) if loop.name in index.variables), None)


def common_limits(loops: Sequence[For]) -> tuple[Affine, ...]:
    """The limits that all of these loops have, over the first one's name."""
    name = loops[0].name
    kept = [{limit.renamed({loop.name: name}) for limit in loop.limits} for loop in loops]
    return tuple(limit for limit in loops[0].limits if all(limit in limits for limits in kept))
