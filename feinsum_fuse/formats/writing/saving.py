"""Putting a mapping into a user's file without touching the rest of it."""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import Location, SpecError
from ...whole_file import write_whole
from ..reading.files import read_string, read_text

_TOP_KEY = re.compile(r"^(?:mapping|\"mapping\"|'mapping')\s*:", re.MULTILINE)


def mapping_span(text: str) -> tuple[int, int] | None:
    """Where the top-level ``mapping`` block begins and ends: up to the next line that is neither indented, nor empty, nor a comment.

    Blank lines and comments at the margin that follow the block belong to what comes after it. List items may stand at the margin.
    """
    match = _TOP_KEY.search(text)
    if match is None:
        return None
    end = text.find("\n", match.end()) + 1 or len(text)
    position = end
    while position < len(text):
        after = text.find("\n", position) + 1 or len(text)
        line = text[position:after]
        if line.strip() and not line.startswith("#"):
            if not (line[0] in " \t" or line.startswith(("- ", "{%", "{#", "-\n"))):
                break
            end = after
        position = after
    return match.start(), end


def with_mapping(text: str, mapping: str) -> str:
    """The text with its ``mapping`` block replaced, or with one added at its end."""
    span = mapping_span(text)
    if span is None:
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}\n{mapping}"
    return text[: span[0]] + mapping + text[span[1] :]


def save_block(block: str, path: Path) -> None:
    """Put a ``mapping`` block into the file; :class:`SpecError` if the file would no longer be readable."""
    old = read_text(path, str(path))
    new = with_mapping(old, block)
    if len(_TOP_KEY.findall(new)) != 1:
        raise SpecError("The file gives the top key mapping more than once.", location=Location(str(path)))
    if not any(mark in new for mark in ("{{", "{%", "{#")):
        written = read_string(new, {}).root["mapping"].plain()
        if written != read_string(block, {}).root["mapping"].plain():
            raise SpecError("The mapping block of the file cannot be told from what follows it.", location=Location(str(path)))
    try:
        write_whole(path, new)
    except OSError as error:
        raise SpecError(f"{path} cannot be written: {error.strerror}.") from None
