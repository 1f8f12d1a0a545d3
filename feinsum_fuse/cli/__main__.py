"""``feinsum-fuse``, or ``python -m feinsum_fuse.cli``: the entry point, and what exit codes mean.

0 ok; 1 the user's input is wrong; 2 usage; 3 a kernel failed or was wrong; 130 interrupted; 141 nobody reads the output any more.
"""

from __future__ import annotations

if __name__ == "__main__":
    from feinsum_fuse.cli import main as start

    start()

import errno
import io
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Annotated, TextIO

import typer

from .. import Error, __version__, cache_folder
from ..errors import shown
from . import CLOSED_PIPE, INTERRUPTED
from .console import emit, fail, note

HELP = """Write a cascade of einsums and a LoopTree mapping; get a verified OpenCL kernel, its measured time, and the model's prediction.

Exit codes: 0 ok, 1 the input is wrong, 2 usage, 3 a kernel failed or was wrong, 130 interrupted,
141 nobody reads the output any more.
"""

VERBS = (
    *("check", "show", "predict", "explain", "map", "tune", "transforms"),
    *("run", "compare", "report", "export", "calibrate", "survey", "devices", "db"),
)
FOLDERS = {
    **dict.fromkeys(("show", "explain", "export", "report"), "kernels"),
    **dict.fromkeys(("map", "tune", "transforms"), "searches"),
}
"""Verb -> the folder in which it is, if not here."""

app = typer.Typer(
    name="feinsum-fuse",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        emit(f"feinsum-fuse {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    pass


def _register() -> None:
    for verb in VERBS:
        module = import_module(f".{FOLDERS[verb]}.{verb}" if verb in FOLDERS else f".{verb}", __package__)
        if isinstance(module.command, typer.Typer):
            app.add_typer(module.command, name=verb)
        else:
            app.command(verb)(module.command)


_register()


_TOLD: set[str] = set()
"""The warnings that this run of the command line has printed."""
PACKAGE = Path(__file__).resolve().parents[1]


def _show(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
) -> None:
    """Our own warnings on stderr, each once however often the files are read; what libraries say to their developers is left out."""
    if issubclass(category, UserWarning) and PACKAGE in Path(filename).resolve().parents and str(message) not in _TOLD:
        _TOLD.add(str(message))
        note(f"warning: {message}")


_Refusal: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What typer raises for a command line that it cannot read; typer has click in it, or beside it."""


def _usage(error: Exception) -> int:
    """Show what typer says, without what a terminal would obey in it; the exit code."""
    text = io.StringIO()
    error.show(text)  # type: ignore[attr-defined]
    print(shown(text.getvalue()), file=sys.stderr, end="")
    return int(error.exit_code)  # type: ignore[attr-defined]


def main() -> None:
    """Run the command line and exit with a documented code."""
    warnings.showwarning = _show
    _TOLD.clear()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if cache_folder.remark:
        note(f"warning: {cache_folder.remark}")
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            note("interrupted")
        sys.stdout.flush()
        sys.exit(code)
    except SystemExit as ended:
        # Where nobody reads any more typer ends itself, with 1.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _discard_output()
        sys.exit(CLOSED_PIPE)
    except _Refusal as error:
        sys.exit(_usage(error))
    except Error as error:
        fail(str(error))
        sys.exit(1)
    except BrokenPipeError:
        _discard_output()
        sys.exit(CLOSED_PIPE)
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:
            _discard_output()
            fail(f"cannot write the output: {error.strerror}")
        else:
            fail(f"{error.filename}: {error.strerror}" if error.filename else f"{type(error).__name__}: {error}")
        sys.exit(1)
    except MemoryError:
        fail("this machine has not enough memory for it\n  Take smaller sizes: --set NAME=VALUE if the workload has variables.")
        sys.exit(1)
    except ImportError as error:
        if "pyopencl" not in str(error.name) and "OpenCL" not in str(error):
            raise
        fail(f"the OpenCL loader cannot be used: {error}\n  Install the package pyopencl anew: pip install --force-reinstall pyopencl")
        sys.exit(1)


def _discard_output() -> None:
    """Nothing may be flushed at exit to a reader that is gone, or to a disk that is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
