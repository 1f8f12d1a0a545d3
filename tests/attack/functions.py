"""Every public function with arguments that are right, from which the sweep makes wrong ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.archive.facts.retrieval import history
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.formats.spec import expect_spec
from feinsum_fuse.optimization.ranges import RangedProgram
from feinsum_fuse.patterns.registry import transforms
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.block_steps import Blockize, Tensorize
from feinsum_fuse.schedule.target import ANY_DEVICE
from feinsum_fuse.schedule.tree.nest import LoopRef
from feinsum_fuse.tuning.tuned import Tried, Tuned
from tests.archive.samples import HERE, measurement, product, tiled
from tests.model.test_kernel_time import product as on_processor

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.yaml"))
WORKLOAD = "workload: {rank_sizes: {M: 8, K: 4, N: 6}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}\n"
WHOLE = (
    WORKLOAD
    + """
arch:
  nodes:
  - !Memory
    {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: All}, actions: [{name: read, energy: 2, throughput: 8},
     {name: write, energy: 3, throughput: 8}]}
  - !Memory {name: Buffer, size: 2048, leak_power: 0, area: 0, actions: [{name: read, energy: 1, throughput: 16},
      {name: write, energy: 1, throughput: 16}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 4}]}
mapping:
  nodes:
  - !Storage {component: DRAM, tensors: [A, B, Z]}
  - !Temporal {rank_variable: m, tile_shape: 2}
  - !Storage {component: Buffer, tensors: [A]}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
)


class OneOf(tuple[object, ...]):
    """Alternatives, one of which is drawn for each call."""

    __slots__ = ()


@dataclass(frozen=True)
class Function:
    """Something to call: positional arguments that are right, and keywords of which any may be left out."""

    name: str
    function: Callable[..., object]
    arguments: tuple[object, ...] = ()
    keywords: dict[str, object] = field(default_factory=dict)
    weight: float = 1.0
    """How often it is called against the others; what builds kernels or measures takes a second and is called seldom."""


@functools.cache
def _cascades() -> tuple[Cascade, ...]:
    attention = ["S[m, p] = where(p <= m, Q[m, e] * K[p, e], 0)", "X[m] = max(S[m, p])", "E[m, p] = exp(S[m, p] - X[m])"]
    return (
        product(8, 4, 6),
        ff.cascade(attention, sizes={"M": 6, "P": 5, "E": 3}),
        ff.cascade(["Y[p] = I[H: p + r] * W[r]"], sizes={"P": 5, "R": 3, "H": 7}, dtypes={"All": "float64"}),
        _short("bfloat16"),
        _short("float32").in_four_bits("A", 4),
        ff.cascade(["S[T: m + n] = A[m, k] * B[n, k]"], sizes={"M": 4, "N": 6, "K": 8}, dtypes={"S": "int32", "Other": "int8"}),
    )


def _short(dtype: str) -> Cascade:
    return ff.cascade(["Y[m] = A[m, k] * x[k]"], sizes={"M": 3, "K": 10}, dtypes={"A": dtype, "Other": "float32"})


@functools.cache
def _specs() -> tuple[ff.Spec, ...]:
    whole = ff.loads(WHOLE)
    return whole, ff.loads(WORKLOAD)


def _arrays(cascade: Cascade) -> dict[str, object]:
    return {name: np.ones(cascade.fixed_shape(name), cascade.tensors[name].dtype) for name in cascade.inputs}


@functools.cache
def program() -> Program:
    """One that has been built."""
    return ff.compile(_specs()[0])


@functools.cache
def ranged() -> RangedProgram:
    """One for a few lengths."""
    kernel = ff.batched_einsum("ij,j->i", [[ff.array("A", ("n", 3)), ff.array("x", (3,))]]).kernel()
    return ff.optimize_range(kernel, None, {"n": (4, 8)}, points=2, tune=False, seconds=1.0)


def _reference(given: object) -> object:
    cascade, arrays = given if isinstance(given, tuple) and len(given) == 2 else (_cascades()[0], given)
    cascade = cascade if isinstance(cascade, Cascade) else _cascades()[0]
    if isinstance(arrays, dict) and all(isinstance(name, str) for name in arrays):
        return cascade.reference(**arrays)
    return cascade.reference(A=arrays)  # type: ignore[arg-type]


