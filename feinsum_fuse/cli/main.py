"""``feinsum-fuse``: the entry point, and what exit codes mean.

0 ok; 1 the user's input is wrong; 2 usage; 3 a kernel failed or was wrong; 130 interrupted.
"""

from __future__ import annotations

import sys
from importlib import import_module

import typer

from .. import Error
from .console import fail

HELP = """Write a cascade of einsums and a LoopTree mapping; get a verified OpenCL kernel, its measured time, and the model's prediction.

Exit codes: 0 ok, 1 the input is wrong, 2 usage, 3 a kernel failed or was wrong, 130 interrupted.
"""

VERBS = ("check", "show", "devices")

app = typer.Typer(
    name="feinsum-fuse",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _register() -> None:
    for verb in VERBS:
        module = import_module(f".{verb}", __package__)
        if isinstance(module.command, typer.Typer):
            app.add_typer(module.command, name=verb)
        else:
            app.command(verb)(module.command)


_register()


def main() -> None:
    """Run the command line and exit with a documented code."""
    try:
        app()
    except Error as error:
        fail(str(error))
        sys.exit(1)
    except BrokenPipeError:
        sys.stdout = None  # type: ignore[assignment]  # the reader is gone: nothing may be flushed at exit
        sys.exit(1)
