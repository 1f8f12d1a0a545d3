"""Einsums that YAML reads as something else, since ``: `` in them, or brackets around them, mean something there."""

from __future__ import annotations

import re

_ITEM = re.compile(r"(?P<before>\s*(?:-\s+)?(?:[\w-]+:\s+)?)(?P<einsum>[A-Za-z_]\w*\s*\[[^\]=]*\]\s*=(?!=).*?)(?:\s+#.*)?\s*")
"""A line that is an Einsum and not quoted: an item of a list, or the value of a key."""
_LIST = re.compile(r"[\[,]\s*[A-Za-z_]\w*\s*\[[^\]=]*\]\s*=(?!=)")
"""An Einsum in a list in brackets."""


def quoting_hint(text: str, place: int) -> str:
    """What to do about a line of a file that is no YAML, or not what was meant, at this place; empty if no Einsum stands there."""
    line = text[text.rfind("\n", 0, place) + 1 :].partition("\n")[0]
    item = _ITEM.fullmatch(line)
    if item is not None:
        quote = "'" if '"' in item["einsum"] else '"'
        return f"Quote the line, which YAML takes apart at its colons: {item['before'].lstrip()}{quote}{item['einsum']}{quote}"
    if _LIST.search(line):
        return "Quote each Einsum of the list, which YAML takes apart at its brackets, or write each on a line of its own."
    return ""
