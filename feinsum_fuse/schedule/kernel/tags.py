"""The loopy tags by which a kernel carries its normal form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools.tag import Tag, UniqueTag, tag_dataclass

from ..tree.nest import Nest

if TYPE_CHECKING:
    from pytools.persistent_dict import Hash, KeyBuilder


@tag_dataclass
class NormalFormTag(UniqueTag):  # type: ignore[misc]
    """On a kernel: its instructions of ours are written from this tree."""

    nest: Nest

    def update_persistent_hash(self, key_hash: Hash, key_builder: KeyBuilder) -> None:
        """loopy keeps kernels on disk under keys that leave modules out: a tree kept by another release must not be read back as ours."""
        key_builder.rec(key_hash, Nest.__module__)
        key_builder.update_for_dataclass(key_hash, self)


@tag_dataclass
class OwnedTag(Tag):  # type: ignore[misc]
    """On an instruction, iname or array: it is written from the tree, and is replaced when the tree changes."""
