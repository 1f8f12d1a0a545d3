"""Cascades of einsums and LoopTree mappings in; verified, timed, predicted and remembered OpenCL kernels out.

The public names below are imported on first use, so that ``import feinsum_fuse`` is quick and opens no device. ``feinsum_fuse.spec`` and
``feinsum_fuse.cascade`` are subpackages that can also be called: ``ff.cascade(spec)`` is ``feinsum_fuse.cascade.reading.cascade(spec)``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

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
    SpecError,
    UnsupportedTypeError,
)

if TYPE_CHECKING:
    from .archive.einsum import einsum
    from .archive.recording import record
    from .archive.retrieval import query, retrieve
    from .cascade.batched import array, batched_einsum
    from .cascade.match import match
    from .cascade.reading import cascade
    from .device.calibration import calibrate
    from .device.harness import measure
    from .device.program import compile
    from .lowering import lower
    from .mappings.default_mapping import default_mapping
    from .model.bounds import bounds
    from .model.predict import predict, predict_many
    from .schedule.blocks import blocks
    from .spec.building import spec
    from .spec.load import load, loads

__all__ = [
    "ArchiveError",
    "CascadeError",
    "DeviceError",
    "Error",
    "LoweringError",
    "MappingError",
    "MatchError",
    "ModelError",
    "ScheduleError",
    "SpecError",
    "UnsupportedTypeError",
    "array",
    "batched_einsum",
    "blocks",
    "bounds",
    "calibrate",
    "cascade",
    "compile",
    "default_mapping",
    "einsum",
    "load",
    "loads",
    "lower",
    "match",
    "measure",
    "predict",
    "predict_many",
    "query",
    "record",
    "retrieve",
    "spec",
]

_MODULES = {
    "array": "cascade.batched",
    "batched_einsum": "cascade.batched",
    "blocks": "schedule.blocks",
    "bounds": "model.bounds",
    "calibrate": "device.calibration",
    "cascade": "cascade.reading",
    "compile": "device.program",
    "default_mapping": "mappings.default_mapping",
    "einsum": "archive.einsum",
    "load": "spec.load",
    "loads": "spec.load",
    "lower": "lowering",
    "match": "cascade.match",
    "measure": "device.harness",
    "predict": "model.predict",
    "predict_many": "model.predict",
    "query": "archive.retrieval",
    "record": "archive.recording",
    "retrieve": "archive.retrieval",
    "spec": "spec.building",
}
"""Public name -> the module that defines it; a name that is also a subpackage's makes that subpackage callable."""


class _CallablePackage(ModuleType):
    """A subpackage that shares its name with a public function, and can be called as that function."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)(*args, **kwargs)


class _Root(ModuleType):
    """This package: it makes subpackages callable as the import system attaches them."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _MODULES:
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module.partition(".")[0] == name:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
