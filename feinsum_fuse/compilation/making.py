"""Programs by a schedule: built, or found on disk where this machine has built the same before, under whatever names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyopencl as cl

from ..archive.key.identity import renamed_schedule
from ..archive.tables.address import Url
from ..cascades.cascade import Cascade
from ..device.program.building import NO_SHAPES, Recipe, build
from ..device.program.origin import Origin
from ..device.program.program import Program
from ..device.program.program_store import Kept, kept_programs, key_of
from ..device.runtime.isolation import TIMEOUT
from ..formats.spec import Spec
from ..progress import Hook
from ..schedule.schedule import Schedule
from .known_programs import request_of

MOST_EINSUMS = 64
"""Longer cascades take longer to bring to their canonical form than is saved."""


@dataclass(frozen=True)
class BuildOptions:
    """What a caller asks for, and how."""

    device: cl.Device
    url: Url | None = None
    timeout_s: float | None = None
    reference_bytes: int | None = None
    progress: Hook | None = None
    shapes: Mapping[str, tuple[int, ...]] = NO_SHAPES
    """Tensor -> the shape of the caller's array, of those whose axes were joined."""


@dataclass(frozen=True)
class Way:
    """A way to compute a cascade."""

    cascade: Cascade
    schedule: Schedule
    spec: Spec | None
    """With the mapping that the schedule comes from, if there is one."""
    origin: Origin


def made(way: Way, options: BuildOptions) -> Program:
    """The program, built and verified in a child process where this machine has not done so before.

    Raises as :func:`~feinsum_fuse.device.program.building.build`.
    """
    request, names = _canonical(way)
    key = key_of(request, options.device) if request is not None else ""
    programs = kept_programs()
    if request is not None and (found := programs.find(key)) is not None:
        own = found.executable.renamed({new: old for old, new in names.items()}).shaped(options.shapes)
        limits = options.timeout_s or TIMEOUT, options.reference_bytes
        recipe = Recipe(way.cascade, way.schedule, options.device, way.spec, *limits, options.shapes)
        recipe.executable = own
        return Program(own, options.device, replace(way.origin, is_kept=True), lambda: recipe)
    program = build(
        way.cascade,
        way.schedule,
        options.device,
        spec=way.spec,
        timeout_s=options.timeout_s or TIMEOUT,
        reference_bytes=options.reference_bytes,
        shapes=options.shapes,
        progress=options.progress,
        origin=way.origin,
    )
    if request is not None:
        own_shapes = {name: way.cascade.fixed_shape(name) for name in options.shapes if name in way.cascade.tensors}
        programs.keep(key, Kept(program.executable.shaped(own_shapes).renamed(names), way.origin))
    return program


def _canonical(way: Way) -> tuple[str | None, Mapping[str, str]]:
    """Cascade and schedule as a text that is the same under all names, and the canonical names of tensors."""
    if len(way.cascade.einsums) > MOST_EINSUMS or way.cascade.size_parameters:
        return None, {}
    form = way.cascade.canonical()
    schedule = renamed_schedule(way.schedule, form.renaming)
    return request_of("schedule", cascade=form.text, schedule=schedule.to_json()), form.renaming.tensors
