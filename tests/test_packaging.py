"""What setup.cfg installs is what there is, and what the house promises of the repository holds."""

from __future__ import annotations

import configparser
import subprocess
from pathlib import Path


def _setup(root: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(root / "setup.cfg")
    return parser


def test_every_package_is_installed(root: Path) -> None:
    listed = _setup(root)["options"]["packages"].split()
    found = {".".join(file.parent.relative_to(root).parts) for file in (root / "feinsum_fuse").rglob("__init__.py")}
    elsewhere = dict(line.split(" = ") for line in _setup(root)["options"]["package_dir"].strip().splitlines())
    assert set(listed) == found | elsewhere.keys()
    assert all((root / folder / "__init__.py").exists() for folder in elsewhere.values())


def test_python_modules_lie_in_packages(root: Path) -> None:
    folders = {file.parent for file in (root / "feinsum_fuse").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_continuous_integration_starts_from_nothing(root: Path) -> None:
    lines = (root / ".ci" / "run").read_text().splitlines()
    assert lines.index("rm -rf .venv") < lines.index("make test")


def test_an_old_python_is_named(tmp_path: Path, root: Path) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        script = fake / name
        script.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
        script.chmod(0o755)
    (tmp_path / "Makefile").write_text((root / "Makefile").read_text())
    for tool in ("setup.cfg", "pyproject.toml"):
        (tmp_path / tool).write_text("")
    answer = subprocess.run(
        ["make", "demo", "PYTHON="], cwd=tmp_path, env={"PATH": f"{fake}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.splitlines()[:2] == [
        "feinsum_fuse needs Python 3.11 or later, and python3 is Python 3.9.2.",
        "Install one, or name one: make PYTHON=/path/to/python3.11",
    ]
