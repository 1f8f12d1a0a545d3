"""Reading users' files: templates, includes below the allowed folders, and the union of the top keys of several files."""

from __future__ import annotations

import glob
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...errors import Location, SpecError
from ..language.caps import shortened
from ..language.expressions import nearest
from ..templates.placed_text import PlacedText
from ..templates.rendering import RenderedText, Renderer, visible_data
from ..templates.sandbox import BASE_HELPERS, Helper, RenderingBudget
from ..validation.complaints import path_text
from .document import Document, Value, read_yaml

MAX_FILE = 1_000_000
MAX_INCLUDES = 100
MAX_INCLUDE_DEPTH = 16
MAX_PATTERNS = 2
TEXT_NAME = "<text>"


_ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


def tree_of(folder: Path) -> Path:
    """The repository or installed package that a folder belongs to, below which its files may include each other; else the folder itself.

    A repository has ``.git``, ``pyproject.toml``, ``setup.py`` or ``setup.cfg`` at its root; a package lies right below ``site-packages``.
    Nothing from the user's home folder upwards is such a tree, nor from a shared folder (``/tmp``) upwards: its marks may be anyone's.
    """
    folder = folder.resolve()
    home = Path.home().resolve()
    for candidate in (folder, *folder.parents):
        if candidate == home or candidate in home.parents or _is_everyones(candidate):
            break
        if candidate.parent.name in _PACKAGE_FOLDERS or any((candidate / mark).exists() for mark in _ROOT_MARKS):
            return candidate
    return folder


def _is_everyones(folder: Path) -> bool:
    """Whether a folder is shared, as ``/tmp`` is: anyone may write there, each to their own files (the sticky bit)."""
    shared = stat.S_IWOTH | stat.S_ISVTX
    return folder.exists() and folder.stat().st_mode & shared == shared


@contextmanager
def _file_errors(shown: str) -> Iterator[None]:
    """What the operating system says about a name becomes an error of ours."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise SpecError(f"{shown} is not UTF-8 text: byte {error.start} cannot be read.") from None
    except OSError as error:
        raise SpecError(f"{shortened(shown)} cannot be read: {error.strerror}.") from None
    except (RuntimeError, ValueError) as error:
        raise SpecError(f"{shortened(repr(shown))} cannot be the name of a file: {error}.") from None


def read_text(path: Path, shown: str) -> str:
    """The text of a regular file; :class:`SpecError` if there is none, or it is too large or not UTF-8."""
    with _file_errors(shown):
        return _read_text(path, shown)


def _read_text(path: Path, shown: str) -> str:
    if not path.exists():
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = nearest(path.name, siblings)
        raise SpecError(f"There is no file {shown}.", hint=hint if hint.startswith("Did") else "")
    if path.is_dir():
        inside = sorted(child.name for child in path.iterdir() if child.suffix in (".yaml", ".yml"))
        hint = f"Name the files in it: {shortened(', '.join(inside))}." if inside else ""
        raise SpecError(f"{shown} is a folder, not a file.", hint=hint)
    if not path.is_file():
        raise SpecError(f"{shown} is not a file.")
    if path.stat().st_size > MAX_FILE:
        raise SpecError(f"{shown} has more than {MAX_FILE} bytes.")
    return path.read_text(encoding="utf-8-sig")


def _plain(name: str, value: object) -> object:
    """A template variable as plain data; NumPy scalars become Python's."""
    item = getattr(value, "item", None)
    found = item() if callable(item) and getattr(value, "ndim", None) == 0 else value
    if isinstance(found, list | tuple):
        return [_plain(name, element) for element in found]
    if isinstance(found, dict):
        return {str(key): _plain(name, element) for key, element in found.items()}
    if found is not None and not isinstance(found, str | int | float):
        raise SpecError(f"The template variable {name} is a {type(found).__name__}; numbers, texts, lists and mappings can be given.")
    return found


