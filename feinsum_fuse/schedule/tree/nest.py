"""The normal form: explicit loops and statements, as a tree.

A schedule step takes a kernel in normal form and returns one. The tree says what a loopy kernel can only imply: the order of loops and of
statements, which loop is which part of which rank variable, and which array holds a tile of which tensor. It travels with the kernel
(:mod:`feinsum_fuse.schedule.kernel.tagging`), and the kernel's instructions are written from it.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from constantdict import constantdict
from pydantic_core import CoreSchema, core_schema

from ...cascades.names import identifier
from ...formats.affine import Affine
from ...formats.opencl import FANOUTS, AddressSpace, FanoutKind
from ..block_signature import signature
from ..kept_property import kept_property
from ..statement import Statement


class LoopRef(NamedTuple):
    """A loop by what it is: a part of a rank variable of an Einsum. Each split appends ``0`` (outer) or ``1`` (inner) to the path.

    A tuple, as affine expressions are: a search compares a thousand for each candidate, and hashes them with the steps that name them.
    """

    einsum: str
    variable: str
    path: str = ""

    @property
    def outer(self) -> LoopRef:
        """The outer part after a split."""
        return LoopRef(self.einsum, self.variable, self.path + "0")

    @property
    def inner(self) -> LoopRef:
        """The inner part after a split."""
        return LoopRef(self.einsum, self.variable, self.path + "1")

    @classmethod
    def parse(cls, text: str) -> LoopRef:
        """The inverse of ``str``; ``ValueError`` if the text is no reference."""
        found = re.fullmatch(r"(.+)\.([^./]+)((?:/[01])*)", text)
        if not found:
            raise ValueError(f"{text!r} is no loop reference such as 'Z.m/0/1'")
        return cls(found[1], found[2], found[3].replace("/", ""))

    def __str__(self) -> str:
        return f"{self.einsum}.{self.variable}" + "".join(f"/{part}" for part in self.path)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """In JSON a reference is its text."""
        text = core_schema.str_schema(strict=True)
        return core_schema.no_info_after_validator_function(cls.parse, text, serialization=core_schema.to_string_ser_schema())


@dataclass(frozen=True, init=False)
class For:
    """``for name in [0, extent)`` where every limit (over this and enclosing loops and size parameters) is >= 0.

    ``extent`` is ``None`` if only the limits bound the loop (a symbolic size). ``refs`` are the parts of rank variables that this loop is;
    a loop that only moves a tile has none. ``fused`` names the one loop as which this loop runs with the only node of its body.
    ``is_block``: all that stands in it is a block; ``intrinsic`` names what computes the block.
    """

    name: str
    extent: int | None
    body: tuple[NestItem, ...]
    limits: tuple[Affine, ...] = ()
    refs: tuple[LoopRef, ...] = ()
    binding: FanoutKind = "loop"
    fused: str = ""
    is_block: bool = False
    intrinsic: str = ""

    def __init__(
        self,
        name: str,
        extent: int | None,
        body: tuple[NestItem, ...],
        limits: tuple[Affine, ...] = (),
        refs: tuple[LoopRef, ...] = (),
        binding: FanoutKind = "loop",
        fused: str = "",
        is_block: bool = False,
        intrinsic: str = "",
    ) -> None:
        # Written out, since every step makes hundreds: a frozen class's own takes three times as long.
        fields = self.__dict__
        fields["name"], fields["extent"], fields["body"], fields["limits"], fields["refs"] = name, extent, body, limits, refs
        fields["binding"], fields["fused"], fields["is_block"], fields["intrinsic"] = binding, fused, is_block, intrinsic

    def around(self, body: tuple[NestItem, ...]) -> For:
        """The loop around another body."""
        return For(self.name, self.extent, body, self.limits, self.refs, self.binding, self.fused, self.is_block, self.intrinsic)

    @property
    def is_over_groups(self) -> bool:
        """Whether its iterations are work-groups."""
        return FANOUTS[self.binding].level == "group"

    @property
    def is_over_items(self) -> bool:
        """Whether its iterations are the work-items of a group."""
        return FANOUTS[self.binding].level == "local"

    @property
    def is_over_grid(self) -> bool:
        """Whether its iterations are groups or work-items."""
        return FANOUTS[self.binding].is_axis

    @property
    def loops(self) -> tuple[For, ...]:
        """This loop and those below, outer before inner, in the order of the text."""
        return (self, *self.inner_loops)

    @property
    def points(self) -> tuple[PlacedStatement, ...]:
        """The statements below with the loops around them from this one on."""
        return tuple([((self, *loops), statement) for loops, statement in self.inner_points])

    # What is kept of a loop does not hold the loop itself: a circle of objects waits for the garbage collector, which took a sixth of the
    # time of a search.
    @kept_property
    def inner_loops(self) -> tuple[For, ...]:
        """The loops below, outer before inner, in the order of the text."""
        return tuple([loop for node in self.body if isinstance(node, For) for loop in node.loops])

    @kept_property
    def inner_points(self) -> tuple[PlacedStatement, ...]:
        """The statements below with the loops around them inside this one: most steps leave most loops as they are."""
        found: list[PlacedStatement] = []
        _collect(self.body, (), found)
        return tuple(found)

    @kept_property
    def touched(self) -> frozenset[str]:
        """The arrays, tiles and rules that statements below write or read; most steps look at one of them, and leave other loops alone."""
        return _union([node.touched if isinstance(node, For) else node.sources for node in self.body])

    @kept_property
    def computing(self) -> frozenset[str]:
        """The Einsums that statements below compute, or combine partial results of."""
        return _union([node.computing for node in self.body])

    @kept_property
    def limiting(self) -> frozenset[str]:
        """The variables of its limits."""
        return frozenset([name for limit in self.limits for name, _ in limit.terms])

    def __getstate__(self) -> dict[str, object]:
        # What is computed from a loop stays here, as of a nest.
        own = self.__dict__
        return {name: own[name] for name in _LOOP_PARTS}

    def changed(self, **changes: object) -> For:
        """The loop with some parts replaced; written out, since a search does it all the time."""
        return For(**{**self.__getstate__(), **changes})  # type: ignore[arg-type]

    def limited(self, limits: tuple[Affine, ...], body: tuple[NestItem, ...]) -> For:
        """The loop with these limits around this body; itself if they are its own, with what was found out about it."""
        if body is self.body and limits == self.limits:
            return self
        return For(self.name, self.extent, body, limits, self.refs, self.binding, self.fused, self.is_block, self.intrinsic)


def _union(sets: list[frozenset[str]]) -> frozenset[str]:
    """All of them together; most loops have one node in them, and what is known of it is known of them."""
    return sets[0] if len(sets) == 1 else frozenset().union(*sets)


_LOOP_PARTS = tuple(part.name for part in dataclasses.fields(For))
NestItem = For | Statement
PlacedStatement = tuple[tuple[For, ...], Statement]
"""A statement with the loops around it, outermost first."""


@dataclass(frozen=True)
class Source:
    """What a tensor's values are read from or written to before any step: an array of the kernel, or a substitution rule."""

    name: str
    tensor: str
    shape: tuple[int | None, ...]
    dtype: str
    is_rule: bool = False
    is_direct: bool = True
    """Whether a read is just an element of one array, which has an address."""
    consecutive_axis: int | None = -1
    """The axis, counted from the last, along which elements lie next to one another in memory; ``None`` if there is none."""
    steps: tuple[int, ...] | None = None
    """Elements from one index to the next along each axis; ``None`` where they are not known."""
    is_owned: bool = False
    """Whether a step made the array; it is a whole tensor in global memory until ``ComputeAt`` shrinks it."""


