"""Programs some of whose inputs are given once: what depends on these alone is computed then, and every call uses it again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyopencl.array as cla

from ...codegen.executable import ArgumentRole, Executable, Launch
from ...errors import DeviceError
from .call_arguments import as_arrays, joined
from .runner import AnyArray, Runner


@dataclass(frozen=True)
class Halves:
    """A program in two: what depends on some inputs alone, and the rest, which takes the results of the first as inputs."""

    first: Runner | None
    """``None`` where nothing depends on those inputs alone."""
    rest: Runner


def halves(executable: Executable, constants: Collection[str]) -> tuple[Executable | None, Executable]:
    """The launches that depend on these inputs alone, and the others; both keep the source.

    A launch goes first if it reads nothing but constants and what such launches write, and if nobody else writes what it does. The others
    write what a caller gets back.
    """
    roles = {a.name: a.role for a in executable.arguments}
    early = set(range(len(executable.launches)))
    count = -1
    while count != len(early):
        count = len(early)
        for place in sorted(early):
            if not _is_early(place, early, executable.launches, roles, constants):
                early.discard(place)
    first = [launch for place, launch in enumerate(executable.launches) if place in early]
    others = [launch for place, launch in enumerate(executable.launches) if place not in early]
    exchanged = {name for launch in first for name in launch.writes} & {name for launch in others for name in launch.arguments}
    rest = _of_launches(executable, others, "input", exchanged)
    return (_of_launches(executable, first, "output", exchanged) if first else None), rest


def _is_early(
    place: int, early: Collection[int], launches: tuple[Launch, ...], roles: Mapping[str, str], constants: Collection[str]
) -> bool:
    launch = launches[place]
    before = {name for k in early if k < place for name in launches[k].writes}
    later = {name for k, other in enumerate(launches) if k not in early for name in other.writes}
    known = {*constants, *before, *launch.writes}
    if not launch.writes or not set(launch.arguments) <= known or later & set(launch.arguments):
        return False
    return all(roles[name] == "temporary" for name in launch.writes)


def _of_launches(executable: Executable, launches: list[Launch], role: ArgumentRole, exchanged: Collection[str]) -> Executable:
    """The same source with some of the launches; what is exchanged plays this role among their arguments."""
    passed = {name for launch in launches for name in launch.arguments}
    arguments = [dataclasses.replace(a, role=role) if a.name in exchanged else a for a in executable.arguments if a.name in passed]
    vectors = tuple((name, lanes) for name, lanes in executable.vectors if name in passed)
    return dataclasses.replace(executable, launches=tuple(launches), arguments=tuple(arguments), vectors=vectors)


@dataclass(eq=False, repr=False)
class PackedProgram:
    """A program with inputs that were given once, callable with the others.

    Calling it returns what the program itself returns. Later changes of the arrays that were given have no effect. ``seconds``: how long it
    took to compute what depends on them alone, compiled before and without the copy of what was given.
    """

    halves: Halves
    constants: dict[str, AnyArray]
    """What was given, copied."""
    seconds: float = 0.0
    results: dict[str, AnyArray] = field(default_factory=dict)
    """What depends on the constants alone, as far as calls use it."""
    _placed: dict[int, dict[str, AnyArray]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Halves, given: Mapping[str, AnyArray]) -> PackedProgram:
        """Compute what depends on the given inputs alone; raises :class:`~feinsum_fuse.errors.DeviceError` for arrays that do not fit."""
        constants = {name: array.copy() if isinstance(array, np.ndarray | cla.Array) else array for name, array in as_arrays(given).items()}
        packed = cls(parts, constants)
        if parts.first is None:
            return packed
        own = {name: constants[name] for name in parts.first.input_names}
        parts.first(own)
        begin = time.perf_counter()
        packed.results = parts.first(own)
        for result in packed.results.values():
            if isinstance(result, cla.Array):
                result.finish()
        packed.seconds = time.perf_counter() - begin
        return packed

    @cached_property
    def _kept(self) -> dict[str, AnyArray]:
        """What each call takes besides its own arguments."""
        known = {**self.constants, **self.results}
        return {name: known[name] for name in self.halves.rest.input_names if name in known}

    @cached_property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Input tensor that calls take -> shape."""
        return {a.name: a.shape for a in self.halves.rest.executable.inputs if a.name not in self._kept}

    @cached_property
    def output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Output tensor -> shape."""
        return {a.name: a.shape for a in self.halves.rest.executable.outputs}

    def __call__(
        self, arrays: Mapping[str, AnyArray] | None = None, /, *, out: Mapping[str, AnyArray] | None = None, **named: AnyArray
    ) -> dict[str, AnyArray]:
        """Run once, with the inputs that were not packed; ``out`` gives memory for results.

        Raises :class:`~feinsum_fuse.errors.DeviceError` that names the tensor for arguments that do not fit, or that were packed.
        """
        given = joined(arrays, named)
        for name in given:
            if name in self.constants:
                raise DeviceError(f"{name} was packed and cannot be given again", hint=f"Pack the program anew with another {name}.")
        return self.halves.rest({**given, **self._beside([*given.values(), *(out or {}).values()])}, out)

    def _beside(self, given: Collection[object]) -> dict[str, AnyArray]:
        """What is kept, where this call's arrays lie: copied there by the first call that needs it."""
        queue = next((array.queue for array in given if isinstance(array, cla.Array) and array.queue is not None), None)
        place = 0 if queue is None else queue.int_ptr
        if place not in self._placed:
            arrays = {name: array.get() if queue is None and isinstance(array, cla.Array) else array for name, array in self._kept.items()}
            if queue is not None:
                arrays = {name: self._moved(name, array, queue) for name, array in arrays.items()}
            self._placed[place] = arrays
        return self._placed[place]

    def _moved(self, name: str, array: AnyArray, queue: object) -> AnyArray:
        """An array on a queue's device, if it lies there as it does here."""
        argument = self.halves.rest.executable.argument(name)
        return cla.to_device(queue, array) if isinstance(array, np.ndarray) and argument.row_major and not argument.by_value else array

    def __repr__(self) -> str:
        rest = self.halves.rest.executable
        count = len(rest.launches)
        lines = [f"{', '.join(self.constants)} packed in {1e3 * self.seconds:.3g} ms; {count} kernel{'s' if count > 1 else ''} a call"]
        return "\n".join([*lines, *(f"  {a.name}: {a.dtype}{list(a.shape)}" for a in (*rest.inputs, *rest.outputs))])
