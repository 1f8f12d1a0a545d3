"""Which OpenCL devices exist, how to name one, and what it allows."""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs
import pyopencl as cl

from ..arguments import described
from ..errors import DeviceError
from ..field_types import Count, Word
from ..schedule import target as targets
from ..schedule.target import ANY_GPU, DeviceLimits, Quirks, Target
from .calibration.caches import FAR_LINE_COST, LAST_CACHE, LOAD_COST, OWN_LINE_COST, OWN_LINE_LOSS, SUMS_AT_ONCE, own_caches, shared_cache
from .device_names import DeviceNames, hint, position_of
from .runtime import runtimes
from .runtime.host_processor import host_processor
from .runtime.pocl_processor import POCL_PLATFORM, name_processor
from .vector_support import vector_registers

QUIRKS = {POCL_PLATFORM: targets.POCL, "Intel(R) OpenCL": targets.INTEL, "rusticl": targets.RUSTICL}
"""Platform -> what its devices are known to get wrong."""
GROUP_PARTS = {POCL_PLATFORM: (32, 256)}
"""PoCL's thread pool (``POCL_PTHREAD_MIN_WGS`` and ``POCL_PTHREAD_MAX_WGS`` of its scheduler)."""
PAGES_AHEAD = {POCL_PLATFORM: 2, "Intel(R) OpenCL": 2}
"""While a page is read, the next one is on its way, and the one after it is asked for. Of platforms whose compiler was seen to take the
builtin for it."""


@dataclass(frozen=True)
class DeviceInfo:
    """What a device says of itself: the provenance of whatever was measured on it.

    ``ordinal`` counts devices of the same platform and name; ``units`` are the compute units that this process may use; sizes in bytes.
    ``processor`` says which one it is (:func:`~feinsum_fuse.device.runtime.host_processor.host_processor`): empty for what is no processor,
    and in records from before anybody looked.
    """

    platform: Word
    name: Word
    ordinal: Count
    vendor: Word
    driver: Word
    version: Word
    kind: Word
    units: Count
    global_bytes: Count
    cache_bytes: Count
    local_bytes: Count
    processor: Word = ""

    @classmethod
    def of(cls, device: cl.Device) -> DeviceInfo:
        """The description of a device."""
        platform = device.platform
        twins = [other for other in platform.get_devices() if other.name.strip() == device.name.strip()]
        kind = next((name for name, bit in DEVICE_KINDS.items() if device.type & bit), "other")
        units = units_of(device)
        return cls(
            platform=platform.name.strip(),
            name=device.name.strip(),
            ordinal=twins.index(device),
            vendor=device.vendor.strip(),
            driver=device.driver_version.strip(),
            version=device.version.strip(),
            kind=kind,
            units=units,
            global_bytes=int(device.global_mem_size),
            cache_bytes=int(device.global_mem_cache_size),
            local_bytes=int(device.local_mem_size),
            processor=host_processor() if kind == "cpu" else "",
        )

    @property
    def slug(self) -> str:
        """A name for files about this device: platform, name, units and processor in small letters, digits and dashes."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.platform} {self.name} {self.units} {self.processor}".lower()).strip("-")

    def to_json(self) -> str:
        """JSON text with one key for each field."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> DeviceInfo:
        """The value that :meth:`to_json` wrote."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.units} units) on {self.platform}, driver {self.driver}"


def units_of(device: cl.Device) -> int:
    """The compute units of a device that this process may use."""
    units = int(device.max_compute_units)
    if device.type & cl.device_type.CPU and hasattr(os, "sched_getaffinity"):
        units = min(units, len(os.sched_getaffinity(0)))
    return units


DEVICE_KINDS = {"cpu": cl.device_type.CPU, "gpu": cl.device_type.GPU, "accelerator": cl.device_type.ACCELERATOR}


def devices() -> tuple[cl.Device, ...]:
    """All OpenCL devices, PoCL's first (they are the default); empty if there is none."""
    runtimes.enter()
    runtimes.prepare()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return ()
    found = []
    for platform in sorted(platforms, key=lambda p: not p.name.startswith(POCL_PLATFORM)):
        try:
            found += platform.get_devices()
        except cl.Error:
            continue
    for device in found:
        name_processor(device)
    return tuple(found)


def find_device(name: str | None = None) -> cl.Device:
    """The one device that a text names, as :func:`~feinsum_fuse.device.device_names.position_of` reads it; without a text, the default.

    Raises :class:`~feinsum_fuse.errors.DeviceError` listing what exists for a text that names no device, or several.
    """
    available = devices()
    if not available:
        raise DeviceError("no OpenCL device was found", hint=runtimes.without_device())
    if name is None:
        return available[0]
    listed = [DeviceNames(d.platform.name, d.platform.vendor, d.vendor, d.name, str(DeviceInfo.of(d))) for d in available]
    if not isinstance(name, str):
        raise DeviceError(f"{described(name)} is no name of a device, and no pyopencl.Device", hint=hint(listed))
    return available[position_of(name, listed)]


def device_of(info: DeviceInfo) -> cl.Device:
    """The device that this describes, found again in another process; raises :class:`~feinsum_fuse.errors.DeviceError`."""
    same = [d for d in devices() if (d.platform.name.strip(), d.name.strip()) == (info.platform, info.name)]
    if len(same) <= info.ordinal:
        raise DeviceError(f"the device {info} is not there any more")
    return same[info.ordinal]


