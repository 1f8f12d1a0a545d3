"""YAML documents with the place of every value: reading, aliases, tags, includes and merges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.scanner import Scanner, ScannerError

from ...errors import Location, MappingError, SpecError
from ..language.caps import MAX_BITS, clipped, shortened
from ..language.expressions import nearest
from ..templates.placed_text import PlacedText
from ..validation.complaints import FieldPath, path_text
from .quoting import quoting_hint

Scalar = str | int | float | bool | None
Data = Scalar | list["Data"] | dict[str, "Data"]

MAX_NODES = 100_000
MAX_NESTING = 80
MAX_SEPARATORS = 70_000
MAPPING_TAGS = frozenset(
    ("Storage", "Toll", "Temporal", "Spatial", "Compute", "Sequential", "Pipeline", "Split", "Nested", "Reservation", "Mapping", "TextBox")
)
ARCH_TAGS = frozenset(("Memory", "Toll", "Compute", "Container", "Network", "Hierarchical", "Fork", "Array"))
NODE_TAGS = MAPPING_TAGS | ARCH_TAGS
CORE_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp"))
TYPE_KEYS = ("type", "_type", "_yaml_tag")
Include = Callable[[str, str, "Value"], "Value"]


@dataclass(frozen=True)
class Value:
    """One value of a document: a scalar, a list of values or a mapping of texts to values, and where it stood."""

    content: Scalar | list[Value] | dict[str, Value]
    source: PlacedText = field(repr=False)
    offset: int
    tag: str = ""
    quoted: bool = False
    nodes: int = 1
    key_offsets: dict[str, tuple[PlacedText, int]] = field(default_factory=dict, repr=False)

    def location(self, path: str = "") -> Location:
        """Where this value stood in the user's file."""
        return self.source.location(self.offset, path)

    def plain(self) -> Data:
        """The value as plain data; a tag becomes the key ``type``."""
        if isinstance(self.content, dict):
            data: dict[str, Data] = {key: value.plain() for key, value in self.content.items()}
            return {"type": self.tag, **data} if self.tag in NODE_TAGS else data
        if isinstance(self.content, list):
            return [value.plain() for value in self.content]
        return self.content


class Document:
    """The union of the top keys of all files, as values with places."""

    def __init__(self, root: dict[str, Value], file: str, keys: dict[str, tuple[PlacedText, int]]) -> None:
        self.root = root
        self.file = file
        self.keys = keys

    def value(self, path: FieldPath) -> tuple[Value | None, bool]:
        """The value at a path, or the nearest one above it; whether the path was found whole."""
        current: Value | None = self.root.get(str(path[0])) if path else None
        for step in path[1:] if current else ():
            content = current.content if current else None
            if isinstance(content, dict) and str(step) in content:
                current = content[str(step)]
            elif isinstance(content, list) and isinstance(step, int) and step < len(content):
                current = content[step]
            else:
                return current, False
        return current, current is not None

    def locate(self, path: FieldPath, *, key: bool = False) -> Location:
        """Where the value at a path stands (its key, if ``key``), or the nearest value above it."""
        above, _ = self.value(path[:-1])
        places = self.keys if len(path) == 1 else above.key_offsets if above else {}
        if key and str(path[-1]) in places:
            source, offset = places[str(path[-1])]
            return source.location(offset, path_text(path))
        found, _ = self.value(path)
        return found.location(path_text(path)) if found else Location(self.file, path=path_text(path))

    def error(self, path: FieldPath, message: str, hint: str = "", *, key: bool = False) -> SpecError:
        """An error about the value (or key) at a path; a :class:`MappingError` inside a mapping."""
        kind = MappingError if path[:1] == ("mapping",) else SpecError
        return kind(clipped(message), location=self.locate(path, key=key), hint=clipped(hint))

    @contextmanager
    def blame(self, path: FieldPath, *, key: bool = False) -> Iterator[None]:
        """Errors raised inside that have no place yet get the place of the value (or key) at this path."""
        try:
            yield
        except SpecError as error:
            if error.location is not None:
                raise
            raise self.error(path, error.message, error.hint, key=key) from None


_INTEGER = re.compile(r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)")
_DEPTH_LIMIT = f"Values are nested more than {MAX_NESTING} deep."


def _scalar(node: ScalarNode) -> Scalar:
    text = node.value
    kind = str(node.tag).rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on", "y")
    if kind == "int" and _INTEGER.fullmatch(text) and len(text) < MAX_BITS // 4:
        digits = text.replace("_", "")
        return int(digits, 0) if re.match(r"[-+]?0[box]", digits) else int(digits)
    if kind == "float":
        with suppress(ValueError):  # a tag may stand before anything, and YAML 1.1 writes 1:30.5 for 90.5: such text stays text
            return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    return str(text)


