"""A kernel on its way to the grammar: what all rewritings ask of it and hand on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import loopy as lp
from constantdict import constantdict
from loopy.symbolic import ArrayAccessFinder, SubstitutionRuleExpander, UncachedWalkMapper, get_dependencies
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...names import Identifiers
from ..array_types import Types

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Preparation:
    """One thing that was done to a kernel so that it can be read as a cascade; the kernel computes the same after it."""

    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


@dataclass(frozen=True)
class Draft:
    """A copy of a caller's kernel and the instructions that are to be Einsums."""

    t_unit: lp.TranslationUnit
    kernel: lp.LoopKernel
    chosen: tuple[str, ...]
    rewritings: tuple[Preparation, ...] = ()
    origins: constantdict[str, str] = field(default_factory=constantdict)
    """What names that rewritings have made up stand for, in the caller's words."""
    hindrances: constantdict[str, str] = field(default_factory=constantdict)
    """Instruction -> why it could not be brought nearer to the grammar."""

    def after(
        self,
        rewriting: Preparation,
        kernel: lp.LoopKernel,
        chosen: Iterable[str] | None = None,
        origins: Mapping[str, str] = constantdict(),
    ) -> Draft:
        """The draft with its kernel rewritten; ``origins`` of the names that are new in it."""
        ids = self.chosen if chosen is None else tuple(chosen)
        known = constantdict({**self.origins, **{name: self.as_given(text) for name, text in origins.items()}})
        return dataclasses.replace(self, kernel=kernel, chosen=ids, rewritings=(*self.rewritings, rewriting), origins=known)

    def hindered(self, insn: str, reason: str) -> Draft:
        """The same draft, which says why an instruction stays as it is."""
        return dataclasses.replace(self, hindrances=constantdict({**self.hindrances, insn: reason}))

    def as_given(self, text: str) -> str:
        """A text in the caller's words."""
        return renamed(text, self.origins)

    @cached_property
    def unit(self) -> lp.TranslationUnit:
        """The translation unit with the kernel as it is now; the given one if nothing was rewritten."""
        return self.t_unit if not self.rewritings else self.t_unit.with_kernel(self.kernel)

    @cached_property
    def types(self) -> Types:
        """The types in the kernel as it is now."""
        return Types(self.unit, self.kernel)

    @cached_property
    def before(self) -> Mapping[str, frozenset[str]]:
        """Instruction -> all that it depends on, directly or not."""
        return dependencies(self.kernel)

    @cached_property
    def reads(self) -> Mapping[str, frozenset[str]]:
        """Instruction -> the names that it reads, those inside substitution rules included."""
        return constantdict({insn.id: names_read(insn, self.kernel) for insn in self.kernel.instructions})

    def expanded(self, expression: Expression) -> Expression:
        """An expression without calls of substitution rules."""
        return SubstitutionRuleExpander(self.kernel.substitutions)(expression)

    def only_writer(self, array: str) -> lp.Assignment | None:
        """The plain assignment that alone writes a variable; ``None`` if several instructions do, or one of another kind."""
        writers = self.kernel.writer_map().get(array, frozenset())
        insn = self.kernel.id_to_insn[min(writers)] if len(writers) == 1 else None
        if not isinstance(insn, lp.Assignment) or insn.predicates or insn.atomicity or insn.id in self.before[insn.id]:
            return None
        return insn

    def fresh(self) -> Identifiers:
        """Hands out names that the kernel does not have."""
        names = {*self.kernel.all_variable_names(), *self.kernel.id_to_insn, *self.kernel.substitutions, *self.kernel.inames}
        return Identifiers({*names, *(str(name) for name in self.t_unit.callables_table)})


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other words for names."""
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text)


def names_read(insn: lp.InstructionBase, kernel: lp.LoopKernel) -> frozenset[str]:
    """The names that an instruction reads, those inside substitution rules included: loopy does not look into rules that are called."""
    names = set(insn.read_dependency_names())
    if isinstance(insn, lp.MultiAssignmentBase):
        expand = SubstitutionRuleExpander(kernel.substitutions)
        names |= {name for part in (*insn.assignees, insn.expression, *insn.predicates) for name in get_dependencies(expand(part))}
        names -= set(insn.assignee_var_names()) - insn.read_dependency_names() - get_dependencies(expand(insn.expression))
    while rules := names & kernel.substitutions.keys():
        names -= rules
        names |= {name for rule in rules for name in get_dependencies(kernel.substitutions[rule].expression)}
    return frozenset(names)


def dependencies(kernel: lp.LoopKernel) -> Mapping[str, frozenset[str]]:
    """Instruction -> all that it depends on, directly or not; itself among them if that is a cycle."""
    every = {}
    for insn in kernel.instructions:
        reached: set[str] = set()
        waiting = list(insn.depends_on)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += kernel.id_to_insn[name].depends_on
        every[insn.id] = frozenset(reached)
    return constantdict(every)


def replaced(kernel: lp.LoopKernel, changed: Iterable[lp.InstructionBase]) -> lp.LoopKernel:
    """The kernel with instructions of the same ids in place of its own."""
    by_id = {insn.id: insn for insn in changed}
    return kernel.copy(instructions=[by_id.get(insn.id, insn) for insn in kernel.instructions])


def without(kernel: lp.LoopKernel, removed: str) -> lp.LoopKernel:
    """The kernel without an instruction; what depended on it depends on what it depended on."""
    gone = kernel.id_to_insn[removed]
    kept = []
    for insn in kernel.instructions:
        if insn.id == removed:
            continue
        if removed in insn.depends_on:
            insn = insn.copy(depends_on=(insn.depends_on - {removed}) | gone.depends_on)
        kept.append(insn.copy(no_sync_with=frozenset(pair for pair in insn.no_sync_with if pair[0] != removed)))
    return kernel.copy(instructions=kept)


class _Accesses(ArrayAccessFinder):  # type: ignore[misc]
    def map_call(self, expr: p.Call) -> set[p.Subscript]:
        return set().union(*map(self.rec, expr.parameters))  # functions are no places, and loopy's resolved ones no expressions


def accesses(expression: Expression, array: str) -> set[p.Subscript]:
    """Where an expression, its rules expanded, has elements of an array."""
    found: set[p.Subscript] = _Accesses(array)(expression)
    return found


class _Named(UncachedWalkMapper):  # type: ignore[misc]
    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names = frozenset(names)
        self.found: dict[str, None] = {}

    def map_variable(self, expr: p.Variable) -> None:
        if expr.name in self.names:
            self.found[expr.name] = None


def names_in(expression: Expression, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that occur in an expression, in order of first appearance."""
    walk = _Named(names)
    walk(expression)
    return tuple(walk.found)
