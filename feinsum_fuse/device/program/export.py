"""A program as files that run without this package: OpenCL C, a C header and host, a Python file, and what to do with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from ...arguments import described
from ...codegen.executable import Argument, Executable
from ...errors import DeviceError
from ...whole_file import replacing
from .export_texts import HOST_C, PYTHON, README

_C_TYPES = {
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def export(executable: Executable, folder: Path, name: str = "program") -> tuple[Path, ...]:
    """Write the files of a program into a folder, which is made if need be; returns their paths.

    ``<name>.cl``, ``<name>.h``, ``<name>.c``, ``<name>.py`` and ``README.rst``. Raises :class:`~feinsum_fuse.errors.DeviceError` for
    element types that C lacks, for numbers that are passed by value, and for a folder that cannot be written.
    """
    for argument in executable.arguments:
        if argument.by_value or argument.dtype not in _C_TYPES:
            kind = "is passed by value" if argument.by_value else f"has elements of type {argument.dtype}"
            raise DeviceError(f"{argument.name} {kind}, which exported programs cannot hold", hint=f"Types are {', '.join(_C_TYPES)}.")
    check_name(name)
    texts = {
        f"{name}.cl": executable.source,
        f"{name}.h": header(executable, name),
        f"{name}.c": HOST_C.replace("@NAME@", name),
        f"{name}.py": PYTHON.replace("@NAME@", name).replace("@PROGRAM@", _described(executable)),
        "README.rst": README.replace("@NAME@", name).replace("@ARGUMENTS@", "\n".join(map(_listed, _arrays(executable)))),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            for file, text in texts.items():
                files.enter_context(replacing(folder / file)).write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "Name a folder that may be written."
        raise DeviceError(f"the program cannot be written to {folder}: {error.strerror}", hint=hint) from None
    return tuple(folder / file for file in texts)


def check_name(name: str) -> None:
    """Raises :class:`~feinsum_fuse.errors.DeviceError` for what cannot name a program's files."""
    if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) is None:
        raise DeviceError(f"{described(name)} cannot name files of C", hint="Use letters, digits and underscores.")


def _arrays(executable: Executable) -> list[Argument]:
    """Inputs and outputs."""
    return [*executable.inputs, *executable.outputs]


def header(executable: Executable, name: str) -> str:
    """The sizes, arguments and launches of a program as C tables."""
    places = {argument.name: place for place, argument in enumerate(executable.arguments)}
    return "\n".join(
        [
            f"/* What {name}.cl needs: its arguments, and its kernels in the order in which they run. */",
            f"#ifndef {name.upper()}_H",
            f"#define {name.upper()}_H",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            *_lengths(executable),
            "",
            "enum role { INPUT, OUTPUT, TEMPORARY };",
            "struct argument { const char *name; enum role role; size_t bytes; };",
            f"static const struct argument arguments[] = {{ {', '.join(_entry(a) for a in executable.arguments)} }};",
            f"enum {{ ARGUMENTS = {len(executable.arguments)} }};",
            "",
            "struct launch { const char *kernel; unsigned dimensions; size_t global[3], local[3]; int count, arguments[64]; };",
            "static const struct launch launches[] = {",
            *(
                f'  {{ "{launch.kernel}", {len(launch.global_size)}, {{ {_listing(launch.global_size)} }}, '
                f"{{ {_listing(launch.local_size)} }}, {len(launch.arguments)}, {{ {_listing([places[a] for a in launch.arguments])} }} }},"
                for launch in executable.launches
                if all(launch.global_size)
            ),
            "};",
            f"enum {{ LAUNCHES = {sum(all(launch.global_size) for launch in executable.launches)} }};",
            f'static const char *const options = "{" ".join(executable.options)}";',
            "#endif",
            "",
        ]
    )


def _listing(numbers: object) -> str:
    return ", ".join(map(str, numbers))  # type: ignore[call-overload]


def _lengths(executable: Executable) -> Iterator[str]:
    for argument in _arrays(executable):
        yield f"typedef {_C_TYPES[argument.dtype]} {argument.name}_element;"
        yield f"enum {{ {argument.name}_elements = {argument.elements} }};  /* shape {list(argument.shape)} */"


def _entry(argument: Argument) -> str:
    return f'{{ "{argument.name}", {argument.role.upper()}, {argument.nbytes}u }}'


def _described(executable: Executable) -> str:
    """The tables of the Python file, as JSON in a Python text."""
    fields = {
        "options": list(executable.options),
        "arguments": [
            {**asdict(a), "dtype": a.held.name, "strides": list(a.element_strides), "elements": a.elements} for a in executable.arguments
        ],
        "launches": [asdict(launch) for launch in executable.launches if all(launch.global_size)],
    }
    return json.dumps(fields, indent=1)


def _listed(argument: Argument) -> str:
    shape, strides = list(argument.shape), list(argument.element_strides)
    return f"- {argument.role} ``{argument.name}``: {argument.dtype}, shape {shape}, strides {strides}"
