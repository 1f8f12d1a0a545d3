"""A built program with its arrays on the device, ready to be run again and again; imports neither loopy nor anything that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyopencl as cl

from ...number_types import held_as
from ..runtime.host_memory import put_on_large_pages
from ..runtime.kernel_wait import OffWorkersCores
from ..runtime.loaded_executable import KernelValue, Loaded

SharedBuffers: TypeAlias = dict[tuple[str, str, str, int], cl.Buffer]
"""Role, name, element type and bytes of an array -> its buffer."""


class Resident:
    """Device buffers of a program's own, the inputs filled; raises pyopencl's errors where there is no room for them."""

    def __init__(
        self, loaded: Loaded, queue: cl.CommandQueue, inputs: Mapping[str, np.ndarray], shared: SharedBuffers | None = None
    ) -> None:
        """``shared``: buffers of other programs on the same inputs, none of which runs at the same time; new ones are added."""
        self.loaded = loaded
        self.queue = queue
        self._off_workers_cores = OffWorkersCores(queue.device)
        executable = loaded.executable
        known: SharedBuffers = {} if shared is None else shared
        self.values: dict[str, KernelValue] = {}
        for argument in executable.arguments:
            if argument.by_value:
                self.values[argument.name] = argument.held.type(inputs[argument.name][()])
                continue
            key = argument.role, argument.name, argument.dtype, argument.nbytes
            buffer = known.get(key)
            if buffer is None:
                buffer = known[key] = loaded.buffer(argument.name)
                put_on_large_pages(queue, buffer)
                if argument.role == "input" and inputs[argument.name].size:
                    cl.enqueue_copy(queue, buffer, np.ascontiguousarray(held_as(inputs[argument.name], argument.dtype)))
            self.values[argument.name] = buffer
        loaded.bind(self.values)

    def run(self, times: int) -> Sequence[float]:
        """Run and wait; the device's own ns for each run, summed over its launches."""
        with self._off_workers_cores:
            runs = [self.loaded.enqueue(self.queue) for _ in range(times)]
            self.queue.finish()
        return [float(sum(_ns(event) for event in events)) for events in runs if events]

    def slice_ns(self, most_groups: int) -> float:
        """The ns that a run would take by a slice of each launch, of so many work-groups.

        Groups are taken to be alike, and what they share in caches to be the same in a slice: an estimate.
        """
        with self._off_workers_cores:
            events = self.loaded.enqueue(self.queue, most_groups=most_groups)
            self.queue.finish()
        return sum(_ns(event) * whole for event, whole in zip(events, self.loaded.times_a_slice(most_groups), strict=True))

    def outputs(self) -> dict[str, np.ndarray]:
        """What the last run wrote, by argument, row-major."""
        found = {}
        for argument in self.loaded.executable.outputs:
            buffer = np.empty(argument.elements, argument.held)
            if argument.elements:
                cl.enqueue_copy(self.queue, buffer, self.values[argument.name])
            found[argument.name] = argument.numbers(np.ascontiguousarray(argument.view(buffer)))
        return found


def _ns(event: cl.Event) -> int:
    return int(event.profile.end - event.profile.start)
