"""The loopy tags by which a kernel says which Einsum, rank variable or tensor its entities are."""

from __future__ import annotations

from pytools.tag import Tag, tag_dataclass


@tag_dataclass
class EinsumTag(Tag):  # type: ignore[misc]
    """On an instruction: it computes (a part of) this Einsum."""

    einsum: str


@tag_dataclass
class RankVariableTag(Tag):  # type: ignore[misc]
    """On an iname: it runs over this rank variable of this Einsum."""

    einsum: str
    variable: str


@tag_dataclass
class TensorTag(Tag):  # type: ignore[misc]
    """On an array: it holds this tensor of the cascade."""

    tensor: str
