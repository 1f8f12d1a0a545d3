"""Kernels on their way to text: what loopy would find out again for every loop is found out once.

From here on nothing changes a kernel's domains. loopy copies it all the same in each of its passes and wherever it enters a loop, and with
the copy forgets what it knows of the domains. It also defines a class of its own wherever it enters a loop, which is defined once here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

import islpy as isl
import loopy as lp
import numpy as np
import pymbolic.primitives as p
from loopy.codegen import control
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase
from loopy.kernel.instruction import Assignment, InstructionBase, get_insn_domain
from loopy.symbolic import WalkMapper, simplify_using_aff
from pymbolic.typing import Expression
from pytools import memoize_method

from ..formats.affine import Affine, read_affine
from ..formats.integer_sets import value_on

_OF_A_LOOP = frozenset({"domains", "overridden_get_grid_sizes_for_insn_ids"})
"""What loopy gives the copy of a kernel in a loop."""


def _defined_once(original: Callable[..., Callable[[type], type]]) -> Callable[..., Callable[[type], type]]:
    """A decorator of dataclasses that takes the first of those with one name for all of them."""
    known: dict[str, type] = {}

    def decorator(**options: bool) -> Callable[[type], type]:
        def decorated(found: type) -> type:
            if found.__qualname__ not in known:
                known[found.__qualname__] = original(**options)(found)
            return known[found.__qualname__]

        return decorated

    return decorator


# The class describes what stands in a loop, and is the same in all of them: a tenth of the time to a text went into defining it.
control.dataclass = _defined_once(control.dataclass)


@dataclass
class _Facts:
    """The domains of sets of inames, and the intersections of which they are made, by the numbers of domains."""

    of_inames: dict[frozenset[str], isl.BasicSet] = field(default_factory=dict)
    intersections: dict[tuple[int, ...], isl.BasicSet] = field(default_factory=dict)


class SettledKernel(LoopKernel):  # type: ignore[misc]
    """A kernel that stays one object in all of its loops, and whose copies of the same domains share what is known of those."""

    def __hash__(self) -> int:
        # loopy's walks through the whole kernel, for each table in which the kernel is asked for.
        return hash(self.name)

    def copy(self, **changes: object) -> LoopKernel:
        """A copy; itself where a loop is entered of which no part is left out."""
        domains = changes.get("domains")
        if changes.keys() == _OF_A_LOOP and isinstance(domains, list) and all(map(_is_same, self.domains, domains)):
            return self
        copy = super().copy(**changes)
        if len(copy.domains) == len(self.domains) and all(map(is_, copy.domains, self.domains)):
            object.__setattr__(copy, "_facts", self.facts)
        return copy

    @property
    def facts(self) -> _Facts:
        """What is known of the domains."""
        if not hasattr(self, "_facts"):
            object.__setattr__(self, "_facts", _Facts())
        facts: _Facts = self._facts
        return facts

    def get_inames_domain(self, inames: str | Collection[str]) -> isl.BasicSet:
        names = frozenset({inames} if isinstance(inames, str) else inames)
        found = self.facts.of_inames.get(names)
        if found is None:
            found = self.facts.of_inames[names] = super().get_inames_domain(names)
        return found

    def combine_domains(self, domains: Sequence[int]) -> isl.BasicSet:
        if domains:
            result = self._intersection(tuple(domains))
            if {*result.get_var_names(isl.dim_type.param)} <= self.all_params():
                return result
        return super().combine_domains(domains)

    def _intersection(self, domains: tuple[int, ...]) -> isl.BasicSet:
        """Of these domains, in the order in which loopy takes them; what inner loops ask for begins with what outer loops asked for."""
        found = self.facts.intersections.get(domains)
        if found is None:
            found = self.domains[domains[-1]]
            if len(domains) > 1:
                last, before = isl.align_two(found, self._intersection(domains[:-1]))
                found = before & last
            self.facts.intersections[domains] = found
        return found

    @memoize_method  # type: ignore[untyped-decorator]
    def iname_order(self, inames: frozenset[str]) -> tuple[str, ...] | None:
        """The order in which ISL has these inames; ``None`` if one of them is determined by the others, as one of a single value is."""
        domain = self.get_inames_domain(inames).project_out_except(inames, [isl.dim_type.set])
        if domain.affine_hull().n_constraint():
            return None
        return tuple(domain.get_var_names(isl.dim_type.set))

    def shortest(self, index: Expression) -> Expression:
        """What loopy's ``simplify_using_aff`` makes of an index. A sum of multiples of inames only needs their order."""
        found = read_affine(index)
        inames = frozenset(found.variables) if found is not None else frozenset()
        order = self.iname_order(inames) if inames <= self.all_inames() else None
        if found is None or order is None:
            simple: Expression = simplify_using_aff(self, index)
            return simple
        factors = found.coefficients
        parts: list[Expression] = [found.constant] if found.constant or not order else []
        parts += [p.Variable(name) if factors[name] == 1 else p.Product((factors[name], p.Variable(name))) for name in order]
        return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))


