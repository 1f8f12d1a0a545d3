"""The OpenCL C of products of register tiles: of elements, and of 8-bit integers four at a time.

The compiler's preprocessor says which instructions it may use, so that one text is right everywhere. On x86 ``vpdpbusd`` adds up four
products of unsigned by signed bytes (Intel SDM, volume 2, VPDPBUSD). Where both factors are signed, ``a * b = (a + 128) * b - 128 * b``:
the sums of ``b`` are taken beside the products, once for all rows. Other devices may have ``cl_khr_integer_dot_product``, whose packed
functions take either sign. Without both ``pmaddwd`` adds up pairs of products of 16 bits, exactly, and where the compiler does not say that
it has it, products of 32 bits are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..kernel.operations import LANES, VectorOperation

FOUR = 4
_SUFFIXES = {4: "128", 8: "256", 16: "512"}
_BUILTINS = {
    "AVX-512 VNNI": "defined(__clang__) && defined(__AVX512VNNI__) && defined(__AVX512VL__)",
    "AVX-VNNI": "defined(__clang__) && defined(__AVXVNNI__)",
}
PACKED = "defined(cl_khr_integer_dot_product) && defined(__opencl_c_integer_dot_product_input_4x8bit_packed)"
"""Not the extension's name alone: Intel's runtime has its functions in OpenCL C 3.0 only, and says its name in every version."""
DOT_INSTRUCTIONS = {**_BUILTINS, "cl_khr_integer_dot_product": PACKED}
"""What has the instruction -> when a compiler takes it; the first that it takes is used."""
_SHORT = " || ".join(f"({condition})" for condition in _BUILTINS.values())
_VNNI = {4: _SHORT, 8: _SHORT, 16: "defined(__clang__) && defined(__AVX512VNNI__)"}
"""Lanes -> when the compiler has the instruction."""
_PAIRS = {4: "defined(__SSE2__)", 8: "defined(__AVX2__)"}
_SIGN = "0x80808080"
_ONES = "0x01010101"


@dataclass(frozen=True)
class ProductShape:
    """What such a function computes."""

    name: str
    element: str
    lanes: int
    left: str
    right: str
    left_space: str
    right_space: str
    rows: int
    vectors: int
    keeps: bool

    @classmethod
    def of(cls, operation: VectorOperation) -> ProductShape:
        """The shape of an operation, such as ``product_char_char_global_local_6x2_int8``."""
        tile = operation.tile
        assert tile is not None, operation.name
        of_sums = (operation.name, operation.element, operation.lanes)
        return cls(*of_sums, tile.left, tile.right, *tile.spaces, tile.rows, tile.vectors, tile.keeps)

    @property
    def vector(self) -> str:
        """The type of a vector of sums."""
        return f"{self.element}{self.lanes}"

    @property
    def is_of_bytes(self) -> bool:
        """Whether four products are added at once."""
        return self.left != self.element


def product_definitions(operation: VectorOperation) -> Iterator[tuple[str, str]]:
    """The function and all that it calls, each with a name that says where it stands among the others."""
    shape = ProductShape.of(operation)
    if shape.is_of_bytes:
        yield "11_bytes", _BYTES
        yield f"12_word_{shape.left_space}_{shape.left}", _word(shape.left_space, shape.left)
        yield f"12_word_{shape.right_space}_{shape.right}", _word(shape.right_space, shape.right)
        yield f"13_last_word_{shape.left_space}_{shape.left}", _last_word(shape.left_space, shape.left)
        yield from ((f"12_of_bytes{lanes:02}", _OF_BYTES.format(lanes)) for lanes in LANES if lanes <= shape.lanes)
        lengths = (shape.lanes // 2, shape.lanes) if shape.lanes == max(_SUFFIXES) else (shape.lanes,)
        for lanes in lengths:
            yield f"12_interleaved_{lanes:02}", _interleaved(lanes)
        yield f"13_words_{shape.right_space}_{shape.right}{shape.lanes}", _words(shape.right_space, shape.right, shape.lanes)
        for lanes in lengths:
            yield f"13_dots_{shape.left}_{shape.right}{lanes:02}", _dots(shape.left, shape.right, lanes)
    else:
        yield f"12_row_{shape.right_space}_{shape.vector}", _row(shape.right_space, shape.element, shape.lanes)
    yield f"14_{shape.name}", _product(shape)


_BYTES = """
/* Four bytes as one number, wherever they begin. */
#ifdef __clang__
typedef int int_of_bytes __attribute__((aligned(1), may_alias));
#define word_at(space, at) (*(space const int_of_bytes *)(at))
#else
#define word_at(space, at) as_int((uchar4)((uchar)(at)[0], (uchar)(at)[1], (uchar)(at)[2], (uchar)(at)[3]))
#endif"""


