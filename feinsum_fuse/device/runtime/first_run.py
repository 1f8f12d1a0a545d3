"""The first run of a program: on memory with bit patterns around it, and every array looked at afterwards.

The patterns show what elements were never written, and what was written where nothing belongs. For processes that may die of it: imports
neither loopy nor anything that does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyopencl as cl

from ...codegen.executable import Argument, Executable
from ...errors import DeviceError
from ..timing.outcome import Outcome
from .host_memory import HostArguments
from .loaded_executable import KernelValue, Loaded

FRONT_BYTES = 4096
"""Poison before every array (more than any device's alignment of sub-buffers): nobody may write there, and who reads there gets NaN."""
OTHER = 2
"""The pattern of temporaries, from that of outputs on."""
BEHIND = 64
"""Elements of poison behind every array."""
LINE = 128
"""Bytes of OpenCL's longest vector. Arrays in the host's memory start one element behind a multiple of it: callers' may lie anywhere."""


class FirstRunFailure(Exception):
    """How a first run ended, if not well."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class _DeviceMemory:
    """An array's buffer on the device, with room before and behind."""

    def __init__(self, queue: cl.CommandQueue, whole: cl.Buffer, front_bytes: int, size: int) -> None:
        self._queue, self._whole = queue, whole
        self.value: KernelValue = whole.get_sub_region(front_bytes, size)

    def fill(self, content: np.ndarray) -> None:
        """Write all of it."""
        cl.enqueue_copy(self._queue, self._whole, content)

    def content(self, like: np.ndarray) -> np.ndarray:
        """All of it as it is now; ``like``: an array of its size."""
        cl.enqueue_copy(self._queue, like, self._whole)
        return like


class _HostMemory:
    """The same in memory that host and device share, at an address that is a multiple of nothing but the alignment that is needed."""

    def __init__(self, sharing: HostArguments, dtype: np.dtype, front: int, behind: int, alignment: int) -> None:
        room = np.empty((front + behind) * dtype.itemsize + 2 * LINE + alignment, np.uint8)
        start = -(room.__array_interface__["data"][0] + front * dtype.itemsize) % LINE + alignment
        self._whole = room[start : start + (front + behind) * dtype.itemsize].view(dtype)
        self.value: KernelValue = sharing.argument(self._whole[front:])

    def fill(self, content: np.ndarray) -> None:
        """Write all of it."""
        self._whole[...] = content

    def content(self, like: np.ndarray) -> np.ndarray:
        """All of it as it is now."""
        like[...] = self._whole
        return like


class FirstRun:
    """One first run in this process; ``reached`` is told of each stage (build, allocate, launch, check) as it begins.

    ``sharing``: the memory that host and device share, ``None`` for a device that has its own.
    """

    def __init__(
        self,
        executable: Executable,
        arrays: Mapping[str, np.ndarray],
        queue: cl.CommandQueue,
        sharing: HostArguments | None,
        reached: Callable[[str], object],
    ) -> None:
        self.executable = executable
        self.arrays = arrays
        self.queue = queue
        self.sharing = sharing
        self.reached = reached
        self.memory: dict[str, _DeviceMemory | _HostMemory] = {}

    def run(self) -> Loaded:
        """Build, launch and check; raises :class:`FirstRunFailure`. What was built can be run on other memory from then on."""
        self.reached("build")
        try:
            self.loaded = Loaded(self.executable, self.queue.context)
        except (cl.Error, DeviceError) as error:
            raise FirstRunFailure(Outcome.build_failed, str(error)) from error
        self.reached("allocate")
        try:
            values = self.allocate()
            self.reached("launch")
            self.launch(values, which=0)
        except (cl.Error, MemoryError) as error:
            raise FirstRunFailure(Outcome.launch_failed, str(error)) from error
        self.reached("check")
        self.check(values)
        return self.loaded

    def allocate(self) -> dict[str, KernelValue]:
        """Device memory for every array, padded, and the scalars; inputs are uploaded."""
        values: dict[str, KernelValue] = {}
        for argument in self.executable.arguments:
            if argument.by_value:
                values[argument.name] = argument.held.type(self.arrays[argument.name][()])
                continue
            self.memory[argument.name] = memory = self.memory_of(argument)
            values[argument.name] = memory.value
            if argument.role == "input":
                around = self.poison(argument, 0)
                argument.view(around[self.front(argument) :])[...] = self.arrays[argument.name]
                memory.fill(around)
        return values

    def memory_of(self, argument: Argument) -> _DeviceMemory | _HostMemory:
        """Where an array will lie when callers bring their own: in the host's memory, where the device shares it.

        Temporaries are always buffers of ours.
        """
        dtype = argument.held
        if self.sharing is not None and argument.role != "temporary":
            alignment = self.executable.alignment(argument.name)
            return _HostMemory(self.sharing, dtype, self.front(argument), argument.elements + BEHIND, alignment)
        behind = BEHIND * dtype.itemsize
        whole = self.loaded.buffer(argument.name, padding=FRONT_BYTES + behind)
        return _DeviceMemory(self.queue, whole, FRONT_BYTES, argument.nbytes + behind)

    def front(self, argument: Argument) -> int:
        """Elements of poison before an array."""
        return FRONT_BYTES // argument.held.itemsize

    def poison(self, argument: Argument, which: int) -> np.ndarray:
        """An array's whole buffer, what stands before and behind it included, full of a pattern."""
        return poisoned(argument.held, self.front(argument) + argument.elements + BEHIND, which)

    def launch(self, values: Mapping[str, KernelValue], which: int) -> None:
        """Poison whatever the kernel is to write, outputs with pattern ``which``, and run it to its end.

        Temporaries hold another pattern, so that a result made from one that was never written is not taken for unwritten itself.
        """
        for argument in self.executable.arguments:
            if argument.role != "input":
                pattern = which + (OTHER if argument.role == "temporary" else 0)
                self.memory[argument.name].fill(self.poison(argument, pattern))
        self.queue.finish()
        self.loaded.bind(values)
        self.loaded.enqueue(self.queue)
        self.queue.finish()

    def around(self, argument: Argument) -> np.ndarray:
        """An array's whole buffer as it is now."""
        return self.memory[argument.name].content(np.empty(self.front(argument) + argument.elements + BEHIND, argument.held))

    def read(self, argument: Argument) -> np.ndarray:
        """The array that an argument's buffer holds, C-contiguous."""
        return np.ascontiguousarray(argument.view(self.around(argument)[self.front(argument) :]))

    def check(self, values: Mapping[str, KernelValue]) -> None:
        """Refuse unwritten outputs, changed inputs, and writes before or behind an array.

        An element that holds the first pattern may do so by right, so such outputs are judged by a second run on the second pattern.
        """
        doubtful = {}
        for argument in self.executable.arguments:
            if argument.by_value:
                continue
            around, front = self.around(argument), self.front(argument)
            pattern = OTHER if argument.role == "temporary" else 0
            if not is_poison(around[:front], pattern).all():
                raise FirstRunFailure(Outcome.wrong_result, f"the kernel wrote before the start of {argument.name}")
            if not is_poison(around[front + argument.elements :], pattern).all():
                raise FirstRunFailure(Outcome.wrong_result, f"the kernel wrote behind the end of {argument.name}")
            array = np.ascontiguousarray(argument.view(around[front:]))
            if argument.role == "input" and array.tobytes() != np.asarray(self.arrays[argument.name], argument.held).tobytes():
                raise FirstRunFailure(Outcome.wrong_result, f"the kernel changed its input {argument.name}")
            if argument.role == "output" and (untouched := is_poison(array)).any():
                doubtful[argument] = untouched
        if not doubtful:
            return
        self.launch(values, which=1)
        for argument, untouched in doubtful.items():
            again = untouched & is_poison(self.read(argument), 1)
            if again.any():
                first = tuple(int(i) for i in np.argwhere(again)[0])
                text = f"output {argument.name} was left unwritten in {int(again.sum())} of {again.size} elements, first at {list(first)}"
                raise FirstRunFailure(Outcome.wrong_result, text)


_BYTE = (0xA5, 0x5A, 0xC3, 0x3C)
_QUIET_NAN = {
    2: (0x7FA5, 0x7F5A, 0x7FC3, 0x7F3C),
    4: (0x7FF5A5A5, 0x7FFA5A5A, 0x7FFC3C3C, 0x7FE3C3C3),
    8: (0x7FFDA5A5A5A5A5A5, 0x7FFA5A5A5A5A5A5A, 0x7FFC3C3C3C3C3C3C, 0x7FFBC3C3C3C3C3C3),
}


def _words(dtype: np.dtype, which: int) -> tuple[np.dtype, int]:
    """The unsigned type to look at elements through, and the pattern (0 to 3) in it: a NaN for floating point."""
    width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if dtype.kind in "fc" and width in _QUIET_NAN:
        return np.dtype(f"u{width}"), _QUIET_NAN[width][which]
    return np.dtype("u1"), _BYTE[which]


def poisoned(dtype: np.dtype, elements: int, which: int = 0) -> np.ndarray:
    """A flat array of this many elements, each holding one of four patterns."""
    words, pattern = _words(dtype, which)
    return np.full(elements * dtype.itemsize // words.itemsize, pattern, words).view(dtype)


def is_poison(array: np.ndarray, which: int = 0) -> np.ndarray:
    """For each element of a C-contiguous array whether all of its bits are the pattern's; same shape, bool."""
    words, pattern = _words(array.dtype, which)
    per_element = array.dtype.itemsize // words.itemsize
    same = np.equal(array.reshape(-1).view(words), pattern)
    whole: np.ndarray = same.reshape(-1, per_element).all(axis=1)
    return whole.reshape(array.shape)
