"""The mappings of a cascade: which decisions make one, what there is to choose from, and the tree that follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import inf

from constantdict import constantdict

from ..cascades.cascade import Cascade
from ..cascades.element_types import computing_type
from ..cascades.maps import has_complex_lanes, is_fractional, primitive
from ..cascades.reading.reader import cascade as cascade_of
from ..cascades.terms import Einsum
from ..formats.mapping import Mapping, Nested, Sequential, Storage
from ..formats.spec import Spec
from ..number_types import BFLOAT16, kind_of, part_type
from ..schedule.intrinsics.intrinsic import BYTE_TYPES
from ..schedule.target import ANY_DEVICE, Target
from .branches import Branch
from .choices import Choice, Chooser, Given, Noted, Rules
from .components import ITEMS, Components, Plan
from .fusing.runs import may_run_beside, segments
from .fusing.segment import GROUP_POINTS, GROUP_POINTS_OF_ITEMS, Segment
from .grid_tiles import grid_nodes, grid_of
from .lanes import possible_lanes
from .nests import nodes_of

CHOICE_KINDS = constantdict(
    {
        "width": "lanes of a vector, or work-items of a group where lanes are work-items",
        "budget": "bytes of intermediates that a group may hold: which Einsums are fused",
        "groups": "whether loops are bound to groups",
        "sums": "whether lanes may run along reductions",
        "beside": "whether Einsums that read the same operand run side by side, where their results meet or they only go through it",
        "alone": "where lanes are work-items: whether Einsums whose work-items go along two axes are kernels of their own",
        "rows": "the rank variables of fused Einsums that a common loop runs over",
        "tile": "iterations of that loop in a group",
        "problems": "how many problems that share nothing a group takes one after another",
        "columns": "where lanes are work-items: iterations of a second common loop in a group",
        "layout": "whether all fused Einsums have their lanes along the common rows",
        "lane": "the rank variable of an Einsum whose iterations are lanes",
        "piece": "where lanes are work-items: neighbours that each takes at once",
        "held": "whether what fused Einsums hand on stays in registers, for a register tile of the common rows and lanes at once",
        "stepwise": "whether registers hold of that what one iteration of its reader's reduction reads, and the reader's sums",
        "followed": "whether what sums up nothing follows each register tile of the product whose sums it reads",
        "pass": "rows of a group, or iterations of another common loop, that all of its Einsums go through before the next",
        "turned": "whether inputs that are turned for the lanes of an Einsum go into registers, for a vector of rows at once",
        "call": "whether a function that is known for such an Einsum computes what a group does of it",
        "grid": "where lanes are work-items: rows of each one's tile, where those of a group go along two axes; or that they do not",
        "second": "the rank variable that makes a register tile of the lanes",
        "along": "where the register tile does not go along the lanes: its other rank variable",
        "vectors": "the register tile's size along the lanes, in vectors",
        "down": "the register tile's size along the other variable",
        "block": "iterations of the longest reduction between two sums in memory",
        "copied": "operands of which a tile is copied to local memory",
        "scope": "how far in it is copied: for loops that lack it, a block of the reduction, a tile along lanes or the other variable",
        "accumulator": "the memory in which sums are held",
        "spread": "the rank variable and tile of a fanout that is neither groups nor lanes",
        "lines": "the variable along which blocks go whose lines have an element for each lane",
        "order": "the order of the outer loops",
        "reductions": "the order of the loops that reduce",
        "chains": "where lanes are added up: vectors of partial results of one element, side by side",
    }
)
"""Kind of decision -> what is decided, in the order in which decisions are taken."""
BUDGET = 0.5
"""Of a core's own cache what a group's tiles may fill, so that they stay there beside what is read once."""
SHORT_ROW = 8
"""Work-items along shorter rows would be too few; they go along the longest axis instead."""
VECTORIZED = frozenset({"float32", "float64", "int32", "int64", "uint32", "complex64", "complex128"})
"""Element types that have vectors."""
NARROW = frozenset({"int8", "uint8", "int16", "uint16"})
"""Types of whole numbers that are loaded as vectors and made longer ones of, and of longer ones when they are stored."""
CONVERTED = NARROW | {BFLOAT16, "int32"}
"""Types that are loaded as vectors and made floating-point numbers of."""


class Family:
    """The mappings of a Spec's workload for its architecture.

    The rules give the default mapping, another :class:`~feinsum_fuse.mappings.choices.Chooser` another one. Not every mapping can be
    lowered: a device may lack the memory, for example.
    """

    def __init__(self, spec: Spec, target: Target = ANY_DEVICE, outputs: Iterable[str] | None = None) -> None:
        """``outputs``: tensors that must reach main memory whole (default: those that no Einsum consumes).

        Raises :class:`~feinsum_fuse.errors.LoweringError` for an architecture without a memory or a Compute.
        """
        self.target = target
        self.components = Components.of(spec)
        self.cascade: Cascade = cascade_of(spec)
        if outputs is not None:
            self.cascade = dataclasses.replace(self.cascade, outputs=tuple(outputs))
        types = table_of({name: tensor.dtype for name, tensor in self.cascade.tensors.items()})
        if {einsum.name for einsum in spec.workload.einsums} != {einsum.name for einsum in self.cascade.einsums}:
            spec = spec.replace(workload=self.cascade.workload, mapping=None)  # with the parts of a softmax
        self.spec = spec.replace(opencl=dataclasses.replace(spec.opencl, dtypes=types)) if spec.opencl is not None else spec
        self._cut: dict[tuple[int, bool, frozenset[str]], list[Segment]] = {}
        self._plans: dict[tuple[int, int, bool, bool], Plan] = {}

    def mapping(self, chooser: Chooser | None = None) -> Mapping:
        """The tree that these decisions make; by default the rules'."""
        chooser = chooser or Rules()
        plan = self._plan(chooser)
        beside = may_run_beside(self.cascade, self._far) and chooser.choose(Choice("beside", "", (True, False)))
        alone = self._alone(plan) if self.components.on_items else frozenset()
        if alone and not chooser.choose(Choice("alone", "", (True, False))):
            alone = frozenset()
        parts = self._segments(plan.budget, beside, alone)
        fused = {t for part in parts for t in part.kept} if plan.groups and self.components.tiles else set()
        outside = tuple(t for t in self.cascade.tensors if t not in fused)
        branches = [grid_nodes(plan, part, chooser) or nodes_of(Branch(self._spread(plan, part), part, chooser)) for part in parts]
        storage = Storage(outside, self.components.outer)
        if len(branches) == 1:
            return Mapping((storage, *branches[0]))
        return Mapping((storage, Sequential(tuple(Nested(tuple(nodes)) for nodes in branches))))

    def _alone(self, plan: Plan) -> frozenset[str]:
        """The Einsums that have a tile on two axes of work-items, which pays more than to hand on their results."""
        found = {einsum.name: grid_of(plan, einsum) for einsum in self.cascade.einsums}
        return frozenset(name for name, grid in found.items() if grid is not None and grid.fills_units)

    @property
    def _far(self) -> float:
        """Bytes from which on an array is gone through in memory."""
        return inf if self.components.on_items else self.target.units * self.target.core_cache_bytes

    def _segments(self, budget: int, beside: bool, alone: frozenset[str]) -> list[Segment]:
        """The cascade's segments, which few decisions change: they are kept with what is found out about them."""
        key = budget, beside, alone
        if key not in self._cut:
            target = self.target
            groups, near = target.groups_of(self._widest if self.components.on_items else 1), target.nearest_cache_bytes
            points = GROUP_POINTS_OF_ITEMS if self.components.on_items else GROUP_POINTS
            units = 1 if self.components.on_items else target.units
            sizes = budget, groups, near, self._far
            found = segments(
                self.cascade,
                self.spec.workload,
                *sizes,
                beside=beside,
                group_points=points,
                alone=alone,
                scalars=self._lanes[1],
                units=units,
                width=1 if self.components.on_items else self._widest,
                local_bytes=target.limits.local_bytes,
            )
            self._cut[key] = list(found)
        return self._cut[key]

    def choices(self, chooser: Chooser | None = None) -> tuple[Choice[object], ...]:
        """The decisions on the way to a mapping, with their options."""
        noted = Noted(chooser or Rules())
        self.mapping(noted)
        return tuple(noted.choices)

    def fallbacks(self) -> Iterator[Chooser]:
        """The rules, and what to try in turn where a device refuses what they give: less fusion, fewer or no lanes, no groups."""
        width, budget = self._width(), self._budget()
        plain = {"grid": None, "alone": False} if self.components.on_items else {}
        if plain:
            yield Rules()
        for lanes, sums in dict.fromkeys(((width.usual, True), (width.usual, False), (1, False))):
            for share in budget.options[: budget.options.index(0) + 1]:
                yield Given({"width": lanes, "budget": share, "sums": sums, **plain})
        yield Given({"width": 1, "budget": 0, "groups": False})

    def _plan(self, chooser: Chooser) -> Plan:
        width = chooser.choose(self._width())
        budget = chooser.choose(self._budget())
        groups = chooser.choose(Choice("groups", "", (True, False)))
        sums = width > 1 and chooser.choose(Choice("sums", "", (True, False)))
        return self._decided(width, budget, groups, sums)

    def _decided(self, width: int, budget: int, groups: bool, sums: bool) -> Plan:
        decided = width, budget, groups, sums
        if decided not in self._plans:
            self._plans[decided] = Plan(self.components, self.target, *decided)
        return self._plans[decided]

    def _spread(self, plan: Plan, part: Segment) -> Plan:
        """The plan with fewer work-items in a group, at least as many as run in step, where groups along an output are fewer than units."""
        while self.components.on_items and plan.groups and plan.width > self.target.items_in_step:
            branch = Branch(plan, part, Rules())
            along = all(branch.lanes[einsum.name] in einsum.output_variables for einsum in part.einsums)
            narrower = self._decided(plan.width // 2, plan.budget, plan.groups, plan.sums)
            few = along and branch.group_count < self.target.units
            if not few or Branch(narrower, part, Rules()).group_count <= branch.group_count:
                break
            plan = narrower
        return plan

    def _budget(self) -> Choice[int]:
        cached = int(BUDGET * self.target.core_cache_bytes)
        held = min(cached, self.target.limits.local_bytes * 3 // 4)
        # In passes a group holds less than all of its rows; where it does not, and local memory is too small, the device's refusal says so.
        usual = held if self.components.on_items else cached
        return Choice.of("budget", "", usual, (held, held // 4, 0, held // 8))

    def _width(self) -> Choice[int]:
        usual = self._widest
        lane, (dtype, _) = self.components.lane, self._lanes
        language = self.target.widest_vector if dtype is None else self.target.longest(dtype)
        wider = [2 * usual] if usual > 1 and lane and not self.components.on_items and 2 * usual <= min(lane.size, language) else []
        return Choice.of("width", "", usual, [*wider, *(usual >> k for k in range(1, usual.bit_length()))])

    @cached_property
    def _lanes(self) -> tuple[str | None, frozenset[str]]:
        """The type that lanes are of, and the Einsums without them; work-items are of any type."""
        dtype, scalars = lanes_and_scalars(self.cascade)
        return dtype, frozenset() if self.components.on_items or dtype is None else scalars

    @cached_property
    def _widest(self) -> int:
        """Lanes of a vector; 1 where all Einsums compute in or with a type that has no vectors."""
        lane = self.components.lane
        if lane is None:
            return 1
        if self.components.on_items:
            return min(lane.size, items_of(self.cascade))
        dtype, scalars = self._lanes
        if dtype is None:
            return 1
        width = min(lane.size, self.target.lanes(dtype))
        if kind_of(dtype) == "f" and any(tensor.dtype in BYTE_TYPES for tensor in self.cascade.tensors.values()):
            # As many bytes as a vector has numbers are a quarter of a vector: loads and loops are for twice as many.
            width = min(lane.size, self.target.widest_vector, 2 * width)
        possible = [(e, v) for e in self.cascade.einsums if e.name not in scalars for v in possible_lanes(e)]
        longest = max((n for einsum, v in possible if isinstance(n := einsum.sizes[v], int)), default=1)
        while width > longest:
            width //= 2
        return width


def computed_on_vectors(cascade: Cascade, einsum: Einsum) -> str | None:
    """The type that an Einsum computes in, if it has vectors and so have the types of what it reads and writes, which is converted."""
    read, stored = {cascade.tensors[a.tensor].dtype for a in einsum.operands}, cascade.tensors[einsum.output.tensor].dtype
    if einsum.is_copy and stored in NARROW and read == {stored}:
        return "int32"  # it moves as many numbers as are computed at once of what it copies
    operands = tuple(cascade.tensors[access.tensor].dtype for access in einsum.operands)
    dtype = computing_type(operands, einsum.accumulate, is_fractional(primitive(einsum.map)))
    if dtype not in VECTORIZED or (einsum.reduces and dtype != einsum.accumulate):
        return None
    if kind_of(dtype) == "c":
        is_alike = stored == dtype and read <= {dtype, part_type(dtype).name}
        return dtype if is_alike and has_complex_lanes(einsum.map, einsum.variables) else None
    is_float = kind_of(dtype) == "f"
    made = {dtype, *NARROW} | ({"int32"} if is_float else set()) | ({BFLOAT16} if dtype == "float32" else set())
    return dtype if stored in made and read <= {dtype, *(CONVERTED if is_float else NARROW)} else None


def type_of_lanes(cascade: Cascade) -> str | None:
    """A type whose vectors have as many lanes as those of each Einsum that has lanes: they compute in it, or in others of as many bytes, as
    a layer of bytes adds up whole numbers that it then scales.
    """
    return lanes_and_scalars(cascade)[0]


def lanes_and_scalars(cascade: Cascade) -> tuple[str | None, frozenset[str]]:
    """That type, and the Einsums without lanes: those that compute in or with a type that has no vectors, and of types of several lengths
    those with less work.
    """
    each = {einsum.name: computed_on_vectors(cascade, einsum) for einsum in cascade.einsums}
    lengths = {name: part_type(dtype).itemsize for name, dtype in each.items() if dtype is not None}
    work: dict[int, int] = {}
    for name, length in lengths.items():
        work[length] = work.get(length, 0) + cascade.einsum(name).box_points
    most = max(work, key=lambda length: work[length], default=0)
    types = {dtype for name, dtype in each.items() if dtype is not None and lengths[name] == most}
    plain = {dtype for dtype in types if kind_of(dtype) != "c"}
    return max(plain or types, default=None), frozenset(name for name in each if lengths.get(name) != most)


def table_of(types: dict[str, str]) -> constantdict[str, str]:
    """Tensor -> element type as an ``opencl`` key has it: in one line if all are the same."""
    one = set(types.values())
    return constantdict({"All": one.pop()} if len(one) == 1 else types)


def items_of(cascade: Cascade) -> int:
    """Work-items of a group: a power of two, so that rows of every output have enough elements for them."""
    lengths = [_longest_row(einsum) for einsum in cascade.einsums if einsum.output_variables]
    return min(ITEMS, 1 << (min(lengths, default=1).bit_length() - 1))


def _longest_row(einsum: Einsum) -> int:
    """The iterations along the output's rows, or along its longest axis if its rows are short."""
    sizes = {v: n for v in einsum.output_variables if isinstance(n := einsum.sizes[v], int)}
    row = max((sizes.get(v, 1) for v in einsum.output.indices[-1].variables), default=1)
    return row if row >= SHORT_ROW else max(sizes.values(), default=1)
