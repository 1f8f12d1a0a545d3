"""What is on record of a structure that no fact answers for: other strides, other devices, other element types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from constantdict import constantdict

from ...cascades.cascade import Cascade
from ...errors import Error
from ...number_types import kind_of
from ..key.device_identity import device_family
from ..key.identity import identify
from .question import Question
from .record import Record

REAL_TYPES = ("float16", "float32", "float64")


def near_misses(asked: Question, records: Callable[[str], Sequence[Record]]) -> str:
    """In words, what differs between the question and what is known of its structure; empty if nothing is.

    ``records`` gives what is recorded of a structure, by its hash.
    """
    return "; ".join(dict.fromkeys((*_of_other_layout(asked, records(asked.identity.structure)), *_of_other_types(asked, records))))


def _of_other_layout(asked: Question, records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if device_family(record.device) != device_family(asked.device):
            yield f"recorded on {record.device}"
        elif not any(i.shape.strides == record.key.strides for i in asked.identity.mirrored):
            yield f"recorded for {_strides_text(record.key.strides)}, not for {_strides_text(asked.identity.shape.strides)}"


def _strides_text(strides: Sequence[tuple[int, ...]]) -> str:
    return f"strides {', '.join(map(str, strides))}" if any(strides) else "row-major arrays"


def _of_other_types(asked: Question, records: Callable[[str], Sequence[Record]]) -> Iterator[str]:
    """Real numbers of another length alone: whoever asks in float64 may want to know what is known in float32."""
    own = sorted({tensor.dtype for tensor in asked.cascade.tensors.values()})
    for dtype in REAL_TYPES:
        other = _retyped(asked.cascade, dtype)
        if other is None:
            continue
        try:
            found = records(identify(other).structure)
        except Error:
            continue
        if any(device_family(record.device) == device_family(asked.device) for record in found):
            yield f"recorded in {dtype}, not in {' and '.join(own)}"


def _retyped(cascade: Cascade, dtype: str) -> Cascade | None:
    """The cascade with all its floating-point tensors of one type; ``None`` if they are, or if there are none."""
    tensors = {
        name: dataclasses.replace(tensor, dtype=dtype) if kind_of(tensor.dtype) == "f" else tensor
        for name, tensor in cascade.tensors.items()
    }
    if tensors == dict(cascade.tensors):
        return None
    einsums = tuple(
        dataclasses.replace(einsum, accumulate=dtype) if kind_of(einsum.accumulate) == "f" else einsum for einsum in cascade.einsums
    )
    return dataclasses.replace(cascade, einsums=einsums, tensors=constantdict(tensors))
