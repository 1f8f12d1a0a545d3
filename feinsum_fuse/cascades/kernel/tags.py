"""The loopy tags by which a kernel says which Einsum, rank variable or tensor its entities are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools.tag import Tag, UniqueTag, tag_dataclass

from .keys import update_with_modules

if TYPE_CHECKING:
    from pytools.persistent_dict import Hash, KeyBuilder

    from ..sequence import EinsumSequence


class KeptTag(Tag):  # type: ignore[misc]
    """A tag of ours. loopy keeps kernels on disk: one that another release has kept, with its own classes, is not ours."""

    def update_persistent_hash(self, key_hash: Hash, key_builder: KeyBuilder) -> None:
        """What loopy asks for a key."""
        update_with_modules(key_hash, key_builder, self)


@tag_dataclass
class EinsumTag(KeptTag):
    """On an instruction: it computes (a part of) this Einsum."""

    einsum: str


@tag_dataclass
class RankVariableTag(KeptTag):
    """On an iname: it runs over this rank variable of this Einsum."""

    einsum: str
    variable: str


@tag_dataclass
class TensorTag(KeptTag):
    """On an array: it holds this tensor of the cascade."""

    tensor: str


@tag_dataclass
class CascadeTag(KeptTag, UniqueTag):  # type: ignore[misc]
    """On a kernel: it computes this cascade, under names that :func:`feinsum_fuse.cascades.names.chosen_names` gives."""

    cascade: EinsumSequence


@tag_dataclass
class SeparateTag(KeptTag):
    """An instruction that matching has put beside the Einsums, and whose iterations may run in any order, or at the same time."""
