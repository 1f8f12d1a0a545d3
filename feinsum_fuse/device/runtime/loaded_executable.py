"""An executable built for one OpenCL context, with its arguments bound; imports nothing but NumPy and pyopencl.

A device has one context and one profiling queue, kept for the life of the process. Intel's runtime fails with INVALID_CONTEXT once a
context has been collected, so they are never given up.
"""

from __future__ import annotations

import functools
import math
import sqlite3
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import platformdirs
import pyopencl as cl

from ... import cache_folder
from ...codegen.executable import Executable, Launch
from ...errors import DeviceError
from . import runtimes
from .compiler_cache import shared_cache
from .host_processor import host_processor
from .kernel_wait import KernelWait, OffWorkersCores, noting_workers
from .pocl_functions import built
from .pocl_processor import name_processor

KernelValue: TypeAlias = "cl.Buffer | cl.SVM | np.generic"
_PLAIN = "iuf"
"""Kinds of numbers that are packed as they are."""


class Loaded:
    """Kernels built from an :class:`~feinsum_fuse.codegen.executable.Executable`, ready to be enqueued many times.

    Raises pyopencl's errors: whoever loads a kernel in the process of a user has run it in a child before. Not safe for use from several
    threads at once, because arguments are bound to the kernels. Keeps the context alive, which Intel's runtime needs.
    """

    def __init__(self, executable: Executable, context: cl.Context, program: cl.Program | None = None) -> None:
        """``program``: what was built of the same source on the same context before."""
        self.executable = executable
        self.context = context
        self._waiting = KernelWait()
        self._off_workers_cores = OffWorkersCores(context.devices[0])
        if program is None:
            if why := cache_folder.writing_fault(shared_cache()):
                hint = f"Free some space there, or set {cache_folder.VARIABLE}."
                raise DeviceError(f"the folder {shared_cache()} cannot take a compiled kernel: {why}", hint=hint)
            for device in context.devices:
                name_processor(device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cl.CompilerWarning)
                warnings.filterwarnings("ignore", "PyOpenCL compiler caching failed")  # it builds the source instead
                program = built(context, executable.source, executable.options, _binaries())
        self.program = program
        try:
            self._launches = tuple(
                (self._kernel(launch), launch.global_size, launch.local_size, launch.arguments)
                for launch in executable.launches
                if all(launch.global_size)
            )
        except sqlite3.Error as error:
            hint = f"Free some space in {cache_folder.wanted()}, or set PYOPENCL_NO_CACHE=1."
            raise DeviceError(f"pyopencl cannot use its own cache: {error}", hint=hint) from error

    def _kernel(self, launch: Launch) -> cl.Kernel:
        kernel = cl.Kernel(self.program, launch.kernel)
        told = [self.executable.argument(name) for name in launch.arguments]
        numbers = [a.held if a.by_value and a.held.kind in _PLAIN else None for a in told]
        if any(number is not None for number in numbers):
            # Told the type of a number, pyopencl need not find out with each call that it is no array, which takes microseconds.
            kernel.set_scalar_arg_dtypes(numbers)
        return kernel

    def buffer(self, name: str, *, padding: int = 0) -> cl.Buffer:
        """New device memory for an argument, with ``padding`` more bytes at its end."""
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(1, self.executable.argument(name).nbytes + padding))

    def bind(self, values: Mapping[str, KernelValue]) -> None:
        """Set every kernel's arguments: buffers or pointers for arrays, NumPy scalars for arguments that are passed by value."""
        for kernel, _, _, names in self._launches:
            kernel.set_args(*[values[name] for name in names])

    def run(self, queue: cl.CommandQueue) -> None:
        """Start all launches and wait for their end, also where one of them cannot be started: memory of the caller's is in use."""
        start = time.perf_counter()
        with self._off_workers_cores:
            try:
                events = self.enqueue(queue)
                queue.flush()
            except cl.Error:
                queue.finish()
                raise
            if events:
                self._waiting.until_done(events[-1], start)

    def enqueue(self, queue: cl.CommandQueue, wait_for: Sequence[cl.Event] = (), *, most_groups: int | None = None) -> list[cl.Event]:
        """Start all launches one after another, the first after ``wait_for``; one event for each.

        ``most_groups`` starts no more than the first so many work-groups of each, which is for whoever takes times of a part.
        """
        events: list[cl.Event] = []
        waits = list(wait_for) or None
        for kernel, work, group, _ in self._launches:
            if most_groups is not None:
                work = _slice(work, group, most_groups)
            event = cl.enqueue_nd_range_kernel(queue, kernel, work, group, None, waits)
            events.append(event)
            waits = [event]
        return events

    def times_a_slice(self, most_groups: int) -> list[float]:
        """For each launch how many times as many groups it has as a slice of at most ``most_groups``."""
        return [math.prod(work) / math.prod(_slice(work, group, most_groups)) for _, work, group, _ in self._launches]


def _slice(work: tuple[int, ...], group: tuple[int, ...], most_groups: int) -> tuple[int, ...]:
    """A grid of at most so many of these groups, cut along its longest axis; 1 along that at the least."""
    counts = [w // g for w, g in zip(work, group, strict=True)]
    longest = counts.index(max(counts))
    others = math.prod(counts) // counts[longest]
    counts[longest] = max(1, min(counts[longest], most_groups // max(1, others)))
    return tuple(count * g for count, g in zip(counts, group, strict=True))


def context_of(device: cl.Device) -> cl.Context:
    """Our context on this device; raises :class:`~feinsum_fuse.errors.DeviceError` in a fork of a process that used OpenCL."""
    runtimes.enter()
    return _context(device)


def queue_of(device: cl.Device) -> cl.CommandQueue:
    """Our in-order queue on this device, whose events carry times; raises as :func:`context_of` does."""
    runtimes.enter()
    return _queue(device)


@functools.cache
def _context(device: cl.Device) -> cl.Context:
    with noting_workers(device):
        return cl.Context([device])


@functools.cache
def _queue(device: cl.Device) -> cl.CommandQueue:
    context = context_of(device)
    with noting_workers(device):
        return cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)


def _binaries() -> str | None:
    """Where pyopencl keeps what it has built, for runtimes without a cache of their own (PoCL has one).

    It goes by a device's name, which processors with other instructions may share.
    """
    processor = host_processor()
    return str(Path(platformdirs.user_cache_dir("pyopencl", "pyopencl")) / processor.replace(" ", "-")) if processor else None
