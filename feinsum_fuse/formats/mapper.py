"""What AccelForge's ``mapper`` key asks of a search: its class FFM, ``accelforge/frontend/mapper/ffm.py`` of release 1.0.467."""

from __future__ import annotations

import math
from dataclasses import dataclass

METRICS = {
    "LATENCY": 1,
    "ENERGY": 2,
    "DYNAMIC_ENERGY": 4,
    "LEAK_ENERGY": 8,
    "RESOURCE_USAGE": 16,
    "ACTIONS": 32,
    "DETAILED_MEMORY_USAGE": 64,
    "ENERGY_DELAY_PRODUCT": 128,
}
"""Metric -> its number in AccelForge's files, which add those of several."""


@dataclass(frozen=True)
class MapperSettings:
    """The ``mapper`` key; the defaults are AccelForge's and ask for nothing."""

    metrics: tuple[str, ...] = ()
    """Names among :data:`METRICS` to optimise; none where the key does not say."""
    info_metrics: tuple[str, ...] = ()
    """Names of those to report."""
    force_memory_hierarchy_order: bool = True
    out_of_order_hierarchy_explore_removing_spatials_for_more_temporals: bool = False
    max_fused_loops_per_rank_variable: float = 1
    tiling_coarseness: float = 1
    max_fused_loops: float = math.inf
    max_loops_per_spatial_dimension: float = math.inf
    max_loops_minus_ranks: float = math.inf
    explore_loop_orders: bool = True
    memory_limit: float = math.inf
    memory_limit_per_process: float = math.inf
    time_limit: float = math.inf
    """Seconds."""
    time_limit_per_pmapping_template: float = math.inf
    max_pmapping_templates_per_einsum: float = math.inf
    explore_imperfect_spatial_loops: bool = False
    explore_imperfect_temporal_loops: bool = False
    prioritize_reuse_of_unfused_tensors: bool = False
    objective_tolerance: float = 0
    resource_usage_tolerance: float = 0
