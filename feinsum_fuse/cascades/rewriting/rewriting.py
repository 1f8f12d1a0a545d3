"""Rewritings as data: each is a frozen value that maps a cascade to a cascade with the same outputs, and has a JSON form.

A cascade records what made it (``Cascade.rewritings``); a schedule for it is kept together with that record.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence

from ...errors import CascadeError
from ..cascade import Cascade, Rewriting
from .batching import Batch, Unbatch
from .contraction_order import ContractionOrder
from .online import Online
from .softmax import ExpandSoftmax

REWRITINGS: dict[str, type] = {kind.__name__: kind for kind in (Batch, ContractionOrder, ExpandSoftmax, Online, Unbatch)}
VERSION = 1


def rewritten(cascade: Cascade, rewritings: Iterable[Rewriting]) -> Cascade:
    """The cascade after these rewritings, in order; :class:`CascadeError` if one of them does not apply."""
    for rewriting in rewritings:
        cascade = rewriting.apply(cascade)
    return cascade


def rewritings_to_json(rewritings: Sequence[Rewriting]) -> str:
    """The rewritings as JSON text."""
    steps = []
    for rewriting in rewritings:
        fields = {field.name: getattr(rewriting, field.name) for field in dataclasses.fields(rewriting)}  # type: ignore[arg-type]
        steps.append({"rewriting": type(rewriting).__name__, "version": VERSION, **fields})
    return json.dumps(steps)


def rewritings_from_json(text: str) -> tuple[Rewriting, ...]:
    """The rewritings that :func:`rewritings_to_json` wrote; :class:`CascadeError` for anything else."""
    try:
        steps = json.loads(text)
    except json.JSONDecodeError as error:
        raise CascadeError(f"the rewritings are no JSON: {error}") from None
    if not isinstance(steps, list):
        raise CascadeError("the rewritings are no list")
    return tuple(_rewriting(step) for step in steps)


def _rewriting(step: object) -> Rewriting:
    if not isinstance(step, dict) or step.get("rewriting") not in REWRITINGS:
        raise CascadeError(f"there is no rewriting {step!r:.80}", hint=f"Known are {', '.join(REWRITINGS)}.")
    kind = REWRITINGS[step["rewriting"]]
    if step.get("version") != VERSION:
        raise CascadeError(f"the rewriting {kind.__name__} has the version {step.get('version')!r}; this program knows {VERSION}")
    fields = {name: _frozen(value) for name, value in step.items() if name not in ("rewriting", "version")}
    if fields.keys() != {field.name for field in dataclasses.fields(kind)}:
        raise CascadeError(f"the rewriting {kind.__name__} has the fields {', '.join(fields)}")
    if not (isinstance(fields.get("einsum", ""), str) and all(map(_is_plain, fields.values()))):
        raise CascadeError(f"the rewriting {kind.__name__} has fields of other types than it needs: {fields}")
    result: Rewriting = kind(**fields)
    return result


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, str | int)