_OF_BYTES = """#ifdef __clang__
typedef int int{0}_of_bytes __attribute__((ext_vector_type({0}), aligned(1), may_alias));
#endif"""


def _word(space: str, kind: str) -> str:
    return f"""
/* Four bytes that are multiplied by four others; zeros where there are fewer. */
static inline int word_{space}_{kind}(__{space} {kind} const *at, int next, int left)
{{
  if (next == 1 && left >= 4) return word_at(__{space}, at);
  uchar4 some = 0;
  some.s0 = at[0];
  if (left > 1) some.s1 = at[next];
  if (left > 2) some.s2 = at[2 * next];
  if (left > 3) some.s3 = at[3 * next];
  return as_int(some);
}}"""


def _last_word(space: str, kind: str) -> str:
    return f"""
/* The same where fewer may be left: if others lie before them, one load that ends with the last of them, and a shift. */
static inline int last_word_{space}_{kind}(__{space} {kind} const *at, int next, int left, bool behind)
{{
#ifdef __ENDIAN_LITTLE__
  if (next == 1 && behind) return (int)((uint)word_at(__{space}, at + left - 4) >> (32 - 8 * left));
#endif
  return word_{space}_{kind}(at, next, left);
}}"""


def _interleaved(lanes: int) -> str:
    """Four rows of bytes as one number for each lane: a block that is transposed on the way in."""
    rows = ", ".join(f"uchar{lanes} row{k}" for k in range(FOUR))
    if lanes == max(_SUFFIXES):
        halves = ", ".join(f"interleaved_int{lanes // 2}({', '.join(f'row{k}.{part}' for k in range(FOUR))})" for part in ("lo", "hi"))
        body = f"  return (int{lanes})({halves});"
    else:
        body = f"""  uchar{2 * lanes} low, high;
  low.even = row0; low.odd = row1; high.even = row2; high.odd = row3;
  ushort{2 * lanes} all;
  all.even = as_ushort{lanes}(low); all.odd = as_ushort{lanes}(high);
  return as_int{lanes}(all);"""
    return f"""
static inline int{lanes} interleaved_int{lanes}({rows})
{{
{body}
}}"""


def _words(space: str, kind: str, lanes: int) -> str:
    words = f"int{lanes}"
    rows = ", ".join(f"as_uchar{lanes}(get_{kind}{lanes}(__{space}, at + {k} * next))" for k in range(FOUR))
    singles = "\n".join(f"  if (columns > {k}) some.s{k:x} = word_{space}_{kind}(at + {k} * column, next, left);" for k in range(lanes))
    return f"""
/* Four bytes for each lane: they lie together, or in four rows, or anywhere. Fewer may be left of four that are there all the same. */
static inline {words} words_{space}_{kind}{lanes}(
  __{space} {kind} const *at, int next, int column, int columns, int left, bool are_there)
{{
#ifdef __clang__
  if (column == 4 && next == 1 && (left >= 4 || are_there))
  {{
    if (columns >= {lanes}) return *(__{space} const {words}_of_bytes *)at;
    {words} some = 0;
{_some_words(space, lanes)}
    return some;
  }}
#endif
  if (column == 1 && columns >= {lanes} && left >= 4) return interleaved_{words}({rows});
  {words} some = 0;
{singles}
  return some;
}}"""


