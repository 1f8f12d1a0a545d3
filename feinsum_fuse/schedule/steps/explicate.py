"""The first step: from feinsum's grammar to the normal form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.array import FixedStrideArrayDimTag
from loopy.symbolic import IdentityMapper, Reduction, SubstitutionMapper, TypeCast
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Call, If, Product, Subscript, Sum, Variable
from pymbolic.typing import Expression

from ...cascades.kernel.callables import reduction_of
from ...cascades.kernel.tags import EinsumTag, RankVariableTag, TensorTag
from ...formats.affine import Affine, read_affine
from ...formats.integer_sets import conditions_of
from ...formats.language.reductions import SYMBOLS, truth
from ...formats.language.reductions import Reduction as ReductionRow
from ...formats.workload import operand_name
from ...number_types import scalar
from ..kernel.maps.powers import written_out
from ..kernel.surroundings import entrypoint, variables_of
from ..refusals import NormalFormError
from ..statement import Place, Statement
from ..step import EinsumName, Step
from ..tree.accumulators import InferredTypes
from ..tree.nest import For, LoopRef, Nest, NestItem, Source

_COMBINING = frozenset(reduction.operator for reduction in SYMBOLS.values())
"""Functions, among them, with which an initial value is combined."""


@dataclass(frozen=True)
class Explicate(Step):
    """Write each Einsum of a grammar kernel as explicit loops and statements.

    Before: ``Z[m, n] = sum(k, A_(m, k) * B_(k, n))``. After: ``for m: for n: Z[m, n] = 0; for k: Z[m, n] += A_(m, k) * B_(k, n)``. The
    Einsums run in the order given (default: the kernel's). Invariant: one statement computes each Einsum; operands stay reads of arrays
    or calls of the same substitution rules, whose bodies are looked into for their types alone. A sum that is taken in another type than
    it is stored in (``accumulate``) has that type in the tiles that later steps make for it; in the tensor's own array it has the array's.
    """

    order: tuple[EinsumName, ...] = ()

    def apply(self, nest: Nest) -> Nest:
        raise NormalFormError(f"{self}: the kernel is in normal form already", hint="Explicate is the first step, once.")

    def read(self, t_unit: lp.TranslationUnit) -> Nest:
        """The nest of a tagged grammar kernel."""
        kernel = entrypoint(t_unit)
        insns = {tag.einsum: insn for insn in kernel.instructions for tag in insn.tags_of_type(EinsumTag)}
        if not insns:
            raise NormalFormError(
                f"{self}: no instruction of the kernel is tagged as an Einsum", hint="Give the names that ff.match found."
            )
        order = self.order or _by_dependency(kernel, insns)
        if sorted(order) != sorted(insns):
            raise NormalFormError(f"{self}: the order must name each of {', '.join(insns)} once")
        _require_order(self, kernel, [insns[einsum] for einsum in order])
        reader = _Reader(t_unit, {insn.assignee_var_names()[0] for insn in insns.values()})
        body = tuple(node for einsum in order for node in reader.einsum(einsum, insns[einsum]))
        ids = tuple(insn.id for insn in insns.values())
        elsewhere = {name for insn in kernel.instructions if insn.id not in ids for name in variables_of(insn, kernel)}
        outputs = frozenset({*(arg.name for arg in kernel.args), *(elsewhere & kernel.temporary_variables.keys())})
        accumulators = constantdict(reader.accumulators)
        return Nest(
            body, constantdict(reader.sources), outputs=outputs, ids=ids, spaces=constantdict(reader.spaces), accumulators=accumulators
        )


def _by_dependency(kernel: lp.LoopKernel, insns: Mapping[str, lp.Assignment]) -> tuple[str, ...]:
    """The Einsums in the kernel's order, but each after those that it depends on."""
    needed = kernel.recursive_insn_dep_map()
    ids = {insn.id for insn in insns.values()}
    return tuple(sorted(insns, key=lambda einsum: len(needed[insns[einsum].id] & ids)))


def _require_order(step: Explicate, kernel: lp.LoopKernel, insns: Sequence[lp.Assignment]) -> None:
    needed = kernel.recursive_insn_dep_map()
    for place, insn in enumerate(insns):
        if later := [other.id for other in insns[place + 1 :] if other.id in needed[insn.id]]:
            raise NormalFormError(f"{step}: instruction {insn.id} depends on {later[0]}, which comes after it in this order")


class _Operands(IdentityMapper):  # type: ignore[misc]
    """Replaces reads by operand variables and collects what they read."""

    def __init__(self, reader: _Reader) -> None:
        super().__init__()
        self.reader = reader
        self.places: list[Place] = []

    def map_call(self, expr: Call) -> Expression:
        name = expr.function.name if isinstance(expr.function, Variable) else ""
        if name not in self.reader.rules:
            return super().map_call(expr)
        return self._operand(self.reader.place(name, expr.parameters))

    def map_subscript(self, expr: Subscript) -> Expression:
        return self._operand(Place(self.reader.array(expr.aggregate.name), tuple(map(affine, expr.index_tuple))))

    def _operand(self, place: Place) -> Expression:
        self.places.append(place)
        return var(operand_name(len(self.places) - 1))


class _Subscripts(IdentityMapper):  # type: ignore[misc]
    """Collects the array elements that an expression reads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Subscript] = []

    def map_subscript(self, expr: Subscript) -> Expression:
        self.found.append(expr)
        return expr


def _is_rule_of(tensor: str, rule: str) -> bool:
    """Whether a rule has the name of a tensor's in kernels of ours, or of an operand's: tensor, place and Einsum."""
    rest = rule.removeprefix(f"{tensor}_").partition("_")[0]
    return rule.startswith(f"{tensor}_") and (rest == "tensor" or rest.isdigit())


class _Reader:
    def __init__(self, t_unit: lp.TranslationUnit, written: set[str]) -> None:
        self.kernel = t_unit.default_entrypoint
        self.rules = self.kernel.substitutions
        self.written = written
        self.sources: dict[str, Source] = {}
        self.by_meaning: dict[str, str] = {}
        self.spaces: dict[str, tuple[For, ...]] = {}
        self.types = InferredTypes(t_unit)
        self.accumulators: dict[str, str] = {}

    def einsum(self, name: str, insn: lp.Assignment) -> Iterator[NestItem]:
        """The nodes that compute one Einsum: its loops around the initial value and the statement."""
        if insn.predicates:
            raise NormalFormError(f"Einsum {name}: instruction {insn.id} has predicates")
        target_name = insn.assignee_var_names()[0]
        indices = insn.assignee.index_tuple if isinstance(insn.assignee, Subscript) else ()
        target = Place(self.array(target_name), tuple(map(affine, indices)))
        populate, reduction = _parts(insn.expression, name)
        reads = _Operands(self)
        value = written_out(reads(reduction.expr if reduction is not None else insn.expression))
        outer = [name for index in target.indices for name, _ in sorted(index.terms, key=lambda term: -term[1])]
        outer += sorted(insn.within_inames - set(outer))
        inner = list(reduction.inames) if reduction is not None else []
        values = constantdict({iname: Affine.variable(iname) for iname in (*outer, *inner)})
        loops = self.loops(name, outer, inner)
        self.spaces[name] = tuple(loops)
        if reduction is None:
            return self._around(loops, (Statement(name, "map", target, value, tuple(reads.places), values),))
        known = reduction_of(reduction.operation)
        if known is None:
            hint = f"Known: {', '.join(SYMBOLS)}."
            raise NormalFormError(f"Einsum {name}: the reduction {reduction.operation} is not known", hint=hint)
        if (wider := self.types.wider(insn.id, self.sources[target_name].dtype)) is not None:
            self.accumulators[name] = wider
        if known.of_truths:
            value = _truth(value, partial(scalar, self.sources[target_name].dtype))
        update = Statement(name, "update", target, value, tuple(reads.places), values, known.name)
        init = Statement(name, "init", target, self._initial(populate, known, target_name))
        summed = tuple(self._around(loops[len(outer) :], (update,)))
        return self._around(loops[: len(outer)], (init, *summed))

    def _initial(self, populate: object, reduction: ReductionRow, array: str) -> Expression:
        dtype = self.sources[array].dtype
        start = reduction.neutral_of(dtype)
        return scalar(dtype, start) if populate is None else populate

    def _around(self, loops: Sequence[For], body: tuple[NestItem, ...]) -> Iterator[NestItem]:
        for loop in reversed(loops):
            body = (For(loop.name, loop.extent, body, loop.limits, loop.refs),)
        yield from body

    def loops(self, einsum: str, outer: Sequence[str], inner: Sequence[str]) -> list[For]:
        """The Einsum's loops with extents and limits from the kernel's domains, each limit at the innermost loop that it speaks of.

        The loops over the output run as far as their own domain does: what a reduction leaves out of it has an initial value all the same.
        """
        names = [*outer, *inner]
        domain = _joined(self.kernel, outer)
        extents = {name: _extent(domain, name) for name in outer}
        limits = _placed(domain, outer, extents)
        if inner:
            domain = _joined(self.kernel, names)
            extents |= {name: _extent(domain, name) for name in inner}
            known = {limit for found in limits.values() for limit in found}
            for name, found in _placed(domain, names, extents, least=len(outer)).items():
                limits[name] = limits.get(name, []) + [limit for limit in found if limit not in known]
        result = []
        for name in names:
            tags = [t for t in self.kernel.inames[name].tags_of_type(RankVariableTag) if t.einsum == einsum]
            refs = tuple(LoopRef(einsum, t.variable) for t in tags)
            result.append(For(name, extents[name], (), tuple(limits[name]), refs))
        return result

    def place(self, name: str, arguments: Sequence[Expression]) -> Place:
        """What a call of a substitution rule reads: an intermediate itself, or the rule, or the rule that it passes everything on to."""
        rule = self.rules[name]
        values = dict(zip(rule.arguments, arguments, strict=True))
        body = SubstitutionMapper(make_subst_func(values))(rule.expression)
        if isinstance(body, Call) and isinstance(body.function, Variable) and body.function.name in self.rules:
            return self.place(body.function.name, body.parameters)
        if isinstance(body, Variable) and body.name in self.written:
            return Place(self.array(body.name), ())
        direct = isinstance(rule.expression, Subscript) and isinstance(rule.expression.aggregate, Variable)
        if direct and body.aggregate.name in self.written:
            return Place(self.array(body.aggregate.name), tuple(map(affine, body.index_tuple)))
        indices = tuple(map(affine, arguments))
        return Place(self.rule(name, arguments), indices)

    def rule(self, name: str, arguments: Sequence[Expression]) -> str:
        """The first rule that means the same; known as a source from now on."""
        rule = self.rules[name]
        numbered = {argument: var(f"%{k}") for k, argument in enumerate(rule.arguments)}
        meaning = str(SubstitutionMapper(make_subst_func(numbered))(rule.expression))
        if meaning in self.by_meaning:
            return self.by_meaning[meaning]
        self.by_meaning[meaning] = name
        names = lp.symbolic.get_dependencies(rule.expression)
        arrays = sorted(names & {a.name for a in self._arrays()})
        read = _Subscripts()
        read(rule.expression)
        elements = tuple(map(var, rule.arguments))
        shapes = [_shape(self._array(s.aggregate.name)) for s in read.found if s.index_tuple == elements]
        shape = shapes[0] if shapes else (None,) * len(elements)
        direct = isinstance(rule.expression, Subscript) and rule.expression.index_tuple == elements
        is_element = isinstance(rule.expression, Subscript) and None not in map(read_affine, rule.expression.index_tuple)
        # A computed operand is a tensor by the rule's name, but where a kernel of ours has this rule for an operand of that tensor.
        tagged = [t.tensor for a in arrays for t in self._array(a).tags_of_type(TensorTag)]
        tags = [tensor for tensor in tagged if is_element or (len(arrays) == 1 and _is_rule_of(tensor, name))]
        along = _consecutive_axis(self._array(arrays[0])) if direct else -1
        steps = _steps(self._array(arrays[0])) if direct else None
        self.sources[name] = Source(
            name, tags[0] if tags else name, shape, self.type_of(rule, arguments), True, direct, consecutive_axis=along, steps=steps
        )
        return name

    def type_of(self, rule: lp.SubstitutionRule, arguments: Sequence[Expression]) -> str:
        """The element type of a rule's values; what loopy infers is asked for only where they are not elements of an array."""
        value = rule.expression
        read = value.aggregate if isinstance(value, Subscript) else value
        known = {a.name: a for a in (*self.kernel.args, *self.kernel.temporary_variables.values())}
        if isinstance(read, Variable) and read.name in known:
            return str(known[read.name].dtype.numpy_dtype)
        return self.types.value(Call(var(rule.name), tuple(arguments)))

    def array(self, name: str) -> str:
        """An array as a source."""
        if name not in self.sources:
            array = self._array(name)
            tags = [t.tensor for t in array.tags_of_type(TensorTag)]
            self.sources[name] = Source(
                *(name, tags[0] if tags else name, _shape(array), str(array.dtype.numpy_dtype)),
                consecutive_axis=_consecutive_axis(array),
                steps=_steps(array),
            )
        return name

    def _arrays(self) -> Iterator[lp.kernel.data.ArrayBase]:
        yield from (a for a in self.kernel.args if isinstance(a, lp.ArrayArg))
        yield from self.kernel.temporary_variables.values()

    def _array(self, name: str) -> lp.kernel.data.ArrayBase:
        for array in self._arrays():
            if array.name == name:
                return array
        raise NormalFormError(f"the kernel has no array {name}")


def _parts(expression: Expression, einsum: str) -> tuple[object, Reduction | None]:
    """(initial value or ``None``, reduction or ``None``) of a right-hand side in the grammar."""
    if isinstance(expression, Reduction):
        return None, expression
    children: tuple[Expression, ...] = ()
    if isinstance(expression, Sum | Product):
        children = expression.children
    elif isinstance(expression, Call) and isinstance(expression.function, Variable) and expression.function.name in _COMBINING:
        children = expression.parameters
    reductions = [c for c in children if isinstance(c, Reduction)]
    others = [c for c in children if not isinstance(c, Reduction)]
    if len(reductions) == 1 and len(others) == 1 and np.isscalar(others[0]):
        return others[0], reductions[0]
    if reductions or _has_reduction(expression):
        raise NormalFormError(f"Einsum {einsum}: the reduction stands inside {expression}", hint="The grammar allows it alone.")
    return None, None


def _truth(value: Expression, number: Callable[[int], Expression]) -> Expression:
    """1 where a value is not 0, else 0; the value itself if it is nothing else already."""
    if isinstance(value, TypeCast):
        return TypeCast(value.type, _truth(value.child, number))
    if isinstance(value, If):
        return If(value.condition, _truth(value.then, number), _truth(value.else_, number))
    lifted = truth(value)
    return lifted if np.isscalar(lifted) else If(lifted, number(1), number(0))


def _has_reduction(expression: Expression) -> bool:
    found = []

    class Finder(IdentityMapper):  # type: ignore[misc]
        def map_reduction(self, expr: Reduction) -> Expression:
            found.append(expr)
            return expr

    Finder()(expression)
    return bool(found)


def affine(expression: Expression) -> Affine:
    """A pymbolic expression as an affine one; :class:`NormalFormError` if it is none."""
    found = read_affine(expression)
    if found is None:
        raise NormalFormError(f"the index {expression} is not affine")
    return found


def _shape(array: lp.kernel.data.ArrayBase) -> tuple[int | None, ...]:
    return tuple(int(size) if isinstance(size, int | np.integer) else None for size in array.shape or ())


def _consecutive_axis(array: lp.kernel.data.ArrayBase) -> int | None:
    """The axis, counted from the last, whose neighbours lie next to one another in global memory; of several such, the last."""
    tags = array.dim_tags
    if isinstance(array, lp.TemporaryVariable) and array.address_space != lp.AddressSpace.GLOBAL:
        return None  # vectors are loaded from there alone
    if not isinstance(tags, tuple):
        return -1
    found = [axis - len(tags) for axis, tag in enumerate(tags) if _is_next(tag)]
    return max(found, default=None)


def _steps(array: lp.kernel.data.ArrayBase) -> tuple[int, ...] | None:
    """Elements of memory from one index to the next along each axis, where all of them are numbers."""
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    found = [int(tag.stride) for tag in tags if isinstance(tag, FixedStrideArrayDimTag) and isinstance(tag.stride, int | np.integer)]
    return tuple(found) if tags and len(found) == len(tags) else None


def _is_next(tag: object) -> bool:
    """Whether a step along an axis is a step of one element."""
    return isinstance(tag, FixedStrideArrayDimTag) and isinstance(tag.stride, int | np.integer) and tag.stride == 1


def _joined(kernel: lp.LoopKernel, names: Sequence[str]) -> isl.Set:
    """The set of all points of these loops, other loops projected out."""
    domain = kernel.get_inames_domain(frozenset(names))
    names_there = domain.get_var_names(isl.dim_type.set)
    return (
        domain.project_out_except([n for n in names_there if n in names], [isl.dim_type.set]) if set(names_there) - set(names) else domain
    )


def _extent(domain: isl.BasicSet, name: str) -> int | None:
    """The number of values from 0 on, if it is a number."""
    points = domain.to_set()
    largest = points.dim_max(points.find_dim_by_name(isl.dim_type.set, name))
    if not largest.is_cst():
        return None
    values: list[int] = []
    largest.foreach_piece(lambda _, aff: values.append(aff.get_constant_val().to_python()))
    return max(values) + 1 if values else 0


def _constraints(domain: isl.BasicSet | isl.Set) -> Iterator[Affine]:
    """The set as affine expressions that are >= 0."""
    pieces = domain.get_basic_sets() if isinstance(domain, isl.Set) else [domain]
    if len(pieces) > 1:
        raise NormalFormError(f"the iteration space {domain} is not convex")
    for piece in pieces:
        if piece.dim(isl.dim_type.div):
            raise NormalFormError(f"the iteration space {domain} has divisions")
        yield from conditions_of(piece)


def _placed(domain: isl.BasicSet, names: Sequence[str], extents: dict[str, int | None], least: int = 0) -> dict[str, list[Affine]]:
    """Loop -> the limits that stand there: the innermost loop that they speak of, none further out than the loop at ``least``."""
    limits: dict[str, list[Affine]] = {name: [] for name in names}
    for limit in _constraints(domain):
        places = [position for position, name in enumerate(names) if name in limit.variables]
        if places and not _implied(limit, extents):
            limits[names[max(*places, least)]].append(limit)
    return limits


def _implied(limit: Affine, extents: dict[str, int | None]) -> bool:
    """Whether the box of the loops' extents satisfies the limit."""
    least: int = limit.constant
    for name, factor in limit.terms:
        extent = extents.get(name)
        if factor < 0:
            if extent is None:
                return False
            least += factor * (extent - 1)
        elif name not in extents:
            return False
    return least >= 0
