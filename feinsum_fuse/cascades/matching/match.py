"""From a loopy kernel back to the cascade that it computes.

What is recognised is feinsum's grammar (``feinsum_fuse.cascades.kernel.kernel`` writes it): every instruction assigns one element of an
array in global memory, indexed by exactly the loops around it; it has at most one reduction (sum, product, maximum, minimum), which is
the whole right-hand side but for an initial value combined by the same operation; every operand is read through a substitution rule
called with bare inames. Nothing is assumed: what a map, a predicate, a cast or a bound says is in the cascade, or the kernel is refused,
as it is where the order of instructions lets an array change while Einsums read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.diagnostic import LoopyError
from loopy.kernel.function_interface import CallableKernel
from numpy.typing import ArrayLike, NDArray
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...arguments import HOOK, NOTHING, TEXT, collection, expect, iterable
from ...errors import CascadeError, MatchError
from ...formats.affine import Affine
from ...formats.integer_sets import integer_set, value_on, within
from ...progress import Hook, Stage
from ..cascade import Cascade
from ..element_types import checked, computing_type
from ..kernel.tags import EinsumTag, RankVariableTag
from ..maps import is_fractional, primitive
from ..names import Identifiers, Names
from ..terms import Access, Einsum, Size, SizeParam, Tensor
from .array_types import Refusal
from .fixed_axes import as_short, in_lowest_terms, without_fixed_axes
from .gathered_axes import without_gathers
from .grammar import is_written_anew, written_anew
from .instruction import Instruction, is_conditional, read_instruction
from .instruction_map import TypedKernel
from .kernel_reference import KernelReference
from .preparation.callees import check_calls
from .preparation.draft import Draft, Preparation, accesses, dependencies
from .preparation.foreign_kernel import prepare
from .rule import Computed, Element, argument, arrays_in, element

_BY_DEPENDENCY = "Let one of the two depend on the other."


class Order:
    """The matched instructions among all of a kernel's."""

    def __init__(self, kernel: lp.LoopKernel, found: Mapping[str, Instruction]) -> None:
        self.kernel = kernel
        self.found = found
        self.writers = kernel.writer_map()

    @cached_property
    def dependencies(self) -> Mapping[str, frozenset[str]]:
        """Instruction -> all that it depends on, directly or not; itself among them if that is a cycle."""
        return dependencies(self.kernel)

    def names(self) -> list[str]:
        """The matched instructions, each after those that it depends on."""
        return sorted(self.found, key=lambda name: len(self.dependencies[name] & self.found.keys()))

    def check(self) -> None:
        """Every array is written once, before it is read, and where loops are shared, in the same iteration; :class:`MatchError`."""
        writer = {found.array: found for found in self.found.values()}
        for found in self.found.values():
            if found.id in self.dependencies[found.id]:
                raise _refused(found, "it depends on itself")
            others = sorted(self.writers[found.array] - {found.id})
            if others:
                raise _refused(found, f"{found.array} is written by {', '.join(others)} as well")
            for read in found.operands.reads:
                source = writer.get(read.array) if isinstance(read, Element) else None
                if source is None or source is found or not isinstance(read, Element):
                    continue
                if source.id not in self.dependencies[found.id]:
                    raise _refused(found, f"it reads {read.array}, but does not depend on {source.id}")
                self.check_shared_loops(source, found, read)
        self.check_foreign_writers()

    def check_shared_loops(self, source: Instruction, found: Instruction, read: Element) -> None:
        """A loop around both must index what is written and what is read in the same way."""
        shared = set(source.sizes) & set(found.sizes)
        for axis, index in enumerate(source.indices):
            if index.bare in shared and read.indices[axis] != index:
                raise _refused(
                    found,
                    f"it reads {Access(read.array, read.indices)} inside the loop {index}, in which {source.id} writes "
                    f"{Access(source.array, source.indices)}",
                )
        mixed = shared & {*source.reduced, *found.reduced}
        if mixed:
            raise _refused(found, f"it shares the loop {min(mixed)} of a reduction with {source.id}")

    def check_foreign_writers(self) -> None:
        """What other instructions write, they write before all Einsums that read it, or after all of them."""
        early: dict[tuple[str, str], str] = {}
        late: dict[tuple[str, str], str] = {}
        for found in self.found.values():
            for array in sorted({array for read in found.operands.reads for array in self.arrays(read)}):
                for writer in sorted(self.writers.get(array, frozenset()) - self.found.keys()):
                    self.check_foreign_loops(writer, found, array)
                    if writer in self.dependencies[found.id]:
                        late[array, writer] = found.id
                    elif found.id in self.dependencies[writer]:
                        early[array, writer] = found.id
                    else:
                        reason = f"it reads {array}, and nothing says whether {writer} writes that before or after"
                        raise _refused(found, reason, _BY_DEPENDENCY)
        for array, writer in sorted(early.keys() & late.keys()):
            one, other = early[array, writer], late[array, writer]
            raise MatchError(f"instructions {one} and {other} are no cascade: both read {array}, which {writer} writes between them")

    def arrays(self, read: Element | Computed) -> frozenset[str]:
        """The arrays that an operand reads."""
        return frozenset({read.array}) if isinstance(read, Element) else arrays_in(read.body, self.kernel)

    def check_foreign_loops(self, writer: str, found: Instruction, array: str) -> None:
        """A loop around a reader and a foreign writer must index what is written and what is read in the same way."""
        insn = self.kernel.id_to_insn[writer]
        shared = insn.within_inames & set(found.sizes)
        target = element(insn.assignee, self.kernel) if shared and isinstance(insn, lp.Assignment) else None
        for iname in sorted(shared):
            axes = () if target is None else tuple(axis for axis, index in enumerate(target.indices) if index.bare == iname)
            reads = [place for read in found.operands.reads for place in self.places(read, array)]
            if not any(all(place[axis] == iname for place in reads) for axis in axes):
                reason = f"it reads {array} in the loop {iname}, in which {writer} writes it for other iterations as well"
                raise _refused(found, reason, f"Let {array} have an axis that {iname} indexes.")

    def places(self, read: Element | Computed, array: str) -> list[tuple[str | None, ...]]:
        """Where an operand reads an array: the bare iname at each axis, ``None`` for any other index."""
        if isinstance(read, Element):
            return [tuple(index.bare for index in read.indices)] if read.array == array else []
        names = {argument(k): name for k, name in enumerate(read.arguments)}
        return [
            tuple(names.get(index) if isinstance(index, p.Variable) else None for index in subscript.index_tuple)
            for subscript in accesses(read.body, array)
        ]


