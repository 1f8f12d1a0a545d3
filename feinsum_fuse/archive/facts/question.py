"""A question to the archive: a cascade on a device, and how well a record answers it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

import loopy as lp

from ...cascades.cascade import Cascade
from ...cascades.matching.match import Match
from ...cascades.names import Names
from ...cascades.reading.reader import cascade as cascade_of
from ...cascades.sequence import Rewriting
from ...cascades.terms import Tensor
from ...codegen.executable import Argument
from ...device.catalogue import DeviceInfo, target_of
from ...errors import ArchiveError
from ...formats.spec import Spec
from ...schedule.function import FunctionName, KernelFunction
from ...schedule.kernel.surroundings import apart
from ...schedule.kernel.tagging import tagged
from ...schedule.refusals import ApplicabilityError
from ...schedule.schedule import Schedule
from ...schedule.tree.parallel import check_kernels
from ...schedule.tree.sizes import check_limits
from ..key.applicability import covers
from ..key.device_identity import Device, described, device_family, is_same_device
from ..key.identity import Identity, identify, renamed_schedule
from ..key.recognition import recognised
from .record import Record

Askable: TypeAlias = Cascade | Spec | Match | lp.TranslationUnit
"""What can be asked about: a cascade, a Spec, what a kernel was matched to, or a loopy kernel, which is matched first."""


class Fit(StrEnum):
    """How well a fact fits the question, best first."""

    exact = "exact"
    """The same structure, sizes, element types, strides and device."""
    nearest_sizes = "same structure at the nearest applicable sizes"
    device_family = "same device family"
    nothing = "nothing"


SHIPPED = "shipped with feinsum_fuse"
"""The source of a record that lies in the package."""


class Trust(StrEnum):
    """Who says that a schedule takes a time."""

    own = "measured here"
    """By whoever keeps the database."""
    shipped = "shipped with feinsum_fuse"
    imported = "imported"
    """By somebody else. Such a fact is handed out only where nothing else is known at these sizes, and where its times are possible."""


def trust_in(record: Record, source: str) -> Trust:
    """Who measured a record that lies in this source."""
    return Trust.imported if record.origin else Trust.shipped if source == SHIPPED else Trust.own


@dataclass(frozen=True)
class Answer:
    """A record as an answer to a question, in the asker's names."""

    record: Record
    source: str
    """The database that holds the record, or the package."""
    found: Fit
    detail: str
    """In words: what differs between the question and the record."""
    distance: float
    """Of the sizes (:func:`size_distance`)."""
    schedule: Schedule | None
    sizes: tuple[int | None, ...]
    """The lengths that were asked about, in the order of the record's; ``None`` where they are symbolic."""
    function: KernelFunction | None = None
    """The function that made the kernel, if the asker handed it over."""

    @property
    def can_be_applied(self) -> bool:
        """Whether there is something to apply."""
        return self.schedule is not None or self.function is not None

    @property
    def trust(self) -> Trust:
        """Who measured it."""
        return trust_in(self.record, self.source)

    @property
    def rank(self) -> tuple[int, float]:
        """How well it fits, least best: the place in :class:`Fit`, and the distance of the sizes."""
        return list(Fit).index(self.found), self.distance

    def require_applicable(self) -> None:
        """Raise :class:`ApplicabilityError` if the sizes that were asked about lie outside the set that is stored with the record."""
        allowed = self.record.applicable_sizes
        if not covers(allowed, self.sizes):
            asked = ", ".join("symbolic" if size is None else str(size) for size in self.sizes)
            raise ApplicabilityError(
                f"the sizes [{asked}] lie outside those for which the schedule is known to be legal, {allowed}",
                hint="Measure and record a mapping at sizes like these.",
            )


