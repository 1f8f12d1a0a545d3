"""What the entities of a cascade are called in a loopy kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from constantdict import constantdict

from .reserved import is_reserved
from .sequence import EinsumSequence

_CONSTANTS = ("M_", "FLT_", "DBL_", "INT_", "LONG_")
"""loopy takes every name that starts like this for a constant of OpenCL's."""


def identifier(name: str) -> str:
    """A valid C and loopy identifier made from any name: the name itself if it is one."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not text or text[0].isdigit() or text.startswith(("_", *_CONSTANTS)):
        text = f"x{text}"
    return f"{text}_" if is_reserved(text) else text


class Identifiers:
    """Hands out identifiers, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __call__(self, name: str) -> str:
        base = result = identifier(name)
        number = 0
        while result in self._taken:
            number += 1
            result = f"{base}_{number}"
        self._taken.add(result)
        return result


@dataclass(frozen=True)
class Names:
    """Entities of a cascade -> names in a loopy kernel."""

    instructions: constantdict[str, str]
    """Einsum -> instruction id."""
    inames: constantdict[tuple[str, str], str]
    """(Einsum, rank variable) -> iname."""
    arrays: constantdict[str, str]
    """Tensor -> argument or temporary variable."""
    rules: constantdict[tuple[str, int], str]
    """(Einsum, operand position) -> substitution rule, called with the operand's rank variables."""
    sizes: constantdict[str, str] = field(default_factory=constantdict)
    """Size parameter -> argument."""

    def __str__(self) -> str:
        lines = [f"Einsum {einsum}: instruction {insn}" for einsum, insn in self.instructions.items()]
        lines += [f"rank variable {variable} of {einsum}: iname {iname}" for (einsum, variable), iname in self.inames.items()]
        lines += [f"tensor {tensor}: array {array}" for tensor, array in self.arrays.items()]
        lines += [f"operand {position} of {einsum}: rule {rule}" for (einsum, position), rule in self.rules.items()]
        lines += [f"size {size}: argument {argument}" for size, argument in self.sizes.items()]
        return "\n".join(lines)


def chosen_names(cascade: EinsumSequence) -> Names:
    """The names that :func:`feinsum_fuse.cascades.kernel.kernel.base_kernel` gives; tensors keep theirs where they are identifiers."""
    fresh = Identifiers()
    arrays = {tensor: fresh(tensor) for tensor in cascade.tensors}
    sizes = {symbol: fresh(symbol) for symbol in cascade.size_parameters}
    instructions, inames, rules = {}, {}, {}
    for einsum in cascade.einsums:
        instructions[einsum.name] = fresh(einsum.name) if identifier(einsum.name) not in arrays.values() else fresh(f"{einsum.name}_einsum")
        for variable in einsum.variables:
            inames[einsum.name, variable] = fresh(f"{variable}_{einsum.name}")
        for position, operand in enumerate(einsum.operands):
            rules[einsum.name, position] = fresh(f"{operand.tensor}_{position}_{einsum.name}")
    return Names(constantdict(instructions), constantdict(inames), constantdict(arrays), constantdict(rules), constantdict(sizes))