def _some_words(space: str, lanes: int, first: int = 0, indent: str = "    ") -> str:
    """C that loads fewer words than ``lanes``, those from ``first`` to ``columns``, by halves of vectors."""
    half = lanes // 2
    if half not in LANES:
        singles = (f"if (columns > {k}) some.s{k:x} = word_at(__{space}, at + {FOUR * k});" for k in range(first, first + lanes - 1))
        return "\n".join(indent + line for line in singles)
    places = "".join(f"{k:x}" for k in range(first, first + half))
    loaded = f"some.s{places} = *(__{space} const int{half}_of_bytes *)(at + {FOUR * first});"
    above, below = (_some_words(space, half, start, f"{indent}  ") for start in (first + half, first))
    head = f"{indent}if (columns >= {first + half})\n{indent}{{\n{indent}  {loaded}\n{above}\n{indent}}}\n"
    return head + f"{indent}else\n{indent}{{\n{below}\n{indent}}}"


def _dots(left: str, right: str, lanes: int) -> str:
    """What adds four products to each lane, what prepares the operands for it, and what corrects the sums afterwards."""
    vector, name = f"int{lanes}", f"{left}_{right}_int{lanes}"
    builtin = f"__builtin_ia32_vpdpbusd{_SUFFIXES.get(lanes, '')}"
    by_bytes, offset = {
        ("uchar", "char"): (f"{builtin}(sum, x, y)", 0),
        ("char", "uchar"): (f"{builtin}(sum, y, x)", 0),
        ("char", "char"): (f"{builtin}(sum, x, y)", -128),
        ("uchar", "uchar"): (f"{builtin}(sum, y, x)", 128),
    }[left, right]
    flipped = f"#define left_{name}(x, sign) ({'(x) ^ (sign)' if left == right else 'x'})"
    ones = f"({vector})({_ONES})"
    sums = f"{builtin}(sum, {ones}, y)" if right == "char" else f"{builtin}(sum, y, {ones})"
    if lanes == max(_SUFFIXES):
        half = f"{left}_{right}_int{lanes // 2}"
        otherwise = f"""#define whole_{name} 0
#if ({PACKED}) || (defined(__clang__) && {_PAIRS[lanes // 2]})
#define offset_{name} offset_{half}
#define left_{name}(x, sign) (({vector})(left_{half}((x).lo, (sign).lo), left_{half}((x).hi, (sign).hi)))
#define sums_{name}(sum, y) (({vector})(sums_{half}((sum).lo, (y).lo), sums_{half}((sum).hi, (y).hi)))
#define dots_{name}(sum, x, y) (({vector})(dots_{half}((sum).lo, (x).lo, (y).lo), dots_{half}((sum).hi, (x).hi, (y).hi)))
#else
#define left_{name}(x, sign) (x)
{_by_lanes(left, right, lanes)}
#endif"""
    else:
        otherwise = f"""#define whole_{name} 0
#define left_{name}(x, sign) (x)
#if {PACKED}
{_by_packed_words(left, right, lanes)}
#else
{_by_pairs(left, right, lanes)}
#endif"""
    if lanes not in _VNNI:
        return otherwise
    return f"""
#if {_VNNI[lanes]}
#define whole_{name} 1
#define offset_{name} {offset}
{flipped}
static inline {vector} sums_{name}({vector} sum, {vector} y) {{ return {sums}; }}
static inline {vector} dots_{name}({vector} sum, {vector} x, {vector} y) {{ return {by_bytes}; }}
#else
{otherwise}
#endif"""


def _by_packed_words(left: str, right: str, lanes: int) -> str:
    """Four products of bytes by a function of the extension (OpenCL C, section 6.15.21), a lane at a time."""
    vector, name = f"int{lanes}", f"{left}_{right}_int{lanes}"
    signs = "".join("u" if kind == "uchar" else "s" for kind in (left, right))
    function = f"dot_4x8packed_{signs}_{'uint' if signs == 'uu' else 'int'}"
    words = ", ".join(f"(int){function}(as_uint((x).s{k:x}), as_uint((y).s{k:x}))" for k in range(lanes))
    return f"""#define offset_{name} 0
#define sums_{name}(sum, y) (sum)
static inline {vector} dots_{name}({vector} sum, {vector} x, {vector} y) {{ return sum + ({vector})({words}); }}"""


