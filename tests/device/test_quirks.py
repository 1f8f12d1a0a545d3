"""What PoCL gets wrong (``doc/pocl.rst``): each is avoided if the target says so, and only then.

A quirk that the processor at hand does not bring about cannot be seen to be avoided: its test is skipped and says so.
"""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import devices, find_device, target
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.runtime import compiler_cache, runtimes
from feinsum_fuse.device.runtime.isolation import RunResult, run_isolated
from feinsum_fuse.device.runtime.loaded_executable import context_of
from feinsum_fuse.device.runtime.pocl_functions import built
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.target import POCL, Quirks, Target
from tests.device.programs import program
from tests.device.test_program import SIXTEEN_LANES
from tests.lowering.test_mappings import FIRST_OF_A_LOOP, MATMUL, TREES, spec_of

UNEVEN = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Temporal {rank_variable: n, tile_shape: 2}
- !Storage {component: Scratchpad, tensors: [B]}
- !Spatial {rank_variable: m, tile_shape: 2, component: WorkItem, name: Y}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Temporal {rank_variable: n, tile_shape: 1}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
"""The last work-item has one row instead of two, and loops inside the loop over them."""
ENDS_EARLY = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Spatial {rank_variable: m, tile_shape: 3, component: Core, name: X}
- !Temporal {rank_variable: m, tile_shape: 2}
- !Storage {component: Scratchpad, tensors: [A]}
- !Spatial {rank_variable: n, tile_shape: 1, component: WorkItem, name: Y}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
"""The last group has fewer tiles that its work-items fill and wait for."""
CUT_GROUPS = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Temporal {rank_variable: m, tile_shape: 3}
- !Spatial {rank_variable: m, tile_shape: 1, component: Core, name: X}
- !Storage {component: Scratchpad, tensors: [A]}
- !Spatial {rank_variable: n, tile_shape: 1, component: WorkItem, name: Y}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
"""Two rows of groups along two axes, of which the second has fewer; the work-items of each wait for one another."""
REST_OF_A_TILE = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Temporal {rank_variable: m, tile_shape: 4}
- !Temporal {rank_variable: n, tile_shape: 1}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
"""The last tile has three rows instead of four."""
POWERS = (
    SIXTEEN_LANES.replace("All: 32", "All: 64")
    .replace("N: 32", "N: 37")
    .replace("tile_shape: 16", "tile_shape: 8")
    .replace("fanout: 16", "fanout: 8")
    .replace("[A, Y]", "[A, B, Y]")
    .replace("exp(A[m,n])", "pow(abs(A[m,n]), B[m,n])")
)
"""Of eight lanes of float64; at the end of a row three of them are zeros."""
SPECS: dict[str, Spec] = {
    "barrier_under_condition": spec_of((MATMUL,), {"M": 7, "N": 4, "K": 5}, ENDS_EARLY),
    "uneven_loops": spec_of((MATMUL,), {"M": 5, "N": 3, "K": 4}, UNEVEN),
    "agreed_conditions": spec_of((MATMUL,), {"M": 7, "N": 3, "K": 5}, FIRST_OF_A_LOOP),
    "widest_builtins": loads(POWERS),
    "chosen_ends": spec_of((MATMUL,), {"M": 7, "N": 3, "K": 5}, REST_OF_A_TILE),
    "int_places": spec_of((MATMUL,), {"M": 7, "N": 3, "K": 5}, REST_OF_A_TILE),
    "slow_vector_loads": loads(SIXTEEN_LANES),
    "slow_vector_parts": loads(SIXTEEN_LANES.replace("N: 32", "N: 37")),
    "halved_vectors": loads(SIXTEEN_LANES),
    "slow_functions": loads(SIXTEEN_LANES),
    "slow_powers": loads(SIXTEEN_LANES.replace("exp(A[m,n])", "pow(A[m,n], 0.3)")),
    "mixed_arguments": loads(SIXTEEN_LANES.replace("exp(A[m,n])", "sin(where(n < 1, 1073741824, 0.001 * A[m,n]))")),
}
"""Quirk -> a mapping whose kernel it concerns."""
SLOW = {"chosen_ends", "int_places", "slow_vector_loads", "slow_vector_parts", "halved_vectors", "slow_functions"}
"""Those that cost time and nothing else."""
TRACES = ("agreed(", "_by_halves", "_anywhere", "ups512_mask", "whole_", "Cody", "pi/2", "POCL", "long const")
"""What only a text has that avoids a quirk, besides conditions that stand elsewhere."""


def written(spec: Spec, quirks: Quirks) -> Executable:
    """The mapping's kernel for a target with these quirks."""
    cascade, to = ff.cascade(spec), Target(quirks=quirks)
    arrays = chosen_names(cascade).arrays
    kernel = ff.lower(spec, target=to).apply(cascade.kernel(), target=to)
    generated = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], target=to)
    return generated.renamed({array: tensor for tensor, array in arrays.items()})