class _ValueReader:
    """Turns one file's composed YAML nodes into values, resolving tags, aliases and merges."""

    def __init__(self, source: PlacedText, include: Include) -> None:
        self.source = source
        self.include = include
        self.done: dict[int, Value] = {}
        self.open: set[int] = set()

    def error(self, node: YamlNode, message: str, hint: str = "") -> SpecError:
        return SpecError(clipped(message), location=self.source.location(node.start_mark.index), hint=hint)

    def read(self, node: YamlNode, depth: int = 0) -> Value:
        if id(node) in self.done:
            return self.done[id(node)]
        if id(node) in self.open:
            raise self.error(node, "This value contains itself through an alias.")
        if depth > MAX_NESTING:
            raise self.error(node, _DEPTH_LIMIT)
        self.open.add(id(node))
        value = self._read(node, depth)
        self.open.discard(id(node))
        if value.nodes > MAX_NODES:
            raise self.error(node, f"The document has more than {MAX_NODES} values once its aliases are expanded.")
        self.done[id(node)] = value
        return value

    def _read(self, node: YamlNode, depth: int) -> Value:
        tag = self._tag(node)
        if tag in ("include", "include_loaded"):
            if not isinstance(node, ScalarNode):
                raise self.error(node, f"!{tag} takes the name of a file.")
            return self.include(tag, node.value, Value(None, self.source, node.start_mark.index))
        offset = node.start_mark.index
        if isinstance(node, MappingNode):
            return self._mapping(node, tag, depth)
        if isinstance(node, SequenceNode):
            items = [self.read(child, depth + 1) for child in node.value]
            return Value(items, self.source, offset, tag, nodes=1 + sum(item.nodes for item in items))
        if not isinstance(node, ScalarNode):
            raise self.error(node, "This is neither text, nor a list, nor a mapping.")
        if tag in NODE_TAGS and node.value == "":
            return Value({}, self.source, offset, tag)
        if tag:
            raise self.error(node, f"A !{tag} node has fields; {shortened(node.value)!r} is none.")
        return Value(_scalar(node), self.source, offset, quoted=node.style in ("'", '"'))

    def _tag(self, node: YamlNode) -> str:
        tag = str(node.tag)
        if tag in CORE_TAGS:
            return ""
        name = tag.removeprefix("!")
        known = {*NODE_TAGS, "include", "include_loaded", "nomerge"}
        if name in known and tag != name:
            return name
        raise self.error(node, f"The tag {tag!r} is not known.", nearest(name, known - {"include_loaded"}))

    def _mapping(self, node: MappingNode, tag: str, depth: int) -> Value:
        content: dict[str, Value] = {}
        keys: dict[str, tuple[PlacedText, int]] = {}
        merges: list[tuple[str, Value]] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self.error(key_node, "A key must be text, not a list or a mapping.")
            key = str(key_node.value)
            value = self.read(value_node, depth + 1)
            if key in ("<<", "<<<") and key_node.style is None:
                merges.append((key, value))
                continue
            if key in content:
                raise self.error(key_node, f"The key {key!r} is given twice.")
            content[key] = value
            keys[key] = (self.source, key_node.start_mark.index)
        if len(merges) > 1:
            raise self.error(node, "Only one merge key (<< or <<<) can stand in a mapping.")
        result = Value(content, self.source, node.start_mark.index, tag, False, 1 + sum(v.nodes for v in content.values()), keys)
        return merged(result, *merges[0]) if merges else result


def merged(value: Value, key: str, others: Value) -> Value:
    """A mapping with one or several others merged in below it: ``<<`` takes missing keys, ``<<<`` also merges mappings inside."""
    for other in others.content if isinstance(others.content, list) else [others]:
        if not isinstance(other.content, dict):
            raise SpecError(f"The merge key {key} takes a mapping or a list of mappings.", location=other.location())
        value = _below(value, other, deep=key == "<<<")
    return value


def _below(value: Value, other: Value, *, deep: bool) -> Value:
    if not isinstance(value.content, dict) or not isinstance(other.content, dict):
        return value
    content = dict(value.content)
    for key, inherited in other.content.items():
        own = content.get(key)
        if own is None:
            content[key] = inherited
        elif deep and own.tag != "nomerge" and isinstance(own.content, dict) and isinstance(inherited.content, dict):
            content[key] = _below(own, inherited, deep=True)
    tag = value.tag or other.tag
    nodes = 1 + sum(v.nodes for v in content.values())
    return Value(content, value.source, value.offset, tag, False, nodes, {**other.key_offsets, **value.key_offsets})


class _LimitedScanner(Scanner):
    """A YAML scanner that stops at brackets in brackets, which it would look at over and over."""

    def fetch_flow_collection_start(self, TokenClass: type, to_push: str) -> None:
        if self.flow_level >= MAX_NESTING:
            raise ScannerError(None, None, f"brackets are nested more than {MAX_NESTING} deep", self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)


def read_yaml(source: PlacedText, include: Include) -> Value:
    """The document in a rendered text; :class:`SpecError` with the place for what is not YAML, too deep or too large."""
    if sum(map(source.text.count, (",", ":", "\n"))) > MAX_SEPARATORS:
        raise SpecError(f"The file has more than {MAX_SEPARATORS} lines and values.", location=Location(source.file))
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = _LimitedScanner
    try:
        node = yaml.compose(source.text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = source.location(mark.index) if mark else Location(source.file)
        hint = quoting_hint(source.text, mark.index) if mark else ""
        raise SpecError(clipped(f"This is not YAML: {error.problem or error.context}."), location=where, hint=hint) from None
    except RecursionError:
        raise SpecError(_DEPTH_LIMIT, location=Location(source.file)) from None
    except (YAMLError, ValueError, OverflowError) as error:
        raise SpecError(f"This is not YAML: {shortened(str(error))}", location=Location(source.file)) from None
    if node is None:
        return Value({}, source, 0)
    return _ValueReader(source, include).read(node)
