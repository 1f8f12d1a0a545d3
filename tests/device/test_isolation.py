"""Every way in which a kernel can fail, done for real: each ends as its own outcome, and we go on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.runtime import compiler_cache, isolation, worker
from feinsum_fuse.device.runtime.first_run import is_poison, poisoned
from feinsum_fuse.device.runtime.isolation import RunResult, run_isolated
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import DeviceError
from tests.device import dying_worker
from tests.device.programs import program

pytestmark = pytest.mark.usefixtures("own_processes")
A = np.arange(1, 65, dtype=np.float32)
HEAVY = ("feinsum_fuse.formats", "islpy", "loopy", "pydantic", "pydantic_core", "pymbolic", "ruamel", "sqlalchemy")
"""What takes longer to import than most kernels to build."""
TWICE = {"C": 2 * A.astype(np.float64)}


def run(body: str, timeout_s: float = 60.0) -> RunResult:
    """The result of a kernel that should have doubled A."""
    return run_isolated(program(body), {"A": A}, find_device(), timeout_s=timeout_s, expected=TWICE, tolerance=1e-6)


def test_correct_kernel() -> None:
    result = run("C[i] = 2*A[i];")
    assert (result.outcome, result.stage, result.message) == (Outcome.ok, "done", "")
    assert np.array_equal(result.outputs["C"], 2 * A)
    assert result.verification is not None and [tensor.error for tensor in result.verification.tensors] == [0]


def test_wrong_result() -> None:
    result = run("C[i] = i == 7 ? 0 : 2*A[i];")
    assert (result.outcome, result.stage) == (Outcome.wrong_result, "verify")
    assert result.message == "C: relative error 1.25e-01, tolerance 1.00e-06; at [7] got 0, expected 16"


def test_unwritten_element() -> None:
    result = run("if (i != 5) C[i] = 2*A[i];")
    assert (result.outcome, result.stage) == (Outcome.wrong_result, "check")
    assert result.message == "output C was left unwritten in 1 of 64 elements, first at [5]"


def test_kernel_that_writes_nothing() -> None:
    result = run("")
    assert (result.outcome, result.message) == (Outcome.wrong_result, "output C was left unwritten in 64 of 64 elements, first at [0]")


def test_build_error_carries_the_compiler_s_words() -> None:
    result = run("C[i] = 2*undeclared;")
    assert (result.outcome, result.stage) == (Outcome.build_failed, "build")
    assert "undeclared" in result.message


@pytest.fixture
def dying_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's compiler aborts its process, when a kernel is launched unless ``DYING_STAGE`` says otherwise; nothing is compiled yet."""
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        module = command.index("-m") + 1
        assert command[module] == worker.__name__
        return popen([*command[: module - 1], dying_worker.__file__, *command[module + 1 :]], **options)

    monkeypatch.setattr(isolation.subprocess, "Popen", start)
    monkeypatch.setenv(dying_worker.STAGE, "launch")
    monkeypatch.setenv(compiler_cache.VARIABLE, str(tmp_path))


@pytest.mark.parametrize("stage", ["build", "launch"])
@pytest.mark.usefixtures("dying_compiler")
def test_compiler_that_aborts_its_process(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dying_worker.STAGE, stage)
    result = run("C[i] = 2*A[i];")
    assert (result.outcome, result.stage) == (Outcome.crashed, stage)
    assert result.message == f"the process died of SIGABRT in stage {stage}; it printed last:\n{dying_worker.LAST_WORDS}"


def test_endless_loop_is_killed_with_its_whole_process_group() -> None:
    """On a busy machine building alone may take the few seconds: then it has more."""
    for seconds in (4, 16, 64):
        result = run("volatile int go = 1; while (go) C[i] = A[i];", timeout_s=seconds)
        assert result.outcome is Outcome.timeout
        if result.stage == "launch":
            break
    assert result.message.startswith(f"killed after {seconds} s in stage launch")


def test_a_child_has_its_time_again_after_both_stood_still() -> None:
    """Stopped for a quarter of an hour in the second step: the third one still finds the child before its 5 s are over."""

    class Stopped:
        clock, steps = 0.0, 0

        def wait(self, seconds: float) -> int:
            self.steps += 1
            self.clock += seconds + (900.0 if self.steps == 2 else 0.0)
            if self.steps < 4:
                raise subprocess.TimeoutExpired("child", seconds)
            return 7

    child: Any = Stopped()
    assert isolation._exit_code(child, 5.0) == 7 and child.clock > 900
    child.steps = 0
    assert isolation._exit_code(child, 2.5) is None and child.steps == 3