class Loader:
    """One load: its variables, the budget of its templates, the folders that it may read, and the files included so far."""

    def __init__(self, variables: Mapping[str, object], folders: Sequence[Path]) -> None:
        try:
            self.variables = {name: _plain(name, value) for name, value in variables.items()}
        except RecursionError:
            raise SpecError("A template variable is nested without end, or too deep.") from None
        self.folders = [folder.resolve() for folder in folders]
        self.budget = RenderingBudget()
        self.loaded: dict[str, Value] = {}
        self.reads = 0

    def file(self, path: Path, shown: str, variables: Mapping[str, object], depth: int = 0) -> Value:
        """The document in a file, its templates rendered and its includes read."""
        return self.text(self._read(path, shown, depth), shown, path.resolve().parent, variables, depth)

    def text(self, text: str, shown: str, folder: Path | None, variables: Mapping[str, object], depth: int = 0) -> Value:
        """The document in a text; without a folder it can include nothing."""
        include = _Includes(self, shown, folder, variables, depth)
        return read_yaml(include.render(text), include.tag)

    def _read(self, path: Path, shown: str, depth: int) -> str:
        self.reads += 1
        if self.reads > MAX_INCLUDES or depth > MAX_INCLUDE_DEPTH:
            raise SpecError(f"{shown}: files include each other more than {MAX_INCLUDE_DEPTH} deep, or more than {MAX_INCLUDES} times.")
        return read_text(path, shown)

    def check_allowed(self, path: Path, shown: str) -> Path:
        """The path with links resolved, if it lies below an allowed folder."""
        with _file_errors(shown):
            resolved = path.resolve()
        if not any(resolved.is_relative_to(folder) for folder in self.folders):
            raise SpecError(
                f"{shown} lies outside the folders that may be read.",
                hint=f"Includes stay below {', '.join(map(str, self.folders))}; --include-dir, or include_dirs=[...], allows others.",
            )
        return resolved