def _refused(found: Instruction, reason: str, hint: str = "") -> MatchError:
    return MatchError(f"instruction {found.id} is no Einsum: {reason}", hint=hint, instructions=(found.id,))


@dataclass(frozen=True)
class Match:
    """A cascade, and what its entities are called in the kernel.

    Einsums are called as the instructions, rank variables as the inames, tensors as the arrays, or, where a rule computes an operand from
    several arrays or in other ways, as the rule.
    """

    cascade: Cascade
    names: Names
    prepared: lp.TranslationUnit = field(repr=False, compare=False)
    """The kernel whose entities ``names`` has, and to which schedules apply: the given one, or, where that was not in the grammar, a copy
    that is, and computes the same."""
    computed: constantdict[str, Expression] = field(default_factory=constantdict)
    """Tensors that no array holds -> the body of their rule (``%k`` stands for its k-th argument)."""
    instructions: tuple[str, ...] = ()
    """The given kernel's instructions that it is about."""
    rewritings: tuple[Preparation, ...] = ()
    """What was done to the given kernel, so that it could be read."""

    def reference(self, **arguments: ArrayLike) -> dict[str, NDArray[Any]]:
        """What the matched instructions write, by array, computed with NumPy from the kernel's own arguments.

        Arrays may be larger than what is accessed. An array that the kernel updates, or writes in part, is the whole array, with elements
        that are left alone as they were given, or zero where the array was not. Raises :class:`CascadeError` for missing arguments.
        """
        return self._reference.values(arguments)

    def alternatives(self, **arguments: ArrayLike) -> tuple[dict[str, NDArray[Any]], ...]:
        """Results that are as right as those of a kernel, where rounding decides on which side of a jump it falls; none without jumps.

        They are the reference, and the reference with all jumps' arguments moved up and down (:mod:`..reference.jumps`).
        """
        return self._reference.alternatives(arguments)

    @cached_property
    def _reference(self) -> KernelReference:
        return KernelReference(self.cascade, self.names, self.prepared, self.computed)

    def __str__(self) -> str:
        return f"{self.cascade}\n{self.names}"


