"""Which blocks of a scheduled kernel an intrinsic could compute, and why it could not compute the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ScheduleError
from ..kernel.surroundings import entrypoint
from ..kernel.tagging import NormalFormTag
from ..step import Step
from ..steps.block_steps import Blockize, Tensorize
from ..steps.explicate import Explicate
from ..tree.nest import LoopRef, Nest
from .registration import AnyIntrinsic, intrinsics

if TYPE_CHECKING:
    import loopy as lp


@dataclass(frozen=True)
class Tensorization:
    """A block and an intrinsic. ``refused`` says why the intrinsic does not compute the block; it is empty if it does."""

    block: LoopRef
    intrinsic: AnyIntrinsic
    refused: str = ""

    @property
    def steps(self) -> tuple[Step, ...]:
        """What a schedule needs at its end for it."""
        return (Blockize(self.block), Tensorize(self.block, self.intrinsic.key))

    def __str__(self) -> str:
        return f"{self.block} by {self.intrinsic.name}" + (f": refused, {self.refused}" if self.refused else "")


def tensorizations(t_unit: lp.TranslationUnit) -> tuple[Tensorization, ...]:
    """Each loop of a tagged kernel, scheduled or not, with each intrinsic, in the order of the text.

    A loop whose block an intrinsic computes already, and one that is bound to groups or work-items, is refused like others. Raises
    :class:`~feinsum_fuse.schedule.refusals.NormalFormError` for a kernel that is not tagged.
    """
    tags = [tag for tag in entrypoint(t_unit).tags if isinstance(tag, NormalFormTag)]
    nest = tags[0].nest if tags else Explicate().read(t_unit)
    return tuple(_candidates(nest))


def _candidates(nest: Nest) -> Iterator[Tensorization]:
    seen: set[LoopRef] = set()
    for above, statement in nest.points:
        if statement.role not in {"update", "map"}:
            continue
        for loop in above:
            ref = next((ref for ref in loop.refs if ref.einsum == statement.einsum), None)
            if ref is None or ref in seen:
                continue
            seen.add(ref)
            for intrinsic in intrinsics().values():
                found = Tensorization(ref, intrinsic)
                try:
                    after = nest
                    for step in found.steps:
                        after = step.apply(after)
                    yield found
                except ScheduleError as reason:
                    yield Tensorization(ref, intrinsic, reason.message.partition(": ")[2] or reason.message)
