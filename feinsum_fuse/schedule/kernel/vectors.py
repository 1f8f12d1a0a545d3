"""Writing a statement whose iterations are the lanes of vectors, with its map as OpenCL and loopy want it on vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from loopy.symbolic import SubstitutionMapper, TypeCast, get_dependencies
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Call, Comparison, If, LogicalAnd, Product, Variable
from pymbolic.typing import Expression

from ...formats.affine import Affine, read_affine
from ...formats.language.reductions import ADD, REDUCTIONS
from ...formats.workload import operand_name
from ...number_types import BFLOAT16, computed_in, kind_of
from ..refusals import VectorAccessError
from ..statement import Place, Statement
from ..steps.vector_steps import is_multiple, lane_axis
from ..tree.masks import mentions_choice
from ..tree.nest import For, Nest, Tile
from ..tree.polyhedra import left_axes
from .maps.complex_map import COMPUTED, OnComplexVectors, added
from .maps.vector_map import STORED, OnVectors, computed_types
from .operations import C_TYPES, OF_REALS, SHORTEST_BLOCK, Extent, VectorOperation, Verb, c_type, has_blocks, is_near


def with_own_limits(s: Statement, lane: For) -> tuple[Statement, For]:
    """A statement under the limits of a loop over lanes that say nothing of lanes, and the loop with the others."""
    guards = tuple(limit for limit in lane.limits if lane.name not in limit.variables)
    others = tuple(limit for limit in lane.limits if lane.name in limit.variables)
    return s.changed(guards=(*s.guards, *guards)), lane.changed(limits=others)


def _limit(condition: Expression, values: Mapping[str, Affine]) -> Affine | None:
    """What is >= 0 where a comparison of rank variables holds; ``None`` of other conditions."""
    if not isinstance(condition, Comparison):
        return None
    left, right = read_affine(condition.left), read_affine(condition.right)
    if left is None or right is None or not {*left.variables, *right.variables} <= values.keys():
        return None
    difference = (left - right).substituted(values)
    return {">=": difference, ">": difference - 1, "<=": -difference, "<": -difference - 1}.get(condition.operator)


class VectorWriter:
    """One statement under one loop of lanes, as expressions on vectors."""

    def __init__(
        self,
        nest: Nest,
        lane: For,
        above: Sequence[For],
        statement: Statement,
        read: Callable[[Place], Expression],
        expression: Callable[[Affine], Expression],
        memory_of: Callable[[str], str],
    ) -> None:
        self.nest = nest
        self.lane = lane.name
        self.limits = lane.limits
        self.loops = (*above, lane)
        self.lanes = lane.extent or 0
        self.statement = statement
        self.read = read
        self.expression = expression
        self.memory_of = memory_of
        self.stored_type = nest.dtype_of(statement.target.source)
        self.dtype = self._computed_type()
        self.operations: dict[str, VectorOperation] = {}
        """Name -> operation that is called."""
        self.is_cut = all(limit.coefficients.get(self.lane) == -1 for limit in self.limits)
        """Whether the lanes that count are the first ones."""

    def _computed_type(self) -> str:
        """The type that the value has before it is stored: that of what is converted, of sums of whole numbers a longer one."""
        s, converted = self.statement, self._unconverted(self.statement.value)
        usual = computed_in(self.stored_type)
        is_whole = s.reduce is not None and kind_of(usual) in "iu"
        if (s.reduce is not None and not is_whole) or usual != self.stored_type or kind_of(usual) == "c":
            return usual
        types = {operand_name(k): self.nest.dtype_of(place.source) for k, place in enumerate(s.operands)}
        if not is_whole and converted is s.value and not (isinstance(converted, Variable) and converted.name in types):
            return usual
        found = computed_types(converted, types)
        computed = found.pop() if len(found) == 1 else usual
        is_longer = kind_of(computed) in "iu" and np.dtype(computed).itemsize > np.dtype(usual).itemsize
        return computed if not is_whole or is_longer else usual

    def _unconverted(self, value: Expression) -> Expression:
        """What a value is before it becomes one of the type that is stored; of one that is chosen, what both are."""
        if isinstance(value, If):
            then, otherwise = self._unconverted(value.then), self._unconverted(value.else_)
            return value if then is value.then and otherwise is value.else_ else If(value.condition, then, otherwise)
        is_cast = isinstance(value, TypeCast) and value.type.numpy_dtype == np.dtype(self.stored_type)
        return value.child if is_cast else value

    def call(self, verb: Verb, *arguments: Expression, dtype: str | None = None, lanes: int | None = None, **details: Any) -> Expression:
        """A call of an operation, which is noted; ``dtype``: of its vectors, by default the one that is computed in."""
        operation = VectorOperation(verb, c_type(dtype or self.dtype), lanes or self.lanes, **details)
        if operation.real_element and verb not in COMPUTED:
            raise VectorAccessError(f"{verb.name.lower()} on vectors of {operation.dtype}")
        self.operations[operation.name] = operation
        return var(operation.name)(*arguments)

    def at_lane(self, place: Place, lane: int) -> Place:
        """The element that one lane touches."""
        return place.substituted({self.lane: Affine((), lane)})

    def count(self) -> Expression | None:
        """How many lanes, from the first one on, are inside the loop's limits; ``None`` if all always are."""
        counts = [self.expression(limit.substituted({self.lane: Affine((), 0)}) + 1) for limit in self.limits]
        if not counts:
            return None
        result = counts[0]
        for other in counts[1:]:
            result = var("min")(result, other)
        return result

    def operand(self, place: Place, *, is_stored: bool = False) -> Expression:
        """A vector that is read, or a scalar that all lanes share; ``is_stored``: a vector that is loaded stays of the type of memory."""
        dtype, ahead = self.nest.dtype_of(place.source), self.statement.ahead.get(place.source)
        asked = {} if ahead is None else {"distance": ahead.distance, "line": ahead.line}
        if not any(self.lane in index.variables for index in place.indices):
            single = self.read(place)
            if not asked or dtype not in C_TYPES or dtype == BFLOAT16:
                return single
            return self.call(Verb.ELEMENT, single, dtype=dtype, lanes=1, spaces=(self.memory_of(place.source),), **asked)
        tile = self.nest.tiles.get(place.source)
        if tile is not None and tile.lanes == self.lanes:
            return self.element(place) if is_stored else self._converted(self.element(place), dtype)
        axis, left = lane_axis(place, self.lane), self._left(place)
        if axis is not None and self._is_contiguous(place, axis) and (axis in left or self._is_row(place, axis)):
            loaded = self._within(place, axis, dtype)
            return loaded if is_stored else self._converted(loaded, dtype)
        if axis is not None and self.is_cut and self._is_contiguous(place, axis):
            first = self.read(self.at_lane(place, 0))
            count = None if self._is_padded(place) else self.count()
            space = self.memory_of(place.source)
            counted, extent = ((), Extent.WHOLE) if count is None else ((count,), Extent.COUNTED)
            loaded = self.call(Verb.LOAD, first, *counted, dtype=dtype, spaces=(space,), extent=extent, **asked)
            return loaded if is_stored else self._converted(loaded, dtype)
        is_mixed = self.is_cut and not self._along_lanes(place, left) and self.memory_of(place.source) != "private" and has_blocks(dtype)
        step = self._step(place) if is_mixed else 0
        if is_near(step, self.lanes):
            first, count, spaces = self.read(self.at_lane(place, 0)), self.count(), (self.memory_of(place.source),)
            counted, extent = ((), Extent.WHOLE) if count is None else ((count,), Extent.COUNTED)
            loaded = self.call(Verb.LOAD, first, *counted, dtype=dtype, spaces=spaces, extent=extent, step=step)
            return loaded if is_stored else self._converted(loaded, dtype)
        singles = (self._single(place, lane, self._along_lanes(place, left)) for lane in range(self.lanes))
        if not self._takes_parts(dtype):
            return self.call(Verb.PACK, *singles)
        packed = self.call(Verb.PACK, *singles, dtype=dtype)
        return packed if is_stored else self._converted(packed, dtype)

    def _left(self, place: Place) -> frozenset[int]:
        """The axes of an array along which a place is outside in some iterations, whose value a choice leaves out."""
        if place.source in self.nest.tiles or not mentions_choice(self.statement.value):
            return frozenset()  # loops end where an array does
        return left_axes(place.indices, self.nest.sources[place.source].shape, self.loops, self.statement.guards)

    def _is_row(self, place: Place, axis: int) -> bool:
        """Whether other lanes count than the first ones, of a vector that lies in a row of known length."""
        return not self.is_cut and place.source not in self.nest.tiles and self.nest.sources[place.source].shape[axis] is not None

    def cases(self) -> Iterator[Statement]:
        """The statement by those conditions of its choice that hold for all lanes or for none, where it reads outside of an array else."""
        s = self.statement
        if not isinstance(s.value, If) or all(len(self._along_lanes(p, left)) == len(left) for p in s.operands for left in [self._left(p)]):
            yield s
            return
        condition, holds, others = s.value.condition, list[Affine](), []
        for part in condition.children if isinstance(condition, LogicalAnd) else (condition,):
            limit = _limit(part, s.values)
            if limit is None or self.lane in limit.variables:
                others.append(part)
                continue
            yield s.changed(value=s.value.else_, operands=(), guards=(*s.guards, *holds, -limit - 1))
            holds.append(limit)
        condition = LogicalAnd(tuple(others)) if len(others) > 1 else others[0] if others else None
        value = s.value.then if condition is None else If(condition, s.value.then, s.value.else_)
        yield s.changed(value=value, guards=(*s.guards, *holds))

    def _along_lanes(self, place: Place, axes: Iterable[int]) -> list[int]:
        """Those of these axes along which lanes differ."""
        return [axis for axis in axes if self.lane in place.indices[axis].variables]

    def _within(self, place: Place, axis: int, dtype: str) -> Expression:
        """A vector of a row of an array, of which lanes may lie before the row or behind it."""
        length, indices = self.nest.sources[place.source].shape[axis], list(self.at_lane(place, 0).indices)
        if length is None:
            raise VectorAccessError(f"{place}, which may start before a row of unknown length")
        start, count = self.expression(indices[axis]), self.count() if self.is_cut else None
        indices[axis] = Affine((), 0)
        end = length if count is None else var("min")(start + count, length)
        row = self.read(Place(place.source, tuple(indices)))
        return self.call(Verb.LOAD, row, start, end, dtype=dtype, spaces=(self.memory_of(place.source),), extent=Extent.WITHIN)

    def _takes_parts(self, dtype: str) -> bool:
        """Whether complex numbers are computed with real ones of a type."""
        return kind_of(self.dtype) == "c" != kind_of(dtype)

    def _step(self, place: Place) -> int:
        """Elements of memory from one lane to the next; 0 where that is not known, or no element has an address."""
        factors = [index.coefficients.get(self.lane, 0) for index in place.indices]
        tile = self.nest.tiles.get(place.source)
        if tile is not None:
            sizes = [tile.shape[axis] for axis in tile.axes]
            sizes[-1] += tile.padding
            steps = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
            return sum(factors[axis] * step for axis, step in zip(tile.axes, steps, strict=True)) if tile.lanes == 1 else 0
        source = self.nest.sources[place.source]
        if source.is_rule and not source.is_direct:
            return 0
        if source.steps is not None and len(source.steps) == len(factors):
            return sum(factor * step for factor, step in zip(factors, source.steps, strict=True))
        along = [axis - len(factors) for axis, factor in enumerate(factors) if factor]
        return sum(factors) if along == [source.consecutive_axis] else 0

    def _converted(self, vector: Expression, dtype: str) -> Expression:
        """A vector in the type that is computed in."""
        if dtype == BFLOAT16:
            vector, dtype = self.call(Verb.WIDEN, vector, dtype=computed_in(dtype)), computed_in(dtype)
        return vector if dtype == self.dtype else self.call(Verb.CONVERT, vector, function=OF_REALS if self._takes_parts(dtype) else "")

    def _narrowed(self, vector: Expression) -> Expression:
        """A vector as it is stored."""
        if self.stored_type == self.dtype:
            return vector
        if isinstance(vector, Call):
            called = self.operations.get(vector.function.name)
            if called is not None and called.verb is Verb.WIDEN:
                return vector.parameters[0]
        return self.call(Verb.NARROW if self.stored_type == BFLOAT16 else Verb.CONVERT, vector, dtype=self.stored_type)

    def _is_contiguous(self, place: Place, axis: int) -> bool:
        tile = self.nest.tiles.get(place.source)
        if tile is not None:
            return tile.axes[-1] == axis
        source = self.nest.sources[place.source]
        # A rule may compute anything; only one that is an array's element has an address.
        return axis - len(place.indices) == source.consecutive_axis and (not source.is_rule or source.is_direct)

    def _is_padded(self, place: Place) -> bool:
        """Whether whole vectors fit into a tile's rows."""
        tile = self.nest.tiles.get(place.source)
        return tile is not None and (tile.shape[tile.axes[-1]] + tile.padding) % self.lanes == 0

    def _single(self, place: Place, lane: int, left: Sequence[int]) -> Expression:
        place = self.at_lane(place, lane)
        conditions = [limit.substituted({self.lane: Affine((), lane)}) for limit in self.limits]
        for axis in left:
            index, length = place.indices[axis], self.nest.sources[place.source].shape[axis]
            conditions += [index] if length is None else [index, Affine((), length - 1) - index]
        value = self.read(place)
        for condition in conditions:
            zero = np.dtype(self.nest.dtype_of(place.source) if kind_of(self.dtype) == "c" else self.dtype).type(0)
            value = If(Comparison(self.expression(condition), ">=", 0), value, zero)
        return value

    def element(self, place: Place) -> Expression:
        """A vector of a tile of vectors."""
        first = self.at_lane(place, 0)
        return var(place.source)[tuple(map(self.expression, self.nest.tiles[place.source].stored(first.indices)))]

    def value(self) -> Expression:
        """The statement's right-hand side, combined with what the target holds where it reduces, in the target's type."""
        return self._narrowed(self._value())

    def _value(self) -> Expression:
        s = self.statement
        places = {operand_name(k): place for k, place in enumerate(s.operands)}
        loops = {name: self.expression(v) for name, v in s.values.items()}
        vectorial = {name for name, p in places.items() if any(self.lane in i.variables for i in p.indices)}
        types = {name: self.nest.dtype_of(p.source) for name, p in places.items()}
        kind = OnComplexVectors if kind_of(self.dtype) == "c" else OnVectors
        mapper = kind(self.call, self.expression, self.lane, vectorial, s.values, self.lanes, self.dtype, types)
        value = mapper.whole(s.value if self.dtype == computed_in(self.stored_type) else self._unconverted(s.value))
        needed = get_dependencies(value)
        operands = {name: self.operand(place) for name, place in places.items() if name in needed}
        stored = {name + STORED: self.operand(p, is_stored=True) for name, p in places.items() if name + STORED in needed}
        value = SubstitutionMapper(make_subst_func({**loops, **operands, **stored}))(value)
        if s.reduce is None:
            return value
        target = self.operand(s.target)
        value = self._combined(s.reduce, target, value)
        for limit in () if self._are_zeros_beyond() else self._inside():
            first = self.expression(limit - limit.restricted({self.lane}))
            value = self.call(Verb.INDEX, first, limit.coefficients[self.lane], value, target, comparison=">=")
        return value

    def _combined(self, reduce: str, target: Expression, value: Expression) -> Expression:
        """What a reduction has so far, combined with one more value."""
        if kind_of(self.dtype) != "c":
            return REDUCTIONS[reduce].combined(target, value, self._running)
        if reduce != ADD.name:
            return self.call(Verb.MULTIPLY, target, value)
        return added(self.call, self.operations, target, value)

    def _running(self, function: str, so_far: Expression, value: Expression) -> Expression:
        """What a reduction has so far, combined with one more value by a function."""
        return self.call(Verb.FUNCTION, so_far, value, function=function, is_running=True)

    def _inside(self) -> Iterator[Affine]:
        """The limits that leave out elements of a vector which are more than what lies behind the end of the tile's part of a tensor."""
        place = self.statement.target
        tile = self.nest.tiles.get(place.source)
        if tile is None or tile.lanes != self.lanes:
            return
        axis = tile.axes[-1]
        ends = set(self._ends(tile, axis))
        for limit in self.limits:
            end = limit + tile.element(place.indices)[axis]
            if not any(not (end - other).terms and (end - other).constant >= 0 for other in ends):
                yield limit

    def _ends(self, tile: Tile, axis: int) -> Iterator[Affine]:
        """The last elements, along an axis, that are set in a tile."""
        for above, s in self.nest.points:
            if s.target.source == tile.name and s.role in {"init", "reload"}:
                element = tile.element(s.target.indices)[axis]
                own = {loop.name for loop in above if not loop.refs}
                for limit in (limit for loop in above for limit in loop.limits):
                    if limit.restricted(own) == -element.restricted(own):
                        yield limit + element

    def block(self, columns: For) -> Expression:
        """A call that moves a block, whose columns are the iterations of another loop; it has the first element's value.

        How far apart rows lie is said by the element that is the first one of the second row, or column, of an array's first block.
        """
        target, (source,) = self.statement.target, self.statement.operands
        origin = {self.lane: Affine((), 0), columns.name: Affine((), 0)}
        steps = [
            Place(place.source, tuple(Affine((), index.coefficients.get(name, 0)) for index in place.indices))
            for place, name in ((target, columns.name), (source, self.lane))
        ]
        counts = [
            self._least(most, (limit.substituted(origin) + 1 for limit in limits if name in limit.variables))
            for limits, name, most in ((self.limits, self.lane, self.lanes), (columns.limits, columns.name, columns.extent or 0))
        ]
        places = (target.substituted(origin), source.substituted(origin), *steps)
        spaces = (self.memory_of(target.source), self.memory_of(source.source))
        length = max(self.lanes, columns.extent or 0)
        verb = Verb.BLOCK if length == self.lanes else Verb.WORDS
        known = [limit.constant + 1 for limit in (own.substituted(origin) for own in columns.limits) if not limit.variables]
        padded = Extent.NARROW if min([columns.extent or length, *known]) < min(length, SHORTEST_BLOCK) else Extent.PADDED
        extent = padded if verb is Verb.BLOCK and self._leaves_garbage() else Extent.WHOLE
        how: dict[str, Any] = {"spaces": spaces, "extent": extent, "streamed": self.statement.streamed if verb is Verb.BLOCK else 0}
        return self.call(verb, *map(self.read, places), *counts, dtype=self.stored_type, lanes=length, **how)

    def _least(self, most: int, counts: Iterable[Affine]) -> Expression:
        """The least of some numbers, and no more than ``most``."""
        result: Expression = most
        for count in counts:
            result = var("min")(self.expression(count), result)
        return result

    @property
    def stores(self) -> bool:
        """Whether the vector goes to memory, where its lanes lie next to one another."""
        place = self.statement.target
        tile = self.nest.tiles.get(place.source)
        axis = lane_axis(place, self.lane)
        return (tile is None or tile.lanes != self.lanes) and axis is not None and self.is_cut and self._is_contiguous(place, axis)

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
        spaces, count = (self.memory_of(target.source),), self.count()
        # A tile that is fetched ends in padding, into which a last vector may be stored whole.
        is_fetched = self.statement.role == "fetch" and self._is_padded(target)
        if count is None or is_fetched or self._ends_in_padding() or self._adds_zeros():
            return self.call(Verb.STORE, first, value, dtype=self.stored_type, spaces=spaces, streamed=self.statement.streamed)
        # Memory has a store of so many elements, or it is made of shorter ones; what is in registers would have to leave them for it.
        is_merged = spaces == ("private",) and self.stored_type != BFLOAT16 and self._is_padded(target) and self._starts_vectors(target)
        extent = Extent.MERGED if is_merged else Extent.COUNTED
        how: dict[str, Any] = {"spaces": spaces, "extent": extent, "streamed": self.statement.streamed}
        return self.call(Verb.STORE, first, value, count, dtype=self.stored_type, **how)

    def _leaves_garbage(self) -> bool:
        """Whether numbers that lanes leave out are loaded with others: processors take a hundred times as long for one that is denormal."""
        has_denormals = kind_of(self.nest.dtype_of(self.statement.target.source)) in "fc"
        return has_denormals and bool(self.limits) and self._ends_in_padding()

    def _ends_in_padding(self) -> bool:
        """Whether all lanes that do not count lie where nothing is stored: behind a row of a tile, in its padding, or behind the tensor."""
        place = self.statement.target
        tile, axis = self.nest.tiles.get(place.source), lane_axis(place, self.lane)
        if tile is None or axis is None or not (self._is_padded(place) and self._starts_vectors(place)):
            return False
        # What others write stays, and so does what is added to: a lane may have been reached in another iteration.
        is_alone = self.statement.reduce is None and sum(s.target.source == tile.name for _, s in self.nest.points) == 1
        ends = [(place.indices[axis], tile.shape[axis]), *(self._tensor_ends() if is_alone else ())]
        beyond = self._ends_a_drain if is_alone else lambda _: False
        return all(any(_reaches(limit + index, length) for index, length in ends) or beyond(limit) for limit in self.limits)

    def _tensor_ends(self) -> Iterator[tuple[Affine, int]]:
        """(index, how many there are): what the lanes of a computation, or of what is fetched, go along."""
        s = self.statement
        found = [(s.values.get(loop.name), loop.extent) for loop in self.nest.spaces.get(s.einsum, ())]
        if s.role == "fetch" and s.operands[0].source in self.nest.sources:
            found += zip(s.operands[0].indices, self.nest.sources[s.operands[0].source].shape, strict=False)
        yield from ((index, n) for index, n in found if index is not None and n is not None and self.lane in index.variables)

    def _ends_a_drain(self, limit: Affine) -> bool:
        """Whether a limit is where whole vectors end that are written from registers: behind the tensor.

        Its loops go by vectors and away from the start, so that a lane which it leaves out has none behind it that counts. What a register
        holds does not say how far its tensor goes, and a fused loop has another name in the tile's first element.
        """
        others = [factor for name, factor in limit.terms if name != self.lane]
        is_end = limit.coefficients.get(self.lane) == -1 and all(factor < 0 and factor % self.lanes == 0 for factor in others)
        return is_end and self.statement.role == "drain"

    def _starts_vectors(self, place: Place) -> bool:
        """Whether the first lane's element is a whole number of vectors from the start of its row."""
        axis = lane_axis(place, self.lane)
        return axis is not None and is_multiple(place.indices[axis] - Affine.variable(self.lane), self.lanes)

    def _adds_zeros(self) -> bool:
        """Whether lanes beyond the end have sums of their own, to which they add zeros: all factors are loaded up to the end."""
        target = self.statement.target
        tile, axis = self.nest.tiles.get(target.source), lane_axis(target, self.lane)
        if tile is None or axis is None or tile.shape[axis] != self.lanes or target.indices[axis].terms != ((self.lane, 1),):
            return False
        return self._are_zeros_beyond()

    def _are_zeros_beyond(self) -> bool:
        """Whether what lanes beyond the end add is zero: all factors are loaded up to the end."""
        s = self.statement
        factors = s.value.children if isinstance(s.value, Product) else (s.value,)
        if s.reduce != ADD.name or not all(isinstance(factor, Variable) for factor in factors):
            return False
        return all(self._is_loaded_in_part(place) for place in s.operands)

    def _is_loaded_in_part(self, place: Place) -> bool:
        """Whether the lanes of an operand that lie beyond the end are zeros."""
        axis, tile = lane_axis(place, self.lane), self.nest.tiles.get(place.source)
        is_loaded = axis is not None and self.is_cut and self._is_contiguous(place, axis)
        return is_loaded and not self._is_padded(place) and (tile is None or tile.lanes != self.lanes)

    def lane_of(self, vector: Expression, lane: int) -> Expression:
        """One element of a vector in the target's type."""
        return self.call(Verb.LANE, vector, dtype=self.stored_type, lane=lane)

    def guards(self, lane: int) -> tuple[Affine, ...]:
        """When one lane counts."""
        return tuple(limit.substituted({self.lane: Affine((), lane)}) for limit in self.limits)


def _reaches(end: Affine, length: int) -> bool:
    """Whether the last index within a limit is that of the last of so many elements, or lies behind it, wherever that is."""
    return not end.terms and end.constant >= length - 1