def match(
    t_unit: lp.TranslationUnit,
    instructions: Iterable[str] | None = None,
    kernel_name: str | None = None,
    *,
    progress: Hook | None = None,
) -> Match:
    """The cascade that a kernel computes: all of its instructions, or those with the given ids.

    What is not in the grammar is brought into it on a copy (:mod:`.preparation.preparation`), where that can be done. ``progress`` is told
    of each instruction. Raises :class:`MatchError` with the instruction and the reason if any of them is no Einsum.
    """
    expect(kernel_name, TEXT | NOTHING, "the name of the kernel", MatchError)
    expect(progress, HOOK, "progress", MatchError)
    kernel = chosen_kernel(t_unit, kernel_name)
    if isinstance(instructions, str):
        instructions = (instructions,)
    if instructions is not None:
        instructions = tuple(iterable(instructions, "the list of instructions", MatchError))
        expect(instructions, collection("a list of identifiers", TEXT), "the list of instructions", MatchError)
    every = [insn.id for insn in kernel.instructions if not isinstance(insn, lp.BarrierInstruction)]
    chosen = list(instructions) if instructions is not None else every
    unknown = [name for name in chosen if name not in kernel.id_to_insn]
    if unknown or not chosen:
        missing = f"instruction {unknown[0]!r}" if unknown else "instruction to match"
        raise MatchError(f"the kernel has no {missing}", hint=f"It has {', '.join(kernel.id_to_insn)}.")
    with Stage("matching", progress, len(chosen)) as matching:
        try:
            if cyclic := [name for name, before in dependencies(kernel).items() if name in before]:
                raise MatchError(f"instruction {cyclic[0]} is no Einsum: it depends on itself", instructions=tuple(cyclic))
            draft = prepare(t_unit, kernel, chosen)
        except (LoopyError, KeyError) as error:
            raise MatchError(f"the kernel cannot be read: {error}") from None
        try:
            return _Matching(draft, chosen).match(matching)
        except MatchError as error:
            given = tuple(dict.fromkeys(draft.origins.get(name, name) for name in error.instructions))
            raise MatchError(draft.as_given(error.message), hint=draft.as_given(error.hint), instructions=given) from None


def chosen_kernel(t_unit: lp.TranslationUnit, name: str | None = None) -> lp.LoopKernel:
    """The kernel of this name, or the only one that can be called from outside; :class:`MatchError` if there is no such kernel."""
    if not isinstance(t_unit, lp.TranslationUnit):
        raise MatchError(f"a {type(t_unit).__name__} cannot be matched", hint="Give the TranslationUnit that lp.make_kernel returns.")
    callables = t_unit.callables_table
    names = sorted(t_unit.entrypoints) if name is None else [name] if name in callables else []
    if len(names) != 1 or not isinstance(callables[names[0]], CallableKernel):
        known = ", ".join(kernel for kernel, found in callables.items() if isinstance(found, CallableKernel))
        raise MatchError(
            f"{'which kernel is meant' if name is None else f'a kernel {name!r}'} cannot be told: the translation unit has {known}",
            hint="Make one of them its only entrypoint: t_unit.with_entrypoints(name).",
        )
    check_calls(t_unit, names[0])
    return callables[names[0]].subkernel


