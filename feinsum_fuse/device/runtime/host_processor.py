"""Which kind of processor this machine has: what its instructions say of it, where a name hides that.

Virtual machines show one name for several generations: two that OpenCL and ``model name`` both call ``AMD EPYC`` differed by a factor of
two in the time of one kernel. Family and model stay what they are.
"""

from __future__ import annotations

import functools
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_X86 = ("cpu family", "model")
_ARM = ("CPU implementer", "CPU part")


@functools.cache
def host_processor(file: Path = CPUINFO) -> str:
    """``family 25 model 17``, ``implementer 0x41 part 0xd40``; empty where the system does not say.

    The words of Linux for CPUID's leaf 1 (AMD64 Architecture Programmer's Manual, volume 3, appendix E) and Arm's MIDR_EL1. Steppings are
    left out: they mend errors.
    """
    first = _first_processor(file)
    if all(name in first for name in _X86):
        family, model = (first[name] for name in _X86)
        return f"family {family} model {model}"
    if all(name in first for name in _ARM):
        implementer, part = (first[name] for name in _ARM)
        return f"implementer {implementer} part {part}"
    return ""


def processor_name(file: Path = CPUINFO) -> str:
    """The name that the processor goes by in shops; empty where the system does not say."""
    return _first_processor(file).get("model name", "")


def instruction_sets(file: Path = CPUINFO) -> frozenset[str]:
    """What an x86 processor can do, in Linux's words; empty where the system does not say."""
    return frozenset(_first_processor(file).get("flags", "").split())


def _first_processor(file: Path) -> dict[str, str]:
    """The fields of the first processor that the system lists."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
