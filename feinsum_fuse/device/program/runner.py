"""Calling a built program with arrays: checks first, then as little as possible between the caller and the kernel."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pyopencl.tools as cl_tools
from constantdict import constantdict

from ...codegen.executable import Argument, Executable
from ...errors import DeviceError
from ...number_types import BFLOAT16, as_held, as_numbers
from ..catalogue import target
from ..runtime import runtimes
from ..runtime.host_memory import RESULTS, HostArguments, put_on_large_pages
from ..runtime.loaded_executable import KernelValue, Loaded, context_of, queue_of
from .call_arguments import AnyArray, as_arrays, as_scalar, check_array, lies_as, share

__all__ = ["AnyArray", "Runner"]
NO_NUMBERS: Mapping[str, int] = constantdict()
NO_ARRAYS: Mapping[str, AnyArray] = constantdict()
NO_DEVICE_ARRAYS: list[cla.Array] = []
MOST_QUEUES = 8
"""For how many queues a program stays built."""


@dataclass
class _Place:
    """A program as it stands ready on one queue: kernels, scratch memory, and a pool from which results are taken."""

    queue: cl.CommandQueue
    loaded: Loaded
    pool: cl_tools.MemoryPool
    sharing: HostArguments | None
    """How arguments are made of the host's memory, where the device shares it."""
    scratch: dict[str, cl.Buffer] = field(default_factory=dict)

    @classmethod
    def on(cls, queue: cl.CommandQueue, executable: Executable, program: cl.Program | None) -> _Place:
        runtimes.check_folder()
        pool = cl_tools.MemoryPool(cl_tools.ImmediateAllocator(queue))
        sharing = HostArguments(queue.context) if target(queue.device).shares_host_memory else None
        if sharing is not None:
            RESULTS.expect([argument.nbytes for argument in executable.outputs])
        return cls(queue, Loaded(executable, queue.context, program), pool, sharing)

    def scratch_buffer(self, name: str) -> cl.Buffer:
        """Memory that stays with the program, for whatever the caller does not see."""
        if name not in self.scratch:
            self.scratch[name] = self.loaded.buffer(name)
            put_on_large_pages(self.queue, self.scratch[name])
        return self.scratch[name]

    def result_buffer(self, size: int) -> cl.Buffer:
        """Memory for a result on the device."""
        kept = self.pool.held_blocks
        buffer = self.pool.allocate(max(1, size))
        if self.pool.held_blocks == kept:
            put_on_large_pages(self.queue, buffer)
        return buffer


