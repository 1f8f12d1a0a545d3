"""The base kernel of a cascade: feinsum's grammar, from which every schedule starts.

One instruction per Einsum, its id made from the Einsum's name, tagged :class:`~feinsum_fuse.cascades.kernel.tags.EinsumTag`::

    A_0_Z(m, k) := A[m, k]
    B_1_Z(k, n) := B[k, n]
    Z[m_Z, n_Z] = sum(k_Z, A_0_Z(m_Z, k_Z) * B_1_Z(k_Z, n_Z))        {id=Z_einsum}

Every operand is read through a substitution rule called with bare inames. An access that is no list of distinct bare variables goes
through two rules, so that a step can see the tensor's own coordinates::

    I_tensor(c, h) := I[c, h]
    I_0_O(c, p, r) := I_tensor(c, 2*p + r)

Inames are called ``<variable>_<einsum>`` and tagged :class:`~feinsum_fuse.cascades.kernel.tags.RankVariableTag`; loops over the output
and loops of the reduction have a domain each. An Einsum takes one of three forms:

* *plain*: each axis of the output is a bare variable that runs over the whole axis, or one that several variables run over as digits do:
  ``Z[25*c + d]``, where ``d`` has 25 values. Guards bound the reduction's domain; without a reduction they become ``if(guards, map,
  initial)``.
* *gathered*: anything else, for example ``Z[p+r] = A[p]*B[r]`` or an output that is larger than what is written. The nest runs over the
  elements of the output, and the reduction over the points that reach the element, an equality in its domain; a variable that the
  equality determines is replaced by its value inside the rules (``A_0_Z(o0, r) := A_tensor(o0 - r)``, where ``0 <= o0_Z - r_Z < P``).
  Where an equality with other coefficients than 1 and -1 remains, all conditions become ``if(conditions, map, neutral)`` inside the
  reduction.
  A loop over an axis that ``v`` or ``v + constant`` indexes has that variable's name and tag, but runs over the whole axis; one over any
  other axis is called ``o<axis>_<einsum>`` and has no tag. An element that no point reaches gets the initial value.
* *recurrent*: as above, and the output is read through a rule as well, as ``if(t_S - 1 >= 0, S_0_S(t_S), populate)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.data import Iname, SubstitutionRule
from loopy.library import reduction as operations
from loopy.symbolic import Reduction
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...errors import CascadeError, UnsupportedTypeError
from ...formats.affine import Affine
from ...formats.integer_sets import basic_set, below, within
from ...formats.language.reductions import REDUCTIONS
from ...formats.workload import operand_name
from ...number_types import computed_in
from ..element_types import computing_type, wraps_before
from ..maps import is_fractional, primitive
from ..names import Identifiers, Names, chosen_names
from ..sequence import EinsumSequence
from ..terms import Access, Einsum, Size, SizeParam
from ..validation import validate
from .callables import loopy_operation, registered
from .tags import CascadeTag, EinsumTag, RankVariableTag, TensorTag
from .typed_map import Reads, cast_to, number, typed_map

_IS_INAME = "="
"""Marks inames in affine expressions while rank variables, whose names may be the same, are being replaced by them."""


@dataclass
class _Loops:
    """Loops and conditions over inames."""

    outer: dict[str, Size] = field(default_factory=dict)
    """Iname -> extent, of the loops over the output's elements."""
    element: list[Affine] = field(default_factory=list)
    """The element, over inames: an index for each axis of the output."""
    inner: dict[str, Size] = field(default_factory=dict)
    """Iname -> extent of the reduction's loops."""
    values: dict[str, Affine] = field(default_factory=dict)
    """Rank variable -> its value over inames."""
    conditions: list[Affine] = field(default_factory=list)
    """Expressions over inames that must be >= 0."""
    bounds: list[tuple[Affine, Size]] = field(default_factory=list)
    """Expressions over inames that must be below a size."""
    tags: dict[str, str] = field(default_factory=dict)
    """Iname -> rank variable."""

    def at(self, index: Affine) -> Affine:
        """An expression over rank variables, rewritten over inames."""
        return _substituted(index, self.values)


