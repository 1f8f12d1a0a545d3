"""Every public function with arguments that are right, from which the sweep makes wrong ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.archive.facts.retrieval import history
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.formats.spec import expect_spec
from feinsum_fuse.schedule.schedule import Schedule
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
    )


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


def _facts(folder: Path) -> tuple[str, str]:
    database, file = folder / "facts.sqlite3", folder / "facts.jsonl"
    if not file.exists():
        for factor in (2, 4):
            archive.record(measurement(product(8, 4, 6), tiled(factor=factor)), url=database)
        file.write_text("".join(f"{line}\n" for line in archive.export_facts(database)))
    return str(database), str(file)


def functions(folder: Path) -> Sequence[Function]:
    """All of them."""
    cascades, (whole, plain) = _cascades(), _specs()
    some, cascade = OneOf((whole, plain)), OneOf(cascades)
    kernels = [cascade.kernel() for cascade in cascades]
    url, lines = _facts(folder)
    prediction = ff.predict(whole)
    texts = OneOf((WHOLE, WORKLOAD, *(path.read_text() for path in EXAMPLES)))
    files = tuple(str(path) for path in EXAMPLES[0].parent.glob("*.yaml"))
    made, schedule = measurement(product(8, 4, 6)), tiled()
    first, calibrated = cascades[0], on_processor(1, 1)
    chain = ff.cascade(
        ["T[m, n] = A[m, k] * B[k, n]", "Y[m, q] = T[m, n] * C[n, r] * D[r, q]", "G[a, b] = X[A: a, i] * X[A: b, i]"],
        sizes={"M": 6, "K": 4, "N": 5, "R": 3, "Q": 6, "I": 6, "A": 7, "B": 7},
    )
    attention = ff.cascade(["W[m, p] = softmax(S[m, p], p)", "O[m, f] = W[m, p] * V[p, f]"], sizes={"M": 4, "P": 5, "F": 3})
    symbolic = ff.batched_einsum("ij,j->i", [[ff.array("A", ("n", 3)), ff.array("x", (3,))]]).kernel()
    matched, found, curve = ff.match(kernels[0]), ff.search(whole, seconds=2.0), ff.curve(whole, "Buffer")
    saved = folder / "saved.yaml"
    saved.write_text(WHOLE)
    found.save(folder / "result.yaml")
    lines_of = OneOf(
        (
            ["T[m, n] = A[m, k] * B[k, n]", "Y[m] = max(T[m, n])"],
            ["Y[p] = I[H: 2 * p + r] * W[r]"],
            ["S[m, p] = where(p <= m, exp(Q[m] - K[p]), -inf)", "Z[m] = max(S[m, p])"],
        )
    )
    return (
        Function("array", ff.array, ("A", (4, 4), "float32"), {}, 2),
        Function(
            "batched_einsum",
            ff.batched_einsum,
            ("ij,j->i", [[ff.array("A", (4, 3)), ff.array("x", (3,))]]),
            {"names": ["y"], "dtype": "float64"},
            3,
        ),
        Function("blocks", ff.blocks, (OneOf(kernels),)),
        Function("bounds", ff.bounds, (some,), {"cold": True}, 2),
        Function("calibrate", ff.calibrate, ("nonesuch",), {"quick": True}, 0.5),
        Function(
            "cascade lines",
            ff.cascade,
            (lines_of,),
            {"sizes": OneOf(({"M": 4, "K": 3, "N": 2, "P": 4, "R": 2, "H": 9}, {})), "dtypes": {"All": "float32"}},
            8,
        ),
        Function("cascade spec", ff.cascade, (some,), {}, 1),
        Function("compile", ff.compile, (some,), {"device": "pocl", "timeout_s": 30.0}, 0.03),
        Function("default_mapping", ff.default_mapping, (cascade,), {"limits": None, "opencl": None}, 0.5),
        Function(
            "einsum",
            ff.einsum,
            ("mk,kn->mn", np.ones((3, 2), "f4"), np.ones((2, 4), "f4")),
            {"dtype": "f4", "order": "C", "casting": "safe", "optimize": False, "url": url},
            0.3,
        ),
        Function("explain", ff.explain, (calibrated,), {"cold": True}, 0.05),
        Function("load", ff.load, files, {"variables": {"M": 4}, "include_dirs": [str(folder)]}, 2),
        Function("loads", ff.loads, (texts,), {"variables": {"M": 4}, "base": str(folder)}, 6),
        Function("lower", ff.lower, (some,), {"limits": None}, 1),
        Function("match", ff.match, (OneOf(kernels),), {"instructions": None, "kernel_name": None}, 1),
        Function("measure", ff.measure, (OneOf((whole, made)),), {"repeats": 1, "cold": False, "label": "x", "timeout_s": 30.0}, 0.03),
        Function("optimize", ff.optimize, (OneOf(kernels[:1]), HERE), {"url": url}, 0.03),
        Function("predict", ff.predict, (some,), {"cold": False}, 2),
        Function("predict_many", ff.predict_many, (whole, {(1,): np.array([1, 2, 4])}), {}, 3),
        Function("query", ff.query, (cascade, HERE), {"limit": 3, "outcome": "ok", "url": url}, 2),
        Function("forget", ff.forget, ("0",), {"url": url}, 0.5),
        Function("record", ff.record, (made,), {"prediction": None, "url": url}, 0.5),
        Function("retrieve", ff.retrieve, (OneOf((*cascades, kernels[0], plain)), HERE), {"url": url}, 2),
        Function("optimize", ff.optimize, (OneOf(kernels), HERE), {"url": url}, 0.1),
        Function("optimize_range", ff.optimize_range, (symbolic, HERE, {"n": (4, 8)}), {"points": 2, "tune": False, "seconds": 1.0}, 0.1),
        Function("search", ff.search, (whole,), {"objective": "energy", "seconds": 2.0, "top": 1, "tolerance": 0.1}, 0.05),
        Function("tune", ff.tune, (OneOf((whole, *cascades)), "pocl"), {"seconds": 1.0, "measurements": 1, "seed": 0, "url": url}, 0.01),
        Function("curve", ff.curve, (whole, "Buffer"), {"kind": "all"}, 0.05),
        Function("explore", ff.explore, (whole, {"Buffer.size": [1024.0, 2048.0]}), {"objective": "energy"}, 0.05),
        Function("spec", ff.spec, (first,), {"arch": whole.arch, "mapping": whole.mapping, "opencl": None}, 2),
        Function("history", history, (made,), {"url": url}, 0.5),
        Function("export_facts", lambda url: list(archive.export_facts(url)), (url,), {}, 1),
        Function("import_facts", archive.import_facts, (lines,), {"url": url}, 1),
        Function("merge", archive.merge, ([],), {"url": url}, 1),
        Function("migrate", archive.migrate, (), {"url": url}, 1),
        Function("Spec.replace", whole.replace, (), {"mapping": whole.mapping, "workload": whole.workload, "arch": whole.arch}, 2),
        Function("Spec.to_yaml", lambda spec: ff.loads(expect_spec(spec).to_yaml()), (some,), {}, 0.5),
        Function("Cascade.reference", _reference, (OneOf((c, _arrays(c)) for c in cascades),), {}, 4),
        Function("Cascade.fixed_shape", first.fixed_shape, (OneOf(first.tensors),), {}, 1),
        Function("Cascade.tolerance", first.tolerance, (), {"sizes": {}}, 1),
        Function("Cascade.einsum", first.einsum, (first.einsums[0].name,), {}, 1),
        Function("Prediction.actions", lambda key: prediction.actions[key], (("Z", "DRAM", "A", "read"),), {}, 2),
        Function("Prediction.from_json", type(prediction).from_json, (prediction.to_json(),), {}, 2),
        Function("Schedule.from_json", Schedule.from_json, (schedule.to_json(),), {}, 4),
        Function("Schedule.apply", schedule.apply, (kernels[0],), {"names": None}, 1),
        Function("Schedule.upto", schedule.upto, (1,), {}, 1),
        Function("Measurement.from_json", type(made).from_json, (made.to_json(),), {}, 3),
        Function("Spec.save_mapping", whole.save_mapping, (str(saved),), {}, 0.5),
        Function("Cascade.contract", chain.contract, ("Y",), {"path": [(1, 2), (0, 1)], "optimize": "greedy"}, 1),
        Function("Cascade.one_pass", chain.one_pass, ("T", "k", 2), {}, 0.5),
        Function("raise_mapping", ff.raise_mapping, (schedule.apply(kernels[0]),), {"onto": None}, 0.3),
        Function("transforms_for", ff.transforms_for, (cascade,), {}, 0.3),
        Function("Cascade.online", attention.online, ("W",), {}, 0.5),
        Function("Cascade.split_reduction", chain.split_reduction, ("T", "k", 2), {}, 1),
        Function("Cascade.triangle", chain.triangle, ("G", "a", "b"), {}, 0.5),
        Function("Cascade.pack", chain.pack, ("T", 1, ["n", "k"]), {}, 0.5),
        Function("Cascade.batch", chain.batch, ("T", "Y"), {}, 0.5),
        Function("Cascade.unbatch", chain.unbatch, ("T",), {}, 0.5),
        Function("Cascade.canonical", chain.canonical, (), {"maps": False}, 0.2),
        Function("Cascade.kernel", lambda: chain.kernel(), (), {}, 0.1),
        Function("Match.reference", _by_name(matched.reference), (_arrays(first),), {}, 1),
        Function("Match.alternatives", _by_name(matched.alternatives), (_arrays(first),), {}, 0.5),
        Function("Schedule.nest", schedule.nest, (kernels[0],), {}, 0.5),
        Function("Schedule.renamed", schedule.renamed, ({"Z": "Y"}, {("Z", "m"): "i"}, {"A": "X"}), {}, 0.5),
        Function("Result.load", type(found).load, (str(folder / "result.yaml"),), {}, 1),
        Function("Result.loads", type(found).loads, (found.to_yaml(),), {}, 2),
        Function("Result.save", found.save, (str(folder / "result.yaml"),), {}, 0.5),
        Function("Result.plot", found.plot, (None,), {}, 0.2),
        Function("Curve.at", curve.at, (1024.0,), {}, 0.5),
        Function("Curve.height", curve.height, (curve.points[0],), {}, 0.5),
        Function("Fact.apply", ff.retrieve(first, HERE, url).apply, (kernels[0],), {"instructions": ["Z"]}, 0.1),
        Function("Program.export", _called(lambda: program().export), (str(folder / "exported"),), {"name": "program"}, 0.5),
        Function("Program", _called(program), (), _arrays(first), 2),
        Function("Program.pack", _called(lambda: program().pack), (), _arrays(first), 1),
    )
