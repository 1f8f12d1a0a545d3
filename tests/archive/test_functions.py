"""One's own transformations, compiled, measured, recorded, found again and applied: schedules and Python functions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import export_facts, import_facts
from feinsum_fuse.device.program.origin import ChosenBy
from feinsum_fuse.device.timing.outcome import KernelError
from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.schedule.function import KernelFunction
from feinsum_fuse.schedule.refusals import FunctionError

from . import own_functions
from .samples import HERE, measurement, product, tiled

MODULE = own_functions.__name__


def caller_kernel(n: int = 16) -> lp.TranslationUnit:
    """A product as somebody else writes it."""
    arrays = [lp.GlobalArg(name, np.float32, shape=(n, n)) for name in ("left", "right", "result")]
    return lp.make_kernel(
        f"{{[row, column, k] : 0 <= row, column, k < {n}}}", "result[row, column] = sum(k, left[row, k]*right[k, column])", arrays,
        lang_version=(2018, 2),
    )


def result_of(program: Callable[..., dict[str, np.ndarray]], n: int = 16) -> bool:
    a, b = (np.random.default_rng(k).random((n, n), np.float32) for k in range(2))
    return np.allclose(program(left=a, right=b)["result"], a @ b, rtol=1e-4)


def test_a_schedule_of_ones_own_is_compiled_recorded_and_found_for_other_names(url: str) -> None:
    kernel = caller_kernel()
    matched = ff.match(kernel)
    own = tiled(matched.cascade.einsums[0].name, "row", 4)
    program = ff.compile(kernel, "pocl", by=own)
    assert (program.origin.by, program.schedule) == (ChosenBy.schedule, own)
    assert result_of(program)
    ff.record(ff.measure(program, repeats=1), url=url)
    fact = ff.retrieve(product(16, 16, 16), program.device, url)
    assert (str(fact.found), fact.schedule) == ("exact", tiled(factor=4))
    fact.apply(kernel)
    with pytest.raises(ScheduleError, match="17"):
        ff.compile(kernel, "pocl", by=tiled(matched.cascade.einsums[0].name, "row", 17))


def test_a_function_is_measured_recorded_and_applied_in_another_process(url: str, tmp_path: Path, root: Path) -> None:
    """There it runs only when it is named, and at other sizes too."""
    program = ff.compile(caller_kernel(), "pocl", by=own_functions.in_groups)
    assert program.origin.by is ChosenBy.function
    assert result_of(program)
    assert "get_group_id" in program.source or "gid(0)" in program.source
    ff.record(ff.measure(program, repeats=1), url=url)
    done = subprocess.run(
        [sys.executable, "-m", MODULE, url, "24", f"{MODULE}:in_groups"], capture_output=True, text=True, check=True, cwd=root
    )
    forbidden, detail, name, close, tags = json.loads(done.stdout.splitlines()[-1])
    assert (forbidden, close) == ("None", True)
    assert name.startswith(f"{MODULE}:in_groups (version ")
    assert "recorded at" in detail
    assert any("g.0" in tag or "GroupInameTag" in tag for tag in tags)


def test_a_fact_by_a_function_takes_part_where_it_is_allowed(url: str) -> None:
    program = ff.compile(caller_kernel(), "pocl", by=own_functions.in_groups)
    ff.record(ff.measure(program, repeats=1), url=url)
    found = ff.optimize(caller_kernel(), program.device, functions=[own_functions.in_groups], url=url)
    name = str(KernelFunction.of(own_functions.in_groups).name)
    assert name in found.detail or any(name in reason and "times as long" in reason for reason in found.reasons)


def test_facts_by_functions_travel_as_text_and_run_nothing(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = KernelFunction.of(own_functions.unrolled)
    assert str(made.name) == f"{MODULE}:unrolled (version 2)"
    program = ff.compile(product(8, 8, 8), "pocl", by=own_functions.unrolled)
    ff.record(ff.measure(program, repeats=1), url=url)
    other, file = tmp_path / "other.sqlite3", tmp_path / "facts.jsonl"
    (line,) = export_facts(url)
    foreign = json.loads(line)
    assert foreign["schedule"] == {"function": f"{MODULE}:unrolled", "version": "2"}
    foreign["schedule"]["function"] = "no.such.module:function"
    file.write_text(json.dumps(foreign))
    assert import_facts(file, other).added == 1
    (fact,) = ff.query(product(8, 8, 8), program.device, url=other)
    assert (str(fact.known.function), fact.schedule, fact.function) == ("no.such.module:function (version 2)", None, None)
    with pytest.raises(ff.ArchiveError, match="runs where it is allowed alone"):
        fact.apply(product(8, 8, 8).kernel())
    assert "made by no.such.module:function (version 2), which" in ff.retrieve(product(8, 8, 8), program.device, other).detail
    assert ff.retrieve(product(8, 8, 8), program.device, url, functions=[own_functions.unrolled])
    monkeypatch.setattr(own_functions.unrolled, "version", "3")
    assert not ff.retrieve(product(8, 8, 8), program.device, url, functions=[own_functions.unrolled])
    for name in ("os:system; import x", "../x:y", "a b:c", "x"):
        file.write_text(json.dumps(foreign | {"schedule": {"function": name, "version": "2"}}))
        with pytest.raises(ff.ArchiveError):
            import_facts(file, other)


def test_a_function_that_does_not_fit_a_kernel_is_passed_over(url: str) -> None:
    program = ff.compile(caller_kernel(), "pocl", by=own_functions.by_names_of_its_own)
    ff.record(ff.measure(program, repeats=1), url=url)
    functions = [own_functions.by_names_of_its_own]
    assert ff.retrieve(caller_kernel(), program.device, url, functions=functions)
    fact = ff.retrieve(product(16, 16, 16), program.device, url, functions=functions)
    assert not fact
    assert "by_names_of_its_own" in fact.detail


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (own_functions.with_other_arguments, "changed the kernel's arguments"),
        (own_functions.nothing, "returned a value of type NoneType"),
        (lambda kernel: kernel, "cannot be found again by its name"),
        (f"{MODULE}:missing", "has no missing"),
        ("no.such.module:f", "cannot be imported"),
        ("nothing", "names no function"),
    ],
)
def test_what_is_no_transformation_is_refused_by_name(function: object, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        ff.compile(caller_kernel(), "pocl", by=function)  # type: ignore[arg-type]


def test_what_is_no_list_of_functions_is_refused(url: str) -> None:
    for given in ("x:y", 3, [4], [""]):
        with pytest.raises(FunctionError):
            ff.retrieve(product(), HERE, url, functions=given)  # type: ignore[arg-type]


def test_a_function_that_computes_something_else_is_found_out(url: str) -> None:
    with pytest.raises(KernelError, match=r"differs|error"):
        ff.compile(caller_kernel(), "pocl", by=own_functions.wrong)
    fine = ff.compile(caller_kernel(), "pocl", by=own_functions.in_groups)
    function = KernelFunction.of(own_functions.wrong)
    lying = ff.measure(fine, repeats=1)
    assert lying.subject is not None
    object.__setattr__(lying.subject, "function", function.name)
    ff.record(lying, url=url)
    fact = ff.retrieve(caller_kernel(), fine.device, url, functions=[own_functions.wrong])
    with pytest.raises(KernelError, match="computes something else"):
        fact.apply(caller_kernel())


def test_measurements_without_a_function_are_as_before(url: str) -> None:
    ff.record(measurement(), url=url)
    fact = ff.retrieve(product(), HERE, url, functions=[own_functions.unrolled])
    assert (fact.known.function, fact.schedule) == (None, tiled())
