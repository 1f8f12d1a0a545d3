"""Random mappings of a workload for an architecture of any kind: a sample to judge a model by.

Every decision of the family is left to the rules or drawn anew. One seed gives the same mappings everywhere.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from random import Random

from ..errors import LoweringError, MappingError, ModelError, ScheduleError
from ..formats.spec import Spec
from ..lowering.lowering import lower
from ..progress import Hook, Stage
from ..schedule.target import ANY_DEVICE, DeviceLimits, Target
from .choices import Drawn
from .components import fitted
from .family import Family

NEAR, FAR = 0.2, 0.8
"""The chance that one decision is drawn anew: most mappings stay near the default one, each fourth does not."""
ATTEMPTS = 20
"""Draws for each mapping that is wanted, before the workload is said to have no more of them."""


def random_mappings(
    spec: Spec,
    count: int,
    seed: int = 0,
    limits: DeviceLimits | None = None,
    *,
    target: Target = ANY_DEVICE,
    check: Callable[[Spec], object] | None = None,
    progress: Hook | None = None,
) -> tuple[Spec, ...]:
    """``count`` different Specs with mappings that can be lowered, fewer if the workload has no more within reach.

    ``spec``: workload, architecture and ``opencl`` key; its mapping is not looked at. ``check`` may refuse a mapping by raising one of our
    errors, as ``ff.predict`` does. Raises :class:`LoweringError` for a Spec without an architecture, a memory or a Compute.
    """
    if limits is not None:
        target = dataclasses.replace(target, limits=limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trees that nobody keeps, and of the workload, which the given mapping warned of
        with Stage("drawing random mappings", progress, count) as drawing:
            return _drawn(Family(spec, fitted(target, spec)), count, Random(seed), check or (lambda _: None), drawing)


def _drawn(family: Family, count: int, random: Random, check: Callable[[Spec], object], drawing: Stage) -> tuple[Spec, ...]:
    found: dict[str, Spec] = {}
    for _ in range(ATTEMPTS * count):
        if len(found) == count:
            break
        chooser = Drawn(random, FAR if len(found) % 4 == 3 else NEAR)
        try:
            drawn = family.spec.replace(mapping=family.mapping(chooser))
            if str(drawn.mapping) in found:
                continue
            lower(drawn, target=family.target)
            check(drawn)
        except (LoweringError, ScheduleError, MappingError, ModelError):
            continue
        found[str(drawn.mapping)] = drawn
        drawing.advance()
    return tuple(found.values())