def _by_pairs(left: str, right: str, lanes: int) -> str:
    """Four products of bytes as twice two products of 16 bits."""
    if lanes not in _PAIRS:
        return _by_lanes(left, right, lanes)
    vector, name, halves = f"int{lanes}", f"{left}_{right}_int{lanes}", f"short{2 * lanes}"
    cut = {
        "char": (f"as_{halves}({{0}}) << (short)8 >> (short)8", f"as_{halves}({{0}}) >> (short)8"),
        "uchar": (f"as_{halves}({{0}}) & (short)255", f"as_{halves}(as_u{halves}({{0}}) >> (ushort)8)"),
    }
    lines = "\n".join(
        f"  {halves} const {one}{k} = {cut[kind][k].format(one)};" for one, kind in (("x", left), ("y", right)) for k in range(2)
    )
    pairs = " + ".join(f"__builtin_ia32_pmaddwd{_SUFFIXES[lanes]}(x{k}, y{k})" for k in range(2))
    return f"""#if defined(__clang__) && {_PAIRS[lanes]}
#define offset_{name} 0
#define sums_{name}(sum, y) (sum)
static inline {vector} dots_{name}({vector} sum, {vector} x, {vector} y)
{{
{lines}
  return sum + {pairs};
}}
#else
{_by_lanes(left, right, lanes)}
#endif"""


def _by_lanes(left: str, right: str, lanes: int) -> str:
    """Four products of bytes of words as numbers of 32 bits, in place: nothing is moved from lane to lane."""
    vector, name = f"int{lanes}", f"{left}_{right}_int{lanes}"
    cut = {
        "char": [*(f"({{0}} << {24 - 8 * k} >> 24)" for k in range(FOUR - 1)), "({0} >> 24)"],
        "uchar": ["({0} & 255)", *(f"({{0}} >> {8 * k} & 255)" for k in range(1, FOUR))],
    }
    products = " + ".join(f"{cut[left][k].format('x')} * {cut[right][k].format('y')}" for k in range(FOUR))
    return f"""#define offset_{name} 0
#define sums_{name}(sum, y) (sum)
static inline {vector} dots_{name}({vector} sum, {vector} x, {vector} y)
{{
  return sum + {products};
}}"""


def _row(space: str, element: str, lanes: int) -> str:
    vector = f"{element}{lanes}"
    singles = "\n".join(f"  if (columns > {k}) some.s{k:x} = at[{k} * column];" for k in range(lanes))
    return f"""
/* A row's elements for each lane; zeros beyond its end. */
static inline {vector} row_{space}_{vector}(__{space} {element} const *at, int column, int columns)
{{
  if (column == 1 && columns >= {lanes}) return get_{vector}(__{space}, at);
  {vector} some = 0;
{singles}
  return some;
}}"""


