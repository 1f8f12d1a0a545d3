"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILES...", help="YAML files; together they hold workload, arch, mapping, renames, opencl.")
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
        result[name.strip()] = _value(text.strip())
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
