"""What functions on vectors do; a vector is an element type such as ``float8``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

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
    "int16": "short",
    "uint16": "ushort",
    BFLOAT16: ELEMENT,
}
"""NumPy type -> what OpenCL C, or the text that goes with it, calls it."""
NARROW_ELEMENTS = frozenset({"char", "uchar", "short", "ushort"})
"""Whole numbers of fewer bits than an ``int``."""
COMPLEX_TYPES = {"complex64": "cfloat", "complex128": "cdouble"}
"""NumPy type -> how names of functions on its vectors call it; such a vector is one of twice as many real numbers, the parts of each number
side by side as in memory."""
_PARTS = {"cfloat": "float", "cdouble": "double"}
"""Complex type -> that of its parts."""
_TYPES = {c: name for name, c in (C_TYPES | COMPLEX_TYPES).items()}
LANES = (2, 4, 8, 16)
WIDEST_VECTOR = LANES[-1]
HALVED_BYTES = 64
"""Bytes of vectors that LLVM prefers to take apart, although there are registers for them."""
COMPARISON_WORDS = {">=": "ge", ">": "gt", "==": "eq", "!=": "ne"}
"""Operator -> what names say."""
BY_NUMBER, OF_REALS, NUMBER_BY_REALS = "by", "reals", "byreals"
"""Of complex vectors: the first factor is one number for all lanes; the first factor, or what is converted or splat, is real; the first one
is one complex number and the second one a real vector."""
FOLDS = {"sum": "+", "product": "*"}
"""Name -> operator by which elements are combined."""
WORD = 4
"""Bytes of a word."""
STREAMED_BYTES = 16
"""Of a piece of a vector that goes past the caches: what all processors with such stores have. A core puts lines together of them."""
SHORTEST_BLOCK = 4
"""Of a transposed matrix, the rows of what is moved as a block and not element by element."""


def c_type(dtype: str) -> str:
    """The OpenCL C type of a NumPy type name; :class:`VectorAccessError` if there are no vectors of it."""
    found = C_TYPES.get(dtype) or COMPLEX_TYPES.get(dtype)
    if found is None:
        raise VectorAccessError(f"there are no vectors of {dtype}", hint=f"Vectors are made of {', '.join(C_TYPES | COMPLEX_TYPES)}.")
    return found


def has_vectors(dtype: str) -> bool:
    """Whether there are vectors of a NumPy type."""
    return dtype in C_TYPES or dtype in COMPLEX_TYPES


def has_blocks(dtype: str) -> bool:
    """Whether blocks of a NumPy type are transposed in vectors, and elements that lie near are mixed: of up to 64 bits."""
    return dtype in C_TYPES or dtype == "complex64"


def is_near(step: int, lanes: int) -> bool:
    """Whether lanes that lie so many elements apart are mixed of whole vectors, rather than filled one by one.

    There are as many vectors to load as elements from one lane to the next, and one fewer to mix in: up to half as many as lanes these are
    half of the loads and moves that single elements take, or fewer.
    """
    return 1 < step <= lanes // 2


class Verb(Enum):
    """What is done; the value begins the function's name."""

    SPLAT = "splat"
    """One scalar in all lanes."""
    CONVERT = "vconvert"
    WIDEN = "vwiden"
    """bfloat16 to float32; ``NARROW`` is the way back."""
    NARROW = "vnarrow"
    PACK = "pack"
    """A vector of scalars."""
    LANE = "lane"
    """The element of one lane."""
    FUNCTION = "v"
    """A function of the table on whole vectors; ``BUILTIN``: where OpenCL's takes no such vectors, or has another name."""
    BUILTIN = "builtin"
    MULTIPLY = "vmul"
    """Complex numbers times others; ``function`` is empty or :data:`BY_NUMBER`, :data:`OF_REALS` or :data:`NUMBER_BY_REALS`."""
    MULTIPLY_ADD = "vmad"
    """The same, added to the first argument."""
    CONJUGATE = "vconj"
    DIVIDE = "vdiv"
    IOTA = "viota"
    """An affine expression's value on each lane, from the first one and the step."""
    INDEX = "vindex"
    """Lane by lane one of two vectors, as such values compare with 0; ``WHERE``: as two vectors compare."""
    WHERE = "vwhere"
    LOAD = "vload"
    ELEMENT = "load"
    """One number for all lanes, behind which memory is asked for a line; it has a single lane. ``ASK``: nothing but that."""
    ASK = "ask"
    STORE = "vstore"
    BLOCK = "vstoreblock"
    """Moves a square block and exchanges rows with columns on the way. It takes the first elements where it goes and comes from, how far
    rows lie apart in both arrays, and the numbers of rows and columns."""
    WORDS = "vstorewords"
    """Moves four rows of bytes, whose columns become words; arguments are those of ``BLOCK``."""
    FOLD = "fold"
    """A number combined with the elements of a vector, by halves, or each number of a vector with those of a vector of its own;
    ``function`` is a key of :data:`FOLDS` or one of OpenCL's."""
    PRODUCT = "product"
    """Adds a product to a tile of sums in registers. It takes the tile, the left and the right operand, distances and counts."""
    CALL = "call"
    """Calls a function that somebody registered: with places, output first, with distances and counts."""


