"""How many kernels of other projects are matched, and right: their test suites are run, and every kernel that they launch is looked at.

    python benchmarks/foreign_kernels.py pytato=CHECKOUT loopy=CHECKOUT grudge=CHECKOUT meshmode=CHECKOUT [--data FILE]

A checkout is a git work tree whose tests run here (pytato's needs its package's requirements, grudge's and meshmode's want arraycontext).
Where an array context transforms kernels, they are looked at as they are before; of a test with many parameters some cases are run.
A kernel holds an einsum if an instruction sums products of two elements or more. It counts as matched if the matched instructions do 80 %
of its arithmetic, and as right if the kernel after the first step of a schedule, run by loopy on the arguments of the test, gives what the
kernel itself gave. Counts, reasons of refusals and the commits are written to ``--data``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from loopy.symbolic import Reduction, SubstitutionRuleExpander, UncachedWalkMapper
from loopy.target.pyopencl_execution import PyOpenCLExecutor
from pymbolic import primitives as p

import feinsum_fuse as ff
from feinsum_fuse.archive.key.recognition import recognised
from feinsum_fuse.cascades.matching.array_types import Refusal
from feinsum_fuse.cascades.matching.instruction import loop_extents
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate

DATA = Path(__file__).with_name("foreign_data") / "counts.json"
SUITES = {
    "pytato": ("test/test_codegen.py", "test/test_apps.py", "test/test_linalg.py"),
    "loopy": ("test/test_linalg.py", "test/test_einsum.py", "test/test_dg.py"),
    "feinsum": ("test",),
    "grudge": ("test/test_op.py", "test/test_grudge.py"),
    "meshmode": ("test/test_array.py", "test/test_modal.py", "test/test_meshmode.py", "test/test_refinement.py", "test/test_connection.py"),
}
MOST_CASES = {"grudge": 3, "meshmode": 3}
"""Of each test, by project: its parameters are mesh sizes and orders, which kernels have as symbols."""
SELECTED = {"pytato": "einsum or matmul or dot or csr or call or reduction or sum or linalg or outline or function"}
ENOUGH = 0.8
"""The share of a kernel's arithmetic that a match must cover."""
CLOSE = 1e-4
"""Relative to the largest magnitude; single precision and another order of sums allowed for."""


@dataclass(frozen=True)
class Seen:
    """What came of one kernel."""

    test: str
    holds_einsum: bool
    share: float
    outcome: str
    """``right``, ``wrong``, or the reason why it was refused."""


def _factors(expr: p.Product) -> Iterator[object]:
    for child in expr.children:
        yield from _factors(child) if isinstance(child, p.Product) else (child,)


