"""Wrong arguments of public functions, and values at the edge of what files can say: errors of ours, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cli import __main__ as main
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.block_steps import Blockize, Tensorize
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.archive.samples import HERE
from tests.cli.conftest import Invoke, invoke

WORKLOAD = "workload: {rank_sizes: {M: %s}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[m]']}"
TEXTS = {
    "a float that is none": "!!float x",
    "an integer that is none": "!!int x",
    "a time that is none": "!!timestamp x",
    "bytes that are none": "!!binary '====x'",
    "a set": "!!set x",
    "sixties": "1:30",
    "sixties with a fraction": "1:30.5",
    "many sixties": "1" + ":59" * 2000,
    "more digits than Python reads": "9" * 5000,
    "an integer beyond float64": "9" * 400,
    "an expression beyond float64": "'2**2000'",
    "a quotient beyond float64": "'2**2000/3'",
    "no number": ".nan",
    "NUL": '"a\\0b"',
}


def plain(size: object) -> ff.Cascade:
    return ff.cascade(["Z[m] = A[m]"], sizes={"M": size}, dtypes={"All": "float32"})  # type: ignore[dict-item]


def circle() -> list[object]:
    made: list[object] = []
    made.append(made)
    return made


CALLS: dict[str, Callable[[], object]] = {
    **{f"a size: {name}": lambda text=text: ff.cascade(ff.loads(WORKLOAD % text)) for name, text in TEXTS.items()},
    "a variable beyond float64": lambda: ff.loads("{% set M = M|default(3) %}" + WORKLOAD % "{{M}}", variables={"M": 10**400}),
    "NUL in a path": lambda: ff.load("a\0b.yaml"),
    "half a character in a text": lambda: ff.loads("workload: \ud800"),
    "bytes instead of text": lambda: ff.loads(b"workload"),  # type: ignore[arg-type]
    "nothing instead of text": lambda: ff.loads(None),  # type: ignore[arg-type]
    "a number instead of a file": lambda: ff.load(3),  # type: ignore[arg-type]
    "sizes with a fraction": lambda: plain(1.5),
    "negative sizes": lambda: plain(-1),
    "sizes beyond ISL": lambda: plain(10**30),
    "a type that NumPy lacks": lambda: ff.cascade(["Z[m] = A[m]"], sizes={"M": 3}, dtypes={"All": "float99"}),
    "cascade of nothing": lambda: ff.cascade(None),  # type: ignore[arg-type]
    "predict nothing": lambda: ff.predict(None),  # type: ignore[arg-type]
    "lower nothing": lambda: ff.lower(None),  # type: ignore[arg-type]
    "compile nothing": lambda: ff.compile(None),  # type: ignore[arg-type]
    "record nothing": lambda: ff.record(None),  # type: ignore[arg-type]
    "calibrate a number": lambda: ff.calibrate(3),  # type: ignore[arg-type]
    "compile for a number": lambda: ff.compile(ff.loads(WORKLOAD % 3), device=3),  # type: ignore[arg-type]
    "einsum of nothing": lambda: ff.einsum(),
    "einsum of two outputs": lambda: ff.einsum("mk,kn->m,n", [[1.0]], [[1.0]]),
    "measure for a text": lambda: ff.measure(ff.loads(WORKLOAD % 3), timeout_s="\u202e"),  # type: ignore[arg-type]
    "contract by a number": lambda: plain(3).contract("Z", optimize=3),  # type: ignore[arg-type]
    "a triangle of lists": lambda: plain(3).triangle("Z", [], []),  # type: ignore[arg-type]
    "a mapping saved to a number": lambda: ff.loads(WORKLOAD % 3).save_mapping(3),  # type: ignore[arg-type]
    "a shape that takes for ever to print": lambda: ff.array("A", np.broadcast_to(np.float32(1), (2**20, 2**20))),  # type: ignore[arg-type]
    "a variable in itself": lambda: ff.loads(WORKLOAD % 3, variables={"x": circle()}),
    "an Einsum of other things": lambda: ff.cascade([{"A": object()}]),
    "a step with a number for a word": lambda: Schedule((Explicate(("Z",)), Tensorize(LoopRef("Z", "k"), 3))),  # type: ignore[arg-type]
    "a step with a text for a loop": lambda: Schedule((Explicate(("Z",)), Blockize("Z.k"))),  # type: ignore[arg-type]
    "a schedule of texts": lambda: Schedule(("Explicate",)),  # type: ignore[arg-type]
    "a schedule of nothing": lambda: Schedule(None),  # type: ignore[arg-type]
    "an operand that is a circle": lambda: ff.cascade(["Z[m] = A[m, k]"], sizes={"M": 2, "K": 2}).pack("Z", circle(), ["m"]),  # type: ignore[arg-type]
    "a type that is a circle": lambda: ff.einsum("i->i", [1.0], dtype=circle()),  # type: ignore[arg-type]
    "a range at too many points": lambda: ff.optimize_range(plain(3).kernel(), HERE, {}, points=2**31),
    "a range at no point": lambda: ff.optimize_range(plain(3).kernel(), HERE, {}, points=0),
    "a memory of more bits than float64 has": lambda: ff.explore(ff.loads(WORKLOAD % 3), {"Buffer.size": [10**400]}),
    "a number for a database": lambda: ff.einsum("i,i->", [1.0], [2.0], url=1),  # type: ignore[arg-type]
    "an array for a database": lambda: ff.einsum("i,i->", [1.0], [2.0], url=np.zeros(2)),  # type: ignore[arg-type]
    "half a character in a database's name": lambda: ff.einsum("i,i->", [1.0], [2.0], url="a\ud800.sqlite3"),
    "an input that no float is": lambda: plain(3).reference(A=[10**400] * 3),
    "masked inputs": lambda: plain(3).reference(A=np.ma.masked_array(np.ones(3), [1, 0, 0])),
    "an argument with other axes": lambda: ff.match(plain(3).kernel()).reference(A="text"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_only_errors_of_ours(call: Callable[[], object]) -> None:
    with pytest.raises(ff.Error):
        call()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "/home/x/.local"), "error: /home/x/.local: Permission denied\n"),
        (OSError(30, "Read-only file system", "/home/x"), "error: /home/x: Read-only file system\n"),
        (ImportError("libOpenCL.so.1: cannot open shared object file"), "error: the OpenCL loader cannot be used: libOpenCL.so.1: "),
        (MemoryError(), "error: this machine has not enough memory for it\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_the_system_refuses_is_one_line(
    invoke: Invoke, root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr(main, "app", refuse)
    ended = invoke("check", root / "examples" / "matmul" / "workload.yaml")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(said)


__all__ = ["invoke"]


def test_a_keyword_that_a_function_lacks_is_said_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"^compile\(\) got an unexpected keyword argument 'dtype'"):
        ff.compile("Z[m] = A[m]", dtype="float32")  # type: ignore[call-arg]
