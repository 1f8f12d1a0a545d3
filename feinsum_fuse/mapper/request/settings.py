"""AccelForge's ``mapper`` key as options of a search: each field is honoured, refused by name, or has no effect and is told so."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Literal

from ...errors import SpecWarning
from ...formats.arch import Arch
from ...formats.mapper import MapperSettings
from ..failures import UnsearchedError
from ..options import Objective, Options

OBJECTIVE_OF: dict[str, Objective] = {"ENERGY": "energy", "LATENCY": "latency", "ENERGY_DELAY_PRODUCT": "edp"}
AXIS_OF = {"ENERGY": "energy", "LATENCY": "latency", "RESOURCE_USAGE": "usage"}
WITHOUT_EFFECT = {
    "info_metrics": "every figure is reported",
    "out_of_order_hierarchy_explore_removing_spatials_for_more_temporals": "memories on two sides of a fanout keep their order",
    "explore_loop_orders": "all orders are searched",
    "prioritize_reuse_of_unfused_tensors": "all orders are searched",
    "memory_limit": "max_rows limits what is held",
    "memory_limit_per_process": "max_rows limits what is held",
    "time_limit_per_pmapping_template": "no templates are made",
    "max_pmapping_templates_per_einsum": "no templates are made",
    "resource_usage_tolerance": "no mapping is dropped for it",
}
"""Field -> why a search has no use for it."""


def completed(options: Options, settings: MapperSettings | None, arch: Arch, *, chosen: bool) -> Options:
    """The options with what the ``mapper`` key asks for besides; ``chosen``: the caller said what is to be least.

    A limit of either holds. Raises :class:`UnsearchedError` for what a search does not cover; warns of fields that have no effect.
    """
    if settings is None:
        return options
    _refuse(settings, arch)
    default = MapperSettings()
    for name, reason in WITHOUT_EFFECT.items():
        if getattr(settings, name) != getattr(default, name):
            warnings.warn(f"mapper: {name} is accepted and has no effect: {reason}.", SpecWarning, stacklevel=4)
    result = dataclasses.replace(
        options,
        fused=_fused(options.fused, settings),
        imperfect=options.imperfect or settings.explore_imperfect_temporal_loops,
        tolerance=max(options.tolerance, settings.objective_tolerance),
        seconds=_least(options.seconds, settings.time_limit),
        coarseness=settings.tiling_coarseness,
        per_dimension=_least(None, settings.max_loops_per_spatial_dimension),
    )
    return result if chosen or not settings.metrics else _aimed(result, settings.metrics)


def _refuse(settings: MapperSettings, arch: Arch) -> None:
    """Refuse, by name, what would change the space and is not covered."""
    spread = any(fanout.fanout > 1 for fanouts in arch.fanouts.values() for fanout in fanouts)
    asked = {
        "max_fused_loops_per_rank_variable above 1": settings.max_fused_loops_per_rank_variable > 1,
        "max_loops_minus_ranks": math.isfinite(settings.max_loops_minus_ranks),
        "explore_imperfect_spatial_loops": settings.explore_imperfect_spatial_loops and spread,
    }
    missing = [name for name, wanted in asked.items() if wanted]
    if missing:
        raise UnsearchedError(f"The search does not cover {', '.join(missing)} of the mapper key.", hint="Take it out to search.")


def _fused(asked: int | Literal["ffmr"] | None, settings: MapperSettings) -> int | Literal["ffmr"] | None:
    """The largest number of fused loops that both allow."""
    most = min(settings.max_fused_loops, math.inf if settings.max_fused_loops_per_rank_variable >= 1 else 0)
    if math.isinf(most):
        return asked
    if isinstance(asked, str) and most > 0:
        raise UnsearchedError(f'fused="{asked}" and max_fused_loops: {most:g} of the mapper key do not go together.')
    return int(most) if asked is None or isinstance(asked, str) else min(asked, int(most))


def _least(asked: float | None, limit: float) -> float | None:
    found = min(math.inf if asked is None else asked, limit)
    return None if math.isinf(found) else found


def _aimed(options: Options, metrics: tuple[str, ...]) -> Options:
    """The options with an objective for one metric, a front for several."""
    if len(metrics) == 1 and metrics[0] in OBJECTIVE_OF:
        return dataclasses.replace(options, objective=OBJECTIVE_OF[metrics[0]])
    missing = [name for name in metrics if name not in AXIS_OF]
    if missing:
        raise UnsearchedError(f"The search does not cover metrics: {' | '.join(metrics)} of the mapper key ({', '.join(missing)}).")
    if options.top > 1:
        raise UnsearchedError(f"metrics: {' | '.join(metrics)} of the mapper key asks for a front, and top for the best few.")
    return dataclasses.replace(options, pareto=tuple(AXIS_OF[name] for name in ("ENERGY", "LATENCY", "RESOURCE_USAGE") if name in metrics))
