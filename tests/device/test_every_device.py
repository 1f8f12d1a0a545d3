"""The whole path on each OpenCL device that is there: PoCL always, Intel's runtime where the extra is installed, others where present."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.compilation.compilation import compile
from feinsum_fuse.device.catalogue import POCL_PLATFORM, DeviceInfo, device_of, devices, find_device, target
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.device.timing.harness import measure
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import UnsupportedTypeError
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.schedule import target as targets
from feinsum_fuse.schedule.target import Quirks
from tests.device.programs import program
from tests.device.test_program import CHAIN, FUSED, UNFUSED, chain
from tests.sweeps import sweep_size

every_device = pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
A = np.arange(1, 65, dtype=np.float32)


@every_device
@pytest.mark.parametrize("mapping", [FUSED, UNFUSED], ids=["fused", "unfused"])
def test_compile_call_and_measure(device: cl.Device, mapping: str) -> None:
    compiled = compile(chain(mapping), device)
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((30, 20), (20, 10), (10, 6)))
    assert np.allclose(compiled(A=a, B=b, C=c)["Z"], a @ b @ c, rtol=1e-4, atol=1e-4)
    m = measure(compiled, repeats=3)
    assert m.outcome is Outcome.ok
    assert m.provenance.device == DeviceInfo.of(device)


@every_device
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "uint8", "int64"][: sweep_size(60)])
def test_element_types(device: cl.Device, dtype: str) -> None:
    spec = loads(CHAIN.replace("SIZE", "1048576").replace("opencl: {", f"opencl: {{dtypes: {{All: {dtype}}}, ") + FUSED)
    if {"float16": "cl_khr_fp16", "float64": "cl_khr_fp64"}.get(dtype, "") not in device.extensions:
        with pytest.raises(UnsupportedTypeError) as caught:
            compile(spec, device)
        assert str(caught.value) == (
            f"{device.name} ({device.platform.name}) has no {dtype}, which is the type of A, B, C, Z\n"
            "  Choose another type under opencl: dtypes, or another device."
        )
        assert measure(spec, device=device).outcome is Outcome.rejected
        return
    m = measure(spec, device=device, repeats=2)
    assert m.outcome is Outcome.ok, m
    assert {argument.dtype for argument in m.arguments} == {dtype}


@every_device
def test_device_is_found_by_its_names_and_again_in_a_child(device: cl.Device) -> None:
    assert find_device(device.platform.name) == device
    assert device_of(DeviceInfo.of(device)) == device


@every_device
def test_target(device: cl.Device) -> None:
    found = target(device)
    assert found.limits.max_work_group_size >= 1 and len(found.limits.max_work_item_sizes) == 3
    assert found.limits.local_bytes >= 1 << 14 and found.limits.private_bytes >= 1 << 19
    assert found.line_bytes >= 16
    named = {POCL_PLATFORM: targets.POCL, "Intel(R) OpenCL": targets.INTEL, "rusticl": targets.RUSTICL}
    assert found.quirks == named.get(device.platform.name, Quirks())


@pytest.mark.parametrize("device", devices()[1:], ids=lambda device: device.platform.name.split()[0])
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("C[i] = 2*A[i];", Outcome.ok),
        ("C[i] = 3*A[i];", Outcome.wrong_result),
        ("if (i) C[i] = 2*A[i];", Outcome.wrong_result),
        ("C[i] = 2*A[i]", Outcome.build_failed),
        ("for (volatile int go = 1; go; ) C[i] = A[i];", Outcome.timeout),
        ("*(__global volatile float *)(size_t)(8*i) = 1;", Outcome.crashed),
    ],
)
def test_outcomes_on_other_devices_than_the_default(device: cl.Device, body: str, outcome: Outcome) -> None:
    timeout = 2 if outcome is Outcome.timeout else 60
    result = run_isolated(program(body), {"A": A}, device, timeout_s=timeout, expected={"C": 2.0 * A}, tolerance=1e-6)
    if outcome is Outcome.timeout and result.outcome is Outcome.wrong_result:
        pytest.skip(f"{device.name} leaves loops that do not end")
    assert result.outcome is outcome, result


@every_device
def test_private_limit_can_be_used(device: cl.Device) -> None:
    """A group may fill its private memory up to the limit that is promised for it."""
    size = min(target(device).limits.private_bytes, 32 << 20) // 4 // 8
    body = f"volatile float big[{size}]; for (int k = {size - 1}; k >= 0; k -= 64) big[k] = A[i]; C[i] = 2*big[{size - 1}];"
    result = run_isolated(program(body), {"A": A}, device, expected={"C": 2.0 * A}, tolerance=1e-6)
    assert result.outcome is Outcome.ok, result


@every_device
def test_local_limit_can_be_used(device: cl.Device) -> None:
    size = target(device).limits.local_bytes // 4
    body = f"__local float big[{size}]; for (int k = get_local_id(0); k < {size}; k += get_local_size(0)) big[k] = k; "
    body += f"barrier(CLK_LOCAL_MEM_FENCE); C[i] = 2*A[i] + big[{size - 1} - i] - ({size - 1} - i);"
    result = run_isolated(program(body), {"A": A}, device, expected={"C": 2.0 * A}, tolerance=1e-6)
    assert result.outcome is Outcome.ok, result
