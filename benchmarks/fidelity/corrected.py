"""Whether a correction that is learned from other workloads ranks the mappings of a workload better than the model alone.

What a search does with the archive of its device (:mod:`feinsum_fuse.tuning.learning`), with what was measured here in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.tuning.learning.judgement import Judgement, judged
from feinsum_fuse.tuning.learning.ranked_terms import terms_of
from feinsum_fuse.tuning.learning.ranker import Lesson

from .cases import Device
from .measuring import seconds


def lesson_of(device: Device, case: str) -> Lesson | None:
    """The measured mappings of a workload; ``None`` if there are none."""
    samples = device.samples(case)
    specs = device.mapped(case) if samples else []
    if not specs:
        return None
    machine = Machine.of(specs[0])
    assert machine is not None
    numbers = sorted(samples)
    times = [kernel_time(specs[number], machine, fused=device.fused) for number in numbers]
    measured = np.array([math.log(seconds(samples[number])) for number in numbers])
    predicted = np.array([math.log(time.seconds) for time in times])
    return Lesson(case, [terms_of(time, machine) for time in times], predicted, measured)


def judgement(devices: Sequence[Device], cases: Sequence[str]) -> Judgement:
    """A workload that was measured in several sittings is left out of all of them."""
    found = judged([lesson for device in devices for case in cases if (lesson := lesson_of(device, case)) is not None])
    assert found is not None
    return found


def report(devices: Sequence[Device], cases: Sequence[str]) -> str:
    """For each processor a row for each workload and sitting, means, and whether the correction is worth having."""
    processors = dict.fromkeys(device.processor for device in devices)
    sittings = {processor: [device for device in devices if device.processor == processor] for processor in processors}
    return "\n\n".join(f"{processor}\n{judgement(some, cases)}" for processor, some in sittings.items())
