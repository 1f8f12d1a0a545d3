"""A prediction: the model's figures for one spec, as plain data that prints itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from ..arguments import described
from ..errors import ModelError
from ..field_types import Bounded, Word
from ..formats.language.caps import shortened
from ..formats.language.expressions import nearest
from ..formats.validation.adapter import Adapter, StrictModel
from ..presentation import InNotebooks, table
from .breakdown import Breakdown

Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Figures(Mapping[Any, float]):
    """Figures by key: a name, or a tuple with one name per axis.

    A combination of known names that does not occur reads 0.0; an unknown name raises :class:`ModelError`. Iteration yields what occurs.
    """

    axes: tuple[tuple[str, frozenset[str | None]], ...]
    """(what the axis names, the known names)."""
    entries: Mapping[Key, float]

    def __getitem__(self, key: Any) -> float:
        parts: Key = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(self.axes):
            given = ", ".join(map(described, parts[:10]))
            raise ModelError(f"{given} names {len(parts)} things; give {', '.join(kind for kind, _ in self.axes)}.")
        for part, (kind, known) in zip(parts, self.axes, strict=True):
            if not isinstance(part, str | None) or part not in known:
                close = nearest(part, (name for name in known if name is not None)) if isinstance(part, str) else ""
                raise ModelError(f"There is no {kind} {described(part)}.", hint=close)
        return self.entries.get(parts, 0.0)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries) if len(self.axes) > 1 else (key for (key,) in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return (key if isinstance(key, tuple) else (key,)) in self.entries

    def total(self, **fixed: str | None) -> float:
        """The sum over all entries whose named axes have these values, for example ``total(component="MAC")``."""
        places = {kind: place for place, (kind, _) in enumerate(self.axes)}
        for kind, name in fixed.items():
            if kind not in places:
                raise ModelError(f"There is no axis {kind}.", hint=nearest(kind, places))
            if not isinstance(name, str | None) or name not in self.axes[places[kind]][1]:
                raise ModelError(f"There is no {kind} {described(name)}.")
        return math.fsum(v for key, v in self.entries.items() if all(key[places[kind]] == name for kind, name in fixed.items()))

    def totals(self, kind: str) -> dict[str | None, float]:
        """Name on an axis -> the sum over all of its entries; :class:`ModelError` for an axis that there is not."""
        axes = [name for name, _ in self.axes]
        if not isinstance(kind, str) or kind not in axes:
            raise ModelError(f"There is no axis {described(kind)}.", hint=f"There are {', '.join(axes)}.")
        place = axes.index(kind)
        values: dict[str | None, list[float]] = {}
        for key, value in self.entries.items():
            values.setdefault(key[place], []).append(value)
        return {name: math.fsum(parts) for name, parts in values.items()}

    def __repr__(self) -> str:
        head = [kind for kind, _ in self.axes] + ["value"]
        rows = [[*("" if part is None else str(part) for part in key), f"{v:.6g}"] for key, v in self.entries.items()]
        return table(head, rows, numbers=1)


@dataclass(frozen=True, repr=False)
class Prediction(InNotebooks):
    """What the model says of a spec; all instances together. Units: J, s, bits."""

    energy: float
    latency: float
    dynamic_energy: float
    total_leak_energy: float
    actions: Figures
    """[einsum, component, tensor or ``None``, action] -> count."""
    action_energy: Figures
    """[einsum, component, tensor or ``None``, action] -> J."""
    leak_energy: Figures
    """[einsum, component] -> J."""
    component_latency: Figures
    """[einsum, component] -> s."""
    occupancy: Figures
    """[einsum, component, tensor] -> bits."""
    peak: Figures
    """[component] -> the most bits in use at once."""
    computes: Figures
    """[einsum] -> points of the iteration space of one instance."""
    sizes: Figures
    """[component] -> bits that the memory holds."""
    usage: Figures
    """[einsum, component, dimension] -> the fraction of a fanout in use."""
    n_instances: int = 1
    least_latency: float = 0.0
    """The roofline floor, s: :func:`~feinsum_fuse.model.floor.bounds` of the same spec; 0 where it was not recorded."""
    latency_low: float = 0.0
    """Of the kernel model, s: one in ten kernels of this kind (:mod:`~feinsum_fuse.model.kernel.interval`) was faster; else 0."""
    latency_high: float = 0.0
    """One in ten was slower than this."""
    launches: float = 0.0
    """Of a measured device, s: the part of the latency that starting kernels and work-groups takes; else 0."""
    energies_assumed: bool = False
    """Whether the architecture's energies are assumed, as those of a calibration are: then this energy is, too."""
    area: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Component -> m^2 of all of its instances, where the architecture says it; no part of the JSON."""

    @property
    def energy_text(self) -> str:
        """The energy with its unit, marked where it is assumed."""
        return joules_text(self.energy, assumed=self.energies_assumed)

    @property
    def energy_unit(self) -> str:
        """J, marked likewise."""
        return energy_unit(assumed=self.energies_assumed)

    @property
    def energy_delay_product(self) -> float:
        """Energy times latency, J s."""
        return self.energy * self.latency

    @property
    def einsum_latency(self) -> dict[str, float]:
        """Einsum -> s, the largest latency of its components."""
        result: dict[str, float] = {}
        for (einsum, _), seconds in self.component_latency.entries.items():
            result[str(einsum)] = max(result.get(str(einsum), 0.0), seconds)
        return result

    @property
    def bottleneck(self) -> dict[str, str]:
        """Einsum -> the component with the largest latency."""
        best: dict[str, tuple[float, str]] = {}
        for (einsum, component), seconds in self.component_latency.entries.items():
            if str(einsum) not in best or seconds > best[str(einsum)][0]:
                best[str(einsum)] = (seconds, str(component))
        return {einsum: component for einsum, (_, component) in best.items()}

    @property
    def per_component(self) -> Breakdown:
        """Component -> energy and what of it leaked, seconds that it is busy, most bits in use and their share of its size, the largest
        fraction of its fanouts in use, and area where the architecture has it."""
        spent, leaked = self.action_energy.totals("component"), self.leak_energy.totals("component")
        busy = self.component_latency.totals("component")
        used: dict[tuple[str | None, str | None], float] = {}
        for (einsum, component, _), fraction in self.usage.entries.items():
            used[einsum, component] = used.get((einsum, component), 1.0) * fraction
        names = dict.fromkeys(str(name) for name in (*spent, *leaked, *busy, *self.area))
        rows: dict[str, dict[str, float]] = {}
        for name in names:
            bits, size = self.peak.entries.get((name,), 0.0), self.sizes.entries.get((name,), 0.0)
            dynamic, leak = spent.get(name, 0.0), leaked.get(name, 0.0)
            fractions = [fraction for (_, component), fraction in used.items() if component == name]
            rows[name] = {
                "energy": dynamic + leak, "leaked": leak, "busy": busy.get(name, 0.0), "peak": bits,
                "of its size": bits / size if size else 0.0, "usage": max(fractions, default=1.0), "area": self.area.get(name, 0.0),
            }  # fmt: skip
        joules = {"energy": self.energy_unit, "leaked": self.energy_unit}
        units = {**joules, "busy": "s", "peak": "bit", "of its size": "", "usage": "", "area": "m^2"}
        return Breakdown("component", units, rows)

    @property
    def per_einsum(self) -> Breakdown:
        """Einsum -> energy and what of it leaked, seconds, and points of its iteration space."""
        spent, leaked, seconds = self.action_energy.totals("einsum"), self.leak_energy.totals("einsum"), self.einsum_latency
        rows = {
            name: {
                "energy": spent.get(name, 0.0) + leaked.get(name, 0.0), "leaked": leaked.get(name, 0.0), "latency": seconds.get(name, 0.0),
                "computes": points,
            }
            for name, points in self.computes.items()
        }  # fmt: skip
        return Breakdown("einsum", {"energy": self.energy_unit, "leaked": self.energy_unit, "latency": "s", "computes": ""}, rows)

    @property
    def per_tensor(self) -> Breakdown:
        """Tensor -> energy of its actions, and how many they are; computations, which move none, are left out."""
        spent, counts = self.action_energy.totals("tensor"), self.actions.totals("tensor")
        rows = {name: {"energy": spent.get(name, 0.0), "actions": count} for name, count in counts.items() if name is not None}
        return Breakdown("tensor", {"energy": self.energy_unit, "actions": ""}, rows)

    @property
    def per_compute(self) -> Breakdown:
        """Einsum, and ``all`` together -> energy and seconds for each point of the iteration space, all instances together."""
        rows: dict[str, dict[str, float]] = {}
        total = math.fsum(self.computes.values()) * self.n_instances
        if total:
            rows["all"] = {"energy": self.energy / total, "latency": self.latency / total}
        for name, figures in self.per_einsum.items():
            if points := figures["computes"] * self.n_instances:
                rows[name] = {"energy": figures["energy"] / points, "latency": figures["latency"] / points}
        return Breakdown("einsum", {"energy": self.energy_unit, "latency": "s"}, rows)

    def to_json(self) -> str:
        """Plain data; :meth:`from_json` reads it back to an equal prediction."""
        return json.dumps(_PREDICTIONS.data(PredictionText.of(self)))

    @classmethod
    def from_json(cls, text: str) -> Prediction:
        """The prediction that :meth:`to_json` wrote; :class:`ModelError` if the text is none."""
        return _PREDICTIONS.read(text).prediction()

    def __repr__(self) -> str:
        parts = f"{self.dynamic_energy:.6g} J in actions, {self.total_leak_energy:.6g} J leaked"
        lines = [f"Prediction: {self.latency:.6g} s, {self.energy_text} ({parts})"]
        if self.launches:
            lines[0] += f", {self.launches:.3g} s of it starting kernels"
        if self.n_instances != 1:
            lines[0] += f", all {self.n_instances} instances together"
        if self.latency_high:
            lines.append(f"8 in 10 kernels of this kind took {self.latency_low:.6g} to {self.latency_high:.6g} s for such a prediction")
        if self.least_latency:
            times = self.latency / self.least_latency
            lines.append(f"Floor: at least {self.least_latency:.6g} s; the prediction is {times:.3g} times that")
        slow, seconds = self.bottleneck, self.einsum_latency
        actions, leaks = self.action_energy.totals("einsum"), self.leak_energy.totals("einsum")
        energy = {einsum: actions.get(einsum, 0.0) + leaks.get(einsum, 0.0) for einsum in seconds}
        rows = [
            [einsum, slow[einsum], f"{seconds[einsum]:.6g}", f"{energy[einsum]:.6g}", f"{self.computes[einsum]:.6g}"] for einsum in seconds
        ]
        lines += ["", table(["Einsum", "bound by", "latency/s", "energy/J", "computes"], rows, numbers=3)]
        rows = [[str(memory), f"{bits:.6g}", self._share(memory, bits)] for memory, bits in self.peak.items()]
        lines += ["", table(["Memory", "peak/bits", "of its size"], rows, numbers=2)]
        rows = [["" if part is None else str(part) for part in key] + [f"{n:.6g}"] for key, n in self.actions.entries.items() if n]
        lines += ["", table(["Einsum", "component", "tensor", "action", "count"], rows, numbers=1)]
        return "\n".join(lines)

    def _share(self, memory: str, bits: float) -> str:
        size = self.sizes[memory]
        return "of inf" if math.isinf(size) else f"{100 * bits / size:.2f}%" if size else "of 0"


def joules_text(joules: float, *, assumed: bool, digits: int = 6) -> str:
    """Energy with its unit, marked where it stands on energies of actions that nobody measured."""
    return f"{joules:.{digits}g} {energy_unit(assumed=assumed)}"


def energy_unit(unit: str = "J", *, assumed: bool) -> str:
    """The unit of energies, or of what is made of them, marked as in :func:`joules_text`."""
    return f"{unit} by assumed energies" if assumed else unit


Figure = Annotated[float | Literal["inf", "-inf", "nan"], AfterValidator(float)]
"""JSON has no infinity: where it must be strict, such figures are text."""


class FiguresText(StrictModel):
    """A :class:`Figures` as JSON: axes with their known names, and rows of names with the figure last."""

    axes: list[tuple[Word, list[Word | None]]]
    rows: list[list[Word | Figure | None]]

    @classmethod
    def of(cls, figures: Figures) -> FiguresText:
        """The text of figures."""
        axes = [(kind, sorted(known, key=lambda name: (name is not None, name or ""))) for kind, known in figures.axes]
        return cls(axes=axes, rows=[[*key, figure] for key, figure in figures.entries.items()])

    @model_validator(mode="after")
    def _rows_name_what_the_axes_know(self) -> FiguresText:
        for row in self.rows:
            *key, figure = row or [None]
            if isinstance(figure, str) and figure in ("inf", "-inf", "nan"):
                figure = row[-1] = float(figure)
            if not isinstance(figure, float) or len(key) != len(self.axes) or any(isinstance(part, float) for part in key):
                raise ValueError(f"a row is {len(self.axes)} names and a figure, not {shortened(str(row))}")
        return self

    def figures(self) -> Figures:
        """The figures."""
        axes = tuple((kind, frozenset(known)) for kind, known in self.axes)
        return Figures(axes, {tuple(cast(list[str | None], row[:-1])): cast(float, row[-1]) for row in self.rows})


class TablesText(StrictModel):
    """The tables of a :class:`Prediction`."""

    actions: FiguresText
    action_energy: FiguresText
    leak_energy: FiguresText
    component_latency: FiguresText
    occupancy: FiguresText
    peak: FiguresText
    computes: FiguresText
    sizes: FiguresText
    usage: FiguresText


KernelFigure = Annotated[Figure, Field(exclude_if=lambda seconds: not seconds)]
"""Seconds that are written only where the kernel model gave them, so that predictions from before stay as they were."""


class PredictionText(StrictModel):
    """A :class:`Prediction` as JSON."""

    energy: Figure
    latency: Figure
    dynamic_energy: Figure
    total_leak_energy: Figure
    n_instances: Annotated[int, Bounded(ge=1, lt=2**63)] = 1
    least_latency: Figure = 0.0
    """Predictions that were stored earlier lack it."""
    latency_low: KernelFigure = 0.0
    latency_high: KernelFigure = 0.0
    launches: KernelFigure = 0.0
    energies_assumed: Annotated[bool, Field(exclude_if=lambda assumed: not assumed)] = False
    """Written only where it is so; predictions that were stored earlier do not say it."""
    tables: TablesText

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """The text of a prediction."""
        tables = TablesText(**{name: FiguresText.of(getattr(prediction, name)) for name in TablesText.model_fields})
        figures = {name: getattr(prediction, name) for name in cls.model_fields if name != "tables"}
        return cls(**figures, tables=tables)

    def prediction(self) -> Prediction:
        """The prediction."""
        figures, tables = {name: value for name, value in self if name != "tables"}, {name: text.figures() for name, text in self.tables}
        return Prediction(**figures, **tables)


_PREDICTIONS: Adapter[PredictionText] = Adapter(PredictionText, "prediction", ModelError)