def test_stack_overflow() -> None:
    result = run("volatile float big[1 << 23]; for (int k = 0; k < 1 << 23; ++k) big[k] = A[i]; C[i] = 2*big[i];")
    assert (result.outcome, result.stage) == (Outcome.crashed, "launch")
    assert result.message.startswith("the process died of SIGSEGV in stage launch")


def test_stray_pointer() -> None:
    assert run("*(__global volatile float *)(size_t)(8*i) = 1;").outcome is Outcome.crashed


@pytest.mark.usefixtures("dying_compiler")
def test_crash_leaves_the_shared_compiler_cache_clean(tmp_path: Path) -> None:
    for _ in range(2):  # a half-written entry would turn the second end into a failed build
        assert run("C[i] = 2*A[i];").outcome is Outcome.crashed
    assert list(tmp_path.iterdir()) == []


def test_success_is_handed_to_the_shared_compiler_cache_and_heals_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiler_cache.VARIABLE, str(tmp_path))
    run("C[i] = 2*A[i];")
    (compiled,) = tmp_path.rglob("*.so")
    (mark,) = (tmp_path / "feinsum-fuse").iterdir()
    before = compiled.stat().st_ino
    run("C[i] = 2*A[i];")  # finds what it needs in the shared cache
    assert compiled.stat().st_ino == before
    compiled.unlink()
    mark.unlink()
    run("C[i] = 2*A[i];")
    assert compiled.exists() and mark.exists()
    assert not list(tmp_path.rglob("feinsum-fuse-*"))


def test_write_behind_an_array() -> None:
    result = run("C[i] = 2*A[i]; if (i == 0) C[64] = 1;")
    assert (result.outcome, result.message) == (Outcome.wrong_result, "the kernel wrote behind the end of C")


def test_write_before_an_array() -> None:
    result = run("C[i] = 2*A[i]; if (i == 0) C[-1000] = 1;")
    assert (result.outcome, result.message) == (Outcome.wrong_result, "the kernel wrote before the start of C")


def test_reading_outside_an_array_shows_as_not_a_number() -> None:
    for index in ("i - 1", "i + 1"):
        result = run(f"C[i] = A[i] + A[{index}] - A[i == 0 || i == 63 ? {index} : i];")
        assert result.outcome is Outcome.wrong_result and "got nan" in result.message


def test_disk_that_is_full_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    result = run("C[i] = 2*A[i];")
    assert (result.outcome, result.stage) == (Outcome.launch_failed, "start")
    assert "No space left on device" in result.message


