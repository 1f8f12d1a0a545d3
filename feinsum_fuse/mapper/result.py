"""What a search finds."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ..arguments import NOTHING, PATH, PLOT_AXES, TEXT, expect
from ..errors import SearchError
from ..formats.mapping import Mapping as LoopTree
from ..formats.reading.files import read_text
from ..formats.reading.load import loads
from ..formats.spec import Spec
from ..formats.validation.adapter import Adapter, StrictModel
from ..model.evaluation import predict
from ..model.prediction import Prediction, energy_unit
from ..presentation import InNotebooks, table, yaml
from ..whole_file import write_whole
from .options import gap
from .request.flips import differing, flipped, with_einsums

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNITS = {"energy": "J", "latency": "s", "edp": "J s"}
"""Objective -> its unit."""
MARK = "# feinsum_fuse search: "
"""Begins the comment that holds what of a result is no Spec, so that other readers load the file as the best mapping's."""


@dataclass(frozen=True)
class Found:
    """One mapping with its figures, all instances together; units J, s, bits."""

    spec: Spec
    energy: float
    latency: float
    peak: Mapping[str, float]
    """Memory -> the most bits alive at once; memories of finite size."""

    @property
    def mapping(self) -> LoopTree:
        """The LoopTree."""
        assert self.spec.mapping is not None
        return self.spec.mapping

    @property
    def energy_delay_product(self) -> float:
        """Energy times latency, J s."""
        return self.energy * self.latency

    @property
    def energies_assumed(self) -> bool:
        """Whether the architecture's energies are assumed, as those of a calibration are: then this one is, too."""
        return self.spec.arch is not None and self.spec.arch.energies_assumed

    @cached_property
    def prediction(self) -> Prediction:
        """Everything that the model says of it."""
        return predict(self.spec)


@dataclass(frozen=True)
class SpaceSize:
    """How large the space is and how much of it was looked at."""

    mappings: float = 0.0
    """Decimal logarithm of the number of mappings, as AccelForge counts: orders of nodes times tile shapes, of all Einsums."""
    evaluated: int = 0
    """Places of holders evaluated."""
    kept: int = 0
    """Partial mappings of one Einsum that no other dominates, within budget."""
    joined: int = 0
    """Pairs of partial mappings that were joined."""


@dataclass(frozen=True)
class SearchStage:
    """One stage of a search: what was proved and found by its end."""

    name: str
    seconds: float
    floor: float
    incumbent: float
    rows: int