_OF_ONE_PLACE = frozenset({Verb.LOAD, Verb.STORE, Verb.ELEMENT, Verb.ASK})


class Extent(Enum):
    """Which elements a load or a store moves, and what is known of where they lie."""

    WHOLE = ""
    COUNTED = "upto"
    """The last argument says how many elements there are."""
    MERGED = "merged"
    """Of a store: so does the last argument, and behind these lie elements of the same array, up to a whole vector, which stay."""
    ALIGNED = "aligned"
    """The place in memory is a multiple of the vector's length."""
    WITHIN = "within"
    """Of a load: the place is a row's first element. The other arguments say where in the row the vector starts, which may be outside, and
    how long the row is; lanes outside are zeros."""
    PADDED = "padded"
    """Of a block: each row that is written has room for a whole vector; behind the elements that are there it gets zeros."""
    NARROW = "narrow"
    """The same of a block that has fewer columns than the smallest one."""


@dataclass(frozen=True)
class ProductTile:
    """The C types and the address spaces of a product's operands, and its rows and vectors of sums."""

    left: str
    right: str
    spaces: tuple[str, str]
    rows: int
    vectors: int
    keeps: bool = False
    """Whether what it takes of the right operand alone is kept in a place of its own for the next call."""


BYTES_AHEAD = "BYTES_AHEAD"
"""A macro for texts of functions: how many bytes ahead a stream is to be asked for. Defined where the target has ``pages_ahead``."""


@dataclass(frozen=True)
class BlockFunction:
    """A function of OpenCL C that computes a block, and that somebody registered."""

    name: str
    """Of the intrinsic; its last part is what ``text`` calls the function."""
    digest: str
    meaning: str
    text: str
    axes: tuple[tuple[int, ...], ...]
    """For the output and each operand, which of the counts are those of its indices."""
    adds: bool
    """Whether it reads the output, too."""

    @property
    def macro(self) -> str:
        """What kernels call it: no other function of theirs."""
        return f"{self.name.replace('.', '_')}_{self.digest}"

    @property
    def definition(self) -> str:
        """The text, in which the function has a name of its own, and a macro that takes elements for places."""
        function, places = self.name.rpartition(".")[2], [f"t{k}" for k in range(len(self.axes))]
        numbers = [f"n{k}" for k in range(sum(map(len, self.axes)) + len({axis for axes in self.axes for axis in axes}))]
        passed = ", ".join((*(f"&({place})" for place in places), *numbers))
        return f"""
/* {self.name}: {self.meaning} */
#define {function} {self.macro}_of
{self.text.strip()}
#undef {function}
#define {self.macro}({", ".join((*places, *numbers))}) {self.macro}_of({passed})"""


