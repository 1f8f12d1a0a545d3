"""OpenCL C of examples, word by word: read by eye whenever it changes (``--update-golden`` writes what is generated now)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.lowering import lower

EXAMPLES: dict[str, tuple[str, dict[str, int]]] = {
    "matmul": ("mapping_packed", {"M": 67, "K": 300, "N": 45}),
    "three_matmuls": ("mapping_fused", {"M": 131, "N": 23}),
    "dg_divergence": ("mapping_fused", {}),
    "attention": ("mapping_one_pass", {}),
    "mttkrp": ("mapping_fused", {"N": 19, "R": 35, "JT": 8}),
}
"""Folder -> mapping, and sizes: what divides, and what does not."""


@pytest.mark.parametrize("folder", EXAMPLES)
def test_text_of_an_example(folder: str, root: Path, golden: Callable[[str, str], None]) -> None:
    """For the neutral target, and so the same everywhere."""
    mapping, sizes = EXAMPLES[folder]
    files = (root / "examples" / folder / "workload.yaml", root / "examples" / folder / f"{mapping}.yaml", root / "examples" / "cpu.yaml")
    spec = ff.load(*files, variables=sizes)
    golden(f"opencl_{folder}.cl", executable(lower(spec).apply(ff.cascade(spec).kernel())).source.rstrip("\n"))