@dataclass(frozen=True)
class Question:
    """What is asked, in the asker's names."""

    cascade: Cascade
    identity: Identity
    device: DeviceInfo
    matched: Match | None = None
    """What a kernel was matched to, if that was asked about."""
    rewritings: tuple[Rewriting, ...] = ()
    """What was done to the cascade that was matched before it was asked about."""
    given: lp.TranslationUnit | None = None
    """The caller's own kernel, if that was asked about as a whole."""
    functions: Mapping[FunctionName, KernelFunction] = field(default_factory=dict)
    """Those that the asker allows to be run."""

    @cached_property
    def kernel(self) -> lp.TranslationUnit:
        """The kernel to which a schedule must apply: the given one, or the cascade's own."""
        return self.cascade.kernel() if self.matched is None else self.matched.prepared

    @property
    def names(self) -> Names | None:
        """What the entities of the kernel that was asked about are, if it was one."""
        return None if self.matched is None else self.matched.names

    @property
    def instructions(self) -> tuple[str, ...] | None:
        """The instructions of the kernel that was asked about, if it was one."""
        return None if self.matched is None else self.matched.instructions

    def answer(self, record: Record, source: str = "") -> Answer | None:
        """What the record says about this question; ``None`` for nothing."""
        same_device = is_same_device(record.device, self.device)
        if record.key.structure != self.identity.structure:
            return None
        if not same_device and device_family(record.device) != device_family(self.device):
            return None
        fitting = [i for i in self.identity.mirrored if (i.shape.dtypes, i.shape.strides) == (record.key.dtypes, record.key.strides)]
        if not fitting:
            return None
        nearest = min(fitting, key=lambda i: size_distance(i.shape.sizes, record.key.sizes))
        distance = size_distance(nearest.shape.sizes, record.key.sizes)
        exact_sizes = nearest.shape.sizes == record.key.sizes
        found = Fit.device_family if not same_device else Fit.exact if exact_sizes else Fit.nearest_sizes
        detail = "; ".join(filter(None, (_size_detail(nearest, record), "" if same_device else f"recorded on {record.device}")))
        schedule = None if record.schedule is None else renamed_schedule(record.schedule, nearest.renaming.inverse())
        function = self.functions.get(record.function) if record.function is not None else None
        return Answer(record, source, found, detail, distance, schedule, nearest.shape.sizes, function)

    def require(self, answer: Answer) -> None:
        """Raise a :class:`~feinsum_fuse.errors.ScheduleError` unless the schedule is legal here, in this kernel and at these sizes.

        A function is run on the kernel: it says itself where it can be.
        """
        if answer.function is not None:
            answer.function.apply(self.kernel if self.given is None else self.given)
        if answer.schedule is not None and answer.schedule.steps:
            if answer.found is not Fit.exact:
                answer.require_applicable()
            require_legal(answer.schedule, self.kernel, self.names, self.device)


def require_legal(schedule: Schedule, kernel: lp.TranslationUnit, names: Names | None, device: DeviceInfo) -> None:
    """Apply all steps to a kernel, compare what it allocates with the device's limits, and see that other instructions can stay."""
    told = kernel if names is None else tagged(kernel, names)
    nest = schedule.nest(told)
    check_limits(nest, target_of(device).limits)
    check_kernels(nest)
    apart(told.default_entrypoint, nest.ids)


def size_distance(asked: tuple[int | None, ...], recorded: tuple[int, ...]) -> float:
    """The sum of ``|log2(asked / recorded)|``; a symbolic length is near to all."""
    return math.fsum(abs(math.log2(a / b)) for a, b in zip(asked, recorded, strict=True) if a is not None)


def _size_detail(identity: Identity, record: Record) -> str:
    differing = [
        f"{label} = {size} for {'symbolic' if wanted is None else wanted}"
        for label, wanted, size in zip(identity.labels, identity.shape.sizes, record.key.sizes, strict=True)
        if wanted != size
    ]
    return f"recorded at {', '.join(differing)}" if differing else ""


def question(x: Askable, device: Device, functions: Mapping[FunctionName, KernelFunction] | None = None) -> Question:
    """The question about a cascade, a Spec's cascade, or the cascade that a loopy kernel is matched to.

    Raises :class:`~feinsum_fuse.errors.MatchError` for a kernel that is none.
    """
    info = described(device)
    allowed = functions or {}
    if isinstance(x, lp.TranslationUnit):
        return dataclasses.replace(about_match(recognised(x), info), given=x, functions=allowed)
    if isinstance(x, Match):
        return Question(x.cascade, identify(x.cascade), info)
    if isinstance(x, Spec):
        x = cascade_of(x)
    if not isinstance(x, Cascade):
        hint = "Give a cascade, a Spec or a loopy kernel; a text is read by feinsum_fuse.cascade([text], sizes={...})."
        raise ArchiveError(f"a {type(x).__name__} cannot be looked up", hint=hint)
    return Question(x, identify(x), info, functions=allowed)


def about_match(matched: Match, info: DeviceInfo, rewritings: tuple[Rewriting, ...] = ()) -> Question:
    """The question about a kernel that has been matched, and rewritten since."""
    layout = {tensor: _strides(matched.prepared, array, matched.cascade.tensors[tensor]) for tensor, array in matched.names.arrays.items()}
    layout = {tensor: strides for tensor, strides in layout.items() if tensor not in matched.cascade.intermediates}
    return Question(matched.cascade, identify(matched.cascade, layout), info, matched, rewritings)


def _strides(kernel: lp.TranslationUnit, array: str, tensor: Tensor) -> tuple[int, ...]:
    """The strides of a kernel's array in elements; empty where it is row-major, or where a stride is symbolic."""
    tags = kernel.default_entrypoint.get_var_descriptor(array).dim_tags or ()
    strides = tuple(tag.stride for tag in tags)
    if not all(isinstance(length, int) for length in (*tensor.shape, *strides)):
        return ()
    shape = tuple(length for length in tensor.shape if isinstance(length, int))
    return () if Argument(array, tensor.dtype, shape, "input", strides).row_major else strides