class _Includes:
    """What one file may include: the helpers of its templates and its ``!include`` tags."""

    def __init__(self, loader: Loader, shown: str, folder: Path | None, variables: Mapping[str, object], depth: int) -> None:
        self.loader = loader
        self.shown = shown
        self.folder = folder
        self.variables = dict(variables)
        self.depth = depth
        self.extra: list[Path] = []
        self.helpers: dict[str, Helper] = {
            **BASE_HELPERS,
            "cwd": Helper(lambda: str(self._folder())),
            "find_path": Helper(lambda path: str(self.one(str(path)))),
            "find_paths": Helper(lambda path: [str(found) for found in self.find(str(path))]),
            "path_exists": Helper(lambda path: bool(self.find(str(path)))),
            "add_to_path": Helper(self.add_folder),
            "include": Helper(self.include, scoped=True),
            "include_all": Helper(self.include_all, scoped=True),
            "include_text": Helper(self.include_text, scoped=True),
        }

    def render(self, text: str) -> PlacedText:
        return Renderer(self.shown, text, self.helpers, self.loader.budget).render(self.variables)

    def _folder(self) -> Path:
        if self.folder is None:
            raise SpecError("A text that is not a file can only include files if a base folder is given.", hint="Pass base=...")
        return self.folder

    def add_folder(self, path: object) -> str:
        self.extra.append(self.loader.check_allowed(self._folder() / str(path), str(path)))
        return ""

    def find(self, pattern: str) -> list[Path]:
        """All files of this name or pattern, in the file's own folder first; those outside the allowed folders are refused."""
        if sum(glob.has_magic(part) for part in Path(pattern).parts) > MAX_PATTERNS:
            raise SpecError(f"The pattern {shortened(pattern)} has more than {MAX_PATTERNS} folders with wildcards.")
        with _file_errors(pattern):
            return self._found(pattern)

    def _found(self, pattern: str) -> list[Path]:
        for folder in (self._folder(), *self.extra):
            whole = folder / pattern
            if glob.has_magic(pattern):
                self.loader.check_allowed(Path(str(whole).partition("*")[0].partition("?")[0].partition("[")[0]).parent, pattern)
                found = sorted(Path(name) for name in glob.glob(str(whole), recursive=False))
            else:
                self.loader.check_allowed(whole, pattern)
                found = [whole] if whole.exists() else []
            if found:
                return [self.loader.check_allowed(path, str(path)) for path in found]
        return []

    def one(self, pattern: str) -> Path:
        """The only file of this name or pattern."""
        found = self.find(pattern)
        if not found:
            folder = self._folder()
            names = [str(p.relative_to(folder)) for p in folder.glob("*")]
            raise SpecError(f"There is no file {pattern} to include.", hint=nearest(pattern, names))
        if len(found) > 1:
            raise SpecError(f"{len(found)} files match {pattern}; include takes one.", hint="include_all takes several.")
        return found[0]

    def _variables(self, names: Mapping[str, object], inherit: bool, own: Mapping[str, object]) -> dict[str, object]:
        return {**(dict(visible_data(names)) if inherit else {}), **own}

    def include(self, names: Mapping[str, object], path: object, key: object = "", inherit_parse_data: bool = True, **own: object) -> str:
        """Text that stands for another file's document, or for one value in it."""
        return self._reference(self.one(str(path)), self._variables(names, inherit_parse_data, own)) + (f".{key}" if key else "")

    def include_all(
        self, names: Mapping[str, object], path: object, key: object = "", inherit_parse_data: bool = True, **own: object
    ) -> str:
        variables = self._variables(names, inherit_parse_data, own)
        suffix = f".{key}" if key else ""
        return f"[{', '.join(self._reference(found, variables) + suffix for found in self.find(str(path)))}]"

    def _reference(self, path: Path, variables: Mapping[str, object]) -> str:
        name = f"document{len(self.loader.loaded)}"
        self.loader.loaded[name] = Value(None, PlacedText(self.shown, ""), 0)
        self.loader.loaded[name] = self.loader.file(path, self._shown(path), variables, self.depth + 1)
        return f"!include_loaded {name}"

    def include_text(self, names: Mapping[str, object], path: object, inherit_parse_data: bool = True, **own: object) -> str:
        found = self.one(str(path))
        text = self.loader._read(found, self._shown(found), self.depth + 1)
        inner = _Includes(self.loader, self._shown(found), found.parent, self._variables(names, inherit_parse_data, own), self.depth + 1)
        source = inner.render(text)
        result = RenderedText(source.text)
        result.source = source
        return result

    def _shown(self, path: Path) -> str:
        folder = self._folder().resolve()
        shown = Path(self.shown).parent if self.shown != TEXT_NAME else Path()
        return str(shown / path.relative_to(folder)) if path.is_relative_to(folder) else str(path)

    def tag(self, tag: str, text: str, at: Value) -> Value:
        """The value of ``!include FILE`` or of what the helper ``include`` left in the text."""
        name, *keys = text.split(".") if tag == "include_loaded" else [text]
        try:
            if tag == "include":
                path = self.one(text)
                value = self.loader.file(path, self._shown(path), self.variables, self.depth + 1)
            elif name in self.loader.loaded:
                value = self.loader.loaded[name]
            else:
                raise SpecError(f"There is no loaded file {name!r}.")
            return _below(value, keys, name)
        except SpecError as error:
            raise type(error)(error.message, location=error.location or at.location(), hint=error.hint) from None


def _below(value: Value, keys: Sequence[str], name: str) -> Value:
    for key in keys:
        if isinstance(value.content, dict) and key in value.content:
            value = value.content[key]
        elif isinstance(value.content, list) and key.isdecimal() and int(key) < len(value.content):
            value = value.content[int(key)]
        else:
            known = value.content if isinstance(value.content, dict) else ()
            raise SpecError(f"The included file has no key {key!r}.", hint=nearest(key, known))
    return value


def _expanded(files: Sequence[str | Path]) -> list[Path]:
    paths: dict[Path, Path] = {}
    for file in files:
        with _file_errors(str(file)):
            _expand(file, paths)
    if not paths:
        raise SpecError("No file is given.")
    return list(paths.values())