@dataclass(frozen=True)
class Result(InNotebooks):
    """The best mapping, or a front, with what is proved of it."""

    objective: str
    front: tuple[Found, ...]
    """The ``top`` best in order, or the Pareto set in order of its first axis."""
    floor: float
    """No mapping of the space has a lower objective; J, s or J s."""
    proved: bool
    """Whether the first of the front is optimal, up to the ``tolerance`` asked for, and the front complete."""
    space: SpaceSize = SpaceSize()
    log: tuple[SearchStage, ...] = ()
    omitted: tuple[str, ...] = ()
    """Parts of the architecture's own space that were not searched; what is proved all the same, the floor bounds with them."""

    @property
    def best(self) -> Spec:
        """The Spec with the best mapping."""
        return self.front[0].spec

    @property
    def value(self) -> float:
        """The objective of the best mapping."""
        return value_of(self.objective, self.front[0])

    @property
    def gap(self) -> float:
        """How much better a mapping could be than the best one, as a fraction of it."""
        return 0.0 if self.proved else gap(self.value, self.floor)

    @property
    def energies_assumed(self) -> bool:
        """Whether the mappings' energies stand on assumed ones of actions."""
        return self.front[0].energies_assumed

    @property
    def energy_unit(self) -> str:
        """J, marked where energies are assumed."""
        return energy_unit(assumed=self.energies_assumed)

    @property
    def unit(self) -> str:
        """The unit of the objective, marked likewise."""
        unit = UNITS[self.objective]
        return unit if self.objective == "latency" else energy_unit(unit, assumed=self.energies_assumed)

    def table(self) -> str:
        """The front as text: one line a mapping."""
        memories = sorted({name for found in self.front for name in found.peak})
        head = ["", f"energy / {self.energy_unit}", "latency / s", *(f"{name} / bits" for name in memories)]
        rows = [
            [str(number), f"{f.energy:.6g}", f"{f.latency:.6g}", *(f"{f.peak.get(name, 0):.6g}" for name in memories)]
            for number, f in enumerate(self.front, 1)
        ]
        return table(head, rows)

    def __repr__(self) -> str:
        state = "optimal" if self.proved else f"gap {self.gap:.3g}"
        return f"{self.objective} {self.value:.6g} {self.unit}, {state}\n{self.table()}\n{self.front[0].mapping}"

    def plot(self, axes: Axes | None = None) -> Axes:
        """The front, latency against energy, into these axes of matplotlib's or new ones."""
        expect(axes, NOTHING | PLOT_AXES, "axes", SearchError)
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.figure().add_subplot()
        axes.plot([f.energy for f in self.front], [f.latency for f in self.front], "o")
        axes.set_xlabel(f"energy / {self.energy_unit}")
        axes.set_ylabel("latency / s")
        return axes

    def to_yaml(self) -> str:
        """YAML of the best Spec, which any reader of AccelForge's files loads; the rest stands in a comment, for :meth:`loads`."""
        rest = {
            "objective": self.objective,
            "floor": _written(self.floor),
            "proved": self.proved,
            "omitted": self.omitted,
            "space": vars(self.space),
            "log": [{**vars(stage), "floor": _written(stage.floor), "incumbent": _written(stage.incumbent)} for stage in self.log],
            "front": [self._entry(found) for found in self.front],
        }
        return f"{self.best.to_yaml()}\n{MARK}{json.dumps(rest)}\n"

    def _entry(self, found: Found) -> dict[str, object]:
        """What of a mapping stands in the comment; ``flipped``: Einsums whose operands have other roles than in the best."""
        flipped = differing(self.best.workload, found.spec.workload)
        entry = {"energy": found.energy, "latency": found.latency, "peak": dict(found.peak), "mapping": yaml(found.mapping)}
        return {**entry, "flipped": flipped} if flipped else entry

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_yaml` to a file; :class:`SearchError` if it cannot be written, and then it stays as it was."""
        expect(path, PATH, "the file of a result", SearchError)
        try:
            write_whole(Path(path), self.to_yaml())
        except OSError as error:
            raise SearchError(f"{path} cannot be written: {error.strerror}.") from error

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """The result in a file that :meth:`save` wrote; :class:`SearchError` if there is none in it, and
        :class:`~feinsum_fuse.errors.SpecError` for a file that cannot be read."""
        expect(path, PATH, "the file of a result", SearchError)
        return cls.loads(read_text(Path(path), str(path)))

    @classmethod
    def loads(cls, text: str) -> Result:
        """The result in a text of :meth:`to_yaml`; raises as :meth:`load` does."""
        expect(text, TEXT, "the text of a result", SearchError)
        line = next((line for line in text.splitlines() if line.startswith(MARK)), None)
        if line is None:
            raise SearchError("The file holds no result of a search.", hint="ff.load reads its mapping, if it has one.")
        bare = loads(text).replace(mapping=None)
        rest = _REST.read(line.removeprefix(MARK))
        front = tuple(Found(with_mapping(bare, e.mapping, e.flipped), e.energy, e.latency, e.peak) for e in rest.front)
        log = tuple(SearchStage(s.name, s.seconds, float(s.floor), float(s.incumbent), s.rows) for s in rest.log)
        return cls(rest.objective, front, float(rest.floor), rest.proved, rest.space, log, tuple(rest.omitted))


_Figure = float | Literal["inf", "-inf", "nan"]
"""A number as :func:`_written` writes it."""


class _EntryText(StrictModel):
    mapping: str
    energy: float
    latency: float
    peak: dict[str, float]
    flipped: tuple[str, ...] = ()


class _StageText(StrictModel):
    name: str
    seconds: float
    floor: _Figure
    incumbent: _Figure
    rows: int


class _RestText(StrictModel):
    """What of a result stands in the comment."""

    objective: Literal["energy", "latency", "edp"]
    floor: _Figure
    proved: bool
    omitted: list[str]
    space: SpaceSize
    log: list[_StageText]
    front: Annotated[list[_EntryText], Field(min_length=1)]


_REST: Adapter[_RestText] = Adapter(_RestText, "result of a search", SearchError)


def with_mapping(bare: Spec, mapping: str, names: Collection[str]) -> Spec:
    """The Spec with a mapping, the operands of these Einsums flipped."""
    workload = with_einsums(bare.workload, [flipped(einsum) for einsum in bare.workload.einsums if einsum.name in names])
    return loads(f"{bare.replace(workload=workload).to_yaml()}\n{mapping}")


def value_of(objective: str, found: Found) -> float:
    """The objective of a mapping."""
    return {"energy": found.energy, "latency": found.latency, "edp": found.energy_delay_product}[objective]


def _written(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
