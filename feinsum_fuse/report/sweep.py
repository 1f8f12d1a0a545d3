"""Predictions over the values of template variables: a table with a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..device.timing.measurement import time_text
from ..model.floor import Bounds
from ..model.prediction import Prediction, joules_text
from ..presentation import table

VariableValue = int | float | str | bool


@dataclass(frozen=True)
class SweptPoint:
    """One mapping at one combination of values; times in seconds, energy in joules, all instances together."""

    label: str
    values: Mapping[str, VariableValue]
    latency: float
    energy: float
    floor: float
    bound_by: Mapping[str, str]
    """Einsum -> the component that bounds it."""
    energies_assumed: bool = False

    @classmethod
    def of(cls, label: str, values: Mapping[str, VariableValue], found: Prediction, floor: Bounds) -> SweptPoint:
        """What was predicted."""
        slow = {str(einsum): str(component) for einsum, component in found.bottleneck.items()}
        return cls(label, values, found.latency, found.energy, floor.latency, slow, found.energies_assumed)

    def row(self) -> list[str]:
        """Its cells in the table."""
        ratio = f"{self.latency / self.floor:.2f}" if self.floor else "-"
        bound = ", ".join(dict.fromkeys(self.bound_by.values()))
        energy = joules_text(self.energy, assumed=self.energies_assumed, digits=4)
        cells = [*map(str, self.values.values()), time_text(self.latency), time_text(self.floor), ratio, energy, bound]
        return [self.label, *cells]


@dataclass(frozen=True)
class Sweep:
    """Points in the order of the values; what is no mapping or cannot be predicted is listed with its reason."""

    names: tuple[str, ...]
    """The variables."""
    points: tuple[SweptPoint, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        head = ["mapping", *self.names, "predicted", "floor", "over it", "energy", "bound by"]
        lines = [table(head, [point.row() for point in self.points], numbers=len(self.names) + 4)] if self.points else []
        if self.left_out:
            lines += [*[""] * bool(lines), "left out", *(f"{label}: {why}" for label, why in self.left_out)]
        return "\n".join(lines)

    def lines(self) -> dict[str, list[SweptPoint]]:
        """Points by mapping and values of all variables but the first."""
        found: dict[str, list[SweptPoint]] = {}
        for point in self.points:
            others = " ".join(f"{name}={value}" for name, value in point.values.items() if name != self.names[0])
            found.setdefault(f"{point.label} {others}".strip(), []).append(point)
        return found
