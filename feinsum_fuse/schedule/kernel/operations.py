"""What functions on vectors do, by their names; a vector is an element type such as ``float8``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...number_types import BFLOAT16, memory_type
from ..refusals import VectorAccessError
from .bfloat import ELEMENT

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "long",
    "uint32": "uint",
    "int8": "char",
    "uint8": "uchar",
    BFLOAT16: ELEMENT,
}
"""NumPy type -> what OpenCL C, or the text that goes with it, calls it."""
_TYPES = {c: name for name, c in C_TYPES.items()}
LANES = (2, 4, 8, 16)
WIDEST_VECTOR = LANES[-1]
VECTORS = {f"{element}{lanes}": (element, lanes) for element in C_TYPES.values() for lanes in LANES}
"""What OpenCL C calls a vector -> the C type of its elements, and how many there are."""
HALVED_BYTES = 64
"""Bytes of vectors that LLVM prefers to take apart, although there are registers for them."""
BLOCK_STORE = "vstoreblock"
"""Begins the names of operations that move a block. They take the first elements where it goes and comes from, how far rows lie apart in
both arrays, and the numbers of rows and columns."""
PRODUCT_FUNCTION = "product"
"""Begins the names of operations that add a product to a tile of sums in registers. They take the tile, the left and the right operand."""
ALIGNED = "aligned"
"""Behind ``vload`` and ``vstore`` in the names of those that move a vector which lies at a multiple of its length."""
SHORTEST = 4
"""Fewer elements than so many are moved one by one."""


def c_type(dtype: str) -> str:
    """The OpenCL C type of a NumPy type name; :class:`VectorAccessError` if there are no vectors of it."""
    if dtype not in C_TYPES:
        raise VectorAccessError(f"there are no vectors of {dtype}", hint=f"Vectors are made of {', '.join(C_TYPES)}.")
    return C_TYPES[dtype]


def has_vectors(dtype: str) -> bool:
    """Whether there are vectors of a NumPy type."""
    return dtype in C_TYPES


@dataclass(frozen=True)
class VectorOperation:
    """What a function on vectors does; ``what`` is its name without the type."""

    what: str
    element: str
    lanes: int

    @classmethod
    @cache
    def named(cls, name: str) -> VectorOperation:
        """The operation of an intrinsic's name."""
        return cls(*parts(name))

    @property
    def name(self) -> str:
        """The function's name."""
        return f"{self.what}_{self.element}{self.lanes}"

    @property
    def vector(self) -> str:
        """The C type of its vectors."""
        return f"{self.element}{self.lanes}"

    @property
    def vector_bytes(self) -> int:
        """The size of one of its vectors."""
        return self.lanes * memory_type(_TYPES[self.element]).itemsize

    @property
    def is_load(self) -> bool:
        """Whether it reads a vector from memory."""
        return self.what.startswith("vload")

    @property
    def is_store(self) -> bool:
        """Whether it writes a vector to memory."""
        return self.what.startswith("vstore")

    @property
    def is_counted(self) -> bool:
        """Whether its last argument says how many elements there are."""
        return "upto" in self.what

    @property
    def is_aligned(self) -> bool:
        """Whether its place in memory is a multiple of the vector's length."""
        return self.what.startswith((f"vload{ALIGNED}", f"vstore{ALIGNED}"))

    @property
    def is_block(self) -> bool:
        """Whether it moves a square block of elements and exchanges rows with columns on the way."""
        return self.what.startswith(BLOCK_STORE)

    @property
    def is_product(self) -> bool:
        """Whether it adds a product to a tile of sums."""
        return self.what.startswith(PRODUCT_FUNCTION)

    @property
    def changes_first(self) -> bool:
        """Whether it writes to the place that is its first argument."""
        return self.is_store or self.is_product

    @property
    def addresses(self) -> int:
        """How many of its arguments, the first ones, are places in memory."""
        if self.is_product:
            return 3
        return 2 if self.is_block else int(self.is_load or self.is_store)

    @property
    def uncounted(self) -> VectorOperation:
        """The same on whole vectors."""
        return VectorOperation(self.what.replace("upto", ""), self.element, self.lanes)

    def whole_parameters(self, count: int) -> frozenset[int]:
        """Which of its so many arguments are whole numbers."""
        if self.is_block or self.is_product:
            return frozenset(range(self.addresses, count))
        if self.is_counted:
            return frozenset((count - 1,))
        return frozenset((0, 1)) if self.what.startswith(("vindex", "viota")) else frozenset()


def parts(name: str) -> tuple[str, str, int]:
    """(what, C element type, lanes) of an intrinsic's name."""
    what, _, vector = name.rpartition("_")
    return what, *VECTORS[vector]
