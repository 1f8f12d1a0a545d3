"""Whether a name of ours means something to a compiler: ``python -m tests.attack.compiler_words [DEVICE ...]``.

Whatever a compiler reserves, defines or declares on its own stands as a word in its libraries: each such word, under the name that we give
it, has to do as the name of an argument, a variable, an array and a loop, and may be no macro.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyopencl as cl

from feinsum_fuse.cascades.names import identifier
from feinsum_fuse.device.catalogue import devices, find_device
from feinsum_fuse.device.runtime.loaded_executable import context_of

LONGEST = 48
"""Longer words in a library are names that its compiler mangled."""
BATCH = 10_000
PAGE = 4096
_SPACED = bytes(code if re.match(rb"\w", bytes([code])) else 32 for code in range(256))


def libraries(device: cl.Device) -> list[Path]:
    """The libraries of a device's runtime: those that this process holds, once the compiler has run, beside the one that speaks OpenCL."""
    cl.Program(context_of(device), "__kernel void k(__global float *x) { *x = 0; }").build()
    held = {Path(line.split(maxsplit=5)[5].strip()) for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    brought = {"intel": ("intelocl", "common_clang"), "pocl": ("libpocl", "libLLVM", "libclang")}
    wanted = next((parts for vendor, parts in brought.items() if vendor in device.platform.name.lower()), brought["pocl"])
    return sorted(path for path in held if path.is_file() and any(part in path.name for part in wanted))


def library_words(device: cl.Device, part: int = 1) -> list[str]:
    """Every word in a compiler's libraries that could be a name, or those in every ``part``-th page of them.

    What starts with an underscore is renamed whatever it is.
    """
    words = {word for path in libraries(device) for text in _pages(path, part) for word in text.translate(_SPACED).split()}
    return sorted(word.decode() for word in words if word[:1].isalpha() and len(word) <= LONGEST)


def _pages(path: Path, part: int) -> Iterator[bytes]:
    if part == 1:
        yield path.read_bytes()
        return
    with path.open("rb") as file:
        for at in range(0, path.stat().st_size, part * PAGE):
            file.seek(at)
            yield file.read(PAGE)


def header_words() -> list[str]:
    """Every word in the headers that PoCL's compiler reads; none where they are not found."""
    try:
        from pocl_binary_distribution import __file__ as package
    except ImportError:
        return []
    files = Path(package).parent.rglob("opencl-c*.h")
    code = [re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read_text(errors="replace"), flags=re.DOTALL) for file in files]
    return sorted({word for text in code for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)})


def refused(device: cl.Device, names: Iterable[str]) -> list[str]:
    """Those of the names that cannot be used in a program for the device."""
    wanted = sorted(set(names))
    return [name for at in range(0, len(wanted), BATCH) for name in _refused(device, wanted[at : at + BATCH])]


def _refused(device: cl.Device, names: list[str]) -> Iterator[str]:
    try:
        cl.Program(context_of(device), _source(names)).compile(["-cl-opt-disable"])
    except cl.Error:
        if len(names) == 1:
            yield names[0]
        else:
            half = len(names) // 2
            yield from _refused(device, names[:half])
            yield from _refused(device, names[half:])


def _source(names: list[str]) -> str:
    """A program that uses each name in every way in which a kernel of ours does."""
    texts = (
        f"#ifdef {name}\n#error a macro\n#endif\nvoid f{number}__(__global float *{name}, int at__) {{ {name}[at__] = 1;"
        f" {{ float {name} = at__; {{ float {name}[2]; {name}[0] = at__; }}"
        f" for (int {name} = 0; {name} < 9; ++{name}) at__ += {name}; if ({name} < 0) return; }} }}"
        for number, name in enumerate(names)
    )
    return "\n".join(texts)


def main(wanted: list[str]) -> int:
    """Print the count of words of each device's compiler, and those that do not do; returns how many these are."""
    count = 0
    for device in [find_device(name) for name in wanted] if wanted else devices():
        words = sorted({*library_words(device), *header_words()})
        left = refused(device, map(identifier, words))
        print(f"{device.platform.name}: {len(words)} words in {', '.join(path.name for path in libraries(device))}")
        print(f"  names that do not do: {', '.join(left) or 'none'}")
        count += len(left)
    return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
