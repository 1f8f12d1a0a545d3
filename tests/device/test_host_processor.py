"""Which processor this is: from what the system lists, on x86 and Arm, and nothing where it lists neither."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.runtime.host_processor import host_processor, processor_name

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC

processor\t: 1
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
"""
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1\n"


@pytest.mark.parametrize(
    ("text", "processor", "name"),
    [(X86, "family 25 model 17", "AMD EPYC"), (ARM, "implementer 0x41 part 0xd40", ""), ("cpu : POWER9\n", "", ""), ("", "", "")],
    ids=["x86", "arm", "power", "empty"],
)
def test_the_first_processor_that_the_system_lists(text: str, processor: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    assert (host_processor(file), processor_name(file)) == (processor, name)


def test_systems_without_the_file_say_nothing(tmp_path: Path) -> None:
    assert (host_processor(tmp_path / "none"), processor_name(tmp_path / "none")) == ("", "")


def test_the_device_of_a_processor_says_which_one_it_is() -> None:
    info = DeviceInfo.of(find_device("pocl"))
    assert info.processor == host_processor()
    assert DeviceInfo.from_json(info.to_json()) == info
    unknown = dataclasses.replace(info, processor="")
    assert DeviceInfo.from_json(unknown.to_json()) == unknown
    assert dataclasses.replace(info, processor="family 1 model 2").slug != unknown.slug
