"""Programs: what a cascade and a schedule become on a device, verified once in a child process, and callable with arrays.

Calling one needs the executable alone: this module imports neither loopy nor anything that does, and how the program was made is asked for
by whoever wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyopencl as cl

from ...arguments import PATH, TEXT, expect
from ...codegen.executable import Executable
from ...errors import DeviceError
from ...presentation import InNotebooks
from .call_arguments import joined
from .export import export
from .origin import Origin
from .packed_program import Halves, PackedProgram, halves
from .runner import AnyArray, Runner

if TYPE_CHECKING:
    from loopy import TranslationUnit

    from ...cascades.cascade import Cascade
    from ...formats.spec import Spec
    from ...schedule.function import FunctionName
    from ...schedule.schedule import Schedule
    from ..checking.example import Example
    from ..runtime.isolation import RunResult


class Making(Protocol):
    """How a program came about; each part may be made when it is first asked for."""

    @property
    def cascade(self) -> Cascade: ...

    @property
    def schedule(self) -> Schedule: ...

    @property
    def spec(self) -> Spec | None: ...

    @property
    def function(self) -> FunctionName | None: ...

    @property
    def kernel(self) -> TranslationUnit: ...

    @property
    def example(self) -> Example: ...

    @property
    def first_run(self) -> RunResult: ...

    @property
    def companion(self) -> Program: ...

    def apart(self, constants: Collection[str]) -> tuple[Program, Program] | None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Program(InNotebooks):
    """A cascade that runs on a device, by a schedule; its first run was verified on ``example``.

    The executable's arguments are called by their tensors' names. ``origin`` says who chose the schedule.

    Calling it with the input tensors returns the tensors that no Einsum consumes, as a dict. NumPy arrays give NumPy arrays; if any
    argument is a pyopencl array, results are pyopencl arrays on its queue. Shapes and element types must be those of the cascade.
    """

    executable: Executable
    device: cl.Device
    origin: Origin
    make: Callable[[], Making] = field(repr=False)
    """Gives what is known of how it was made."""

    @cached_property
    def making(self) -> Making:
        """How it was made."""
        return self.make()

    @property
    def cascade(self) -> Cascade:
        """What it computes, rewritten if that was chosen."""
        return self.making.cascade

    @property
    def schedule(self) -> Schedule:
        """The steps."""
        return self.making.schedule

    @property
    def spec(self) -> Spec | None:
        """The workload with its mapping, if the schedule comes from one."""
        return self.making.spec

    @property
    def function(self) -> FunctionName | None:
        """What the Python function is called that made the kernel, if one did and no schedule."""
        return self.making.function

    @property
    def kernel(self) -> TranslationUnit:
        """The loopy kernel after the schedule."""
        return self.making.kernel

    @property
    def example(self) -> Example:
        """Inputs and the results that are right."""
        return self.making.example

    @property
    def first_run(self) -> RunResult:
        """How its first run ended, in a child process."""
        return self.making.first_run

    @property
    def companion(self) -> Program:
        """The same cascade with every tensor in main memory."""
        return self.making.companion

    @property
    def source(self) -> str:
        """The OpenCL C text."""
        return self.executable.source

    def export(self, folder: str | Path, name: str = "program") -> tuple[Path, ...]:
        """Write files that run the program without this package; see :func:`.export.export`."""
        expect(folder, PATH, "the folder of a program", DeviceError)
        expect(name, TEXT, "the name of a program", DeviceError)
        return export(self.executable, Path(folder), name)

    @cached_property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Input tensor -> shape."""
        return {a.name: a.shape for a in self.executable.inputs}

    @cached_property
    def output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Output tensor -> shape."""
        return {a.name: a.shape for a in self.executable.outputs}

    @cached_property
    def runner(self) -> Runner:
        """The executable with its checks; built in this process on the first call."""
        return Runner(self.executable, self.device)

    def __call__(
        self,
        arrays: Mapping[str, AnyArray] | None = None,
        /,
        *,
        out: Mapping[str, AnyArray] | None = None,
        outputs: Collection[str] = (),
        **named: AnyArray,
    ) -> dict[str, AnyArray]:
        """Run once: ``program(A=a, B=b)``, or ``program({"A": a, "B": b})`` for tensors whose names are no keywords.

        ``out`` gives memory for results; ``outputs`` names further tensors to return. Those that the schedule keeps in tiles inside the
        kernel are computed by a second, unfused program, which is compiled when they are first asked for. Raises
        :class:`~feinsum_fuse.errors.DeviceError` that names the tensor for arguments that do not fit.
        """
        given = joined(arrays, named)
        hidden = self._hidden(outputs) if outputs else []
        results = self.runner(given, out, [tensor for tensor in outputs if tensor not in hidden])
        if hidden:
            shown = self.companion.runner(given, None, hidden)
            results |= {tensor: shown[tensor] for tensor in hidden}
        return results

    def pack(self, arrays: Mapping[str, AnyArray] | None = None, /, **named: AnyArray) -> PackedProgram:
        """Give some inputs once: ``packed = program.pack(W=w)``, then ``packed(X=x)`` as often as there are other arrays.

        What depends on these inputs alone is computed now: whole kernels where there are such, and Einsums out of kernels that they share
        with others, which makes a second program. The result holds copies, and says how long packing took. Raises
        :class:`~feinsum_fuse.errors.DeviceError` that names the tensor for what is no input, or has another shape or element type.
        """
        given = joined(arrays, named)
        if not given:
            raise DeviceError("nothing was given to be packed", hint=f"This program reads {', '.join(self.input_shapes)}.")
        self.runner.check_some(given)
        apart = self.making.apart(given)
        if apart is not None:
            return PackedProgram.of(Halves(apart[0].runner, apart[1].runner), given)
        first, rest = halves(self.executable, given)
        runners = [Runner(part, self.device, self.runner) if part is not None else None for part in (first, rest)]
        assert runners[1] is not None
        return PackedProgram.of(Halves(runners[0], runners[1]), given)

    def _hidden(self, outputs: Collection[str]) -> list[str]:
        """Those of these tensors that exist only inside the kernel."""
        passed = {argument.name for argument in self.executable.arguments}
        return [tensor for tensor in outputs if tensor not in passed and tensor in self.cascade.intermediates]

    def __repr__(self) -> str:
        count = len(self.executable.launches)
        lines = [f"Program on {self.device.name} ({self.device.platform.name.strip()}), {count} kernel{'s' if count > 1 else ''}"]
        lines += [f"  {a.name}: {a.dtype}{list(a.shape)}" for a in (*self.executable.inputs, *self.executable.outputs)]
        return "\n".join([*lines, *(f"  {line}" for line in str(self.origin).splitlines())])
