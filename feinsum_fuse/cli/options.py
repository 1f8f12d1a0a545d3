"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..arguments import Kind

T = TypeVar("T")


def _picture(file: Path | None) -> Path | None:
    """A picture's name, which says what it is; whether a folder can be written is not asked here."""
    if file is not None and file.suffix.lower() not in (".svg", ".png") and not file.is_dir():
        raise typer.BadParameter(f"{file} does not say what it is; name it {file.name}.svg or {file.name}.png")
    return file


def picture_option(what: str) -> Any:
    """The option ``--svg FILE`` or ``--png FILE``: the name of the file says which it is, and nothing else is taken."""
    return typer.Option("--svg", "--png", metavar="FILE", callback=_picture, help=f"{what}, as .svg or .png: the name says which.")


def obeying(kind: Kind) -> Callable[[T], T]:
    """What an option of :mod:`typer` takes: what the package's own functions take."""

    def held(value: T) -> T:
        if value is not None and not kind.holds(value):
            raise typer.BadParameter(f"{value} is not {kind.text}")
        return value

    return held


FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILES", help="YAML files; together they hold workload, arch, mapping, renames, opencl.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="Give a template variable a value; may be repeated.")
]
IncludeDirOption = Annotated[
    list[Path] | None,
    typer.Option("--include-dir", metavar="FOLDER", help="Let files include what lies below FOLDER; repeatable. Else: their own tree."),
]
TopKeyOption = Annotated[
    list[str] | None, typer.Option("--top-key", metavar="KEY", help="Read only this top key of the files, such as arch; repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DeviceOption = Annotated[
    str | None, typer.Option("--device", "-d", metavar="NAME", help="Part of the name of a platform or a device, or a number of `devices`.")
]
DtypeOption = Annotated[
    list[str] | None,
    typer.Option("--dtype", metavar="[TENSORS=]TYPE", help="Element type of all tensors, or of those of a set expression; repeatable."),
]
SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="NAME=VALUES",
        help="Try each mapping with each value of a template variable: V1,V2,... and ranges A..B, A..B+STEP, A..B*FACTOR; repeatable.",
    ),
]
ReferenceOption = Annotated[
    int | None,
    typer.Option(
        "--reference-bytes", metavar="N", min=1, help="Memory for the reference that verifies kernels. Default: half of what is free."
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The database: a file, or a SQLAlchemy URL. Default: $FEINSUM_FUSE_DATABASE, else your own."),
]


def dtypes(choices: Sequence[str] | None) -> dict[str, str]:
    """``TYPE`` and ``TENSORS=TYPE`` texts as set expression -> type; a bare type is for all tensors that the others leave over."""
    pairs = [choice.rpartition("=") for choice in choices or ()]
    rest = "Other" if len(pairs) > 1 else "All"
    result = {tensors.strip() if equals else rest: dtype.strip() for tensors, equals, dtype in pairs}
    if len(result) < len(pairs):
        raise typer.BadParameter("two types for the same tensors", param_hint="--dtype")
    return result


def variables(assignments: Sequence[str] | None) -> dict[str, int | float | str | bool]:
    """``NAME=VALUE`` texts as template variables; values that read as numbers or booleans become such.

    Raises a usage error (exit code 2) for anything else.
    """
    result: dict[str, int | float | str | bool] = {}
    for assignment in assignments or ():
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip().isidentifier():
            raise typer.BadParameter(f"{assignment!r} is not NAME=VALUE", param_hint="--set")
        if result.setdefault(name.strip(), value := _value(text.strip())) != value:
            raise typer.BadParameter(f"{name.strip()} is given two values", param_hint="--set")
    return result


def _value(text: str) -> int | float | str | bool:
    """A number, a truth value or the text itself; ``1e3`` is a whole number."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return int(value) if "e" in text.lower() and value % 1 == 0 else value
    return text


_RANGE = re.compile(r"(?P<first>-?\d+)\.\.(?P<last>-?\d+)(?:(?P<how>[+*])(?P<step>\d+))?")
MOST_VALUES = 10_000
"""Of one range."""


def combinations(sweep: Sequence[str] | None) -> list[dict[str, int | float | str | bool]]:
    """All combinations of the values of ``NAME=VALUES`` texts; one empty combination if there are none.

    VALUES are separated by commas; ``8..12`` is 8, 9, ..., 12, ``8..64+8`` takes steps of 8, and ``8..64*2`` is 8, 16, 32, 64. Raises a
    usage error (exit code 2) for a text without values, for a range that is none, and for a variable that is swept twice.
    """
    axes: dict[str, list[dict[str, int | float | str | bool]]] = {}
    for text in sweep or ():
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier() or not all(value.strip() for value in values.split(",")):
            raise typer.BadParameter(f"{text!r} is not NAME=V1,V2,...", param_hint="--sweep")
        if name in axes:
            raise typer.BadParameter(f"{name} is swept twice", param_hint="--sweep")
        every = [one for value in values.split(",") for one in _range(value.strip())]
        axes[name] = [variables([f"{name}={value}"]) for value in dict.fromkeys(every)]
    return [{name: value for one in choice for name, value in one.items()} for choice in itertools.product(*axes.values())]


def _range(text: str) -> Iterator[str]:
    """The values of a range; a text that is none is a value."""
    found = _RANGE.fullmatch(text)
    if found is None:
        if ".." in text:
            raise typer.BadParameter(f"{text!r} is no range: write A..B, A..B+STEP or A..B*FACTOR", param_hint="--sweep")
        yield text
        return
    value, last, step = int(found["first"]), int(found["last"]), int(found["step"] or 1)
    grows = step > 1 and value > 0 if found["how"] == "*" else step > 0
    if not grows or value > last:
        raise typer.BadParameter(f"{text!r} is a range without an end, or with no value", param_hint="--sweep")
    for _ in range(MOST_VALUES):
        if value > last:
            return
        yield str(value)
        value = value * step if found["how"] == "*" else value + step
    raise typer.BadParameter(f"{text!r} has more than {MOST_VALUES} values", param_hint="--sweep")
