"""Transforms as sketches: candidates of the space that a search starts from and changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...cascades.cascade import Cascade
from ...errors import Error, TransformError
from ...patterns.parameters import ParameterValue
from ...patterns.registry import transform_called, transforms_for
from ...patterns.transform import Transform
from ..candidate import ORIGIN, Candidate
from ..space import Space


class Sketching:
    """Makes candidates of a cascade by transforms."""

    def __init__(self, cascade: Cascade, space: Space, transforms: Sequence[Transform]) -> None:
        self.cascade, self.space, self.transforms = cascade, space, transforms
        self.makers: dict[Candidate, str] = {}
        """What transforms made -> the first that did. A search may have proposed the same before."""

    def candidate(self, transform: Transform, point: Mapping[str, ParameterValue]) -> Candidate:
        """What a transform makes with these parameters; its rewriting joins the space. Raises what transforms and families raise."""
        sketch = transform.sketch(self.cascade, self.space.target, **point)
        made = self.space.made(self.space.including(sketch.cascade), sketch.chooser(), f"{ORIGIN}{transform.name}")
        self.makers.setdefault(made, transform.name)
        return made

    def usual(self) -> list[Candidate]:
        """Each transform with its usual parameters, as far as they make a mapping; equal ones once."""
        found: dict[Candidate, None] = {}
        for transform in self.transforms:
            try:
                found.setdefault(self.candidate(transform, {}))
            except Error:
                continue
        return list(found)


def chosen(cascade: Cascade, wanted: bool | Collection[str | Transform]) -> tuple[Transform, ...]:
    """The transforms that are meant: all that apply, none, or those that are given or named.

    Raises :class:`~feinsum_fuse.errors.TransformError` for names that nothing has, and for a transform that does not apply.
    """
    if isinstance(wanted, bool):
        return transforms_for(cascade) if wanted else ()
    found = tuple(one if isinstance(one, Transform) else transform_called(one) for one in wanted)
    for one in found:
        if not one.applies_to(cascade):
            raise TransformError(f"the transform {one.name} does not apply to this cascade", hint="ff.transforms_for lists what does.")
    return found
