"""Which device a text names, among devices that are not there: on processors and GPUs of several makers, on several platforms."""

from __future__ import annotations

import pytest

from feinsum_fuse.device.device_names import DeviceNames, position_of
from feinsum_fuse.errors import DeviceError

XEON = "Intel(R) Xeon(R) Processor"
POCL_XEON = DeviceNames("Portable Computing Language", "The pocl project", "GenuineIntel", f"pthread-{XEON}", "pocl xeon")
POCL_EPYC = DeviceNames("Portable Computing Language", "The pocl project", "AuthenticAMD", "pthread-AMD EPYC 7763", "pocl epyc")
INTEL_CPU = DeviceNames("Intel(R) OpenCL", "Intel(R) Corporation", "Intel(R) Corporation", XEON, "intel xeon")
INTEL_GPU = DeviceNames("Intel(R) OpenCL Graphics", "Intel(R) Corporation", "Intel(R) Corporation", "Intel(R) Arc(TM) A770", "intel arc")
NVIDIA = DeviceNames("NVIDIA CUDA", "NVIDIA Corporation", "NVIDIA Corporation", "NVIDIA GeForce RTX 4090", "nvidia 4090")
NVIDIA_TWIN = NVIDIA


@pytest.mark.parametrize(
    ("text", "listed", "position"),
    [
        ("intel", [POCL_XEON, INTEL_CPU], 1),
        ("INTEL", [INTEL_CPU, POCL_XEON], 0),
        (" intel ", [POCL_EPYC, INTEL_CPU], 1),
        ("pocl", [INTEL_CPU, POCL_XEON], 1),
        ("portable", [POCL_XEON, INTEL_CPU], 0),
        ("Intel(R) OpenCL", [POCL_XEON, INTEL_CPU, INTEL_GPU], 1),
        ("Intel(R) Xeon(R) Processor", [POCL_XEON, INTEL_CPU], 1),
        ("pthread", [INTEL_CPU, POCL_XEON], 1),
        ("arc", [POCL_XEON, INTEL_CPU, INTEL_GPU], 2),
        ("nvidia", [POCL_XEON, NVIDIA], 1),
        ("4090", [POCL_XEON, NVIDIA], 1),
        ("name:xeon", [POCL_XEON, NVIDIA], 0),
        ("vendor: genuine", [POCL_XEON, INTEL_CPU], 0),
        ("platform:intel", [POCL_XEON, INTEL_CPU], 1),
        ("2", [NVIDIA, NVIDIA_TWIN, POCL_XEON], 1),
    ],
)
def test_one_device(text: str, listed: list[DeviceNames], position: int) -> None:
    assert position_of(text, listed) == position


@pytest.mark.parametrize(
    ("text", "listed", "message"),
    [
        ("xeon", [POCL_XEON, INTEL_CPU], "'xeon' names 2 OpenCL devices, number 1, number 2"),
        ("intel", [POCL_XEON, INTEL_CPU, INTEL_GPU], "'intel' names 2 OpenCL devices, number 2, number 3"),
        ("intel", [POCL_XEON], "no platform is called 'intel': it is the maker of number 1, by another's platform"),
        ("amd", [NVIDIA, POCL_EPYC], "no platform is called 'amd': it is the maker of number 2, by another's platform"),
        ("nvidia", [NVIDIA, NVIDIA_TWIN], "'nvidia' names 2 OpenCL devices, number 1, number 2"),
        ("platform:xeon", [POCL_XEON, INTEL_CPU], "no OpenCL device matches 'platform:xeon'"),
        ("name:nvidia corporation", [NVIDIA], "no OpenCL device matches 'name:nvidia corporation'"),
        ("", [POCL_XEON, INTEL_CPU], "'' names 2 OpenCL devices, number 1, number 2"),
        ("0", [POCL_EPYC], "no OpenCL device matches '0'"),
    ],
)
def test_no_device_or_several(text: str, listed: list[DeviceNames], message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        position_of(text, listed)
    first, hint, *rows = str(caught.value).splitlines()
    assert first == message and hint.endswith("There are:")
    assert rows == [f"    {number}  {one.description}" for number, one in enumerate(listed, 1)]