@dataclass(frozen=True)
class VectorOperation:
    """What a function on vectors does."""

    verb: Verb
    element: str
    lanes: int
    function: str = ""
    """Of :data:`~feinsum_fuse.formats.language.functions.FUNCTIONS`, for ``FUNCTION`` and ``BUILTIN``; of ``FOLD`` how it combines."""
    is_running: bool = False
    """Of a ``FUNCTION``: whether its first argument is what a reduction has so far."""
    comparison: str = ""
    """Of ``INDEX`` and ``WHERE``: a key of :data:`COMPARISON_WORDS`."""
    lane: int = 0
    spaces: tuple[str, ...] = ()
    """The address spaces that it moves a vector or a block to and from."""
    extent: Extent = Extent.WHOLE
    tile: ProductTile | None = None
    called: BlockFunction | None = None
    distance: int = 0
    """Of a load: so many bytes behind what it loads memory is asked for a line, of ``line`` bytes; 0: it is not."""
    line: int = 0
    step: int = 1
    """Of a load: how far apart its elements lie, from the first one on."""
    results: int = 1
    """Of ``FOLD``: how many numbers are combined at once."""
    streamed: int = 0
    """Of a store or a square block: vectors go to memory past the caches where they start at multiples of so many bytes; 0: none do."""

    def __hash__(self) -> int:
        # Each expression with a call asks for it, and the name is kept.
        return hash(self.name)

    @cached_property
    def name(self) -> str:
        """The function's name, such as ``vload_global_float8``."""
        if self.called is not None:
            return self.called.macro
        running = "running" if self.is_running else ""
        what = self.verb.value + running + self.function + COMPARISON_WORDS.get(self.comparison, "") + self.extent.value
        if self.verb is Verb.LANE:
            what += str(self.lane)
        if self.results > 1:
            what += str(self.results)
        apart = [f"every{self.step}"] if self.step > 1 else []
        words = [what, *apart, *((f"ahead{self.distance}",) if self.distance else ()), *self.spaces]
        words += [f"past{self.streamed}"] if self.streamed else []
        if (tile := self.tile) is not None:
            words += [tile.left, tile.right, *tile.spaces, f"{tile.rows}x{tile.vectors}", *(("kept",) if tile.keeps else ())]
        return "_".join((*words, f"{self.element}{self.lanes}" if self.lanes > 1 else self.element))

    @property
    def real_element(self) -> str:
        """The C type of the parts of its elements, if these are complex."""
        return _PARTS.get(self.element, "")

    @property
    def number(self) -> str:
        """The C type of an element."""
        return f"{self.element}_t" if self.real_element else self.element

    @property
    def vector(self) -> str:
        """The C type of its vectors."""
        if self.lanes == 1:
            return self.number
        return f"{self.real_element}{2 * self.lanes}" if self.real_element else f"{self.element}{self.lanes}"

    @cached_property
    def on_parts(self) -> VectorOperation | None:
        """The operation on real numbers that moves the same bytes; ``None`` if it moves none, or moves real ones.

        Blocks and elements that lie apart are moved as whole numbers of as many bits.
        """
        if not self.real_element or not self.spaces:
            return None
        if self.is_block or self.step > 1:
            return replace(self, element="long")
        return replace(self, element=self.real_element, lanes=2 * self.lanes)

    @property
    def vector_bytes(self) -> int:
        """The size of one of its vectors."""
        return self.lanes * memory_type(self.dtype).itemsize

    @property
    def dtype(self) -> str:
        """The NumPy type of the elements."""
        return _TYPES[self.element]

    @property
    def makes_element(self) -> bool:
        """Whether its value is one element: a store has that of the first one."""
        return self.is_store or self.verb in {Verb.ELEMENT, Verb.ASK, Verb.LANE, Verb.FOLD, Verb.CALL}

    @property
    def makes_whole(self) -> bool:
        """Whether it makes a vector from memory, a scalar or a vector of another type."""
        return self.verb in {Verb.SPLAT, Verb.CONVERT, Verb.WIDEN} or (self.verb is Verb.LOAD and self.extent is Extent.WHOLE)

    @property
    def is_counted(self) -> bool:
        """Whether its last argument says how many elements there are."""
        return self.extent in {Extent.COUNTED, Extent.MERGED}

    @property
    def is_block(self) -> bool:
        """Whether it moves a block of elements and exchanges rows with columns on the way."""
        return self.verb in {Verb.BLOCK, Verb.WORDS}

    @property
    def smaller_block(self) -> VectorOperation | None:
        """Of what moves square blocks, the same for blocks half as long, where these are no shorter than :data:`SHORTEST_BLOCK`."""
        is_longer = self.verb is Verb.BLOCK and self.lanes > SHORTEST_BLOCK and self.extent is not Extent.NARROW
        return replace(self, lanes=self.lanes // 2, extent=Extent.WHOLE) if is_longer else None

    @property
    def block_rows(self) -> int:
        """How many rows such a block has in what is read; it has as many columns as a vector has lanes."""
        return WORD if self.verb is Verb.WORDS else self.lanes

    @property
    def is_store(self) -> bool:
        """Whether it writes a vector or a block to memory."""
        return self.verb is Verb.STORE or self.is_block

    @property
    def changes_first(self) -> bool:
        """Whether it writes to the place that is its first argument."""
        return self.is_store or self.verb in {Verb.PRODUCT, Verb.CALL}

    @property
    def takes_distances(self) -> bool:
        """Whether its arguments are places, then distances between elements, then counts."""
        return self.is_block or self.verb in {Verb.PRODUCT, Verb.CALL}

    @property
    def addresses(self) -> int:
        """How many of its arguments, the first ones, are places in memory."""
        if self.called is not None:
            return len(self.called.axes)
        if self.tile is not None and self.tile.keeps:
            return 4
        return {Verb.PRODUCT: 3, Verb.BLOCK: 2, Verb.WORDS: 2}.get(self.verb, 1 if self.verb in _OF_ONE_PLACE else 0)

    @property
    def reach(self) -> int:
        """Elements of memory from the first one that a load or a store moves to the last one."""
        return (self.lanes - 1) * self.step + 1

    @cached_property
    def together(self) -> VectorOperation:
        """The same of elements that lie together."""
        return replace(self, step=1) if self.step > 1 else self

    @cached_property
    def not_ahead(self) -> VectorOperation:
        """The same without asking for anything."""
        return replace(self, distance=0, line=0) if self.distance else self

    @cached_property
    def uncounted(self) -> VectorOperation:
        """The same on whole vectors."""
        return replace(self, extent=Extent.WHOLE) if self.is_counted else self

    def whole_parameters(self, count: int) -> frozenset[int]:
        """Which of its so many arguments are whole numbers."""
        if self.takes_distances:
            return frozenset(range(self.addresses, count))
        if self.is_counted:
            return frozenset((count - 1,))
        if self.extent is Extent.WITHIN:
            return frozenset((1, 2))
        return frozenset((0, 1)) if self.verb in {Verb.INDEX, Verb.IOTA} else frozenset()
