"""pydantic's complaints in our words: where in the data, what is expected there, and what stands there instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pydantic import ValidationError

from ..language.caps import shortened

FieldPath = tuple[str | int, ...]

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping of names to values",
    "model": "a mapping of names to values",
    "dataclass": "a mapping of names to values",
}
_BEGINNINGS = {
    "Input should be greater": "a value greater",
    "Input should be less": "a value less",
    "Input should be ": "",
    "String should match ": "text that matches the ",
    "String should have ": "text of ",
    "List should have ": "a list of ",
    "Tuple should have ": "a list of ",
    "Dictionary should have ": "a mapping of ",
}
"""How pydantic begins a sentence -> how we do."""


class Complaint(NamedTuple):
    """The first thing that is wrong with some data."""

    path: FieldPath
    message: str
    hint: str = ""
    is_key: bool = False
    """Whether it is the key at the end of the path that is wrong, and not the value."""


def complaint(error: ValidationError, shown: Callable[[FieldPath], str | None]) -> Complaint:
    """The first complaint; ``shown`` gives what stands at a path in short, and ``None`` for nothing.

    It is asked because pydantic's paths also name branches of unions.
    """
    errors = error.errors(include_url=False)
    details = errors[0]
    kind, context, steps = details["type"], details.get("ctx", {}), details["loc"]
    if kind == "missing":
        return Complaint(_existing(steps[:-1], shown), f"The field {steps[-1]!r} is missing.")
    where = _existing(steps, shown)
    if kind == "unknown_field":
        return Complaint((*where, str(context["key"])), f"The field {context['key']!r} is not known here.", details["msg"], is_key=True)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return Complaint(where, f"The field {shortened(str(steps[-1]), 60)!r} is not known here.", is_key=True)
    if kind == "union_tag_invalid":
        tag, names = shortened(str(context["tag"]), 60), str(context["expected_tags"]).replace("'", "")
        return Complaint((*where, str(context["discriminator"]).strip("'")), f"{tag!r} is not known here.", f"Known are {names}.")
    if kind == "union_tag_not_found":
        return Complaint(where, f"The field {context['discriminator']} is missing.")
    if kind == "json_invalid" and "recursion" in details["msg"]:
        return Complaint(where, "Values are nested too deep.")
    if kind in ("value_error", "json_invalid"):
        return Complaint(where, f"{details['msg'].removeprefix('Value error, ')}.")
    same_place = [d for d in errors if _existing(d["loc"], shown) == where]
    wanted = " or ".join(dict.fromkeys(_expected(d["type"], d["msg"]) for d in same_place))
    given = shown(where) or repr(shortened(str(details["input"]), 60))
    return Complaint(where, f"{wanted[:1].upper()}{wanted[1:]} is expected, not {given}.")


def _expected(kind: str, message: str) -> str:
    family, _, rest = kind.partition("_")
    if family in _EXPECTED and (rest.endswith("type") or rest in ("parsing", "from_float")):
        return _EXPECTED[family]
    for beginning, ours in _BEGINNINGS.items():
        if message.startswith(beginning):
            return ours + message.removeprefix(beginning).partition(" after validation")[0]
    return message


def _existing(steps: FieldPath, shown: Callable[[FieldPath], str | None]) -> FieldPath:
    """The path of those steps at which something stands."""
    path: FieldPath = ()
    for step in steps:
        if shown((*path, step)) is not None:
            path = (*path, step)
    return path


def path_text(path: FieldPath) -> str:
    """``workload.einsums[0].name``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shortened(step)}" if text else shortened(step)
    return text
