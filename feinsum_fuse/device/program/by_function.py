"""Programs whose kernel a Python function has made: verified and measured like others, and known by the function's name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyopencl as cl

from ...cascades.names import Names, chosen_names
from ...codegen.executable import Executable
from ...codegen.generation import executable
from ...errors import LoweringError
from ...schedule.function import FunctionName, KernelFunction
from ...schedule.schedule import Schedule
from ..catalogue import target
from ..runtime.isolation import TIMEOUT
from .building import Recipe, finished
from .origin import ChosenBy, Origin
from .program import Program

if TYPE_CHECKING:
    from loopy import TranslationUnit

    from ...cascades.cascade import Cascade
    from ...progress import Hook


@dataclass(eq=False)
class FunctionRecipe(Recipe):
    """How such a program is made: by a function, from the kernel of a cascade."""

    made_by: KernelFunction | None = None
    given: TranslationUnit | None = None
    """The kernel that the function is given; by default the cascade's own."""
    names: Names | None = None
    """What the cascade's entities are called in that kernel."""

    @property
    def function(self) -> FunctionName | None:
        """What the function is called."""
        return None if self.made_by is None else self.made_by.name

    @cached_property
    def kernel(self) -> TranslationUnit:
        """What the function returns."""
        assert self.made_by is not None
        return self.made_by.apply(self.cascade.kernel() if self.given is None else self.given)

    @cached_property
    def executable(self) -> Executable:
        """OpenCL C, with arguments that are called by their tensors' names."""
        arrays = (self.names or chosen_names(self.cascade)).arrays
        outputs = [arrays[tensor] for tensor in self.cascade.outputs]
        made = executable(self.kernel, outputs=outputs, target=target(self.device))
        tensors = {array: tensor for tensor, array in arrays.items()}
        for argument in made.arguments:
            if argument.role == "input" and argument.name not in tensors:
                raise LoweringError(f"the kernel reads {argument.name}, which is no tensor of the cascade that it was matched to")
            if not argument.row_major:
                raise LoweringError(f"the array {argument.name} is not row-major, as a program's arrays are")
        return made.renamed({name: tensor for name, tensor in tensors.items() if name in {a.name for a in made.arguments}})


def build_by_function(
    cascade: Cascade,
    function: KernelFunction,
    device: cl.Device,
    *,
    given: TranslationUnit | None = None,
    names: Names | None = None,
    timeout_s: float = TIMEOUT,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> Program:
    """The cascade by a function on a device, built and verified once in a child process.

    The function is given ``given``, the kernel that was matched to the cascade with these ``names``, or the cascade's own. Raises
    :class:`~feinsum_fuse.schedule.errors.FunctionError` where it fails or changes arguments, else as
    :func:`~feinsum_fuse.device.program.building.build`.
    """
    recipe = FunctionRecipe(cascade, Schedule(), device, None, timeout_s, reference_bytes, function, given, names)
    return finished(recipe, Origin(ChosenBy.function, str(function.name)), progress)
