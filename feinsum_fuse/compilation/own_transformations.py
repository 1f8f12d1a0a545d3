"""Programs by a caller's own transformation: a schedule, or a Python function from loopy kernel to loopy kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import loopy as lp
import pyopencl as cl

from ..cascades.cascade import Cascade
from ..cascades.matching.match import Match, match
from ..cascades.names import Names, chosen_names
from ..cascades.reading.reader import cascade as cascade_of
from ..codegen.executable import Executable
from ..codegen.generation import executable
from ..device.catalogue import target
from ..device.program.building import Recipe, build, finished
from ..device.program.origin import ChosenBy, Origin
from ..device.program.program import Program
from ..device.runtime.isolation import TIMEOUT
from ..errors import LoweringError, MatchError
from ..formats.spec import expect_spec
from ..progress import Hook
from ..schedule.function import FunctionName, KernelFunction
from ..schedule.schedule import Schedule
from .making import BuildOptions


def by_hand(asked: object, by: object, options: BuildOptions) -> Program:
    """The program of a Spec, a cascade or a loopy kernel, whole, by what the caller wrote; nothing else is considered.

    Raises :class:`~feinsum_fuse.errors.ScheduleError` for a step that is not legal and a function that fails, else as
    :func:`~feinsum_fuse.device.program.building.build`.
    """
    cascade, matched = _cascade(asked, options)
    timeout_s = options.timeout_s or TIMEOUT
    if isinstance(by, Schedule):
        origin = Origin(ChosenBy.schedule)
        return build(
            cascade,
            by,
            options.device,
            timeout_s=timeout_s,
            reference_bytes=options.reference_bytes,
            progress=options.progress,
            origin=origin,
        )
    return build_by_function(
        cascade,
        KernelFunction.of(by),
        options.device,
        given=asked if isinstance(asked, lp.TranslationUnit) else None,
        names=None if matched is None else matched.names,
        timeout_s=timeout_s,
        reference_bytes=options.reference_bytes,
        progress=options.progress,
    )


def _cascade(asked: object, options: BuildOptions) -> tuple[Cascade, Match | None]:
    if isinstance(asked, Cascade):
        return asked, None
    if not isinstance(asked, lp.TranslationUnit):
        return cascade_of(expect_spec(asked)), None
    matched = matched_arrays(asked, options.progress)
    return matched.cascade, matched


def matched_arrays(kernel: lp.TranslationUnit, progress: Hook | None) -> Match:
    """The match of a kernel all of whose operands are elements of arrays; raises :class:`~feinsum_fuse.errors.MatchError` for others."""
    matched = match(kernel, progress=progress)
    if matched.computed:
        raise MatchError(
            f"the kernel computes {', '.join(matched.computed)} on the way in, which a program of arrays cannot take",
            hint="ff.optimize(kernel, device) gives a loopy kernel with the same arguments; ff.match(kernel).cascade compiles.",
        )
    return matched


@dataclass(eq=False)
class FunctionRecipe(Recipe):
    """How such a program is made: by a function, from the kernel of a cascade."""

    made_by: KernelFunction | None = None
    given: lp.TranslationUnit | None = None
    """The kernel that the function is given; by default the cascade's own."""
    names: Names | None = None
    """What the cascade's entities are called in that kernel."""

    @property
    def function(self) -> FunctionName | None:
        """What the function is called."""
        return None if self.made_by is None else self.made_by.name

    @cached_property
    def kernel(self) -> lp.TranslationUnit:
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
    given: lp.TranslationUnit | None = None,
    names: Names | None = None,
    timeout_s: float = TIMEOUT,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> Program:
    """The cascade by a function on a device, built and verified once in a child process.

    The function is given ``given``, the kernel that was matched to the cascade with these ``names``, or the cascade's own. Raises
    :class:`~feinsum_fuse.schedule.refusals.FunctionError` where it fails or changes arguments, else as
    :func:`~feinsum_fuse.device.program.building.build`.
    """
    recipe = FunctionRecipe(cascade, Schedule(), device, None, timeout_s, reference_bytes, made_by=function, given=given, names=names)
    return finished(recipe, Origin(ChosenBy.function, str(function.name)), progress)
