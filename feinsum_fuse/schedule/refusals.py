"""Why a step is refused: one class per precondition; each carries the step, and the Einsum, loop and expression where there is one."""

from __future__ import annotations

from ..errors import Location, ScheduleError


class UnknownLoopError(ScheduleError):
    """The step names a loop that the kernel does not have."""


class UnknownEinsumError(ScheduleError):
    """The step names an Einsum that the kernel does not have."""


class UnknownTensorError(ScheduleError):
    """The step names a tensor that the Einsums in question do not read or write there."""


class TileShapeError(ScheduleError):
    """A tile shape that is not positive, or is larger than the loop."""


class SymbolicExtentError(ScheduleError):
    """A size that must be a number is symbolic."""


class NestOrderError(ScheduleError):
    """Loops that are not in the order, or not in the place, that the step needs."""


class DifferentExtentsError(ScheduleError):
    """Loops that would be shared have extents that cannot be brought together."""


class IncompleteReductionError(ScheduleError):
    """A value would be read before its reduction has finished."""


class ProducerConsumerError(ScheduleError):
    """What is read was not written before, or is written again after it was read."""


class ScopeError(ScheduleError):
    """A tile in a memory that is not visible from where it is used."""


class ReductionBindingError(ScheduleError):
    """A reduction loop would run in parallel."""


class NoReductionError(ScheduleError):
    """A loop that is no reduction where a step wants one."""


class NothingMaskedError(ScheduleError):
    """No mask excludes whole iterations of a loop that would be cut."""


class ParallelDependenceError(ScheduleError):
    """Iterations that depend on one another would run in parallel."""


class HostLoopError(ScheduleError):
    """Groups would have to wait for one another inside a kernel."""


class CrossKernelStorageError(ScheduleError):
    """Local or private data would have to survive from one kernel to the next."""


class BindingConflictError(ScheduleError):
    """A loop is bound twice, or one device axis twice on a path."""


class IteratorBindingError(ScheduleError):
    """A block whose loops do not take each point of its iterators exactly once."""


class VectorAccessError(ScheduleError):
    """An access that cannot be made with the lanes of a vector."""


class IntrinsicError(ScheduleError):
    """A block that an intrinsic does not compute; ``reached`` says how far the two were compared."""

    def __init__(self, message: str, *, location: Location | None = None, hint: str = "", reached: int = 0) -> None:
        self.reached = reached
        super().__init__(message, location=location, hint=hint)


class LocalSizeError(ScheduleError):
    """More local memory than the device has."""


class PrivateSizeError(ScheduleError):
    """More private memory than the device has for the work-items of a group."""


class WorkGroupSizeError(ScheduleError):
    """More work-items in a group than the device allows."""


class ApplicabilityError(ScheduleError):
    """Sizes outside those for which a recorded schedule is known to be legal."""


class NormalFormError(ScheduleError):
    """A kernel that is not in normal form where a step needs one, or an inconsistent one."""


class FunctionError(ScheduleError):
    """A transformation by a Python function that cannot be named, fails, or changes what it may not."""
