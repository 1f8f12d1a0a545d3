"""Small architectures and cascades for searches."""

from __future__ import annotations

from collections.abc import Sequence

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec

OUTER = "tensors: {keep: ~Intermediates, may_keep: All}"


def memory(name: str, size: float | str, price: float, *, rate: float = 16, tensors: str = "", more: str = "") -> str:
    """A memory of the architecture: reads cost ``price`` joules a bit, writes half as much again."""
    actions = f"[{{name: read, energy: {price}, throughput: {rate}}}, {{name: write, energy: {1.5 * price}, throughput: {rate / 2}}}]"
    parts = [f"name: {name}", f"size: {size}", "leak_power: 0", "area: 0", f"actions: {actions}", tensors, more]
    return f"  - !Memory {{{', '.join(part for part in parts if part)}}}\n"


def container(name: str, dimensions: str) -> str:
    """A fanout of the architecture."""
    return f"  - !Container {{name: {name}, spatial: [{dimensions}]}}\n"


def compute(energy: float = 1, rate: float = 1, more: str = "") -> str:
    """The compute unit."""
    action = f"actions: [{{name: compute, energy: {energy}, throughput: {rate}}}]"
    return f"  - !Compute {{{', '.join(part for part in ('name: MAC', 'leak_power: 0', 'area: 0', action, more) if part)}}}\n"


def arch(*nodes: str) -> str:
    """The architecture of these nodes."""
    return "arch:\n  nodes:\n" + "".join(nodes)


def workload(einsums: Sequence[str], bits: int = 8, more: str = "", **sizes: int) -> str:
    """A cascade given by its Einsums."""
    ranks = ", ".join(f"{rank}: {size}" for rank, size in sizes.items())
    lines = "".join(f"  - {e}\n" if e.startswith("{") else f"  - '{e}'\n" for e in einsums)
    return f"workload:\n  rank_sizes: {{{ranks}}}\n  bits_per_value: {{All: {bits}}}\n{more}  einsums:\n{lines}"


def two_memories(size: float | str) -> str:
    """Main memory, a buffer, a compute unit."""
    return arch(memory("Main", "inf", 64, rate=8, tensors=OUTER), memory("Buffer", size, 4, rate=64), compute())


def spec(*texts: str) -> Spec:
    """The Spec of these texts."""
    return ff.loads("".join(texts))