def _is_same(domain: isl.BasicSet, other: isl.BasicSet) -> bool:
    return domain is other or bool(domain.plain_is_equal(other))


def settled(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """The program with its kernel settled."""
    kernel = t_unit.default_entrypoint
    fields = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel) if field.init}
    return t_unit.with_kernel(SettledKernel(**fields))


def bounded(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """The program without loopy's check of array bounds, two integer sets for each access, where it is seen faster that all are kept."""
    kernel = t_unit.default_entrypoint
    if not _is_inside(kernel):
        return t_unit
    return t_unit.with_kernel(kernel.copy(options=kernel.options.copy(enforce_array_accesses_within_bounds="no_check")))


def _is_inside(kernel: LoopKernel) -> bool:
    """Whether each index is known to lie inside its array, most of them by the lengths of loops alone."""
    if not all(isinstance(insn, Assignment | lp.BarrierInstruction | lp.NoOpInstruction) for insn in kernel.instructions):
        return False
    ranges = {name: bounds for domain in kernel.domains for name, bounds in _ranges(domain)}
    for insn in kernel.instructions:
        accesses = _Accesses()
        for expression in _expressions(insn):
            accesses(expression)
        if not accesses.are_plain or not all(_lies_inside(kernel, insn, subscript, ranges) for subscript in accesses.found):
            return False
    return True


def _expressions(insn: InstructionBase) -> Iterator[Expression]:
    yield from insn.predicates
    if isinstance(insn, Assignment):
        yield from (insn.assignee, insn.expression)


def _ranges(domain: isl.BasicSet) -> Iterator[tuple[str, tuple[int, int]]]:
    """The inames of a domain whose values are bounded, with the least and the largest value."""
    points = domain.to_set()
    for position in range(points.dim(isl.dim_type.set)):
        low, high = points.dim_min_val(position), points.dim_max_val(position)
        if low.is_int() and high.is_int():
            yield points.get_dim_name(isl.dim_type.set, position), (low.to_python(), high.to_python())


def _lies_inside(kernel: LoopKernel, insn: InstructionBase, subscript: p.Subscript, ranges: Mapping[str, tuple[int, int]]) -> bool:
    array = kernel.get_var_descriptor(subscript.aggregate.name)
    if not isinstance(array, ArrayBase) or not isinstance(array.shape, tuple) or len(array.shape) != len(subscript.index_tuple):
        return False
    for expression, size in zip(subscript.index_tuple, array.shape, strict=True):
        index = read_affine(expression)
        if index is None or not isinstance(size, int | np.integer) or not ranges.keys() >= {*index.variables}:
            return False
        ends = [sorted((factor * ranges[name][0], factor * ranges[name][1])) for name, factor in index.terms]
        least, most = (index.constant + sum(end[k] for end in ends) for k in (0, 1))
        if (least < 0 or most >= size) and not _is_kept(get_insn_domain(insn, kernel), index, int(size)):
            return False
    return True


def _is_kept(domain: isl.Set, index: Affine, size: int) -> bool:
    """Whether an index is at least 0 and below the size all over an instruction's domain."""
    names = domain.get_var_names(isl.dim_type.set)
    if not {*index.variables} <= {*names}:
        return False
    value = value_on(domain, names, index)
    least, most = domain.min_val(value), domain.max_val(value)
    return bool(least.is_int() and most.is_int()) and 0 <= least.to_python() <= most.to_python() < size


class _Accesses(WalkMapper):  # type: ignore[misc]
    """Collects the elements that expressions touch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[p.Subscript] = []
        self.are_plain = True

    def map_subscript(self, expr: p.Subscript) -> None:
        self.found.append(expr)
        self.are_plain &= type(expr.aggregate) is p.Variable
        for index in expr.index_tuple:
            self.rec(index)

    def map_linear_subscript(self, expr: Expression) -> None:
        self.are_plain = False

    map_sub_array_ref = map_linear_subscript
    map_reduction = map_linear_subscript
