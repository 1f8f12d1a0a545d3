"""What an intrinsic means: an Einsum with element types, and how its indices lie. :mod:`.product_text` has its OpenCL C.

Source of the two halves, a meaning and an implementation: Feng et al., TensorIR (ASPLOS 2023, arXiv 2207.04296), section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from ...formats.language.einsum_text import ParsedEinsum, parse_einsum

IndexRole = tuple[bool, ...]
"""A characteristic vector: whether an index occurs in the output, and in each of the operands."""
BYTE_TYPES = ("int8", "uint8")


def roles_of(parsed: ParsedEinsum) -> dict[str, IndexRole]:
    """Index -> its characteristic vector in an Einsum, in the order in which they occur."""
    projections = (parsed.output_projection, *(projection for _, projection in parsed.inputs))
    places = [[v for index in projection.values() for v in index.variables] for projection in projections]
    return {name: tuple(name in place for place in places) for name in dict.fromkeys(v for place in places for v in place)}


@dataclass(frozen=True)
class TensorIntrinsic:
    """A computation that one call does for a block: sums of products in registers, whose rows hold vectors."""

    name: str
    meaning: str
    """An Einsum: ``m`` counts rows, ``n`` columns, of which as many as a vector has lanes lie in one, and ``k`` what is summed."""
    types: frozenset[tuple[str, str, str]]
    """NumPy types of the output and of both operands that it takes."""
    deep: int = 1
    """Values along ``k`` that one instruction adds up; the last of them are padded with zeros."""
    is_usual: bool = False
    """Whether ``lower`` asks for it wherever it computes a block."""

    @cached_property
    def roles(self) -> Mapping[str, IndexRole]:
        """Index -> its characteristic vector."""
        return roles_of(parse_einsum(self.meaning))

    def takes(self, types: tuple[str, ...]) -> bool:
        """Whether it computes with an output and operands of these types."""
        return types in self.types

    @property
    def key(self) -> str:
        """How steps call it."""
        return self.name

    def __str__(self) -> str:
        return f"{self.name}: {self.meaning}"


_PRODUCT = "Z[m,n] = A[m,k] * B[k,n]"
OUTER_PRODUCT = TensorIntrinsic("outer_product", _PRODUCT, frozenset((t, t, t) for t in ("float32", "float64", "int32", "int64", "uint32")))
"""A column of ``A`` times a row of ``B``, added to a tile in registers, for each ``k``."""
DOT_PRODUCT = TensorIntrinsic(
    "dot_product", _PRODUCT, frozenset(("int32", a, b) for a in BYTE_TYPES for b in BYTE_TYPES), deep=4, is_usual=True
)
"""Four products of 8-bit integers and their sum in 32 bits, for each lane: an instruction of many devices."""
INTRINSICS: Mapping[str, TensorIntrinsic] = MappingProxyType({i.name: i for i in (OUTER_PRODUCT, DOT_PRODUCT)})
