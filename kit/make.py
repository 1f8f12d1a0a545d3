"""Make a kit: a folder that runs on a machine with a GPU and without a network. ``python -m kit.make --help``

The folder holds wheels of this package and of what it needs for one version of Python, the examples, workloads, random mappings, and the
script that runs there. Nothing of it is needed but Python: not make, not a compiler, not OpenCL's loader.
"""

from __future__ import annotations

import argparse
import configparser
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from feinsum_fuse.errors import Error
from feinsum_fuse.formats.mapping import Spatial
from feinsum_fuse.formats.opencl import level_of
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.schedule.target import DeviceLimits, Target
from tests.generators.trees import random_trees

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 60 << 20
"""Of the wheels; PoCL's, which a GPU does not need, are beside them."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""Of wheels that run on every Linux with glibc 2.28 or later."""
POCL = "pocl-binary-distribution"
TREES = 50
SMALLEST = Target(limits=DeviceLimits(256, (256, 256, 64), 32 << 10, 256 * (16 << 10)))
"""What OpenCL promises of every GPU, as good as: local memory of 32 KiB and groups of 256 work-items."""
NO_SOURCES = ("build", "dist", "*.egg-info", "tests", "benchmarks", "doc", "__pycache__")
"""What is not copied to where our own wheel is built."""
PIP = (sys.executable, "-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check", "--no-input")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the kit that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=f"3.{sys.version_info.minor}", help="of the machine, such as 3.12 (default: this one's)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "gpu-kit", help="the folder; it is made anew")
    parser.add_argument("--with-pocl", action="store_true", help="PoCL's wheel, too (58 MB): for rehearsals on a processor")
    given = parser.parse_args(arguments)
    if given.python not in ("3.11", "3.12", "3.13"):
        parser.error(f"--python {given.python}: 3.11, 3.12 or 3.13")
    make(given.output, given.python, with_pocl=given.with_pocl)
    size = folder_bytes(given.output / "wheels")
    print(f"{given.output}: wheels for Python {given.python}, {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        sys.exit(f"the wheels have more than {MOST_BYTES / 1e6:.0f} MB")


def make(folder: Path, python: str, *, with_pocl: bool = False) -> None:
    """The whole kit, in place of what is in the folder."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    copy_files(folder)
    write_trees(folder / "trees", TREES)
    wheels(folder / "wheels", python)
    if with_pocl:
        download(folder / "wheels-pocl", python, [POCL], folder / "wheels-pocl")


def copy_files(folder: Path) -> None:
    """The script, the examples and the workloads."""
    shutil.copy(ROOT / "kit" / "gpu.py", folder / "gpu.py")
    shutil.copytree(ROOT / "kit" / "workloads", folder / "workloads")
    shutil.copytree(ROOT / "examples", folder / "examples")


def write_trees(folder: Path, count: int) -> None:
    """Random mappings that use work-items and that any GPU can run, a file each."""
    folder.mkdir()
    for number, spec in zip(range(count), fitting_trees(), strict=False):
        (folder / f"tree-{number:02}.yaml").write_text(spec.to_yaml(), encoding="utf-8")


def fitting_trees() -> Iterator[Spec]:
    """Random mappings of random workloads, those with work-items that lower for the smallest target; without end."""
    seed = 0
    while True:
        seed += 1
        for tree in random_trees(100, seed):
            if not _has_items(tree.spec):
                continue
            try:
                lower(tree.spec, target=SMALLEST)
            except Error:
                continue
            yield tree.spec


def _has_items(spec: Spec) -> bool:
    assert spec.mapping is not None and spec.opencl is not None
    fanouts = spec.opencl.fanouts
    used = [placed.node for path in spec.mapping.paths() for placed in path if isinstance(placed.node, Spatial)]
    return any(level_of(fanouts[f"{node.component}.{node.name}"]) == "local" for node in used)


def wheels(folder: Path, python: str) -> None:
    """Wheels of this package and of what it needs, pip's own among them: the machine may have none."""
    folder.mkdir()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    needed = [line for line in setup["options"]["install_requires"].split("\n") if line and not line.startswith(POCL)]
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        source = made / "source"
        # In a copy: building leaves folders behind.
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", *NO_SOURCES))
        build(made, [str(source), *without_wheels(needed)])
        download(folder, python, [*needed, "pip"], made)
        for wheel in made.glob("*.whl"):
            if not (folder / wheel.name).exists():
                shutil.copy(wheel, folder)


def without_wheels(needed: Sequence[str]) -> list[str]:
    """``name==version`` of the packages that come as source only, among all that are needed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([*PIP, "install", "--dry-run", "--ignore-installed", "--report", report.name, *needed], check=True)
        found = json.loads(Path(report.name).read_text(encoding="utf-8"))["install"]
    sources = [item for item in found if not item["download_info"]["url"].endswith(".whl")]
    return [f"{item['metadata']['name']}=={item['metadata']['version']}" for item in sources]


def build(folder: Path, packages: Sequence[str]) -> None:
    """Wheels of packages that come as source; they run on any Python, or the kit cannot be made here."""
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), *packages], check=True)
    bound = [wheel.name for wheel in folder.glob("*.whl") if not wheel.stem.endswith("-none-any")]
    if bound:
        sys.exit(f"these come as source only, and what is built of them runs on this Python alone: {', '.join(bound)}")


def download(folder: Path, python: str, packages: Sequence[str], links: Path) -> None:
    """Wheels of packages, and of what they need, for a Python that need not be this one."""
    folder.mkdir(exist_ok=True)
    chosen = [option for platform in PLATFORMS for option in ("--platform", platform)]
    chosen += ["--implementation", "cp", "--python-version", python, "--only-binary", ":all:", "--find-links", str(links)]
    subprocess.run([*PIP, "download", *chosen, "--dest", str(folder), *packages], check=True)


def folder_bytes(folder: Path) -> int:
    """The size of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