class _Arithmetic(UncachedWalkMapper):  # type: ignore[misc]
    """Counts operations, and looks for sums of products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.products_summed = False
        self.factors = 0

    def map_sum(self, expr: p.Sum) -> None:
        self.count += len(expr.children) - 1
        super().map_sum(expr)

    def map_product(self, expr: p.Product) -> None:
        self.count += len(expr.children) - 1
        self.factors = max(self.factors, sum(isinstance(factor, p.Subscript | p.Call) for factor in _factors(expr)))
        super().map_product(expr)

    def map_quotient(self, expr: p.Quotient) -> None:
        self.count += 1
        super().map_quotient(expr)

    def map_call(self, expr: p.Call) -> None:
        self.count += 1
        for child in expr.parameters:
            self.rec(child)

    def map_reduction(self, expr: Reduction) -> None:
        self.count += 1
        inside = _Arithmetic()
        inside.rec(expr.expr)
        self.products_summed = self.products_summed or inside.factors >= 2 or inside.products_summed
        super().map_reduction(expr)


def arithmetic(kernel: lp.LoopKernel, insn: lp.InstructionBase) -> tuple[float, bool]:
    """Operations of an instruction in all its loops, and whether it sums products."""
    walk = _Arithmetic()
    if not isinstance(insn, lp.Assignment):
        return 1.0, False
    walk(SubstitutionRuleExpander(kernel.substitutions)(insn.expression))
    try:
        extents = loop_extents(kernel, sorted(insn.within_inames | insn.reduction_inames()))
        points = float(np.prod([extent if isinstance(extent, int) else 100 for extent in extents.values()], initial=1.0))
    except Refusal:
        points = 1.0
    return walk.count * points, walk.products_summed


def outcome(
    t_unit: lp.TranslationUnit, run: Callable[[lp.TranslationUnit], dict[str, np.ndarray]], given: dict[str, np.ndarray]
) -> tuple[float, str]:
    """The share of the arithmetic that is matched, and what came of it."""
    kernel = t_unit.default_entrypoint
    work = {insn.id: arithmetic(kernel, insn)[0] for insn in kernel.instructions}
    try:
        found = recognised(t_unit)
    except ff.MatchError as error:
        return 0.0, f"refused: {error.message.partition(' is no Einsum: ')[2] or error.message}"
    total = sum(work.values())
    share = sum(work[name] for name in found.instructions) / total if total else 1.0
    try:
        results = run(Schedule((Explicate(),)).apply(found.prepared, found.names))
    except ff.Error as error:
        return share, f"not applied: {error.message}"
    for name, value in given.items():
        if name in results and value.size and not _is_close(results[name], value):
            return share, "wrong"
    return share, "right"


def _is_close(got: np.ndarray, expected: np.ndarray) -> bool:
    scale = max(1.0, float(np.nanmax(np.abs(expected), initial=0.0)))
    return bool(np.allclose(got, expected, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True))


class Watcher:
    """A plugin of pytest: looks at each kernel when it is launched for the first time."""

    def __init__(self, most_cases: int | None = None) -> None:
        self.most_cases = most_cases
        self.test = ""
        self.known: set[str] = set()
        self.seen: list[Seen] = []
        self.inside = False

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.test = item.nodeid.partition("[")[0]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.most_cases is None:
            return
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [item for some in cases.values() for item in some[:: -(-len(some) // self.most_cases)]]

    def __enter__(self) -> Watcher:
        self.launch = launch = PyOpenCLExecutor.__call__
        watcher = self

        def watched(executor: PyOpenCLExecutor, queue: Any, **arguments: Any) -> Any:
            held = {name: _copied(value, queue) for name, value in arguments.items()}
            result = launch(executor, queue, **arguments)
            text = str(executor.t_unit)
            if not watcher.inside and text not in watcher.known:
                watcher.known.add(text)
                watcher.inside = True
                try:
                    watcher.look(executor, queue, held, result)
                finally:
                    watcher.inside = False
            return result

        PyOpenCLExecutor.__call__ = watched
        return self

    def __exit__(self, *_: object) -> None:
        PyOpenCLExecutor.__call__ = self.launch

    def look(self, executor: PyOpenCLExecutor, queue: Any, arguments: dict[str, Any], result: Any) -> None:
        """Match the kernel, and run it again after the first step."""
        t_unit = executor.t_unit
        dtypes = executor.arg_to_dtype({k: v for k, v in arguments.items() if k not in {"allocator", "wait_for", "out_host"}})
        if dtypes:
            t_unit = lp.add_dtypes(t_unit, dict(dtypes)) if len(t_unit.entrypoints) == 1 else t_unit
        kernel = t_unit.default_entrypoint

        def run(other: lp.TranslationUnit) -> dict[str, np.ndarray]:
            with contextlib.redirect_stdout(io.StringIO()):
                given = {name: _copied(value, queue) for name, value in arguments.items()}
                return _named(other.default_entrypoint, self.launch(other.executor(queue.context), queue, **given)[1], queue)

        holds = any(arithmetic(kernel, insn)[1] for insn in kernel.instructions)
        try:
            share, what = outcome(t_unit, run, _named(kernel, result[1], queue))
        except Exception as error:  # what is counted here is that nothing of the kind comes out
            share, what = 0.0, f"exception: {type(error).__name__}: {str(error)[:200]}"
        self.seen.append(Seen(self.test, holds, round(share, 3), what))


def _copied(value: Any, queue: cl.CommandQueue) -> Any:
    value = value.with_queue(queue) if isinstance(value, cla.Array) else value
    if isinstance(value, cla.Array) and not value.flags.forc:
        data = cl.Buffer(value.context, cl.mem_flags.READ_WRITE, value.base_data.size)
        cl.enqueue_copy(value.queue, data, value.base_data).wait()
        return cla.Array(value.queue, value.shape, value.dtype, strides=value.strides, data=data, offset=value.offset)
    return value.copy() if isinstance(value, np.ndarray | cla.Array) else value


def _on_host(value: Any, queue: cl.CommandQueue) -> np.ndarray:
    value = value.with_queue(queue) if isinstance(value, cla.Array) else value
    if not isinstance(value, cla.Array) or value.flags.forc:
        return np.asarray(value.get() if isinstance(value, cla.Array) else value)
    memory = np.empty(value.base_data.size, np.uint8)
    cl.enqueue_copy(value.queue, memory, value.base_data).wait()
    return np.ndarray(value.shape, value.dtype, memory, value.offset, value.strides)


def _named(kernel: lp.LoopKernel, outputs: Any, queue: cl.CommandQueue) -> dict[str, np.ndarray]:
    """Outputs by name as NumPy arrays."""
    names = [arg.name for arg in kernel.args if arg.is_output]
    pairs = outputs.items() if isinstance(outputs, dict) else zip(names, outputs, strict=False)
    return {name: _on_host(value, queue) for name, value in pairs}


def summary(seen: Iterable[Seen]) -> dict[str, Any]:
    """Counts of kernels that hold an einsum, and of all; refusals by reason."""
    seen = list(seen)
    einsums = [one for one in seen if one.holds_einsum]

    def counted(some: list[Seen]) -> dict[str, int]:
        covered = [one for one in some if one.share >= ENOUGH]
        return {
            "kernels": len(some),
            "matched": len(covered),
            "matched and right": sum(one.outcome == "right" for one in covered),
            "wrong": sum(one.outcome == "wrong" for one in some),
            "exceptions": sum(one.outcome.startswith("exception") for one in some),
        }

    reasons = Counter(one.outcome for one in seen if one.outcome not in {"right", "wrong"})
    return {"holding einsums": counted(einsums), "all": counted(seen), "reasons": dict(reasons.most_common())}


@contextlib.contextmanager
def untransformed(project: str) -> Iterator[None]:
    """Array contexts leave kernels as they are: what is counted is what they are given. They hold arrays in buffers.

    By themselves they take shared virtual memory where a device offers it. PoCL 3.0 does, and dies of it by a segmentation fault in the
    first of meshmode's tests, with nothing of ours in the process.
    """
    if project not in MOST_CASES:
        yield
        return
    from meshmode.array_context import PyOpenCLArrayContext
    from pyopencl import characterize

    own, has_shared = PyOpenCLArrayContext.transform_loopy_program, characterize.has_coarse_grain_buffer_svm
    PyOpenCLArrayContext.transform_loopy_program = lambda _, t_unit: t_unit
    characterize.has_coarse_grain_buffer_svm = lambda _: False
    try:
        yield
    finally:
        PyOpenCLArrayContext.transform_loopy_program = own
        characterize.has_coarse_grain_buffer_svm = has_shared


def watched(project: str, checkout: Path) -> dict[str, Any]:
    """Run a project's tests, and say what came of its kernels."""
    sys.path[:0] = [str(checkout), str(checkout / "src"), str(checkout / "test")]
    selected = ["-k", SELECTED[project]] if project in SELECTED else []
    with untransformed(project), Watcher(MOST_CASES.get(project)) as watcher, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suites = [str(checkout / suite) for suite in SUITES[project]]
        pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", *selected, *suites], [watcher])
    head = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, **summary(watcher.seen), "kernels": [asdict(one) for one in watcher.seen]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", metavar="PROJECT=CHECKOUT")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_intermixed_args()
    data = json.loads(given.data.read_text(encoding="utf-8")) if given.data.exists() else {}
    for text in given.checkouts:
        project, _, checkout = text.partition("=")
        data[project] = watched(project, Path(checkout).resolve())
        print(project, json.dumps({name: data[project][name] for name in ("holding einsums", "all", "reasons")}, indent=1))
    given.data.parent.mkdir(exist_ok=True)
    given.data.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