def _loops_of(einsum: Einsum, shape: tuple[Size, ...], inames: Mapping[str, str], fresh: Callable[[str], str]) -> _Loops:
    """The loops that compute an output of this shape; ``inames``: rank variable -> iname, ``fresh`` makes others.

    An axis that a variable indexes, alone or shifted by a constant, is run over by that variable's iname, and one of which variables are
    the digits by theirs; other axes get inames of their own, and the points that reach an element are those that solve the equations
    between them.
    """
    nest = _Loops()
    equations: list[Affine] = []
    shifted: list[str] = []
    for axis, (index, size) in enumerate(zip(einsum.output.indices, shape, strict=True)):
        digits = index.digits(einsum.sizes, size)
        if len(digits) > 1 and not any(set(digits) & set(other.variables) for other in einsum.output.indices if other is not index):
            for digit in digits:
                nest.tags[inames[digit]] = digit
                nest.values[digit] = Affine.variable(_IS_INAME + inames[digit])
                nest.outer[inames[digit]] = einsum.sizes[digit]
            nest.element.append(index.renamed(inames))
            continue
        variable = index.variables[0] if [factor for _, factor in index.terms] == [1] else None
        if variable is not None and variable not in nest.values:
            iname = inames[variable]
            nest.tags[iname] = variable
            nest.values[variable] = Affine(((_IS_INAME + iname, 1),), -index.constant)
            if einsum.sizes[variable] != size or index.constant:
                shifted.append(variable)
        else:
            iname = fresh(f"o{axis}_{einsum.name}")
            equations.append(Affine.of({**index.coefficients, _IS_INAME + iname: -1}, index.constant))
        nest.outer[iname] = size
        nest.element.append(Affine.variable(iname))
    equations = [_substituted(equation, nest.values) for equation in equations]
    for variable in einsum.variables:
        if variable not in nest.values and _solve(variable, equations, nest.values):
            shifted.append(variable)
    for variable in einsum.variables:
        if variable not in nest.values:
            nest.tags[inames[variable]] = variable
            nest.values[variable] = Affine.variable(_IS_INAME + inames[variable])
            nest.inner[inames[variable]] = einsum.sizes[variable]
    nest.values = {variable: _unmarked(_substituted(value, nest.values)) for variable, value in nest.values.items()}
    for variable in shifted:
        nest.conditions.append(nest.values[variable])
        nest.bounds.append((nest.values[variable], einsum.sizes[variable]))
    for equation in equations:
        closed = _unmarked(_substituted(equation, {v: _marked(value) for v, value in nest.values.items()}))
        nest.conditions += [closed, _scaled(closed, -1)]
    nest.conditions += [nest.at(guard) for guard in einsum.guards]
    return nest


def _solve(variable: str, equations: list[Affine], values: dict[str, Affine]) -> bool:
    """Find an equation that determines the variable with a coefficient of 1 or -1, take it out, and put its solution everywhere."""
    for position, equation in enumerate(equations):
        factor = equation.coefficients.get(variable, 0)
        if abs(factor) == 1:
            del equations[position]
            solution = _scaled(Affine.of({v: c for v, c in equation.terms if v != variable}, equation.constant), -factor)
            equations[:] = [_substituted(other, {variable: solution}) for other in equations]
            for known, value in values.items():
                values[known] = _substituted(value, {variable: solution})
            values[variable] = solution
            return True
    return False


def _substituted(index: Affine, values: Mapping[str, Affine]) -> Affine:
    result: dict[str, int] = {}
    constant = index.constant
    for name, factor in index.terms:
        value = values.get(name) or Affine.variable(name)
        constant += factor * value.constant
        for other, other_factor in value.terms:
            result[other] = result.get(other, 0) + factor * other_factor
    return Affine.of(result, constant)


def _scaled(index: Affine, factor: int) -> Affine:
    return Affine.of({name: factor * old for name, old in index.terms}, factor * index.constant)


def _unmarked(index: Affine) -> Affine:
    return index.renamed({name: name.removeprefix(_IS_INAME) for name in index.variables})


def _marked(index: Affine) -> Affine:
    return index.renamed({name: _IS_INAME + name for name in index.variables})


