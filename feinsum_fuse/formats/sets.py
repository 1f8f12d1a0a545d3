"""Set expressions: which tensors, or rank variables, of one Einsum a text such as ``~(input | Outputs)`` denotes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..errors import SpecError
from .language.caps import shown
from .language.expressions import evaluate
from .workload import Workload, WorkloadEinsum

T = TypeVar("T")
OTHER = "Other"


@dataclass(frozen=True)
class ElementSet:
    """A set of tensors or of rank variables, within all of that kind that the Einsum has."""

    elements: frozenset[str]
    space: str
    """``tensors`` or ``rank variables``."""
    universe: frozenset[str]
    einsum: WorkloadEinsum = field(repr=False, compare=False)

    def _with(self, other: object) -> ElementSet:
        if not isinstance(other, ElementSet):
            raise SpecError(f"A set and {shown(other)} cannot be combined.")
        if other.space != self.space:
            raise SpecError(f"A set of {self.space} and a set of {other.space} cannot be combined.")
        return other

    def __and__(self, other: object) -> ElementSet:
        return replace(self, elements=self.elements & self._with(other).elements)

    def __or__(self, other: object) -> ElementSet:
        return replace(self, elements=self.elements | self._with(other).elements)

    def __sub__(self, other: object) -> ElementSet:
        return replace(self, elements=self.elements - self._with(other).elements)

    def __xor__(self, other: object) -> ElementSet:
        return replace(self, elements=self.elements ^ self._with(other).elements)

    def __invert__(self) -> ElementSet:
        return replace(self, elements=self.universe - self.elements)

    def __le__(self, other: object) -> bool:
        return self.elements <= self._with(other).elements

    def __lt__(self, other: object) -> bool:
        return self.elements < self._with(other).elements

    def __ge__(self, other: object) -> bool:
        return self.elements >= self._with(other).elements

    def __gt__(self, other: object) -> bool:
        return self.elements > self._with(other).elements

    def __contains__(self, other: object) -> bool:
        return other in self.elements if isinstance(other, str) else self._with(other).elements <= self.elements

    def __len__(self) -> int:
        return len(self.elements)

    def __call__(self) -> ElementSet:
        return self

    @property
    def tensors(self) -> ElementSet:
        """Itself, if it is a set of tensors."""
        if self.space != "tensors":
            raise SpecError("A set of rank variables has no tensors.")
        return self

    @property
    def rank_variables(self) -> ElementSet:
        """The rank variables that index its tensors; itself, if it is a set of rank variables."""
        if self.space != "tensors":
            return self
        found = (v for access in self.einsum.tensor_accesses if access.name in self.elements for v in access.rank_variables)
        return ElementSet(frozenset(found), "rank variables", frozenset(self.einsum.rank_variables), self.einsum)

    @property
    def bits_per_value(self) -> int:
        """The width of its only tensor's values."""
        widths = {access.bits_per_value for access in self.einsum.tensor_accesses if access.name in self.elements}
        if self.space != "tensors" or len(self.elements) != 1 or len(widths) != 1:
            raise SpecError(f"Only a set of one tensor has bits per value; this one has {len(self.elements)}.")
        return widths.pop()


class Symbols(Mapping[str, ElementSet]):
    """All names that a set expression may use for an Einsum, as in AccelForge, each built when it is asked for.

    ``All``/``Tensors``, ``Nothing``, ``Inputs``, ``Outputs``, ``Intermediates``, ``Shared``, ``Persistent``, every tensor and rank variable
    of the workload (empty if this Einsum lacks it), and the Einsum's renames.
    """

    def __init__(self, workload: Workload, einsum: WorkloadEinsum) -> None:
        self.workload = workload
        self.einsum = einsum
        self.own = frozenset(einsum.tensors)
        self.variables = frozenset(einsum.rank_variables)
        self.known = frozenset(workload.tensors)

    def _tensors(self, elements: frozenset[str]) -> ElementSet:
        return ElementSet(elements & self.own, "tensors", self.own, self.einsum)

    def _variables(self, elements: frozenset[str]) -> ElementSet:
        return ElementSet(elements & self.variables, "rank variables", self.variables, self.einsum)

    def __getitem__(self, name: str) -> ElementSet:
        if name in self.einsum.renames:
            elements = self.einsum.renames[name]
            return self._variables(elements) if name in self.einsum.rank_variable_renames else self._tensors(elements)
        if name in _SETS:
            return self._tensors(_SETS[name](self.workload, self.einsum))
        if name in self.known:
            return self._tensors(frozenset({name}))
        if name in self.workload.rank_variables:
            return self._variables(frozenset({name}))
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.einsum.renames, *_SETS, *self.workload.tensors, *sorted(self.workload.rank_variables)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


_SETS: dict[str, Callable[[Workload, WorkloadEinsum], frozenset[str]]] = {
    "All": lambda workload, einsum: frozenset(einsum.tensors),
    "Tensors": lambda workload, einsum: frozenset(einsum.tensors),
    "Nothing": lambda workload, einsum: frozenset(),
    "Inputs": lambda workload, einsum: frozenset(access.name for access in einsum.inputs),
    "Outputs": lambda workload, einsum: frozenset(access.name for access in einsum.outputs),
    "Intermediates": lambda workload, einsum: workload.intermediates,
    "Shared": lambda workload, einsum: workload.shared,
    "Persistent": lambda workload, einsum: frozenset(access.name for access in einsum.tensor_accesses if access.persistent),
}


def element_set(expression: str, workload: Workload, einsum: WorkloadEinsum) -> ElementSet:
    """What a set expression denotes for an Einsum, tensors or rank variables; :class:`SpecError` if it denotes no set."""
    symbols = Symbols(workload, einsum)
    # The parts of a softmax have names with a dot, which no expression can say.
    dotted = "." in expression and expression in symbols.known
    value = symbols[expression] if dotted else evaluate(expression, symbols)
    if not isinstance(value, ElementSet):
        where = f"for Einsum {einsum.name}"
        raise SpecError(f"The expression {expression!r} is {shown(value)} {where}, not a set of tensors or rank variables.")
    return value


def tensor_set(expression: str, workload: Workload, einsum: str) -> frozenset[str]:
    """The tensors of one Einsum that a set expression denotes; :class:`SpecError` if it denotes anything else."""
    found = element_set(expression, workload, workload.einsum(einsum))
    if found.space != "tensors":
        raise SpecError(f"The expression {expression!r} denotes rank variables for Einsum {einsum}; tensors are expected.")
    return found.elements


def resolve(table: Mapping[str, T], workload: Workload, einsum: str) -> dict[str, T]:
    """A table keyed by set expressions, as tensor -> value for one Einsum.

    The keys must be disjoint; ``Other`` stands for the tensors that no other key covers. Tensors without a value are left out.
    """
    result: dict[str, T] = {}
    origin: dict[str, str] = {}
    for expression, value in table.items():
        if expression == OTHER:
            continue
        for tensor in sorted(tensor_set(expression, workload, einsum)):
            if tensor in origin:
                raise SpecError(
                    f"The keys {origin[tensor]!r} and {expression!r} both cover tensor {tensor} in Einsum {einsum}.",
                    hint="Keys must not overlap; use set differences or the key Other.",
                )
            origin[tensor] = expression
            result[tensor] = value
    if OTHER in table:
        result |= {tensor: table[OTHER] for tensor in workload.einsum(einsum).tensors if tensor not in result}
    return result
