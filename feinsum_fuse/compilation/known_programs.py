"""Programs that were chosen before, found by what was asked for, before a cascade is read; imports nothing that imports loopy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyopencl as cl

from ..archive.tables.place import text_of
from ..device.program.program import Program
from ..device.program.program_store import Kept, kept_programs, key_of
from ..errors import ArchiveError
from .knowledge import Knowledge

if TYPE_CHECKING:
    from ..archive.tables.address import Url
    from ..device.program.building import Recipe

CASCADE, SCHEDULE, SPEC, KNOWLEDGE = "cascade", "schedule", "spec", "knowledge"
"""The texts of an entry."""


def request_of(kind: str, **parts: object) -> str | None:
    """A request as text, the same for equal ones; ``None`` for parts that have no text, such as a symbolic size."""
    try:
        return json.dumps([kind, parts], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class Chosen:
    """A program, and what its choice rested on; ``None`` for a choice that rested on nothing that can change."""

    program: Program
    knowledge: Knowledge | None


def find(request: str | None, device: cl.Device, url: Url | None) -> Chosen | None:
    """The program that was chosen for a request, if what that choice rested on is as it was."""
    if request is None:
        return None
    programs, key = kept_programs(), _key(request, device, url)
    found = programs.find(key)
    if found is None:
        return None
    now: Knowledge | None = None
    if KNOWLEDGE in found.texts:
        try:
            known = Knowledge.from_json(found.texts[KNOWLEDGE])
            now = known.renewed()
        except (ArchiveError, ValueError, TypeError, KeyError):
            return None  # whoever asks the archive anew tells what is wrong with it
        if now is None:
            return None
        if now != known:
            programs.keep(key, replace(found, texts={**found.texts, KNOWLEDGE: now.to_json()}))
    return Chosen(program_of(found, device), now)


def keep(request: str | None, device: cl.Device, url: Url | None, chosen: Chosen) -> None:
    """Let later processes find the program for this request."""
    if request is None:
        return
    texts = texts_of(chosen.program)
    if chosen.knowledge is not None:
        texts[KNOWLEDGE] = chosen.knowledge.to_json()
    kept_programs().keep(_key(request, device, url), Kept(chosen.program.executable, chosen.program.origin, texts))


def _key(request: str, device: cl.Device, url: Url | None) -> str:
    return key_of(f"{request}\0{text_of(url)}", device)


def texts_of(program: Program) -> dict[str, str]:
    """How a program was made, as texts."""
    from ..archive.text.cascade_text import cascade_to_json

    texts = {CASCADE: cascade_to_json(program.cascade), SCHEDULE: program.schedule.to_json()}
    return texts | ({SPEC: program.spec.to_yaml()} if program.spec is not None else {})


def program_of(found: Kept, device: cl.Device) -> Program:
    """The program of an entry; how it was made is read when it is asked for."""
    return Program(found.executable, device, found.origin, lambda: _recipe(found, device))


def _recipe(found: Kept, device: cl.Device) -> Recipe:
    from ..archive.text.cascade_text import cascade_from_json
    from ..device.program.building import Recipe
    from ..formats.reading.load import loads
    from ..schedule.schedule import Schedule

    texts: Mapping[str, str] = found.texts
    spec = loads(texts[SPEC]) if SPEC in texts else None
    cascade, held = cascade_from_json(texts[CASCADE]), {argument.name: argument.shape for argument in found.executable.arguments}
    shapes = {name: held[name] for name, tensor in cascade.tensors.items() if name in held and held[name] != tensor.shape}
    recipe = Recipe(cascade, Schedule.from_json(texts[SCHEDULE]), device, spec, shapes=shapes)
    recipe.executable = found.executable
    return recipe