def _expand(file: str | Path, paths: dict[Path, Path]) -> None:
    """Add the file, or all that match its pattern, by its resolved name."""
    found = sorted(glob.glob(str(file))) if glob.has_magic(str(file)) and not Path(file).exists() else [str(file)]
    if not found:
        hint = "An Einsum stands in a file, in the list workload.einsums." if "=" in str(file) else ""
        raise SpecError(f"No file matches {file}.", hint=hint)
    for name in found:
        paths.setdefault(Path(name).resolve(), Path(name))


def _united(parts: Sequence[tuple[str, Value]], top_keys: Collection[str] = ()) -> Document:
    root: dict[str, Value] = {}
    origin: dict[str, str] = {}
    places: dict[str, tuple[PlacedText, int]] = {}
    for file, value in parts:
        if value.content is None:
            continue
        if not isinstance(value.content, dict):
            raise SpecError("A file is a mapping of top keys (workload, arch, mapping, ...).", location=value.location())
        for key, content in value.content.items():
            if top_keys and key not in top_keys:
                continue
            if key not in root:
                root[key], origin[key] = content, file
                places[key] = value.key_offsets.get(key, (content.source, content.offset))
            elif key == "opencl" and _go_together(root[key], content):
                offsets = {**root[key].key_offsets, **content.key_offsets}
                root[key] = replace(root[key], content={**_tables(root[key]), **_tables(content)}, key_offsets=offsets)
            elif root[key].plain() != content.plain():
                source, offset = value.key_offsets.get(key, (content.source, content.offset))
                raise SpecError(
                    f"The top key {key!r} is given again, with other contents than in {origin[key]}.",
                    location=source.location(offset, path_text((key,))),
                    hint="Give each top key once, or give the same contents.",
                )
    for key in top_keys:
        if key not in root:
            raise SpecError(f"{parts[0][0]} has no top key {key}.", hint=nearest(key, (k for _, value in parts for k in _keys(value))))
    return Document(root, parts[0][0], places)


def _tables(opencl: Value) -> dict[str, Value]:
    """The tables of an ``opencl`` key."""
    return opencl.content if isinstance(opencl.content, dict) else {}


def _go_together(one: Value, other: Value) -> bool:
    """Whether two ``opencl`` keys say nothing different: one may be a device's, with bindings, the other a workload's, with types."""
    ones, others = _tables(one), _tables(other)
    return bool(ones and others) and all(ones[name].plain() == others[name].plain() for name in ones.keys() & others.keys())


def _keys(value: Value) -> Iterable[str]:
    return value.content if isinstance(value.content, dict) else ()


def read_files(
    files: Sequence[str | Path],
    variables: Mapping[str, object] | None,
    include_dirs: Sequence[str | Path] = (),
    top_keys: Collection[str] = (),
) -> Document:
    """The union of the top keys of all files; patterns are expanded and a file given twice is read once.

    With ``top_keys`` all others are passed over, which may be pieces that the rest refers to.
    """
    paths = _expanded(files)
    trees = dict.fromkeys(tree_of(path.parent) for path in paths)
    loader = Loader(variables or {}, [*trees, *map(Path, include_dirs)])
    parts = []
    for path in paths:
        loader.reads = 0
        parts.append((str(path), loader.file(path, str(path), loader.variables)))
    return _united(parts, top_keys)


def read_string(text: str, variables: Mapping[str, object] | None, base: str | Path | None = None) -> Document:
    """The document in a text; ``base`` is the folder that its includes are relative to and stay below."""
    if not isinstance(text, str):
        raise SpecError(f"text is expected, not {type(text).__name__}", hint="ff.load reads files, ff.loads their text.")
    if len(text) > MAX_FILE:
        raise SpecError(f"The text has more than {MAX_FILE} characters.", location=Location(TEXT_NAME))
    folder = None if base is None else Path(base).resolve()
    loader = Loader(variables or {}, [folder] if folder else [])
    return _united([(TEXT_NAME, loader.text(text, TEXT_NAME, folder, loader.variables))])
