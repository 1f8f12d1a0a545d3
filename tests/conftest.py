"""What all tests share: where data go, which seed sweeps use, and no colour in captured output.

xdist imports this file also in the process that runs no test, and starts the others afterwards: it imports little, and fixtures the rest.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forked_children import forking
from tests.sweeps import CLOCK, PART, SEED, SLOW

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
CHILDREN = ("feinsum_fuse.device.runtime.isolation", "feinsum_fuse.device.timing.measuring_process")
"""The modules that start the package's child processes."""
DEVICE_FILE = "feinsum_fuse.device.calibration.device_file"


def _own_catalogue() -> None:
    """``feinsum_fuse.transforms`` is this checkout's, wherever the package that is installed has its own."""
    spec = importlib.util.spec_from_file_location(
        "feinsum_fuse.transforms", ROOT / "transforms" / "__init__.py", submodule_search_locations=[str(ROOT / "transforms")]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


_own_catalogue()


def pytest_collection() -> None:
    """Before test modules are imported; where xdist starts processes that run the tests, in those alone."""
    gc.disable()
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "feinsum_fuse", deadline=None, derandomize=not SLOW, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("feinsum_fuse")
    if CLOCK:
        from tests.clock import falsify

        falsify(CLOCK)


def _commit() -> str:
    try:
        answer = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git checkout)"
    return answer.stdout.strip()


def pytest_report_header() -> str:
    """The line above every run that says how to repeat it."""
    uneven = f", times multiplied at random (FEINSUM_FUSE_CLOCK={CLOCK})" if CLOCK else ""
    return f"sweeps: {'in full' if SLOW else PART}, seed {SEED}, commit {_commit()}{uneven}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: one more than there are processors, since a quarter of the tests' time is waiting for children and disks."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.fixture(autouse=True, scope="session")
def user_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of the test run's own, so that no test reads or writes the user's records; programs are built, not found."""
    folder = tmp_path_factory.mktemp("user-data")
    os.environ["XDG_DATA_HOME"] = str(folder)
    os.environ["FEINSUM_FUSE_PROGRAMS"] = "off"
    return folder


@pytest.fixture(autouse=True, scope="session")
def forked_children() -> Iterator[None]:
    """Children of the package's are forked from a process that has imported what they import."""
    with pytest.MonkeyPatch.context() as patch:
        for module in CHILDREN:
            patch.setattr(f"{module}.subprocess", forking())
        yield


@pytest.fixture(autouse=True, scope="session")
def quick_programs() -> Iterator[None]:
    """Programs that loopy and tests have built are so as the package's own are."""
    import pyopencl as cl

    from tests.quick_programs import quick_build

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cl.Program, "build", quick_build)
        yield


@pytest.fixture(autouse=True, scope="session")
def one_calibration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A device without a file is measured by the first process that asks for one."""
    from tests.calibrations import measured_once

    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{DEVICE_FILE}.calibrate", measured_once(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder))
        yield


@pytest.fixture(scope="module")
def own_processes() -> Iterator[None]:
    """Children of the package's are processes of their own, as users have them."""
    with pytest.MonkeyPatch.context() as patch:
        for module in CHILDREN:
            patch.setattr(f"{module}.subprocess", subprocess)
        yield


def pytest_collection_finish() -> None:
    """What was imported stays; looking through it for garbage again and again took an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(autouse=True, scope="session")
def few_samples() -> Iterator[None]:
    """Whatever measures does so as it does for users, but briefly; tests of how exact it is ask for :func:`whole_samples`."""
    from tests.brief import measure_briefly

    with pytest.MonkeyPatch.context() as patch:
        measure_briefly(patch.setattr)
        yield


@pytest.fixture
def whole_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring takes as long as for users."""
    from tests.brief import measure_wholly

    measure_wholly(monkeypatch.setattr)


@pytest.fixture
def slow() -> bool:
    """Whether the sweeps run in full."""
    return SLOW


@pytest.fixture
def root() -> Path:
    """The root of the checkout."""
    return ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes what the tests see into ``tests/golden`` instead of comparing."""
    parser.addoption("--update-golden", action="store_true", default=False, help="rewrite the golden texts")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares a text with ``tests/golden/<name>``, by default a ``.txt``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / (name if "." in name else f"{name}.txt")
        if request.config.getoption("--update-golden", default=False):
            path.write_text(text + "\n")
        assert text + "\n" == path.read_text(), f"{path.name} differs; pytest --update-golden rewrites it"

    return check
