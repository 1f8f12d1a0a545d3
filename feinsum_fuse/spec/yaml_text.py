"""Plain data as YAML text that templates leave alone and that reads back to the same data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(("true", "false", "null", "yes", "no", "on", "off", "inf", "nan", "none"))


@dataclass(frozen=True)
class Tagged:
    """A mapping under a tag, such as ``!Storage``."""

    tag: str
    fields: Mapping[str, YamlData] = field(default_factory=dict)


YamlData = None | bool | int | float | str | Sequence["YamlData"] | Mapping[str, "YamlData"] | Tagged


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    quoted = re.sub(r"[\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", quoted)
    return re.sub(r"\{(?=[{%#])", r"\\x7b", quoted)


def _flow(value: YamlData) -> str:
    if isinstance(value, Tagged):
        return f"!{value.tag} {_flow(value.fields)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _lines(value: YamlData, indent: int) -> list[str]:
    """Block style; the first line is without its indentation, for whoever puts a dash or a key before it."""
    margin = " " * indent
    flow = _flow(value)
    content = value.fields if isinstance(value, Tagged) else value
    nested = isinstance(content, Mapping) and "nodes" in content and isinstance(content["nodes"], Sequence) and len(content["nodes"]) > 0
    if len(flow) + indent <= WIDTH and not nested:
        return [flow]
    if isinstance(value, Tagged):
        return [f"!{value.tag}", *(margin + line for line in _block(value.fields, indent))]
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value):
        block = _block(value, indent)
        return [block[0], *(margin + line for line in block[1:])]
    return [flow]


def _block(value: YamlData, indent: int) -> list[str]:
    """The lines of a mapping or list, without the indentation of their own level."""
    result: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            result += _entry(f"{_scalar(key)}:", item, indent)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            first, *rest = _lines(item, indent + 2)
            result += [f"- {first}", *(line[indent:] for line in rest)]
    return result


def _entry(key: str, item: YamlData, indent: int) -> list[str]:
    lines = _lines(item, indent + 2)
    if len(lines) == 1:
        return [f"{key} {lines[0]}"]
    if isinstance(item, Tagged):
        return [f"{key} {lines[0]}", *(line[indent:] for line in lines[1:])]
    return [key, f"  {lines[0]}", *(line[indent:] for line in lines[1:])]


def yaml_text(data: Mapping[str, YamlData]) -> str:
    """A document: one block for each top key."""
    return "\n".join("\n".join(_entry(f"{_scalar(key)}:", item, 0)) + "\n" for key, item in data.items())
