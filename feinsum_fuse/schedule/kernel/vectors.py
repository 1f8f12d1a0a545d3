"""Writing a statement whose iterations are the lanes of vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from loopy.symbolic import SubstitutionMapper
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Comparison, If
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.language.reductions import REDUCTIONS
from ...formats.workload import operand_name
from ..steps.vector_steps import lane_axis
from ..tree.nest import For, Nest, Place, Statement
from .operations import c_type
from .vector_maps import OnVectors


class VectorWriter:
    """One statement under one loop of lanes, as expressions on vectors."""

    def __init__(
        self,
        nest: Nest,
        lane: For,
        statement: Statement,
        read: Callable[[Place], Expression],
        expression: Callable[[Affine], Expression],
        memory_of: Callable[[str], str],
    ) -> None:
        self.nest = nest
        self.lane = lane.name
        self.limits = lane.limits
        self.lanes = lane.extent or 0
        self.statement = statement
        self.read = read
        self.expression = expression
        self.memory_of = memory_of
        self.dtype = self._dtype_of(statement.target.source)
        self.suffix = f"{c_type(self.dtype)}{self.lanes}"
        self.intrinsics: set[str] = set()

    def call(self, what: str, *arguments: Expression) -> Expression:
        """A call of an intrinsic, which is noted."""
        name = f"{what}_{self.suffix}"
        self.intrinsics.add(name)
        return var(name)(*arguments)

    def at_lane(self, place: Place, lane: int) -> Place:
        """The element that one lane touches."""
        return place.substituted({self.lane: Affine((), lane)})

    def count(self) -> Expression | None:
        """How many lanes are inside the loop's limits; ``None`` if all always are."""
        counts = [self.expression(limit.substituted({self.lane: Affine((), 0)}) + 1) for limit in self.limits]
        if not counts:
            return None
        result = counts[0]
        for other in counts[1:]:
            result = var("min")(result, other)
        return result

    def operand(self, place: Place) -> Expression:
        """A vector that is read, or a scalar that all lanes share."""
        if not any(self.lane in index.variables for index in place.indices):
            return self.read(place)
        tile = self.nest.tiles.get(place.source)
        if tile is not None and tile.lanes == self.lanes:
            return self.element(place)
        axis = lane_axis(place, self.lane)
        if axis is not None and self._is_contiguous(place, axis):
            first = self.read(self.at_lane(place, 0))
            count = None if self._is_padded(place) else self.count()
            space = self.memory_of(place.source)
            return self.call(f"vload_{space}", first) if count is None else self.call(f"vloadupto_{space}", first, count)
        return self.call("pack", *(self._single(place, lane) for lane in range(self.lanes)))

    def _is_contiguous(self, place: Place, axis: int) -> bool:
        tile = self.nest.tiles.get(place.source)
        if tile is not None:
            return tile.axes[-1] == axis
        source = self.nest.sources[place.source]
        # A rule may compute anything; only one that is an array's element has an address.
        return axis == len(place.indices) - 1 and (not source.is_rule or source.is_direct)

    def _is_padded(self, place: Place) -> bool:
        """Whether whole vectors fit into a tile's rows."""
        tile = self.nest.tiles.get(place.source)
        return tile is not None and tile.padding == -tile.shape[tile.axes[-1]] % self.lanes

    def _single(self, place: Place, lane: int) -> Expression:
        value = self.read(self.at_lane(place, lane))
        conditions = [Comparison(self.expression(limit.substituted({self.lane: Affine((), lane)})), ">=", 0) for limit in self.limits]
        for condition in conditions:
            value = If(condition, value, np.dtype(self.dtype).type(0))
        return value

    def element(self, place: Place) -> Expression:
        """A vector of a tile of vectors."""
        tile = self.nest.tiles[place.source]
        axis = tile.axes[-1]
        indices = []
        for a in tile.axes:
            index = place.indices[a]
            if a == axis:
                index = index - index.restricted({self.lane})
                index = Affine(tuple((name, factor // self.lanes) for name, factor in index.terms), index.constant // self.lanes)
            indices.append(self.expression(index))
        return var(place.source)[tuple(indices)]

    def value(self) -> Expression:
        """The statement's right-hand side, combined with what the target holds where it reduces."""
        s = self.statement
        operands = {operand_name(k): self.operand(p) for k, p in enumerate(s.operands)}
        loops = {name: self.expression(v) for name, v in s.values.items()}
        vectorial = {name for name, p in zip(operands, s.operands, strict=True) if any(self.lane in i.variables for i in p.indices)}
        mapper = OnVectors(self.call, self.expression, self.lane, vectorial, s.values, self.lanes, self.dtype)
        value = SubstitutionMapper(make_subst_func({**loops, **operands}))(mapper(s.value))
        if not mapper.is_vector(s.value):
            value = self.call("splat", value)
        if s.reduce is None:
            return value
        target = self.operand(s.target)
        return REDUCTIONS[s.reduce].combined(target, value, lambda function, *values: self.call(f"v{function}", *values))

    @property
    def stores(self) -> bool:
        """Whether the vector goes to memory, where its lanes lie next to one another."""
        place = self.statement.target
        tile = self.nest.tiles.get(place.source)
        axis = lane_axis(place, self.lane)
        return (tile is None or tile.lanes != self.lanes) and axis is not None and self._is_contiguous(place, axis)

    def target(self) -> Expression | list[Place]:
        """A vector of a tile, or the first element of those that are stored; or the elements that lanes write one by one."""
        place = self.statement.target
        tile = self.nest.tiles.get(place.source)
        if tile is not None and tile.lanes == self.lanes:
            return self.element(place)
        if self.stores:
            return self.read(self.at_lane(place, 0))
        return [self.at_lane(place, lane) for lane in range(self.lanes)]

    def stored(self, first: Expression, value: Expression) -> Expression:
        """A call that stores the vector from its first element's place on, and has the first element's value."""
        target = self.statement.target
        space, count = self.memory_of(target.source), self.count()
        # A tile that is fetched ends in padding, into which a last vector may be stored whole.
        if count is None or (self.statement.role == "fetch" and self._is_padded(target)):
            return self.call(f"vstore_{space}", first, value)
        return self.call(f"vstoreupto_{space}", first, value, count)

    def guards(self, lane: int) -> tuple[Affine, ...]:
        """When one lane counts."""
        return tuple(limit.substituted({self.lane: Affine((), lane)}) for limit in self.limits)

    def _dtype_of(self, source: str) -> str:
        return self.nest.tiles[source].dtype if source in self.nest.tiles else self.nest.sources[source].dtype
