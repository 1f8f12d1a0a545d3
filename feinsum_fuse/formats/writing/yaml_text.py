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


class Expression(str):
    """A text that must not be quoted, since a quoted variable stands for itself."""


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
    if isinstance(value, Expression):
        return value if value[0].isalnum() or value[0] in '_(["' else f"({value})"
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


def _fits(value: YamlData, indent: int) -> bool:
    """Whether a value is written in one line: it is short and has no nodes below it."""
    content = value.fields if isinstance(value, Tagged) else value
    if not isinstance(content, Mapping | Sequence) or isinstance(content, str) or not content:
        return True
    if isinstance(content, Mapping) and any(isinstance(item, Expression) for item in content.values()):
        return False
    return not (isinstance(content, Mapping) and content.get("nodes")) and len(_flow(value)) + indent <= WIDTH


def _block(value: YamlData, indent: int) -> list[str]:
    """The lines of a mapping or list that is not written in one line, relative to its own indentation."""
    if isinstance(value, Mapping):
        return [line for key, item in value.items() for line in _entry(f"{_scalar(key)}:", item, indent)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [line for item in value for line in _entry("-", item, indent)]
    return [_flow(value)]


def _entry(lead: str, item: YamlData, indent: int) -> list[str]:
    """A key or a dash, and what stands after or below it."""
    if _fits(item, indent + 2):
        return [f"{lead} {_flow(item)}"]
    below = [f"  {line}" for line in _block(item.fields if isinstance(item, Tagged) else item, indent + 2)]
    if isinstance(item, Tagged):
        return [f"{lead} !{item.tag}", *below]
    return [f"{lead} {below[0].lstrip()}", *below[1:]] if lead == "-" else [lead, *below]


def yaml_text(data: Mapping[str, YamlData]) -> str:
    """A document: one block for each top key."""
    return "\n".join("\n".join(_entry(f"{_scalar(key)}:", item, 0)) + "\n" for key, item in data.items())