def target(device: cl.Device) -> Target:
    """What kernels for this device are written for: limits, vectors that its compiler writes for, what OpenCL says of memory, quirks."""
    is_gpu = bool(device.type & cl.device_type.GPU)
    vectors = vector_registers(device)
    nearest, own = own_caches(device) or (Target.nearest_cache_bytes, Target.core_cache_bytes)
    steps = items_in_step(device)
    known = {} if is_gpu else _calibrated(device)
    return Target(
        limits=_limits(device),
        vector_bytes=vectors.size if steps == 1 else ANY_GPU.vector_bytes,
        widest_vector=Target.widest_vector if steps == 1 else ANY_GPU.widest_vector,
        vector_registers=vectors.count if steps == 1 else ANY_GPU.vector_registers,
        items_in_step=steps,
        items_a_unit=Target.items_a_unit if steps == 1 else ANY_GPU.items_a_unit,
        line_bytes=int(device.global_mem_cacheline_size) or Target.line_bytes,
        nearest_cache_bytes=nearest,
        core_cache_bytes=own,
        last_cache_bytes=0 if is_gpu else _last_cache(device, known),
        page_bytes=mmap.PAGESIZE,
        pages_ahead=0 if is_gpu else PAGES_AHEAD.get(device.platform.name.strip(), 0),
        units=units_of(device),
        load_cost=known.get(LOAD_COST, Target.load_cost),
        far_line_cost=known.get(FAR_LINE_COST, Target.far_line_cost),
        own_line_cost=known.get(OWN_LINE_COST, Target.own_line_cost * Target.vector_bytes / max(1, vectors.size)),
        own_line_loss=known.get(OWN_LINE_LOSS, Target.own_line_loss),
        sums_at_once=known.get(SUMS_AT_ONCE, Target.sums_at_once),
        shares_host_memory=not is_gpu and bool(device.host_unified_memory),
        group_parts=GROUP_PARTS.get(device.platform.name.strip(), Target.group_parts),
        quirks=quirks_of(device.platform.name),
    )


def default_file(device: cl.Device) -> Path:
    """The device file that is used where nobody gives an architecture."""
    return Path(platformdirs.user_data_dir("feinsum_fuse", appauthor=False)) / "devices" / f"{DeviceInfo.of(device).slug}.yaml"


def _last_cache(device: cl.Device, known: Mapping[str, float]) -> int:
    """Bytes of the last cache: of a guest of a virtual machine, which is told of all of its host's, what it gets by a calibration."""
    told = shared_cache(device)
    return min(told, int(known.get(LAST_CACHE, told)))


def _calibrated(device: cl.Device) -> dict[str, float]:
    """What targets take of the device file, looked up in its text, since a target is asked for where no reader of YAML is loaded."""
    with suppress(OSError, ValueError):
        names = "|".join((LAST_CACHE, LOAD_COST, FAR_LINE_COST, OWN_LINE_COST, OWN_LINE_LOSS, SUMS_AT_ONCE))
        figures = re.findall(rf"^ +({names}): ([0-9][0-9.e+-]*)$", default_file(device).read_text(), re.MULTILINE)
        return {name: float(figure) for name, figure in figures}
    return {}


def items_in_step(device: cl.Device) -> int:
    """Work-items that run in step: what a GPU says of itself, else what is usual; 1 on processors, whose lanes are those of vectors."""
    if not device.type & cl.device_type.GPU:
        return 1
    for name in ("warp_size_nv", "wavefront_width_amd"):
        try:
            if (size := int(getattr(device, name))) > 1:
                return size
        except (cl.Error, AttributeError, TypeError, ValueError):
            continue
    return ANY_GPU.items_in_step


def target_of(info: DeviceInfo) -> Target:
    """The target of a device that is described, also where it is not in this machine: then with careful limits."""
    try:
        return target(device_of(info))
    except DeviceError:
        return Target(limits=DeviceLimits(local_bytes=info.local_bytes), units=info.units, quirks=quirks_of(info.platform))


def quirks_of(platform: str) -> Quirks:
    """What the devices of a platform are known to get wrong."""
    return QUIRKS.get(platform.strip(), Quirks())


def _limits(device: cl.Device) -> DeviceLimits:
    """What a kernel may ask of this device, so that lowering can refuse a tile before OpenCL is reached.

    OpenCL cannot be asked for private memory. Where it lies on the stack of one thread, that has the size of the process's limit, and an
    eighth is left for calls. Intel's runtime grows its stack; a GPU spills to at most 512 KiB for each work-item.
    """
    group = int(device.max_work_group_size)
    x, y, z = (int(size) for size in device.max_work_item_sizes[:3])
    if device.type & cl.device_type.GPU:
        private = group * (512 << 10)
    elif quirks_of(device.platform.name).private_on_stack:
        private = _thread_stack_bytes() * 7 // 8
    else:
        private = 64 << 20
    return DeviceLimits(group, (x, y, z), int(device.local_mem_size), private)


def _thread_stack_bytes() -> int:
    """The stack of a new thread: the process's soft limit, or glibc's 2 MiB where that is unlimited."""
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return 2 << 20 if size == resource.RLIM_INFINITY else size
