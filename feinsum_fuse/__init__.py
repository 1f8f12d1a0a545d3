"""Cascades of einsums and LoopTree mappings in; verified, timed, predicted and remembered OpenCL kernels out.

The public names below are imported on first use, so that ``import feinsum_fuse`` is quick and opens no device.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from .cache_folder import settle
from .errors import (
    ArchiveError,
    CascadeError,
    DeviceError,
    Error,
    LoweringError,
    MappingError,
    MatchError,
    ModelError,
    ScheduleError,
    SearchError,
    SpecError,
    TransformError,
    UnsupportedTypeError,
)
from .progress import Progress

__version__ = "0.1.0"

settle()

if TYPE_CHECKING:
    from .archive.facts.forgetting import forget
    from .archive.facts.recording import record
    from .archive.facts.retrieval import query, retrieve
    from .cascades.matching.match import match
    from .cascades.reading.batched import array, batched_einsum
    from .cascades.reading.reader import cascade
    from .compilation.compilation import compile
    from .device.calibration.calibration import calibrate
    from .device.timing.harness import measure
    from .formats.reading.assembly import spec
    from .formats.reading.load import load, loads
    from .lowering import lower
    from .mapper.curves import curve
    from .mapper.driver import search
    from .mapper.exploration import explore
    from .mappings.default_mapping import default_mapping
    from .model.evaluation import predict, predict_many
    from .model.floor import bounds
    from .numpy_einsum import einsum
    from .optimization.optimization import optimize
    from .optimization.ranges import optimize_range
    from .patterns.registry import transforms_for
    from .quantization import dequantize4, quantize4
    from .raising.raising import raise_mapping
    from .report.explanation import explain
    from .schedule.intrinsics.registration import intrinsic, intrinsics
    from .schedule.intrinsics.tensorizations import tensorizations
    from .schedule.tree.blocks import blocks
    from .tuning.tuner import tune

__all__ = [
    "ArchiveError",
    "CascadeError",
    "DeviceError",
    "Error",
    "LoweringError",
    "MappingError",
    "MatchError",
    "ModelError",
    "Progress",
    "ScheduleError",
    "SearchError",
    "SpecError",
    "TransformError",
    "UnsupportedTypeError",
    "array",
    "batched_einsum",
    "blocks",
    "bounds",
    "calibrate",
    "cascade",
    "compile",
    "curve",
    "default_mapping",
    "dequantize4",
    "einsum",
    "explain",
    "explore",
    "forget",
    "intrinsic",
    "intrinsics",
    "load",
    "loads",
    "lower",
    "match",
    "measure",
    "optimize",
    "optimize_range",
    "predict",
    "predict_many",
    "quantize4",
    "query",
    "raise_mapping",
    "record",
    "retrieve",
    "search",
    "spec",
    "tensorizations",
    "transforms_for",
    "tune",
]

_MODULES = {
    "array": "cascades.reading.batched",
    "batched_einsum": "cascades.reading.batched",
    "blocks": "schedule.tree.blocks",
    "bounds": "model.floor",
    "calibrate": "device.calibration.calibration",
    "cascade": "cascades.reading.reader",
    "compile": "compilation.compilation",
    "curve": "mapper.curves",
    "default_mapping": "mappings.default_mapping",
    "dequantize4": "quantization",
    "einsum": "numpy_einsum",
    "explain": "report.explanation",
    "explore": "mapper.exploration",
    "forget": "archive.facts.forgetting",
    "intrinsic": "schedule.intrinsics.registration",
    "intrinsics": "schedule.intrinsics.registration",
    "load": "formats.reading.load",
    "loads": "formats.reading.load",
    "lower": "lowering",
    "match": "cascades.matching.match",
    "measure": "device.timing.harness",
    "optimize": "optimization.optimization",
    "optimize_range": "optimization.ranges",
    "predict": "model.evaluation",
    "predict_many": "model.evaluation",
    "quantize4": "quantization",
    "query": "archive.facts.retrieval",
    "raise_mapping": "raising.raising",
    "record": "archive.facts.recording",
    "retrieve": "archive.facts.retrieval",
    "search": "mapper.driver",
    "spec": "formats.reading.assembly",
    "tensorizations": "schedule.intrinsics.tensorizations",
    "transforms_for": "patterns.registry",
    "tune": "tuning.tuner",
}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
