"""The two runtimes for processors that the tests know."""

from __future__ import annotations

import pyopencl as cl
import pytest

from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.errors import DeviceError


@pytest.fixture(scope="module", params=["pocl", "intel"])
def processor(request: pytest.FixtureRequest) -> cl.Device:
    """The processor by PoCL, and by Intel's runtime where that is installed."""
    try:
        return find_device(request.param)
    except DeviceError:
        pytest.skip(f"there is no device of {request.param}")
