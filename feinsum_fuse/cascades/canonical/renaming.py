"""An isomorphism of cascades: new names for everything, and a new order of operands."""

from __future__ import annotations

from dataclasses import dataclass

from constantdict import constantdict


@dataclass(frozen=True)
class Renaming:
    """Old entity -> new entity, complete for one cascade."""

    einsums: constantdict[str, str]
    tensors: constantdict[str, str]
    variables: constantdict[tuple[str, str], str]
    """(Einsum, rank variable) -> rank variable of the renamed Einsum."""
    operands: constantdict[str, tuple[int, ...]]
    """Einsum -> the new position of each operand, by its old position."""
    sizes: constantdict[str, str]
    """Size parameter -> size parameter."""

    def inverse(self) -> Renaming:
        """The renaming back."""
        return Renaming(
            constantdict({new: old for old, new in self.einsums.items()}),
            constantdict({new: old for old, new in self.tensors.items()}),
            constantdict({(self.einsums[einsum], new): old for (einsum, old), new in self.variables.items()}),
            constantdict({self.einsums[e]: tuple(map(new.index, range(len(new)))) for e, new in self.operands.items()}),
            constantdict({new: old for old, new in self.sizes.items()}),
        )

    def then(self, other: Renaming) -> Renaming:
        """This renaming followed by another one."""
        return Renaming(
            constantdict({old: other.einsums[new] for old, new in self.einsums.items()}),
            constantdict({old: other.tensors[new] for old, new in self.tensors.items()}),
            constantdict({(e, old): other.variables[self.einsums[e], new] for (e, old), new in self.variables.items()}),
            constantdict({e: tuple(other.operands[self.einsums[e]][k] for k in positions) for e, positions in self.operands.items()}),
            constantdict({old: other.sizes[new] for old, new in self.sizes.items()}),
        )

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return (
            all(old == new for table in (self.einsums, self.tensors, self.sizes) for old, new in table.items())
            and all(old == new for (_, old), new in self.variables.items())
            and all(positions == tuple(range(len(positions))) for positions in self.operands.values())
        )