def outcome(spec: Spec, quirks: Quirks, device: cl.Device) -> RunResult:
    """What a kernel that avoids these quirks does in a child process."""
    cascade = ff.cascade(spec)
    trial = example(cascade)
    return run_isolated(
        written(spec, quirks), trial.inputs, device, timeout_s=60, expected=trial.expected, tolerance=cascade.tolerance()
    )


def without(quirk: str) -> Quirks:
    """All quirks of PoCL but one."""
    return dataclasses.replace(POCL, **{quirk: False})


@pytest.mark.parametrize("quirk", [quirk for quirk in SPECS if quirk not in SLOW])
def test_a_quirk_of_pocl_is_avoided(quirk: str) -> None:
    device = find_device("Portable")
    result = outcome(SPECS[quirk], POCL, device)
    assert result.outcome is Outcome.ok, result.message
    if outcome(SPECS[quirk], without(quirk), device).outcome is Outcome.ok:
        pytest.skip(f"PoCL does not show {quirk} on this processor")


@pytest.mark.parametrize("rows", [5, 7])
@pytest.mark.parametrize("quirks", [POCL, dataclasses.replace(POCL, chosen_ends=False)], ids=["<=", "<"])
def test_chosen_ends_lose_no_iteration(quirks: Quirks, rows: int) -> None:
    """The last tile of 4 has 1 row, or 3."""
    spec = spec_of((MATMUL,), {"M": rows, "N": 3, "K": 5}, REST_OF_A_TILE)
    result = outcome(spec, quirks, find_device("Portable"))
    assert result.outcome is Outcome.ok, result.message


@pytest.mark.parametrize("quirk", SPECS)
def test_each_quirk_changes_a_text(quirk: str) -> None:
    assert written(SPECS[quirk], without(quirk)).source != written(SPECS[quirk], POCL).source


def test_every_quirk_has_a_kernel() -> None:
    """Or a test elsewhere: that of products of bytes is with those."""
    elsewhere = {"half_written_cache", "private_on_stack", "unknown_instructions"}
    assert {flag.name for flag in dataclasses.fields(Quirks)} - elsewhere == set(SPECS)


@pytest.mark.parametrize("quirk", SPECS)
def test_a_target_without_quirks_does_not_pay(quirk: str) -> None:
    source = written(SPECS[quirk], Quirks()).source
    assert [trace for trace in TRACES if trace in source] == []


@pytest.mark.parametrize("device", devices()[1:], ids=lambda device: device.platform.name.split()[0])
@pytest.mark.parametrize("quirk", SPECS)
def test_other_devices_compute_right_without(device: cl.Device, quirk: str) -> None:
    assert not any(getattr(target(device).quirks, name) for name in SPECS if name not in SLOW)
    result = outcome(SPECS[quirk], Quirks(), device)
    assert result.outcome is Outcome.ok, result.message


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
@pytest.mark.parametrize("quirk", SPECS)
def test_what_we_write_is_compiled_without_a_warning(device: cl.Device, quirk: str) -> None:
    """A compiler that runs in this process says how many there were, in the middle of a user's output."""
    source = f"// {uuid.uuid4()}: no cache knows it\n{written(SPECS[quirk], target(device).quirks).source}"
    log = built(context_of(device), source, ["-cl-mad-enable"]).get_build_info(device, cl.program_build_info.LOG)
    assert "warning" not in log


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_groups_that_are_not_there_wait_for_nobody(device: cl.Device) -> None:
    """A condition on the numbers of groups stands around statements, not around barriers, whether or not the device minds these."""
    spec = spec_of((MATMUL,), {"M": 5, "N": 4, "K": 5}, CUT_GROUPS)
    result = outcome(spec, target(device).quirks, device)
    assert result.outcome is Outcome.ok, result.message


def test_private_memory_lies_on_a_threads_stack() -> None:
    """What fills the limit runs (``test_private_limit_can_be_used``); beyond the eighth that it leaves, the process dies."""
    device = find_device("Portable")
    assert target(device).quirks.private_on_stack
    size = target(device).limits.private_bytes // 4 * 5 // 4
    body = f"volatile float big[{size}]; for (int k = 0; k < {size}; ++k) big[k] = A[i]; C[i] = 2*big[{size - 1}];"
    result = run_isolated(program(body, 1, group=1), {"A": np.ones(1, np.float32)}, device)
    if result.outcome is Outcome.ok:
        pytest.skip("PoCL keeps private memory elsewhere on this machine")
    assert result.outcome is Outcome.crashed


def test_small_groups_are_loops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A setting of the process, which no other runtime reads, nor PoCL where it has the kernel in its cache."""
    device, spec = find_device("Portable"), TREES["one item of two"]
    assert outcome(spec, POCL, device).outcome is Outcome.ok
    monkeypatch.setenv(runtimes.REPLICATION, "2")
    monkeypatch.setenv(compiler_cache.VARIABLE, str(tmp_path))
    if outcome(spec, POCL, device).outcome is Outcome.ok:
        pytest.skip("PoCL does not show it on this processor")