def test_child_imports_the_package_of_its_parent(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Whatever is installed besides; and nothing that lies in the package counts as a module of its own."""
    started: list[str] = []
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(options["env"]["PYTHONPATH"].split(os.pathsep)[0])
        return popen(command, **options)

    monkeypatch.setattr(isolation.subprocess, "Popen", start)
    assert run("C[i] = 2*A[i];").outcome is Outcome.ok
    assert [Path(folder) for folder in started] == [root]


def test_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import numpy as np\nfrom tests.device.test_isolation import run\n"
        "run('for (volatile int go = 1; go; ) C[i] = A[i];', timeout_s=100)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[2])
    end = time.monotonic() + 60
    while not list(tmp_path.glob("feinsum-fuse-*/status.json")) and time.monotonic() < end:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    (job,) = tmp_path.glob("feinsum-fuse-*")
    while _runs(str(job)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(str(job))


def _runs(argument: str) -> bool:
    """Whether any process has this argument."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in command.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def test_result_made_from_an_unwritten_temporary_is_wrong_and_not_unwritten() -> None:
    inputs_and_outputs = program("").arguments
    arguments = (*inputs_and_outputs, Argument("T", "float32", (64,), "temporary"))
    source = "__kernel void f(__global float const *A, __global float *C, __global float *T) { int i = get_global_id(0); C[i] = T[i]; }"
    executable = Executable(source, (), arguments, (Launch("f", (64,), (8,), ("A", "C", "T")),))
    result = run_isolated(executable, {"A": A}, find_device(), expected=TWICE, tolerance=1e-6)
    assert (result.outcome, result.stage) == (Outcome.wrong_result, "verify")
    assert "got nan" in result.message


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int8", "int32", "bool"])
def test_patterns_are_distinct_and_no_numbers(dtype: str) -> None:
    kind = np.dtype(dtype)
    for which in range(4):
        array = poisoned(kind, 5, which)
        assert [other for other in range(4) if is_poison(array, other).any()] == [which]
        assert kind.kind not in "fc" or np.isnan(array).all()


def test_changed_input() -> None:
    result = run("C[i] = 2*A[i]; ((__global float *)A)[i] = 0;")
    assert (result.outcome, result.message) == (Outcome.wrong_result, "the kernel changed its input A")


def test_group_that_the_device_refuses() -> None:
    executable = program("C[i] = A[i];", n=1 << 20, group=1 << 20)
    result = run_isolated(executable, {"A": np.ones(1 << 20, np.float32)}, find_device())
    assert (result.outcome, result.stage) == (Outcome.launch_failed, "launch")


def test_output_that_equals_the_poison_by_right() -> None:
    poison = np.frombuffer(b"\xa5" * 64, np.int8)
    executable = program("C[i] = A[i];", dtype="int8")
    assert run_isolated(executable, {"A": poison}, find_device(), expected={"C": poison}).outcome is Outcome.ok


def test_result_that_is_not_a_number_is_wrong_unless_expected() -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = {"C": np.log(A - 2)}
    body = "C[i] = log(A[i] - 2);"
    assert run_isolated(program(body), {"A": A}, find_device(), expected=expected, tolerance=1e-5).outcome is Outcome.ok
    assert run_isolated(program("C[i] = NAN;"), {"A": A}, find_device(), expected=TWICE, tolerance=1e9).outcome is Outcome.wrong_result


def test_arguments_of_any_name() -> None:
    odd = program("C[i] = 2*A[i];").renamed({"A": "../a b", "C": "c/" + 300 * "x"})
    result = run_isolated(odd, {"../a b": A}, find_device())
    assert np.array_equal(result.outputs["c/" + 300 * "x"], 2 * A)


def test_missing_and_misshapen_inputs_are_the_caller_s_error() -> None:
    with pytest.raises(DeviceError, match=r"^input A is missing$"):
        run_isolated(program(""), {}, find_device())
    with pytest.raises(DeviceError, match=r"^input A has shape \(3,\), expected \(64,\)$"):
        run_isolated(program(""), {"A": A[:3]}, find_device())


def test_device_that_went_away() -> None:
    gone = replace(DeviceInfo.of(find_device()), name="no such device")
    result = run_isolated(program("C[i] = 2*A[i];"), {"A": A}, gone)
    assert (result.outcome, result.stage) == (Outcome.launch_failed, "start")


def test_missing_part_of_a_runtime_is_added_to_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feinsum_fuse.device.runtime.runtimes.missing_part", lambda _: "libsomething is not installed.")
    assert run("C[i] = 2*undeclared;").message.endswith("\nlibsomething is not installed.")
    assert run("C[i] = 2*A[i];").message == ""


def test_child_leaves_pyopencl_s_cache_and_its_lock_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("C[i] = 2*A[i];").outcome is Outcome.ok
    assert not list(tmp_path.glob("pyopencl/pyopencl-compiler-cache*"))


def test_files_in_the_working_directory_mean_nothing_to_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json.py", "numpy.py", "pyopencl.py"):
        (tmp_path / name).write_text("raise SystemExit('taken from the working directory')")
    monkeypatch.chdir(tmp_path)
    assert run("C[i] = 2*A[i];").outcome is Outcome.ok


def test_children_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run("C[i] = 2*A[i];")
    run("*(__global volatile float *)(size_t)(8*i) = 1;")
    assert os.listdir(str(tmp_path)) == []


def test_the_child_starts_without_what_checks_records() -> None:
    """It reads its executable, builds and runs."""
    program_text = program("C[i] = 2*A[i];").to_json()
    code = (
        "import sys; from feinsum_fuse.device.runtime import worker; from feinsum_fuse.codegen.executable import Executable; "
        f"assert Executable.from_parent({program_text!r}).to_json() == {program_text!r}; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
