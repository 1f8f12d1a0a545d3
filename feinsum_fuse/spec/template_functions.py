"""What templates may call: filters, tests, methods of text, lists and mappings, each bounded in what it may produce."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..errors import SpecError
from .expressions import checked, multiply
from .limits import MAX_TEXT, MAX_WEIGHT, shown, weight


class Undefined:
    """A name that no template variable has; only ``is defined`` and ``default`` may touch it."""

    def __init__(self, name: str) -> None:
        self.name = name


def undefined(name: str) -> SpecError:
    """The error for a variable that nobody gave a value."""
    return SpecError(f"The template variable {name!r} is not defined.", hint=f"Give it a value, or write {name} | default(...).")


class Namespace:
    """The result of ``namespace(...)``: attributes that survive loops."""

    def __init__(self, **attributes: object) -> None:
        self.attributes = attributes


def text_of(value: object) -> str:
    """What a value prints as."""
    if isinstance(value, Undefined):
        raise undefined(value.name)
    if not isinstance(value, str | int | float | list | tuple | dict | None):
        raise SpecError("A function or macro cannot be printed; call it.")
    weight(value)
    return value if isinstance(value, str) else str(value)


def repeat(left: object, right: object) -> object:
    """``left * right``, with bounded repetition of text and lists."""
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | list | tuple):
            if not isinstance(times, int) or len(some) * max(times, 0) > MAX_WEIGHT:
                raise SpecError("The repetition is too long.")
            return some * times
    return multiply(left, right)


def formatted(pattern: object, *values: object) -> str:
    """``pattern % values`` for widths of at most two digits."""
    text = text_of(pattern)
    if re.search(r"%[^a-zA-Z%]*(\d{3,}|\*)", text):
        raise SpecError("The width in a format must be less than 100.")
    weight(values)
    return text % values


def _elements(value: object) -> list[object]:
    if isinstance(value, str | list | tuple | Mapping):
        return list(value)
    raise undefined(value.name) if isinstance(value, Undefined) else SpecError(f"{shown(value)} has no elements.")


def _sequence(value: object) -> object:
    return value if isinstance(value, str | list | tuple) else _elements(value)


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple | Mapping) else len(_elements(value))


def _number(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    raise SpecError(f"{shown(value)} is not a number.")


def _default(value: object, other: object = "", boolean: bool = False) -> object:
    return other if isinstance(value, Undefined) or (boolean and not value) else value


def _integer(value: object, default: object = 0) -> object:
    try:
        return checked(int(value if isinstance(value, int | float) else text_of(value)))
    except ValueError:
        return default


def _float(value: object, default: object = 0.0) -> object:
    try:
        return float(value if isinstance(value, int | float) else text_of(value))
    except ValueError:
        return default


def _round(value: object, precision: int = 0, method: str = "common") -> object:
    if method == "common":
        return round(float(_number(value)), precision)
    scale = 10**precision if abs(precision) < 20 else 1
    scaled = float(_number(value)) * scale
    return (scaled // 1 if method == "floor" else -(-scaled // 1)) / scale


def _join(values: object, between: object = "", attribute: object = None) -> str:
    parts = [text_of(v if attribute is None else member(v, attribute)) for v in _elements(values)]
    if sum(map(len, parts)) + len(text_of(between)) * len(parts) > MAX_TEXT:
        raise SpecError("The joined text is too long.")
    return text_of(between).join(parts)


def _replace(text: object, old: object, new: object, count: int = -1) -> str:
    whole, was, will = text_of(text), text_of(old), text_of(new)
    if len(whole) + whole.count(was) * len(will) > MAX_TEXT:
        raise SpecError("The text after the replacement is too long.")
    return whole.replace(was, will, count)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, 200)
    lines = text_of(text).split("\n")
    if len(lines) * len(margin) > MAX_TEXT:
        raise SpecError("The indented text is too long.")
    return "\n".join(margin + line if (index or first) and (line.strip() or blank) else line for index, line in enumerate(lines))


def _sort(values: object, reverse: bool = False, case_sensitive: bool = False, attribute: object = None) -> list[object]:
    def key(value: object) -> object:
        part = value if attribute is None else member(value, attribute)
        return part.lower() if isinstance(part, str) and not case_sensitive else part

    return sorted(_elements(values), key=key, reverse=reverse)  # type: ignore[arg-type]


def _sum(values: object, attribute: object = None, start: object = 0) -> object:
    total = start
    for value in _elements(values):
        total = checked(operator.add(total, _number(value if attribute is None else member(value, attribute))))
    return total


def _unique(values: object) -> list[object]:
    result: list[object] = []
    for value in _elements(values):
        if len(result) > 1_000:
            raise SpecError("unique takes at most 1000 different values.")
        if value not in result:
            result.append(value)
    return result


def _batch(values: object, size: int, fill: object = None) -> list[object]:
    elements = _elements(values)
    rows: list[object] = []
    for start in range(0, len(elements), max(1, size)):
        row = elements[start : start + max(1, size)]
        rows.append(row + [fill] * (min(size, MAX_WEIGHT) - len(row)) if fill is not None else row)
    return rows


def _map(values: object, function: str = "", attribute: object = None, default: object = None) -> list[object]:
    if attribute is not None:
        found = [member(value, attribute) for value in _elements(values)]
        return found if default is None else [_default(value, default) for value in found]
    if function not in FILTERS:
        raise SpecError(f"There is no filter {function!r}.")
    return [FILTERS[function](value) for value in _elements(values)]


def _choose(keep: bool, by_attribute: bool) -> Callable[..., object]:
    def choose(values: object, *arguments: object) -> list[object]:
        rest = list(arguments)
        attribute = rest.pop(0) if by_attribute else None
        test = TESTS[str(rest.pop(0))] if rest else bool
        return [v for v in _elements(values) if bool(test(v if attribute is None else member(v, attribute), *rest)) is keep]

    return choose


def _items(value: object) -> list[object]:
    if not isinstance(value, Mapping):
        raise SpecError("items takes a mapping.")
    return [tuple(pair) for pair in value.items()]


def member(owner: object, name: object) -> object:
    """``owner.name`` or ``owner[name]`` of a mapping, a list, text or a namespace."""
    if isinstance(owner, Undefined):
        raise undefined(owner.name)
    if isinstance(owner, Namespace):
        return owner.attributes.get(str(name), Undefined(str(name)))
    if isinstance(owner, Mapping):
        return owner[name] if isinstance(name, str | int | float) and name in owner else Undefined(str(name))
    if isinstance(owner, list | tuple | str) and isinstance(name, int):
        return owner[name] if -len(owner) <= name < len(owner) else Undefined(str(name))
    raise SpecError(f"There is nothing called {name!r} to read or to call here.")


FILTERS: dict[str, Callable[..., object]] = {
    "abs": lambda value: abs(_number(value)),
    "batch": _batch,
    "capitalize": lambda value: text_of(value).capitalize(),
    "count": _length,
    "d": _default,
    "default": _default,
    "dictsort": lambda value: sorted(_items(value), key=lambda pair: str(pair).lower()),
    "first": lambda value: member(_sequence(value), 0),
    "float": _float,
    "format": formatted,
    "indent": _indent,
    "int": _integer,
    "items": _items,
    "join": _join,
    "last": lambda value: member(_sequence(value), -1),
    "length": _length,
    "list": _elements,
    "lower": lambda value: text_of(value).lower(),
    "map": _map,
    "max": lambda value: max(_elements(value)),  # type: ignore[type-var]
    "min": lambda value: min(_elements(value)),  # type: ignore[type-var]
    "reject": _choose(keep=False, by_attribute=False),
    "rejectattr": _choose(keep=False, by_attribute=True),
    "replace": _replace,
    "reverse": lambda value: value[::-1] if isinstance(value, str) else _elements(value)[::-1],
    "round": _round,
    "select": _choose(keep=True, by_attribute=False),
    "selectattr": _choose(keep=True, by_attribute=True),
    "sort": _sort,
    "string": text_of,
    "sum": _sum,
    "title": lambda value: text_of(value).title(),
    "tojson": lambda value: json.dumps(value) if weight(value) else "",
    "trim": lambda value, characters=None: text_of(value).strip(characters),
    "unique": _unique,
    "upper": lambda value: text_of(value).upper(),
}

_COMPARISONS: dict[str, Callable[..., object]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARISONS: dict[str, Callable[..., object]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda value, values: value in values,
    "notin": lambda value, values: value not in values,
}

TESTS: dict[str, Callable[..., object]] = {
    **COMPARISONS,
    **_COMPARISONS,
    "equalto": operator.eq,
    "le": operator.le,
    "ge": operator.ge,
    "lessthan": operator.lt,
    "greaterthan": operator.gt,
    "boolean": lambda value: isinstance(value, bool),
    "defined": lambda value: not isinstance(value, Undefined),
    "undefined": lambda value: isinstance(value, Undefined),
    "divisibleby": lambda value, by: _number(value) % _number(by) == 0,
    "even": lambda value: _number(value) % 2 == 0,
    "odd": lambda value: _number(value) % 2 == 1,
    "float": lambda value: isinstance(value, float),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": lambda value: isinstance(value, Iterable),
    "mapping": lambda value: isinstance(value, Mapping),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float),
    "sequence": lambda value: isinstance(value, Sequence),
    "string": lambda value: isinstance(value, str),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
}

METHODS: dict[tuple[type, str], Callable[..., object]] = {
    **{(str, name): getattr(str, name) for name in ("upper", "lower", "strip", "lstrip", "rstrip", "title", "capitalize", "startswith")},
    **{(str, name): getattr(str, name) for name in ("endswith", "split", "splitlines", "isdigit", "isalpha", "find", "count")},
    (str, "replace"): _replace,
    (str, "join"): lambda between, values: _join(values, between),
    (dict, "items"): _items,
    (dict, "keys"): lambda value: list(value),
    (dict, "values"): lambda value: list(value.values()),
    (dict, "get"): lambda value, key, default=None: value.get(key, default),
    (list, "append"): lambda value, element: value.append(element),
    (list, "index"): lambda value, element: value.index(element),
    (list, "count"): lambda value, element: value.count(element),
}