def _by_name(method: Callable[..., object]) -> Callable[[object], object]:
    """A method whose arguments are arrays by name."""
    return lambda arrays: method(**arrays) if isinstance(arrays, dict) and all(map(_is_name, arrays)) else method(x=arrays)


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def _called(what: Callable[[], Callable[..., object]]) -> Callable[..., object]:
    """What is made at the first call only."""
    return lambda *arguments, **keywords: what()(*arguments, **keywords)


def _recorded(folder: Path) -> tuple[str, str]:
    database, file = folder / "facts.sqlite3", folder / "facts.jsonl"
    if not file.exists():
        for factor in (2, 4):
            archive.record(measurement(product(8, 4, 6), tiled(factor=factor)), url=database)
        file.write_text("".join(f"{line}\n" for line in archive.export_facts(database)))
    return str(database), str(file)


class _Given:
    """Right arguments that several functions share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cascades, (self.whole, self.plain) = _cascades(), _specs()
        self.some, self.cascade, self.first = OneOf((self.whole, self.plain)), OneOf(self.cascades), self.cascades[0]
        self.kernels = [cascade.kernel() for cascade in self.cascades]
        self.url, self.lines = _recorded(folder)
        self.texts = OneOf((WHOLE, WORKLOAD, *(path.read_text() for path in EXAMPLES)))
        self.files = tuple(str(path) for path in EXAMPLES[0].parent.glob("*.yaml"))
        self.made, self.schedule, self.calibrated = measurement(product(8, 4, 6)), tiled(), on_processor(1, 1)
        blocks = (*self.schedule.steps, Blockize(LoopRef("Z", "k")), Tensorize(LoopRef("Z", "k"), "outer_product"))
        self.schedules = OneOf((self.schedule.to_json(), Schedule(blocks).to_json(), ff.lower(self.whole).to_json()))
        self.chain = ff.cascade(
            ["T[m, n] = A[m, k] * B[k, n]", "Y[m, q] = T[m, n] * C[n, r] * D[r, q]", "G[a, b] = X[A: a, i] * X[A: b, i]"],
            sizes={"M": 6, "K": 4, "N": 5, "R": 3, "Q": 6, "I": 6, "A": 7, "B": 7},
        )
        softmax = ["W[m, p] = softmax(S[m, p], p)", "O[m, f] = W[m, p] * V[p, f]"]
        self.attention = ff.cascade(softmax, sizes={"M": 4, "P": 5, "F": 3})
        self.rows = ff.cascade("Z[a, b, c] = A[a, b, c] * x[a]", sizes={"A": 3, "B": 4, "C": 5})
        self.running = ff.cascade("Z[m, j] = where(k <= j, X[m, K: k], 0)", sizes={"M": 3, "J": 10, "K": 10})
        self.symbolic = ff.batched_einsum("ij,j->i", [[ff.array("A", ("n", 3)), ff.array("x", (3,))]]).kernel()
        self.matched, self.prediction = ff.match(self.kernels[0]), ff.predict(self.whole)
        self.found, self.curve = ff.search(self.whole, seconds=2.0), ff.curve(self.whole, "Buffer")
        tried = Tried(self.whole, "", "default", 2e-6, 1e-6, Outcome.ok)
        program = cast(Program, None)  # none of what is called asks it
        self.tuned = Tuned(program, self.made, self.made, None, (tried,), 1e-7, 1.0, self.made.provenance.device, ())
        self.saved = folder / "saved.yaml"
        self.saved.write_text(WHOLE)
        self.found.save(folder / "result.yaml")
        self.lines_of = OneOf(
            (
                ["T[m, n] = A[m, k] * B[k, n]", "Y[m] = max(T[m, n])"],
                ["Y[p] = I[H: 2 * p + r] * W[r]"],
                ["S[m, p] = where(p <= m, exp(Q[m] - K[p]), -inf)", "Z[m] = max(S[m, p])"],
            )
        )


def functions(folder: Path) -> Sequence[Function]:
    """All of them."""
    given = _Given(folder)
    return tuple(function for table in TABLES for function in table(given))


def _reading(given: _Given) -> tuple[Function, ...]:
    """What reads, matches, lowers and predicts."""
    return (
        Function("array", ff.array, ("A", (4, 4), "float32"), {}, 2),
        Function(
            "batched_einsum",
            ff.batched_einsum,
            ("ij,j->i", [[ff.array("A", (4, 3)), ff.array("x", (3,))]]),
            {"names": ["y"], "dtype": "float64"},
            3,
        ),
        Function("blocks", ff.blocks, (OneOf(given.kernels),)),
        Function("bounds", ff.bounds, (given.some,), {"cold": True}, 2),
        Function(
            "cascade lines",
            ff.cascade,
            (given.lines_of,),
            {"sizes": OneOf(({"M": 4, "K": 3, "N": 2, "P": 4, "R": 2, "H": 9}, {})), "dtypes": {"All": "float32"}},
            8,
        ),
        Function("cascade spec", ff.cascade, (given.some,), {}, 1),
        Function("default_mapping", ff.default_mapping, (given.cascade,), {"limits": None, "opencl": None}, 0.5),
        Function("explain", ff.explain, (given.calibrated,), {"cold": True}, 0.05),
        Function(
            "intrinsic",
            ff.intrinsic,
            ("Y[i] = X[i]",),
            {"types": "float32", "memories": {"Y": "global"}, "sizes": {"i": 4}, "together": {"X": "i"}, "usual": False},
            0.5,
        ),
        Function("intrinsics", ff.intrinsics, (), {}, 0.1),
        Function("load", ff.load, given.files, {"variables": {"M": 4}, "include_dirs": [str(given.folder)]}, 2),
        Function("loads", ff.loads, (given.texts,), {"variables": {"M": 4}, "base": str(given.folder)}, 6),
        Function("lower", ff.lower, (given.some,), {"limits": None}, 1),
        Function("match", ff.match, (OneOf(given.kernels),), {"instructions": None, "kernel_name": None}, 1),
        Function("predict", ff.predict, (given.some,), {"cold": False}, 2),
        Function("predict_many", ff.predict_many, (given.whole, {(1,): np.array([1, 2, 4])}), {}, 3),
        Function("spec", ff.spec, (given.first,), {"arch": given.whole.arch, "mapping": given.whole.mapping, "opencl": None}, 2),
        Function("raise_mapping", ff.raise_mapping, (given.schedule.apply(given.kernels[0]),), {"onto": None}, 0.3),
        Function("tensorizations", ff.tensorizations, (OneOf(given.kernels),), {}, 0.3),
        Function("transforms_for", ff.transforms_for, (given.cascade,), {}, 0.3),
    )


def _compiling(given: _Given) -> tuple[Function, ...]:
    """What builds kernels, runs them and measures."""
    return (
        Function("calibrate", ff.calibrate, ("nonesuch",), {"quick": True}, 0.5),
        Function("compile", ff.compile, (given.some,), {"device": "pocl", "timeout_s": 30.0}, 0.03),
        Function(
            "einsum",
            ff.einsum,
            ("mk,kn->mn", np.ones((3, 2), "f4"), np.ones((2, 4), "f4")),
            {"dtype": "f4", "order": "C", "casting": "safe", "optimize": False, "url": given.url},
            0.3,
        ),
        Function(
            "measure",
            ff.measure,
            (OneOf((given.whole, given.made)),),
            {"repeats": 1, "cold": False, "label": "x", "timeout_s": 30.0},
            0.03,
        ),
        Function("optimize", ff.optimize, (OneOf(given.kernels), HERE), {"url": given.url}, 0.1),
        Function(
            "optimize_range",
            ff.optimize_range,
            (given.symbolic, HERE, {"n": (4, 8)}),
            {"points": 2, "tune": False, "seconds": 1.0},
            0.1,
        ),
        Function("Program.export", _called(lambda: program().export), (str(given.folder / "exported"),), {"name": "program"}, 0.5),
        Function("Program", _called(program), (), _arrays(given.first), 2),
        Function("Program.pack", _called(lambda: program().pack), (), _arrays(given.first), 1),
    )


def _facts(given: _Given) -> tuple[Function, ...]:
    """What records and asks."""
    return (
        Function("query", ff.query, (given.cascade, HERE), {"limit": 3, "outcome": "ok", "url": given.url}, 2),
        Function("forget", ff.forget, ("0",), {"url": given.url}, 0.5),
        Function("record", ff.record, (given.made,), {"prediction": None, "url": given.url}, 0.5),
        Function("retrieve", ff.retrieve, (OneOf((*given.cascades, given.kernels[0], given.plain)), HERE), {"url": given.url}, 2),
        Function("history", history, (given.made,), {"url": given.url}, 0.5),
        Function("export_facts", lambda url: list(archive.export_facts(url)), (given.url,), {}, 1),
        Function("import_facts", archive.import_facts, (given.lines,), {"url": given.url}, 1),
        Function("merge", archive.merge, ([],), {"url": given.url}, 1),
        Function("migrate", archive.migrate, (), {"url": given.url}, 1),
        Function("Fact.apply", ff.retrieve(given.first, HERE, given.url).apply, (given.kernels[0],), {"instructions": ["Z"]}, 0.1),
    )


def _searching(given: _Given) -> tuple[Function, ...]:
    """What searches, and what comes of it."""
    return (
        Function("search", ff.search, (given.whole,), {"objective": "energy", "seconds": 2.0, "top": 1, "tolerance": 0.1}, 0.05),
        Function(
            "tune",
            ff.tune,
            (OneOf((given.whole, *given.cascades)), "pocl"),
            {"seconds": 1.0, "measurements": 1, "seed": 0, "url": given.url},
            0.01,
        ),
        Function("curve", ff.curve, (given.whole, "Buffer"), {"kind": "all"}, 0.05),
        Function("explore", ff.explore, (given.whole, {"Buffer.size": [1024.0, 2048.0]}), {"objective": "energy"}, 0.05),
        Function("Result.load", type(given.found).load, (str(given.folder / "result.yaml"),), {}, 1),
        Function("Result.loads", type(given.found).loads, (given.found.to_yaml(),), {}, 2),
        Function("Result.save", given.found.save, (str(given.folder / "result.yaml"),), {}, 0.5),
        Function("Result.plot", given.found.plot, (None,), {}, 0.2),
        Function("Tuned.plot", given.tuned.plot, (None,), {}, 0.2),
        Function("Curve.at", given.curve.at, (1024.0,), {}, 0.5),
        Function("Curve.height", given.curve.height, (given.curve.points[0],), {}, 0.5),
    )


def _values(given: _Given) -> tuple[Function, ...]:
    """Methods of cascades, schedules, measurements and predictions."""
    return (
        Function(
            "Spec.replace",
            given.whole.replace,
            (),
            {"mapping": given.whole.mapping, "workload": given.whole.workload, "arch": given.whole.arch},
            2,
        ),
        Function("quantize4", ff.quantize4, (np.ones((3, 8), np.float32),), {"group": 4}, 0.5),
        Function("dequantize4", ff.dequantize4, (np.ones((3, 2, 2), np.uint8), np.ones((3, 2), np.float32)), {"length": 7}, 0.5),
        Function("Spec.to_yaml", lambda spec: ff.loads(expect_spec(spec).to_yaml()), (given.some,), {}, 0.5),
        Function("Cascade.reference", _reference, (OneOf((c, _arrays(c)) for c in given.cascades),), {}, 4),
        Function("Cascade.fixed_shape", given.first.fixed_shape, (OneOf(given.first.tensors),), {}, 1),
        Function("Cascade.tolerance", given.first.tolerance, (), {"sizes": {}}, 1),
        Function("Cascade.einsum", given.first.einsum, (given.first.einsums[0].name,), {}, 1),
        Function("Prediction.actions", lambda key: given.prediction.actions[key], (("Z", "DRAM", "A", "read"),), {}, 2),
        Function("Figures.total", given.prediction.actions.total, (), {"component": "DRAM", "einsum": "Z"}, 0.5),
        Function("Figures.totals", given.prediction.actions.totals, ("component",), {}, 0.5),
        Function("Prediction.from_json", type(given.prediction).from_json, (given.prediction.to_json(),), {}, 2),
        Function("Schedule.from_json", Schedule.from_json, (given.schedules,), {}, 4),
        Function("Schedule of JSON", lambda text: Schedule.from_json(text).apply(given.kernels[0]), (given.schedules,), {}, 3),
        Function("Schedule of steps", lambda *steps: Schedule(steps).apply(given.kernels[0]), ff.lower(given.whole).steps, {}, 2),
        Function("Schedule.apply", given.schedule.apply, (given.kernels[0],), {"names": None}, 1),
        Function("Schedule.upto", given.schedule.upto, (1,), {}, 1),
        Function("Measurement.from_json", type(given.made).from_json, (given.made.to_json(),), {}, 3),
        Function("Spec.save_mapping", given.whole.save_mapping, (str(given.saved),), {}, 0.5),
        Function("Cascade.kernel", lambda: given.chain.kernel(), (), {}, 0.1),
        Function("Match.reference", _by_name(given.matched.reference), (_arrays(given.first),), {}, 1),
        Function("Match.alternatives", _by_name(given.matched.alternatives), (_arrays(given.first),), {}, 0.5),
        Function("Schedule.nest", given.schedule.nest, (given.kernels[0],), {}, 0.5),
        Function("Schedule.renamed", given.schedule.renamed, ({"Z": "Y"}, {("Z", "m"): "i"}, {"A": "X"}), {}, 0.5),
    )


def _rewriting(given: _Given) -> tuple[Function, ...]:
    """What makes a cascade of another."""
    return (
        Function("Cascade.contract", given.chain.contract, ("Y",), {"path": [(1, 2), (0, 1)], "optimize": "greedy"}, 1),
        Function("Cascade.one_pass", given.chain.one_pass, ("T", "k", 2), {}, 0.5),
        Function("Cascade.online", given.attention.online, ("W",), {}, 0.5),
        Function("Cascade.split_reduction", given.chain.split_reduction, ("T", "k", 2), {}, 1),
        Function("Cascade.recompute", given.chain.recompute, ("T",), {}, 0.5),
        Function("Cascade.share", given.chain.share, ("T", "G"), {}, 0.5),
        Function("Cascade.triangle", given.chain.triangle, ("G", "a", "b"), {}, 0.5),
        Function("Cascade.pack", given.chain.pack, ("T", 1, ["n", "k"]), {}, 0.5),
        Function("Cascade.scan", given.running.scan, ("Z", 4), {}, 0.5),
        Function("Cascade.join", given.rows.join, ("A", 1), {}, 0.5),
        Function("Cascade.unpack", given.chain.unpack, ("T", ["n", "m"]), {}, 0.5),
        Function("Cascade.batch", given.chain.batch, ("T", "Y"), {}, 0.5),
        Function("Cascade.unbatch", given.chain.unbatch, ("T",), {}, 0.5),
        Function("Cascade.in_four_bits", given.chain.in_four_bits, ("B",), {"group": 4}, 0.5),
        Function("Cascade.canonical", given.chain.canonical, (), {"maps": False}, 0.2),
    )


def _transforming(given: _Given) -> tuple[Function, ...]:
    """What the catalogue's transforms are asked, and a program for a range of lengths."""
    known = tuple(transforms().values())
    one = next(transform for transform in known if transform.applies_to(given.first))
    usual = next(iter(one.points(given.first)))
    arrays = {"A": np.ones((5, 3)), "x": np.ones(3)}
    return (
        Function("Transform.applies_to", one.applies_to, (given.cascade,), {}, 0.3),
        Function("Transform.matched", one.matched, (given.cascade,), {}, 0.3),
        Function("Transform.values", one.values, (given.cascade,), {}, 0.3),
        Function("Transform.points", lambda *given: list(one.points(*given)), (given.first, ANY_DEVICE), {}, 0.3),
        Function("Transform.sketch", one.sketch, (given.first, ANY_DEVICE), {**usual}, 0.3),
        Function("Transform.apply", one.apply, (given.first, ANY_DEVICE), {**usual}, 0.3),
        Function("RangedProgram", _called(ranged), (), arrays, 1),
        Function("RangedProgram.lengths", _called(lambda: ranged().lengths), (arrays,), {}, 0.3),
        Function("RangedProgram.ready", _called(lambda: ranged().ready), ((5,),), {}, 0.3),
        Function("RangedProgram.part", _called(lambda: ranged().part), ((5,),), {}, 0.3),
    )


TABLES = (_reading, _compiling, _facts, _searching, _values, _rewriting, _transforming)
