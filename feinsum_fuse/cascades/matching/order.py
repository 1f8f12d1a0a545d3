"""In which order a kernel's instructions run, and whether arrays stand still while Einsums read them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import loopy as lp
from loopy.symbolic import ArrayAccessFinder
from pymbolic import primitives as p

from ...errors import MatchError
from ..terms import Access
from .instruction import Instruction
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
        every = {}
        for insn in self.kernel.instructions:
            reached: set[str] = set()
            waiting = list(insn.depends_on)
            while waiting:
                name = waiting.pop()
                if name not in reached:
                    reached.add(name)
                    waiting += self.kernel.id_to_insn[name].depends_on
            every[insn.id] = frozenset(reached)
        return every

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
            for subscript in ArrayAccessFinder(array)(read.body)
        ]


def _refused(found: Instruction, reason: str, hint: str = "") -> MatchError:
    return MatchError(f"instruction {found.id} is no Einsum: {reason}", hint=hint)
