"""What README.rst and doc/ show is what happens: their Python runs, and the demo's table has the rows that they print."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from feinsum_fuse.cli.__main__ import VERBS
from tests.conftest import ROOT

PAGES = sorted(page for page in (ROOT / "README.rst", *(ROOT / "doc").glob("*.rst")))


def python_blocks(page: Path) -> list[str]:
    """The Python code blocks of a page, which are one script."""
    found = re.findall(r"^ *\.\. code-block:: python\n(?: +:.*\n)*\n((?:(?: +.*)?\n)+)", page.read_text() + "\n", re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a page's script runs: the examples, and one of them as the files that pages name without a folder."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("workload", "arch", "mapping"):
        (tmp_path / f"{name}.yaml").symlink_to(ROOT / "examples" / "matmul" / f"{name}.yaml")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_the_python_in_the_documentation_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script that starts in ``folder`` with no facts of its own; in this process, which has imported what scripts import."""
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", str(folder / "facts.sqlite3"))
    monkeypatch.chdir(folder)
    # Line numbers are those of the page's blocks one after the other.
    exec(compile("\n".join(python_blocks(page)), page.name, "exec"), {"__name__": "__main__"})


def test_the_readme_has_a_python_example_of_ten_lines_or_so_and_shorter_ones() -> None:
    blocks = (block.splitlines() for block in python_blocks(ROOT / "README.rst"))
    first, *others = (sum(bool(line) and not line.startswith("import") for line in lines) for lines in blocks)
    assert 8 <= first <= 12
    assert max(others) <= 6


def test_the_readme_shows_the_rows_that_the_demo_prints() -> None:
    from feinsum_fuse.report import trial

    source = Path(trial.__file__).read_text()
    names = re.findall(r'row\("([^"]+)"', source)
    text = (ROOT / "README.rst").read_text()
    always = [name for name in names if "recorded" not in name]
    assert len(always) >= 9
    assert [name for name in always if f"\n    {name} " not in text] == []


def test_every_verb_is_documented() -> None:
    readme, reference = (ROOT / "README.rst").read_text(), (ROOT / "doc" / "commandline.rst").read_text()
    assert [verb for verb in VERBS if f"``feinsum-fuse {verb}" not in readme] == []
    assert [verb for verb in VERBS if f"\n``{verb}" not in reference] == []


def test_every_public_name_is_in_the_reference() -> None:
    import feinsum_fuse as ff

    page = (ROOT / "doc" / "api.rst").read_text()
    functions = [name for name in ff.__all__ if not name.endswith("Error")]
    assert [name for name in functions if not re.search(rf"^\.\. auto\w+:: feinsum_fuse\.{name}$", page, re.MULTILINE)] == []


def test_every_example_is_documented() -> None:
    page = (ROOT / "doc" / "examples.rst").read_text()
    folders = [folder.name for folder in (ROOT / "examples").iterdir() if folder.is_dir()]
    assert [name for name in folders if f"\n``{name}``" not in page] == []


def test_every_example_loads() -> None:
    import feinsum_fuse as ff

    cpu = ROOT / "examples" / "cpu.yaml"
    for mapping in sorted((ROOT / "examples").glob("*/mapping*.yaml")):
        own = mapping.parent / "arch.yaml"
        generic = not own.exists() or "component: Core" in mapping.read_text()
        spec = ff.load(mapping.parent / "workload.yaml", cpu if generic else own, mapping, variables={"ONLINE": 1})
        assert spec.mapping is not None