class _Matching:
    def __init__(self, draft: Draft, instructions: Iterable[str]) -> None:
        self.source = TypedKernel(draft.unit, draft.kernel, draft.types)
        self.kernel = kernel = draft.kernel
        self.chosen = draft.chosen
        self.instructions = tuple(instructions)
        self.draft = draft
        self.found: dict[str, Instruction] = {}
        self.tensors: dict[str, Tensor] = {}
        self.computed: dict[str, Computed] = {}
        self.produced: set[str] = set()
        self.fresh = Identifiers([*kernel.temporary_variables, *kernel.arg_dict, *kernel.inames])

    def match(self, matching: Stage) -> Match:
        """Read all instructions, check how they depend on each other, and put the cascade together."""
        written = {array for insn in self.chosen for array in self.kernel.id_to_insn[insn].assignee_var_names()}
        refused: dict[str, str] = {}
        hints: dict[str, str] = {}
        for name in self.chosen:
            try:
                self.found[name] = self.read(name, written)
            except (Refusal, CascadeError) as reason:
                hindrance = self.draft.hindrances.get(name)
                why = reason.message if isinstance(reason, CascadeError) else str(reason)
                refused[name] = f"{why}, and {hindrance}" if hindrance not in (None, why) else why
                hints[name] = reason.hint
        for name, why in refused.items():
            raise MatchError(f"instruction {name} is no Einsum: {why}", hint=hints[name], instructions=tuple(refused))
        order = Order(self.kernel, self.found)
        order.check()
        einsums = []
        for name in order.names():
            try:
                einsums.append(self.einsum(self.found[name]))
            except (Refusal, CascadeError) as reason:
                why = reason.message if isinstance(reason, CascadeError) else str(reason)
                raise MatchError(f"instruction {name} is no Einsum: {why}", hint=reason.hint, instructions=(name,)) from None
            matching.advance()
        kept = {array for array in written if array in self.kernel.arg_dict or self.is_read_elsewhere(array)}
        outputs = tuple(e.output.tensor for e in einsums if e.output.tensor in kept)
        cascade = Cascade(tuple(einsums), constantdict(self.tensors), outputs)
        computed = constantdict({name: found.body for name, found in self.computed.items()})
        names, prepared, rewritings = self.names(cascade), self.draft.unit, self.draft.rewritings
        if is_written_anew(self.draft):
            prepared, names = written_anew(self.draft, cascade, names, computed)
            rewritings = (*rewritings, Preparation("written in the grammar", ", ".join(names.instructions.values())))
        return Match(cascade, names, prepared, computed, self.instructions, rewritings)

    def read(self, name: str, written: set[str]) -> Instruction:
        """One instruction; a condition around its value is a part of the map unless reads would leave their arrays without it, or it fixes
        an axis that is written."""
        insn = self.kernel.id_to_insn[name]
        if is_conditional(insn, self.source):
            found = read_instruction(self.source, insn, written)
            if all(self.is_inside(found, read) for read in found.operands.reads) and not self.fixes_axes(insn, written):
                return found
        return read_instruction(self.source, insn, written, guarded=True)

    def fixes_axes(self, insn: lp.InstructionBase, written: set[str]) -> bool:
        """Whether a condition around a value says at which index of an axis it is written."""
        try:
            found = read_instruction(self.source, insn, written, guarded=True)
        except (Refusal, CascadeError):
            return False
        return without_fixed_axes(found, self.ranks()) is not found

    def ranks(self) -> frozenset[str]:
        """The loops that are said to be rank variables."""
        return frozenset(name for name, iname in self.kernel.inames.items() if iname.tags_of_type(RankVariableTag))

    def is_inside(self, found: Instruction, read: Element | Computed) -> bool:
        """Whether all points read elements that an array has, as far as its declaration says."""
        if not isinstance(read, Element):
            return True
        shape = self.kernel.get_var_descriptor(read.array).shape
        try:
            lengths = [self.length(found, index) for index in read.indices]
        except Refusal:
            return False
        declared = [_size(length) for length in shape] if isinstance(shape, tuple) else [None] * len(lengths)
        numbers = [(need, have) for need, have in zip(lengths, declared, strict=True) if isinstance(need, int) and isinstance(have, int)]
        return all(need <= have for need, have in numbers)

    def is_read_elsewhere(self, array: str) -> bool:
        """Whether an instruction that is not matched reads an array."""
        return any(array in reads for insn, reads in self.draft.reads.items() if insn not in self.found)

    def einsum(self, found: Instruction) -> Einsum:
        self.add_tensor(found.array, tuple(length for length in found.lengths if length is not None), is_written=True)
        self.produced.add(found.array)
        is_ours = bool(self.kernel.id_to_insn[found.id].tags_of_type(EinsumTag))
        found = as_short(without_fixed_axes(in_lowest_terms(found) if is_ours else found, self.ranks()))
        if is_ours:
            found = without_gathers(found, self.ranks(), self.fresh)
        output = Access(found.array, found.indices)
        operands = tuple(self.operand(found, read) for read in found.operands.reads)
        order = dict.fromkeys((*output.variables, *(v for operand in operands for v in operand.variables), *found.sizes))
        result = Einsum(
            *(found.id, output, operands, found.map, constantdict({v: found.sizes[v] for v in order})),
            *(found.reduce, found.populate, found.guards, checked(found.accumulate)),
        )
        dtypes = tuple(self.tensors[operand.tensor].dtype for operand in operands)
        stored = self.tensors[found.array].dtype
        if np.dtype(result.accumulate).kind == "c" and np.dtype(stored).kind != "c":
            hint = f"Let {found.array} be {result.accumulate}, or take real(...) or imag(...) of what is stored."
            raise Refusal(f"it stores {result.accumulate} in {found.array}, which is {stored}", hint)
        computing = computing_type(dtypes, result.accumulate, is_fractional(primitive(result.map)))
        for cast in found.operands.casts:
            if cast != computing:
                raise Refusal(f"it casts to {cast} inside its map, which computes in {computing}")
        if any(operand.tensor == found.array for operand in operands):
            self.check_recurrence(result)
        return result

    def check_recurrence(self, einsum: Einsum) -> None:
        """The loop of a recurrence must be sequential."""
        from loopy.kernel.data import ConcurrentTag

        variable = einsum.iterative_variable()
        if self.kernel.inames[variable].tags_of_type(ConcurrentTag):
            raise Refusal(f"it reads {einsum.output.tensor} at earlier values of {variable}, which runs in parallel")

    def operand(self, found: Instruction, read: Element | Computed) -> Access:
        indices = read.indices
        if isinstance(read, Element) and read.array == found.array:
            return Access(read.array, indices)
        lengths = tuple(self.length(found, index) for index in indices)
        if isinstance(read, Element):
            self.add_tensor(read.array, lengths, is_written=False)
            return Access(read.array, indices)
        for name, other in self.computed.items():
            if other.body == read.body and self.tensors[name].shape == lengths:
                return Access(name, indices)
        for array in sorted(arrays_in(read.body, self.kernel)):
            self.check_is_given(array)
        name = self.fresh(read.rule)
        self.computed[name] = read
        self.tensors[name] = Tensor(name, lengths, checked(read.dtype))
        return Access(name, indices)

    def length(self, found: Instruction, index: Affine) -> Size:
        """How long an axis must be that this index expression runs over."""
        if index.bare is not None and (not found.guards or isinstance(found.sizes[index.bare], SizeParam)):
            return found.sizes[index.bare]
        numbers = {v: size for v, size in found.sizes.items() if isinstance(size, int)}
        if not numbers.keys() >= set(index.variables):
            raise Refusal(f"it reads at {index}, where a loop has a symbolic length")
        guarded = [guard for guard in found.guards if numbers.keys() >= set(guard.variables)]
        return _largest(index, numbers, guarded) + 1

    def add_tensor(self, array: str, needed: tuple[Size, ...], is_written: bool) -> None:
        """Add a tensor, or check that what is accessed of it is in it; inputs have the array's declared shape where that is known."""
        self.check_is_given(array)
        descriptor = self.kernel.get_var_descriptor(array)
        declared = descriptor.shape if isinstance(descriptor.shape, tuple) else (None,) * len(needed)
        if len(declared) != len(needed):
            raise Refusal(f"{array} has {len(declared)} axes and is accessed with {len(needed)} indices")
        known = self.tensors[array].shape if array in self.tensors else (None,) * len(needed)
        if array in self.produced and not is_written:
            _check_whole(array, needed, self.tensors[array].shape)
        shape = tuple(
            _axis(array, need, _size(length), have, is_written) for need, length, have in zip(needed, declared, known, strict=True)
        )
        self.tensors[array] = Tensor(array, shape, checked(self.source.types.array(array)))

    def check_is_given(self, array: str) -> None:
        """A cascade's inputs are arguments, not what a kernel was made with."""
        descriptor = self.kernel.get_var_descriptor(array)
        if isinstance(descriptor, lp.TemporaryVariable) and descriptor.initializer is not None:
            raise Refusal(f"it reads {array}, whose values lie in the kernel (initializer); make {array} an argument")

    def names(self, cascade: Cascade) -> Names:
        rules = {(found.id, position): rule for found in self.found.values() for position, rule in found.operands.rules.items()}
        return Names(
            constantdict({einsum.name: einsum.name for einsum in cascade.einsums}),
            constantdict({(einsum.name, v): v for einsum in cascade.einsums for v in einsum.variables if v in self.kernel.inames}),
            constantdict({tensor: tensor for tensor in cascade.tensors if tensor not in self.computed}),
            constantdict(rules),
            constantdict({name: name for name in cascade.size_parameters}),
        )


