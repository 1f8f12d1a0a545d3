"""The package's root: quick to import, opens no device, and every public name exists."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from importlib.machinery import PathFinder

import pytest

import feinsum_fuse as ff

HEAVY = ("loopy", "pyopencl", "islpy", "numpy", "sqlalchemy", "pydantic", "rich", "typer")


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_quick() -> None:
    code = "import time; start = time.process_time(); import feinsum_fuse; print(time.process_time() - start)"
    assert min(float(_run(code)) for _ in range(3)) < 0.3


def test_import_loads_nothing_heavy() -> None:
    assert _run(f"import sys, feinsum_fuse; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("name", ff.__all__)
def test_public_names_exist(name: str) -> None:
    assert callable(getattr(ff, name))


def test_help_says_what_goes_in_and_what_to_do_with_it() -> None:
    text = pydoc.plain(pydoc.render_doc(ff.spec))
    for word in ("cascade", "arch", "mapping", "opencl", "ff.compile", "ff.default_mapping", "to_yaml", "SpecError"):
        assert word in text
    assert all((getattr(ff, name).__doc__ or "").strip() for name in ff.__all__)


def test_every_lazy_name_is_declared_public() -> None:
    assert set(ff._MODULES) <= set(ff.__all__) == {name for name in dir(ff) if name in ff.__all__}


@pytest.mark.parametrize("name", ff.__all__)
def test_no_module_shares_a_public_name(name: str) -> None:
    """Importing a module binds its name in the package: it would hide the function."""
    assert PathFinder.find_spec(f"feinsum_fuse.{name}", list(ff.__path__)) is None


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'feinsum_fuse' has no attribute 'measrue'"):
        ff.measrue  # noqa: B018