def _product(shape: ProductShape) -> str:
    """The function: sums in registers, rows of the left operand, a loop over what is summed, and the way back."""
    rows, vectors = range(shape.rows), range(shape.vectors)
    places = {(r, v): f"sum[{r} * sum_row + {v} * sum_vector]" for r in rows for v in vectors}
    pointer = f"__{shape.left_space} {shape.left} const *"
    body = _bytes_body(shape, pointer) if shape.is_of_bytes else _elements_body(shape)
    first = {v: f" + kept[{v}]" if shape.keeps else "" for v in vectors}
    lines = [f"  {shape.vector} " + ", ".join(f"s{r}_{v} = {at}{first[v]}" for (r, v), at in places.items()) + ";"]
    lines += [f"  {pointer}left{r} = left + min({r}, rows - 1) * left_row;" for r in rows]
    stores = [f"  if (rows > {r}) {{ {' '.join(_stored(shape, v, places[r, v], f's{r}_{v}') for v in vectors)} }}" for r in rows]
    groups = (f"  if ({side}_group == 0) {side}_group = 4 * {side}_next;" for side in ("left", "right") if shape.is_of_bytes)
    text = "\n".join([*groups, *(_kept(shape) if shape.keeps else ()), "  if (rows <= 0) return;", *lines, *body, *stores])
    left, right = ("left_row", "left_group", "left_next"), ("right_group", "right_next", "right_column")
    distances, counts = (*(("again",) if shape.keeps else ()), "sum_row", "sum_vector", *left, *right), ("rows", "columns", "deep")
    names = ", ".join((*distances, *counts))
    kept = (", kept", ", &(kept)", f", __private {shape.vector} *kept") if shape.keeps else ("", "", "")
    return f"""
/* Adds the product of rows and columns to a tile of {shape.rows} x {shape.vectors} vectors; what lies beyond the counts stays as it is. */
static inline void {shape.name}_at(__private {shape.vector} *sum, {pointer}left, __{shape.right_space} {shape.right} const *right{kept[2]},
  {", ".join(f"int {name}" for name in distances)},
  {", ".join(f"int {name}" for name in counts)})
{{
{text}
}}
#define {shape.name}(sum, left, right{kept[0]}, {names}) \
  {shape.name}_at(&(sum), &(left), &(right){kept[1]}, {names})"""


def _kinds(shape: ProductShape) -> str:
    return f"{shape.left}_{shape.right}_{shape.vector}"


def _right_words(shape: ProductShape, vector: int, at: str, left: str) -> str:
    """Four bytes of each column of a vector; zeros beyond the last column.

    Groups that do not follow one another have an axis of four to themselves, so that the last of them is there as a whole. In other arrays
    what lies behind the last value may be nobody's memory.
    """
    first = vector * shape.lanes
    call = f"words_{shape.right_space}_{shape.right}{shape.lanes}"
    return f"{call}({at} + {first} * right_column, right_next, right_column, columns - {first}, {left}, right_group != 4)"


def _kept(shape: ProductShape) -> Iterator[str]:
    """What the offset of the left operand's signs adds to each column, taken once for all rows that the right operand meets."""
    kinds = _kinds(shape)
    yield f"  if (offset_{kinds} != 0 && again == 0)"
    yield "  {"
    yield f"    {shape.vector} " + ", ".join(f"t{v} = 0" for v in range(shape.vectors)) + ";"
    yield f"    __{shape.right_space} {shape.right} const *at = right;"
    yield "    for (int rest = deep; rest > 0; rest -= 4, at += right_group)"
    yield "    {"
    yield from (f"      t{v} = sums_{kinds}(t{v}, {_right_words(shape, v, 'at', 'min(rest, 4)')});" for v in range(shape.vectors))
    yield "    }"
    yield "    " + " ".join(f"kept[{v}] = t{v} * offset_{kinds};" for v in range(shape.vectors))
    yield "  }"
    yield f"  if (offset_{kinds} == 0) {{ {' '.join(f'kept[{v}] = 0;' for v in range(shape.vectors))} }}"


