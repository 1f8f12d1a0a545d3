"""The order of the packages, and of the files in them: computed from every import, those inside functions and those for types included."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import feinsum_fuse

ROOT = Path(feinsum_fuse.__file__).resolve().parent
MOST_MODULES = 12
"""More of them in one folder, its ``__init__`` not counted, and it should have folders itself."""
ORDER = (
    *("cache_folder", "errors", "number_types", "arguments", "quantization", "executors", "progress", "whole_file", "field_types"),
    *("presentation", "formats", "cascades", "schedule"),
    *("codegen", "lowering", "raising", "mappings", "patterns"),
    *("model", "device", "archive", "mapper", "tuning", "compilation", "optimization", "arraycontext"),
    *("numpy_einsum", "report", "survey", "standard", "pages", "cli"),
)
"""Each imports those before it only."""
TAGS = frozenset({"Compute", "Split", "Toll"})
"""What two of the formats call alike: a component and the node that uses it, a node and a step. Classes are named as files name them."""

VERBS = frozenset({"curves", "export", "options", "report", "survey"})
"""Modules of the command line that are called after what they call; no others have the name of a module in another folder."""


def modules() -> dict[str, Path]:
    """Name without the package's own -> file."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A file as Python's own tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the package that a file imports from; a name that is no module counts as its module's."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = package[: len(package) - node.level + 1]
            base = ".".join([*above, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}".lstrip(".")
                yield full if full in known else base
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "feinsum_fuse":
            yield (node.module or "").partition(".")[2]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[2] for alias in node.names if alias.name.split(".")[0] == "feinsum_fuse")


@functools.cache
def graph() -> dict[str, set[str]]:
    """Module -> modules that it imports; the root, which re-exports from everywhere on demand, left out."""
    known = modules()
    return {name: set(imports(name, path, known)) - {name, ""} for name, path in known.items() if name}


def circles(edges: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected sets of more than one module."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for module in edges.get(waiting.pop(), set()) - seen:
                seen.add(module)
                waiting.append(module)
        return seen

    reach = {module: reached(module) for module in edges}
    found = {frozenset({module, *(other for other in reach[module] if module in reach.get(other, set()))}) for module in edges}
    return {circle for circle in found if len(circle) > 1}


def test_no_circles_of_files() -> None:
    assert [sorted(circle) for circle in circles(graph())] == []


def test_packages_import_what_comes_before_them() -> None:
    found = set()
    for module, others in graph().items():
        for other in others:
            if ORDER.index(other.split(".")[0]) > ORDER.index(module.split(".")[0]):
                found.add((module, other))
    assert found == set()


def test_folders_hold_a_dozen_modules_at_most() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in modules().values() if path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def defined(path: Path) -> Iterator[str]:
    """The classes, aliases and constants of a file."""
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_a_class_and_an_alias_have_their_names_alone() -> None:
    names = Counter(name for path in modules().values() for name in defined(path) if name[0].isupper() and not name.isupper())
    assert {name for name, count in names.items() if count > 1} == TAGS


def test_a_constant_that_others_import_has_its_name_alone() -> None:
    """What a module keeps to itself may be called as in another; a letter alone is a type variable."""
    files = modules().values()
    imports_of = (node for path in files for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom))
    imported = {alias.name for node in imports_of for alias in node.names}
    names = Counter(name for path in files for name in defined(path) if name.isupper() and len(name) > 1 and not name.startswith("_"))
    assert {name for name, count in names.items() if count > 1} & imported == set()


def test_a_module_has_its_name_alone() -> None:
    paths = [path.relative_to(ROOT) for path in modules().values() if not path.stem.startswith("__")]
    assert {name for name, count in Counter(path.stem for path in paths).items() if count > 1} == VERBS
    assert max(Counter(path.stem for path in paths if path.parts[0] != "cli").values()) == 1


def test_the_graph_sees_every_way_of_importing(tmp_path: Path) -> None:
    source = tmp_path / "c.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nimport feinsum_fuse.a\nfrom ..b import x\nif TYPE_CHECKING:\n    from . import d\n"
        "def f():\n    from .e import y\n    from feinsum_fuse.g import z\n"
    )
    known = {"a": source, "b": source, "p.c": source, "p.d": source, "p.e": source}
    assert set(imports("p.c", source, known)) == {"a", "b", "p.d", "p.e", "g"}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