@dataclass(frozen=True)
class Tile:
    """An array of ours that holds a part of a tensor.

    ``origin`` is the tensor's element (per axis, over the loops above) that the tile's element 0 is; the next one is ``strides`` elements
    on (none: 1). ``axes`` is the order in which the tensor's axes are stored, slowest first. With ``lanes > 1`` the last stored axis is
    made of vectors of that many elements.
    """

    name: str
    tensor: str
    memory: AddressSpace
    shape: tuple[int, ...]
    dtype: str
    origin: tuple[Affine, ...]
    axes: tuple[int, ...]
    padding: int = 0
    lanes: int = 1
    strides: tuple[int, ...] = ()

    def element(self, indices: Sequence[Affine]) -> tuple[Affine, ...]:
        """The tensor's element that the tile's element at these indices is."""
        steps = self.strides or (1,) * len(self.origin)
        return tuple(first + index * step for first, index, step in zip(self.origin, indices, steps, strict=True))

    def stored(self, indices: Sequence[Affine]) -> tuple[Affine, ...]:
        """The indices in the order of the array; the last one counts vectors."""
        *outer, last = (indices[axis] for axis in self.axes)
        vector = Affine(tuple((name, factor // self.lanes) for name, factor in last.terms), last.constant // self.lanes)
        return (*outer, vector)

    @kept_property
    def elements(self) -> int:
        """How many elements are allocated."""
        total = 1
        for position, axis in enumerate(self.axes):
            size = self.shape[axis]
            if position == len(self.axes) - 1:
                size = -(-(size + self.padding) // self.lanes) * self.lanes
            total *= size
        return total


_NO_TILES: constantdict[str, Tile] = constantdict()
_NO_SPACES: constantdict[str, tuple[For, ...]] = constantdict()
_NO_ACCUMULATORS: constantdict[str, str] = constantdict()


@dataclass(frozen=True, init=False)
class Nest:
    """A kernel in normal form."""

    body: tuple[NestItem, ...]
    sources: constantdict[str, Source]
    tiles: constantdict[str, Tile] = _NO_TILES
    outputs: frozenset[str] = frozenset()
    """Arrays that the caller sees; a step never replaces them."""
    ids: tuple[str, ...] = ()
    """The instructions of the grammar kernel that this tree stands for."""
    spaces: constantdict[str, tuple[For, ...]] = _NO_SPACES
    """Einsum -> its loops before any step, without their bodies."""
    accumulators: constantdict[str, str] = _NO_ACCUMULATORS
    """Einsum -> the type of its reduction, where the stored type of its output does not hold every value of it."""

    def __init__(
        self,
        body: tuple[NestItem, ...],
        sources: constantdict[str, Source],
        tiles: constantdict[str, Tile] = _NO_TILES,
        outputs: frozenset[str] = frozenset(),
        ids: tuple[str, ...] = (),
        spaces: constantdict[str, tuple[For, ...]] = _NO_SPACES,
        accumulators: constantdict[str, str] = _NO_ACCUMULATORS,
    ) -> None:
        # Written out, as for loops: every step makes one.
        fields = self.__dict__
        fields["body"], fields["sources"], fields["tiles"], fields["outputs"] = body, sources, tiles, outputs
        fields["ids"], fields["spaces"], fields["accumulators"] = ids, spaces, accumulators

    def replace(self, **changes: object) -> Nest:
        """A copy with some parts replaced."""
        return Nest(**{**self.__getstate__(), **changes})  # type: ignore[arg-type]

    @kept_property
    def loops(self) -> Mapping[str, For]:
        """Name -> loop, in the order of the text."""
        return constantdict({loop.name: loop for loop in self.all_loops})

    @kept_property
    def all_loops(self) -> tuple[For, ...]:
        """The loops in the order of the text; those over work-items may stand in several places under one name."""
        found: list[For] = []
        _collect_loops(self.body, found)
        return tuple(found)

    @kept_property
    def points(self) -> tuple[PlacedStatement, ...]:
        """All statements with the loops around them, in the order of the text."""
        found: list[PlacedStatement] = []
        _collect(self.body, (), found)
        return tuple(found)

    @kept_property
    def computations(self) -> dict[str, PlacedStatement | None]:
        """Einsum -> the statement that computes it, with the loops around it, of those that a step has asked for (:mod:`.loops`)."""
        return {}

    def tensor_of(self, source: str) -> str:
        """The tensor that an array, tile or rule holds (a part of)."""
        return self.tiles[source].tensor if source in self.tiles else self.sources[source].tensor

    def dtype_of(self, source: str) -> str:
        """The element type of an array, tile or rule."""
        return self.tiles[source].dtype if source in self.tiles else self.sources[source].dtype

    def __getstate__(self) -> dict[str, object]:
        # loopy pickles kernels for its cache, with the nests that they carry; what is computed from a nest stays here.
        own = self.__dict__
        return {name: own[name] for name in _NEST_PARTS}

    @kept_property
    def names(self) -> frozenset[str]:
        """What loops are called, and what several run as."""
        return frozenset([name for loop in self.all_loops for name in (loop.name, loop.fused)])

    def fresh(self, wish: str, between: str = "_") -> str:
        """An identifier that no loop, tile or source has; ``between``: what stands before its number, if it needs one."""
        wish, taken = identifier(wish), self.names
        name, number = wish, 0 if between else 1
        while name in taken or name in self.tiles or name in self.sources:
            number += 1
            name = f"{wish}{between}{number}"
        return name

    def fresh_tile(self, wish: str) -> str:
        """The same for a tile: ``A_local``, ``A_local2``, ... A text calls elements of the first ``A_local_0``, ``A_local_1``, ..."""
        return self.fresh(wish, between="")

    def __str__(self) -> str:
        return "\n".join(pretty(self.body, every=[statement for _, statement in self.points]))


_NEST_PARTS = tuple(part.name for part in dataclasses.fields(Nest))


def walk(body: tuple[NestItem, ...]) -> Iterator[NestItem]:
    """All nodes, outer before inner, in the order of the text."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, For):
            waiting.extend(reversed(node.body))


def fused_chain(loop: For) -> tuple[For, ...]:
    """The loops that run as one with this one, which is the outermost of them."""
    chain = [loop]
    while chain[-1].fused and len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], For):
        chain.append(inner)
    return tuple(chain)


def statements(body: tuple[NestItem, ...], above: tuple[For, ...] = ()) -> Iterator[tuple[tuple[For, ...], Statement]]:
    """All statements with the loops around them, outermost first."""
    found: list[PlacedStatement] = []
    _collect(body, above, found)
    return iter(found)


def _collect(body: tuple[NestItem, ...], above: tuple[For, ...], found: list[PlacedStatement]) -> None:
    for node in body:
        if isinstance(node, For):
            around = (*above, node)
            found += [((*around, *loops), statement) for loops, statement in node.inner_points]
        else:
            found.append((above, node))


def _collect_loops(body: tuple[NestItem, ...], found: list[For]) -> None:
    for node in body:
        if isinstance(node, For):
            found.append(node)
            _collect_loops(node.body, found)


def rebuilt(
    body: tuple[NestItem, ...], change: Callable[[NestItem], tuple[NestItem, ...]], touching: str | None = None
) -> tuple[NestItem, ...]:
    """The tree with every node, innermost first, replaced by what ``change`` makes of it; loops left empty vanish.

    ``touching``: a source without which ``change`` changes nothing, so that loops that do not touch it need no look.
    """
    result: list[NestItem] = []
    for node in body:
        if isinstance(node, For):
            if touching is not None and touching not in node.touched:
                result.append(node)
                continue
            inner = rebuilt(node.body, change, touching)
            if not inner:
                continue
            if inner is not node.body:
                node = node.around(inner)
        result.extend(change(node))
    return unless_same(body, result)


def unless_same(body: tuple[NestItem, ...], nodes: Sequence[NestItem]) -> tuple[NestItem, ...]:
    """The nodes; where they are those of the body, the body: most steps change a few nodes of many, and the others stay one object."""
    return body if len(nodes) == len(body) and all(map(operator.is_, nodes, body)) else tuple(nodes)


def substituted(body: tuple[NestItem, ...], values: Mapping[str, Affine]) -> tuple[NestItem, ...]:
    """The tree with loops replaced by expressions in every index, limit and guard."""

    return tuple([_substituted(node, values) for node in body])


def _substituted(node: NestItem, values: Mapping[str, Affine]) -> NestItem:
    if isinstance(node, Statement):
        return node.substituted(values)
    limits = tuple([limit.substituted(values) for limit in node.limits])
    return node.limited(limits, unless_same(node.body, [_substituted(inner, values) for inner in node.body]))


def pretty(body: tuple[NestItem, ...], indent: str = "", every: Sequence[Statement] = ()) -> Iterator[str]:
    """The tree as indented text, blocks with their signatures; ``every``: the statements of the whole tree."""
    for node in body:
        if isinstance(node, For):
            extent = "" if node.extent is None else f" in [0, {node.extent})"
            limits = "".join(f", {limit} >= 0" for limit in node.limits)
            label = f"  # {', '.join(map(str, node.refs))}" if node.refs else ""
            binding = "" if node.binding == "loop" else f" [{node.binding}]"
            binding += " [fused]" if node.fused else ""
            binding += f" [block{f' by {node.intrinsic}' if node.intrinsic else ''}]" if node.is_block else ""
            yield f"{indent}for {node.name}{extent}{limits}{binding}:{label}"
            if node.is_block:
                extents, own = {loop.name: loop.extent for loop in node.loops}, [statement for _, statement in node.points]
                yield from (f"{indent}  # {line}" for line in signature(extents, own, every))
            yield from pretty(node.body, indent + "  ", every)
        else:
            yield f"{indent}{node}"