def _bytes_body(shape: ProductShape, pointer: str) -> Iterator[str]:
    """Four at a time; the last of them with zeros where there are fewer."""
    kinds, vectors = _kinds(shape), range(shape.vectors)
    if not shape.keeps:
        yield f"  {shape.vector} " + ", ".join(f"t{v} = 0" for v in vectors) + ";"
    # Of a number that the compiler knows it would flip the signs before words are spread over the lanes, which then are no loads.
    yield f"  {shape.vector} volatile flips = ({shape.vector})({_SIGN});"
    yield f"  {shape.vector} const sign = flips;"
    yield "  int const fours = deep / 4, rest = deep % 4;"
    word = f"word_{shape.left_space}_{shape.left}"
    # Rows a known distance apart need one register for their places, where each place needs one else: more than a processor has. Where
    # dot products are taken apart the function is long already, and compilers take minutes for three of it.
    yield f"  if (whole_{kinds} && rows >= {shape.rows})"
    yield "  {"
    yield f"    {pointer}at = left;"
    fewer, apart = -(-shape.vectors // 2), {r: f"{word}(at + {r} * left_row, left_next, 4)" for r in range(shape.rows)}
    if fewer < shape.vectors:
        yield f"    if (columns <= {fewer * shape.lanes})"
        yield from _fours(shape, apart, "at += left_group;", fewer)
        yield "    else"
    yield from _fours(shape, apart, "at += left_group;", shape.vectors)
    yield f"    {' '.join(f'left{r} = at + {r} * left_row;' for r in range(shape.rows))}"
    yield "  }"
    yield "  else"
    yield "  {"
    moved = " ".join(f"left{r} += left_group;" for r in range(shape.rows))
    yield from _fours(shape, {r: f"{word}(left{r}, left_next, 4)" for r in range(shape.rows)}, moved, shape.vectors)
    yield "  }"
    yield "  if (rest > 0)"
    yield "  {"
    last = f"last_{word}"
    words = {r: f"{last}(left{r}, left_next, rest, left_group == 4 && fours > 0)" for r in range(shape.rows)}
    yield from _four(shape, words, "rest", shape.vectors)
    yield "  }"
    if not shape.keeps:
        for r in range(shape.rows):
            yield "  " + " ".join(f"s{r}_{v} += t{v} * offset_{kinds};" for v in vectors)


def _fours(shape: ProductShape, words: Mapping[int, str], moved: str, vectors: int) -> Iterator[str]:
    """The loop over groups of four for so many vectors. ``words``: row -> its four bytes; ``moved`` goes on to the next group."""
    yield "    for (int four = 0; four < fours; ++four)"
    yield "    {"
    yield from _four(shape, words, "4", vectors, "  ")
    yield f"      {moved}"
    yield "      right += right_group;"
    yield "    }"


def _four(shape: ProductShape, words: Mapping[int, str], left: str, vectors: int, indent: str = "") -> Iterator[str]:
    """Four values that are summed, of each row and each column of so many vectors."""
    kinds = _kinds(shape)
    for v in range(vectors):
        yield f"    {indent}{shape.vector} const y{v} = {_right_words(shape, v, 'right', left)};"
        if not shape.keeps:
            yield f"    {indent}if (offset_{kinds} != 0) t{v} = sums_{kinds}(t{v}, y{v});"
    for r, word in words.items():
        yield f"    {indent}{shape.vector} const x{r} = left_{kinds}(({shape.vector})({word}), sign);"
        for v in range(vectors):
            yield f"    {indent}s{r}_{v} = dots_{kinds}(s{r}_{v}, x{r}, y{v});"


def _elements_body(shape: ProductShape) -> Iterator[str]:
    """A column times a row at a time."""
    yield "  for (; deep > 0; --deep)"
    yield "  {"
    for v in range(shape.vectors):
        first = v * shape.lanes
        call = f"row_{shape.right_space}_{shape.vector}"
        yield f"    {shape.vector} const y{v} = {call}(right + {first} * right_column, right_column, columns - {first});"
    for r in range(shape.rows):
        yield "    " + " ".join(f"s{r}_{v} += *left{r} * y{v};" for v in range(shape.vectors))
    yield "    " + " ".join(f"left{r} += left_next;" for r in range(shape.rows))
    yield "    right += right_next;"
    yield "  }"


def _stored(shape: ProductShape, vector: int, place: str, value: str) -> str:
    """A vector of sums on its way back; of bytes, what is added beyond the last column is zero."""
    if shape.is_of_bytes:
        return f"{place} = {value};"
    first = vector * shape.lanes
    parts = " ".join(f"if (columns > {first + k}) {place}.s{k:x} = {value}.s{k:x};" for k in range(shape.lanes))
    return f"if (columns >= {first + shape.lanes}) {place} = {value}; else {{ {parts} }}"