def _largest(index: Affine, sizes: Mapping[str, int], guards: Iterable[Affine]) -> int:
    points = integer_set(list(sizes), [*(condition for v, size in sizes.items() for condition in within(v, size)), *guards])
    value = value_on(points, list(sizes), index)
    if points.is_empty():
        raise Refusal("its conditions leave it no points")
    if int(points.min_val(value).to_python()) < 0:
        raise Refusal(f"it reads at {index}, which is below 0")
    return int(points.max_val(value).to_python())


def _size(length: Expression | None) -> Size | None:
    if isinstance(length, int | np.integer):
        return int(length)
    return SizeParam(length.name) if isinstance(length, p.Variable) else None


def _check_whole(array: str, needed: tuple[Size, ...], written: tuple[Size, ...]) -> None:
    for need, have in zip(needed, written, strict=True):
        if isinstance(need, int) and isinstance(have, int) and need > have:
            raise Refusal(f"it reads {array} up to {need - 1}, of which the kernel writes {have} elements alone")


def _axis(array: str, needed: Size, declared: Size | None, known: Size | None, is_written: bool) -> Size:
    """The length of a tensor's axis from what an access needs, what the array declares, and what earlier accesses said."""
    if isinstance(needed, int) and isinstance(declared, int) and needed > declared:
        raise Refusal(f"it accesses {array} up to {needed - 1}, beyond its length {declared}")
    if is_written:
        return needed
    if known is not None and known in (declared, needed):
        return known
    if known is not None and isinstance(known, int) and isinstance(needed, int):
        return max(known, needed)
    if known is not None:
        raise Refusal(f"it accesses {array} over {needed} elements of an axis that is {known} long elsewhere")
    return declared if declared is not None and isinstance(declared, int) == isinstance(needed, int) else needed