class Runner:
    """An executable on a device, callable with arrays by argument name.

    The first call with arrays of another context or queue builds the program there; PoCL's cache makes that quick. Calls from several
    threads are safe and run one after another.
    """

    def __init__(
        self, executable: Executable, device: cl.Device, like: Runner | None = None, numbers: Mapping[str, int] = NO_NUMBERS
    ) -> None:
        """``like``: one of the same source, for arrays of other lengths, whose built programs are taken.

        ``numbers`` are arguments passed by value that are the same in all calls, which do not give them.
        """
        self.executable = executable
        self.device = device
        self._like = like
        self._numbers = {name: executable.argument(name).held.type(number) for name, number in numbers.items()}
        self._inputs = {a.name: a for a in executable.arguments if a.role == "input" and a.name not in numbers}
        self._written = {a.name: a for a in executable.arguments if a.role != "input"}
        self._dtypes = {a.name: a.held for a in executable.arguments}
        self._shapes = {a.name: a.shape for a in executable.arguments}
        self._sizes = {a.name: a.nbytes for a in executable.arguments}
        self._bits = {a.name: a.dtype for a in executable.arguments if a.dtype == BFLOAT16}
        self._strides = {a.name: tuple(s * self._dtypes[a.name].itemsize for s in a.element_strides) for a in executable.arguments}
        self._alignments = {a.name: executable.alignment(a.name) for a in executable.arguments}
        self._plain = {name: (a.shape, a.held) for name, a in self._inputs.items() if not a.by_value and name not in self._bits}
        self._results = [name for name, argument in self._written.items() if argument.role == "output"]
        self._places: dict[int, _Place] = {}
        self._lock = threading.Lock()

    @cached_property
    def _queue_at_home(self) -> cl.CommandQueue:
        return queue_of(self.device)

    @property
    def input_names(self) -> tuple[str, ...]:
        """What a caller must give."""
        return tuple(self._inputs)

    def place(self, queue: cl.CommandQueue) -> _Place:
        """The program on this queue, built there on first use."""
        found = self._places.get(queue.int_ptr)
        if found is None:
            while len(self._places) >= MOST_QUEUES:
                del self._places[next(iter(self._places))]
            program = None if self._like is None else self._like.place(queue).loaded.program
            found = self._places[queue.int_ptr] = _Place.on(queue, self.executable, program)
        return found

    def __call__(
        self, arrays: Mapping[str, AnyArray], out: Mapping[str, AnyArray] | None = None, outputs: Collection[str] = ()
    ) -> dict[str, AnyArray]:
        """Run once; the outputs by name, and the written arrays named in ``outputs`` besides.

        NumPy arrays in give NumPy arrays out, after the end of the kernel; so do arrays of other libraries that lie in the host's memory
        and speak DLPack or ``__array__``. Where the device shares that memory, the kernel reads and writes arrays where they lie, at any
        alignment of their elements; those with other strides than it was compiled for are copied. If any array is a pyopencl array, results
        are pyopencl arrays on its queue, and the call returns once the kernel is enqueued. ``out`` gives memory for some or all results.
        Raises :class:`~feinsum_fuse.errors.DeviceError` that names the array for one that is missing, unknown, of the wrong type or shape,
        or that would be overwritten while it is read.
        """
        given, into, wanted, on_device = arrays, NO_ARRAYS, self._results, NO_DEVICE_ARRAYS
        if out or outputs or not self._are_plain(arrays):
            given, into = self._held(arrays), self._held(out or {})
            wanted = [name for name in self._written if name in self._results or name in outputs or name in into]
            self._check(given, into, outputs)
            on_device = [array for array in (*given.values(), *into.values()) if isinstance(array, cla.Array)]
        runtimes.enter(builds=not self._places)
        with self._lock:
            try:
                results = self._on_device(given, into, wanted, on_device) if on_device else self._on_host(given, into, wanted)
            except cl.Error as error:
                raise DeviceError(f"the device refused to run the kernel: {error}") from error
            except MemoryError as error:
                raise DeviceError(f"there is no memory for the results: {error}") from error
        return {name: as_numbers(array, self._written[name].dtype) for name, array in results.items()} | dict(out or {})

    def _are_plain(self, arrays: Mapping[str, AnyArray]) -> bool:
        """Whether these are all inputs, each a NumPy array of its shape and type: then there is nothing else to find out about them.

        Asked first, since between large kernels each line of Python has to be fetched from memory anew.
        """
        return len(arrays) == len(self._inputs) and all(
            type(array) is np.ndarray and (array.shape, array.dtype) == self._plain.get(name) for name, array in arrays.items()
        )

    def check_some(self, arrays: Mapping[str, AnyArray]) -> None:
        """Raise :class:`~feinsum_fuse.errors.DeviceError` that names the array for one that is no input, or of the wrong type or shape."""
        self._check_known(arrays)
        for name, array in self._held(arrays).items():
            check_array(self._inputs[name], array, self._strides[name])

    def _held(self, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Arrays as memory holds their numbers; what is no array as it is."""
        seen = as_arrays(arrays)
        for name in self._bits.keys() & seen.keys():
            if hasattr(seen[name], "dtype"):
                seen[name] = as_held(seen[name], BFLOAT16)
        return seen

    def _check_known(self, arrays: Collection[str]) -> None:
        for name in arrays:
            if name not in self._inputs:
                close = difflib.get_close_matches(str(name), self._inputs, 1)
                hint = f"Did you mean {close[0]}?" if close else f"This program reads {', '.join(self._inputs)}."
                hint = self._four_bits_of([name]) or hint
                raise DeviceError(f"this program has no input {name}", hint=hint)

    def _four_bits_of(self, given: Collection[str]) -> str:
        """How to pass a tensor that the program reads in four bits, if one of these names is its own; else empty."""
        for name in given:
            packed, scales = f"{name}_packed", f"{name}_scales"
            if name not in self._inputs and packed in self._inputs and scales in self._inputs:
                group = 2 * self._shapes[packed][-1]
                return f"It reads {name} in four bits: {packed}, {scales} = ff.quantize4({name}, group={group})."
        return ""

    def _check(self, arrays: Mapping[str, AnyArray], out: Mapping[str, AnyArray], outputs: Collection[str]) -> None:
        for name in self._inputs:
            if name not in arrays:
                hint = self._four_bits_of(arrays) or f"This program reads {', '.join(self._inputs)}."
                raise DeviceError(f"input {name} is missing", hint=hint)
        self._check_known(arrays)
        for name in (*out, *outputs):
            if name not in self._written:
                hint = f"Written to global memory: {', '.join(self._written)}."
                raise DeviceError(f"this program has no output {name}", hint=hint)
        for name, array in (*arrays.items(), *out.items()):
            plain = type(array) is np.ndarray and array.shape == self._shapes[name] and array.dtype == self._dtypes[name]
            if not plain:
                check_array(self._inputs.get(name) or self._written[name], array, self._strides[name])
        for name, array in out.items():
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                raise DeviceError(f"output {name} is an array that cannot be written")
            for other, its in (*arrays.items(), *((n, a) for n, a in out.items() if n != name)):
                if share(array, its):
                    raise DeviceError(f"output {name} shares memory with {other}", hint="Give it memory of its own.")

    def _on_host(self, arrays: Mapping[str, AnyArray], out: Mapping[str, AnyArray], wanted: list[str]) -> dict[str, AnyArray]:
        place = self.place(self._queue_at_home)
        if place.sharing is not None:
            return self._in_place(place, place.sharing, arrays, out, wanted)
        values: dict[str, KernelValue] = {**self._numbers, **{name: place.scratch_buffer(name) for name in self._written}}
        for name, argument in self._inputs.items():
            if argument.by_value:
                values[name] = as_scalar(name, arrays[name], self._dtypes[name])
                continue
            values[name] = place.scratch_buffer(name)
            self._upload(place.queue, values[name], argument, np.asarray(arrays[name]))
        place.loaded.bind(values)
        place.loaded.enqueue(place.queue)
        return {name: self._download(place.queue, values[name], self._written[name], out.get(name)) for name in wanted}

    def _in_place(
        self, place: _Place, sharing: HostArguments, arrays: Mapping[str, AnyArray], out: Mapping[str, AnyArray], wanted: list[str]
    ) -> dict[str, AnyArray]:
        """Run on the host's memory: nothing is copied that lies as the kernel expects it."""
        values: dict[str, KernelValue] = dict(self._numbers)
        for name, argument in self._inputs.items():
            array = np.asarray(arrays[name])
            if argument.by_value:
                values[name] = self._dtypes[name].type(array[()])
            else:
                lying = array if lies_as(array, self._strides[name], self._alignments[name]) else self._laid_out(name, array)
                values[name] = self._value(place, sharing, name, lying)
        results: dict[str, AnyArray] = {}
        copied: list[tuple[np.ndarray, np.ndarray]] = []
        for name in self._written:
            if name not in wanted:
                values[name] = place.scratch_buffer(name)
                continue
            result = out.get(name)
            in_place = isinstance(result, np.ndarray) and lies_as(result, self._strides[name], self._alignments[name])
            memory = cast("np.ndarray", result) if in_place else self._empty(name)
            values[name] = self._value(place, sharing, name, memory)
            results[name] = memory if result is None else result
            if isinstance(result, np.ndarray) and result is not memory:
                copied.append((result, memory))
        place.loaded.bind(values)
        place.loaded.run(place.queue)
        for result, memory in copied:
            result[...] = memory
        return results

    def _value(self, place: _Place, sharing: HostArguments, name: str, array: np.ndarray) -> KernelValue:
        return sharing.argument(array) if array.size else place.scratch_buffer(name)

    def _empty(self, name: str) -> np.ndarray:
        """Memory of an argument's strides that holds anything."""
        return RESULTS.empty(self._shapes[name], self._dtypes[name], self._strides[name], self._sizes[name])

    def _laid_out(self, name: str, array: np.ndarray) -> np.ndarray:
        """A copy of an array that lies as the kernel expects it."""
        copy = self._empty(name)
        copy[...] = array
        return copy

    def _upload(self, queue: cl.CommandQueue, buffer: KernelValue, argument: Argument, array: np.ndarray) -> None:
        if argument.row_major:
            flat = np.ascontiguousarray(array)
        else:
            flat = np.zeros(argument.elements, argument.held)
            argument.view(flat)[...] = array
        if flat.size:
            cl.enqueue_copy(queue, buffer, flat)

    def _download(self, queue: cl.CommandQueue, buffer: KernelValue, argument: Argument, into: AnyArray | None) -> np.ndarray:
        result = np.empty(argument.shape, argument.held) if into is None else into
        assert isinstance(result, np.ndarray)
        direct = argument.row_major and result.flags.c_contiguous
        flat = result if direct else np.empty(argument.elements, argument.held)
        if flat.size:
            cl.enqueue_copy(queue, flat, buffer)
        if not direct:
            result[...] = argument.view(flat)
        return result

    def _on_device(
        self, arrays: Mapping[str, AnyArray], out: Mapping[str, AnyArray], wanted: list[str], given: list[cla.Array]
    ) -> dict[str, AnyArray]:
        queue = self._queue(given)
        place = self.place(queue)
        values: dict[str, KernelValue] = dict(self._numbers)
        waits: list[cl.Event] = []
        for name, argument in self._inputs.items():
            array = arrays[name]
            if argument.by_value:
                values[name] = as_scalar(name, array.get() if isinstance(array, cla.Array) else array, self._dtypes[name])
            elif isinstance(array, cla.Array):
                values[name] = _buffer(array, name)
                waits += array.events
            else:
                values[name] = place.scratch_buffer(name)
                self._upload(queue, values[name], argument, np.asarray(array))
        results: dict[str, AnyArray] = {}
        for name in self._written:
            if name not in wanted:
                values[name] = place.scratch_buffer(name)
                continue
            array = out[name] if name in out else self._new(place, name)
            if isinstance(array, np.ndarray):
                raise DeviceError(f"output {name} is a NumPy array among pyopencl arrays", hint="Give a pyopencl array.")
            results[name] = array
            values[name] = _buffer(array, name)
            waits += array.events
        place.loaded.bind(values)
        last = place.loaded.enqueue(queue, waits)
        for array in results.values():
            if last and isinstance(array, cla.Array):
                array.add_event(last[-1])
        return results

    def _queue(self, given: list[cla.Array]) -> cl.CommandQueue:
        """The queue of the arrays; ours if they have none and live in our context."""
        queue = next((array.queue for array in given if array.queue is not None), None)
        context = given[0].context
        for array in given:
            if array.context != context:
                raise DeviceError("the arrays belong to different OpenCL contexts", hint="Make them all on one queue.")
        if queue is None:
            ours = context_of(self.device)
            queue = queue_of(self.device) if context == ours else cl.CommandQueue(context)
        if queue.device != self.device:
            raise DeviceError(f"the arrays live on {queue.device.name}, but the program was compiled for {self.device.name}")
        return queue

    def _new(self, place: _Place, name: str) -> cla.Array:
        argument = self._written[name]
        data = place.result_buffer(argument.nbytes)
        dtype, strides = self._dtypes[name], self._strides[name]
        return cla.Array(place.queue, argument.shape, dtype, strides=strides, data=data, allocator=place.pool)


def _buffer(array: cla.Array, name: str) -> cl.Buffer:
    if array.offset:
        raise DeviceError(f"{name} starts {array.offset} bytes into its buffer", hint="Copy it to an array of its own.")
    return array.base_data
