"""The loopy tags by which a kernel carries its normal form."""

from __future__ import annotations

from pytools.tag import UniqueTag, tag_dataclass

from ...cascades.kernel.tags import KeptTag
from ..tree.nest import Nest


@tag_dataclass
class NormalFormTag(KeptTag, UniqueTag):  # type: ignore[misc]
    """On a kernel: its instructions of ours are written from this tree."""

    nest: Nest


@tag_dataclass
class OwnedTag(KeptTag):
    """On an instruction, iname or array: it is written from the tree, and is replaced when the tree changes."""