def base_kernel(cascade: EinsumSequence) -> lp.TranslationUnit:
    """The cascade as a loopy kernel in the grammar above; arguments are inputs, then outputs, then symbolic sizes.

    Raises :class:`CascadeError` for a cascade that cannot be computed, and :class:`UnsupportedTypeError` where OpenCL lacks an operation
    for a type.
    """
    validate(cascade)
    t_unit = Builder(cascade, chosen_names(cascade)).build()
    # loopy pickles kernels: what a cascade has computed of itself stays here.
    plain = EinsumSequence(cascade.einsums, cascade.tensors, cascade.outputs, cascade.rewritings)
    return t_unit.with_kernel(t_unit.default_entrypoint.tagged(CascadeTag(plain)))


def affine_expression(index: Affine) -> Expression:
    """The same as a pymbolic expression."""
    terms = [var(name) if factor == 1 else p.Product((factor, var(name))) for name, factor in index.terms]
    if index.constant or not terms:
        terms.append(index.constant)
    return terms[0] if len(terms) == 1 else p.Sum(tuple(terms))


class Builder:
    """Writes the Einsums of a cascade as instructions, with rules, domains and loops, under given names."""

    def __init__(self, cascade: EinsumSequence, names: Names) -> None:
        self.cascade = cascade
        self.names = names
        self.fresh = Identifiers(
            [*names.instructions.values(), *names.inames.values(), *names.arrays.values(), *names.rules.values(), *names.sizes.values()]
        )
        self.rules: dict[str, SubstitutionRule] = {}
        self.tensor_rules: dict[str, str] = {}
        self.domains: list[isl.BasicSet] = []
        self.inames: dict[str, Iname] = {}
        self.writers = {einsum.output.tensor: names.instructions[einsum.name] for einsum in cascade.einsums}

    def build(self) -> lp.TranslationUnit:
        instructions = [self.instruction(einsum) for einsum in self.cascade.einsums]
        # A length that only an array has is in no domain, and nothing may be assumed of it there.
        bounds = {name for domain in self.domains for name in domain.get_var_names(isl.dim_type.param)}
        t_unit = lp.make_kernel(
            self.domains,
            instructions,
            self.arrays(),
            name="cascade",
            lang_version=(2018, 2),
            seq_dependencies=False,
            assumptions=" and ".join(f"{name} >= 1" for name in self.names.sizes.values() if name in bounds) or None,
        )
        kernel = t_unit.default_entrypoint
        # loopy would write the rules out, twice, to see which loops and instructions each one needs: that is given.
        rules = constantdict(self.rules)
        t_unit = t_unit.with_kernel(kernel.copy(inames={**kernel.inames, **self.inames}, substitutions=rules))
        return registered(t_unit, (primitive(einsum.map) for einsum in self.cascade.einsums))

    def arrays(self) -> list[Any]:
        """Global arguments for inputs and outputs, global temporaries for intermediates."""
        result: list[Any] = []
        written = {einsum.output.tensor for einsum in self.cascade.einsums}
        outputs = [tensor for tensor in self.cascade.outputs if tensor in written]
        for tensor in (*self.cascade.inputs, *outputs, *self.cascade.intermediates):
            known = self.cascade.tensors[tensor]
            common = {"dtype": np.dtype(known.dtype), "shape": tuple(map(self.size, known.shape)), "tags": frozenset({TensorTag(tensor)})}
            name = self.names.arrays[tensor]
            if tensor in self.cascade.intermediates:
                result.append(lp.TemporaryVariable(name, address_space=lp.AddressSpace.GLOBAL, **common))
            else:
                result.append(lp.GlobalArg(name, is_input=tensor not in written, is_output=tensor in written, **common))
        return result + [lp.ValueArg(name, np.dtype(np.int64)) for name in self.names.sizes.values()]

    def size(self, size: Size) -> Expression:
        return var(self.names.sizes[size.name]) if isinstance(size, SizeParam) else size

    def _length(self, size: Size) -> int | str:
        return self.names.sizes[size.name] if isinstance(size, SizeParam) else size

    def instruction(self, einsum: Einsum) -> lp.Assignment:
        inames = {variable: self.names.inames[einsum.name, variable] for variable in einsum.variables}
        nest = _loops_of(einsum, self.cascade.tensors[einsum.output.tensor].shape, inames, self.fresh)
        if nest.outer:
            self.domains.append(self.domain(nest.outer, ()))
        if nest.inner:
            self.domains.append(self.domain(nest.inner, ()) if self.has_gaps(nest) else self.domain(nest.inner, tuple(nest.outer), nest))
        for iname, variable in nest.tags.items():
            self.inames[iname] = Iname(iname, frozenset({RankVariableTag(einsum.name, variable)}))
        reads = {operand.tensor for operand in einsum.operands} - {einsum.output.tensor}
        element = tuple(map(affine_expression, nest.element))
        array = var(self.names.arrays[einsum.output.tensor])
        return lp.Assignment(
            array[element] if element else array,
            self.value(einsum, nest),
            id=self.names.instructions[einsum.name],
            within_inames=frozenset(nest.outer),
            within_inames_is_final=True,
            depends_on=frozenset(self.writers[tensor] for tensor in reads if tensor in self.writers),
            depends_on_is_final=True,
            tags=frozenset({EinsumTag(einsum.name)}),
        )

    def domain(self, loops: Mapping[str, Size], parameters: tuple[str, ...], nest: _Loops | None = None) -> isl.BasicSet:
        """The set of loops' values; a nest's conditions, over its outer loops as parameters, cut points off."""
        conditions = [condition for iname, size in loops.items() for condition in within(iname, self._length(size))]
        mentioned = {str(self.size(size)) for size in loops.values() if isinstance(size, SizeParam)}
        if nest is not None:
            conditions += nest.conditions
            conditions += [below(value, self._length(size)) for value, size in nest.bounds]
            mentioned |= {name for value in (*nest.conditions, *(value for value, _ in nest.bounds)) for name in value.variables}
            mentioned |= {str(self.size(size)) for _, size in nest.bounds if isinstance(size, SizeParam)}
        used = [name for name in (*self.names.sizes.values(), *parameters) if name in mentioned]
        return basic_set(list(loops), conditions, parameters=used)

    def has_gaps(self, nest: _Loops) -> bool:
        """Whether an equality such as ``2*v = o`` holds in a reduction's domain: loopy 2025.2 solves it for ``v``, for odd ``o`` too."""
        if not nest.inner or not (nest.conditions or nest.bounds):
            return False
        loops = (*nest.outer, *nest.inner)
        for constraint in self.domain({**nest.outer, **nest.inner}, (), nest).detect_equalities().get_constraints():
            factors = {v: int(constraint.get_coefficient_val(isl.dim_type.set, k).to_python()) for k, v in enumerate(loops)}
            if constraint.is_equality() and any(abs(factors[v]) > 1 for v in nest.inner):
                return True
        return False

    def value(self, einsum: Einsum, nest: _Loops) -> Expression:
        """The right-hand side: the map, reduced and combined with ``populate``, or the initial value where no point reaches."""
        dtypes = tuple(self.cascade.tensors[operand.tensor].dtype for operand in einsum.operands)
        computing = computing_type(dtypes, einsum.accumulate, is_fractional(primitive(einsum.map)))
        operands = {operand_name(k): (self.read(einsum, k, operand, nest), dtypes[k]) for k, operand in enumerate(einsum.operands)}
        points = {variable: affine_expression(value) for variable, value in nest.values.items()}
        result = typed_map(einsum.map, computing, Reads(operands, points), einsum.name)
        storing = self.cascade.tensors[einsum.output.tensor].dtype
        if einsum.reduces or einsum.combines_populate:
            storing = einsum.accumulate
        if computing != computed_in(storing):
            result = cast_to(computed_in(storing), result)
        if self.has_gaps(nest):
            result = self.guarded(nest, result, number(storing, REDUCTIONS[einsum.reduce].neutral_of(storing)), (*nest.outer, *nest.inner))
        if nest.inner:
            result = Reduction(self.operation(einsum), tuple(nest.inner), result, allow_simultaneous=False)
        if einsum.combines_populate and einsum.populate is not None:
            result = REDUCTIONS[einsum.reduce].combined(number(storing, einsum.populate), result)
        if not nest.inner or einsum.is_recurrence:
            result = self.guarded(nest, result, number(storing, einsum.initial_value(storing)), tuple(nest.outer))
        return result

    def operation(self, einsum: Einsum) -> operations.ReductionOperation:
        """The reduction; where at most one point reaches an element, and ``reduce`` is ``none``, the sum of that point."""
        reduction = REDUCTIONS[einsum.reduce]
        if not reduction.combines and einsum.populate:
            raise CascadeError(
                f"Einsum {einsum.name} writes {einsum.output} with the initial value {einsum.populate} and reduce: none",
                hint="Set reduce, or index the output by one variable per rank.",
            )
        if einsum.accumulate in reduction.unsupported:
            raise UnsupportedTypeError(
                f"Einsum {einsum.name} reduces {einsum.accumulate} by {einsum.reduce}, which kernels cannot",
                hint="Choose a signed type.",
            )
        stored = self.cascade.tensors[einsum.output.tensor].dtype
        if reduction.rounds and wraps_before(einsum.accumulate, stored):
            raise UnsupportedTypeError(
                f"Einsum {einsum.name} adds up in {einsum.accumulate}, which wraps, what it stores as {stored}; kernels cannot",
                hint=f"Accumulate in {stored}, or store {einsum.accumulate} and convert it by a second Einsum.",
            )
        return loopy_operation(reduction)

    def guarded(self, nest: _Loops, value: Expression, otherwise: Expression, loops: tuple[str, ...]) -> Expression:
        """The value where the nest's conditions on these loops hold, else another one."""
        known = frozenset(loops)
        conditions = [p.Comparison(affine_expression(low), ">=", 0) for low in nest.conditions if known >= set(low.variables)]
        bounds = [(high, size) for high, size in nest.bounds if known >= set(high.variables)]
        conditions += [p.Comparison(affine_expression(high), "<", self.size(size)) for high, size in bounds]
        if not conditions:
            return value
        return p.If(conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions)), value, otherwise)

    def read(self, einsum: Einsum, position: int, operand: Access, nest: _Loops) -> Expression:
        """A call of the operand's rule with bare inames; makes the rule, and the tensor's own where the access is not bare."""
        indices = [nest.at(index) for index in operand.indices]
        inames = tuple(dict.fromkeys(name for index in indices for name in index.variables))
        local = Identifiers(self.names.arrays.values())
        arguments = {iname: local(nest.tags.get(iname, iname)) for iname in inames}
        elements = [affine_expression(index.renamed(arguments)) for index in indices]
        bare = [index.bare for index in indices]
        array = var(self.names.arrays[operand.tensor])
        if None in bare or len(set(bare)) < len(bare):
            body = var(self.tensor_rule(operand.tensor))(*elements)
        else:
            body = array[tuple(elements)] if elements else array
        name = self.names.rules[einsum.name, position]
        self.rules[name] = SubstitutionRule(name, tuple(arguments.values()), body)
        call = var(name)(*map(var, inames))
        if operand.tensor != einsum.output.tensor:
            return call
        fixed = {variable: size if isinstance(size, int) else 1 for variable, size in einsum.sizes.items()}
        early = [nest.at(index) for index in operand.indices if index.smallest(fixed) < 0]
        before = number(self.cascade.tensors[operand.tensor].dtype, einsum.initial_value(einsum.accumulate))
        return p.If(p.Comparison(affine_expression(early[0]), ">=", 0), call, before) if early else call

    def tensor_rule(self, tensor: str) -> str:
        """The rule that reads a tensor at its own coordinates."""
        if tensor not in self.tensor_rules:
            known = self.cascade.tensors[tensor]
            name = self.tensor_rules[tensor] = self.fresh(f"{tensor}_tensor")
            local = Identifiers(self.names.arrays.values())
            arguments = tuple(local(rank.lower()) for rank in (known.ranks or [f"d{axis}" for axis in range(len(known.shape))]))
            self.rules[name] = SubstitutionRule(name, arguments, var(self.names.arrays[tensor])[tuple(map(var, arguments))])
        return self.tensor_rules[tensor]
