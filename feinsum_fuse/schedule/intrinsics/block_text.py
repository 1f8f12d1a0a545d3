"""Functions that transpose blocks of matrices in registers, add up their columns or mix what lies apart, and stores past the caches, in
OpenCL C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..kernel.operations import FOLDS, HALVED_BYTES, SHORTEST_BLOCK, STREAMED_BYTES, WIDEST_VECTOR, WORD, Extent, VectorOperation, Verb
from ..target import Quirks

_MIXED = """\
#ifndef mixed_{0}
#ifdef __clang__
#define mixed_{0}(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define mixed_{0}(one, other, ...) shuffle2(one, other, ({1})(__VA_ARGS__))
#endif
#endif
"""
QUAD_BYTES = 16
"""Elements change their places within so many bytes of vectors by instructions that need no tables of places."""
_WORDS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
_ELEMENTS = """\
    for (int column = 0; column < columns; ++column)
      for (int row = 0; row < rows; ++row)
        to[column * to_row + row] = from[row * from_row + column];"""
_OVERLAPPING = """\
    if (rows < {1} || columns < {1})
    {{
      {0}(*to, *from, to_row, from_row, rows, columns);
      return;
    }}
    for (int row = 0; row < rows; row += {1})
      for (int column = 0; column < columns; column += {1})
      {{
        int const r = min(row, rows - {1}), c = min(column, columns - {1});
        {0}(to[c * to_row + r], from[r * from_row + c], to_row, from_row, {1}, {1});
      }}"""
"""What is no whole block of a matrix: the name of the function for blocks that are half as long, and their length."""
_PADDED = """\
    for (int column = 0; column < columns; ++column)
      set_{0}(__{1}, to + column * to_row, ({0})(0));
"""
def mixing(operation: VectorOperation) -> str:
    """The OpenCL C text of the macro that mixes two of an operation's vectors."""
    return _MIXED.format(operation.vector, f"{_WORDS[operation.vector_bytes // operation.lanes]}{operation.lanes}")


def loaded_apart(operation: VectorOperation, whole: str) -> str:
    """The OpenCL C text of a load of elements that lie ``operation.step`` apart: the vectors between the first element and the last, and no
    other memory, are mixed by twos until one is left, in which all elements are at their places.

    ``whole``: the function that keeps vectors in one piece, if one is needed.
    """
    name, lanes, vector, step, (space,) = operation.name, operation.lanes, operation.vector, operation.step, operation.spaces
    starts = [*range(0, operation.reach - lanes, lanes), operation.reach - lanes]
    parts: list[tuple[str, dict[int, int]]] = []
    for number, start in enumerate(starts):
        own = [lane for lane in range(lanes) if min(lane * step // lanes, len(starts) - 1) == number]
        loaded = f"get_{vector}(__{space}, at + {start})"
        if operation.is_counted:  # no further than the last one that is there
            loaded = f"{operation.together.name}(at[{start}], (count - 1) * {step} + {1 - start})"
        parts.append((f"{whole}({loaded})" if whole else loaded, {lane: lane * step - start for lane in own}))
    lines: list[str] = []
    while len(parts) > 1:
        (one, firsts), (other, seconds), *rest = parts
        places = [firsts.get(lane, lanes + seconds[lane] if lane in seconds else -1) for lane in range(lanes)]
        lines.append(f"  {vector} step{len(lines)} = mixed_{vector}({one}, {other}, {', '.join(map(str, places))});")
        parts = [*rest, (f"step{len(lines) - 1}", {lane: lane for lane in (*firsts, *seconds)})]
    counted, names = (", int count", "x, count") if operation.is_counted else ("", "x")
    body = "\n".join(lines)
    return f"""
{mixing(operation)}/* Elements that lie {step} apart. */
static inline {vector} {name}_at(__{space} {operation.element} const *at{counted})
{{
{body}
  return {whole}({parts[0][0]});
}}
#define {name}({names}) {name}_at(&{names.replace("x", "(x)")})"""


def block_text(operation: VectorOperation) -> str:
    """The OpenCL C text of a function that transposes a block."""
    name, element, lanes = operation.name, operation.element, operation.lanes
    to, source = operation.spaces
    is_square, is_narrow = operation.verb is Verb.BLOCK, operation.extent is Extent.NARROW
    body = "\n".join(_square(operation, to, source) if is_square else _words(operation, to, source))
    others = f" || columns < {lanes}" if is_square else f" || columns < {lanes} || to_row != {WORD}"
    if is_narrow:
        body, others = "\n".join(_narrow(operation, to, source)), ""
    smaller = operation.smaller_block
    how = "element by element" if smaller is None else "by smaller blocks that overlap"
    cut = _ELEMENTS if smaller is None else _OVERLAPPING.format(smaller.name, smaller.lanes)
    if is_narrow or operation.extent is Extent.PADDED:
        how, cut = f"{how}, and zeros behind it", _PADDED.format(operation.vector, to) + cut
    return f"""
{mixing(operation) if is_square else ""}/* A block of a matrix, transposed; what is no whole block goes {how}. */
static inline void {name}_at(__{to} {element} *to, __{source} {element} const *from, int to_row, int from_row, int rows, int columns)
{{
  if (rows < {operation.block_rows}{others})
  {{
{cut}
    return;
  }}
{body}
}}"""


def _square(operation: VectorOperation, to: str, source: str) -> Iterator[str]:
    """A square block: rows deal out elements, then pairs, within quads, and quads are sorted: instructions without tables of places."""
    lanes, vector = operation.lanes, operation.vector
    quad, half = min(lanes, 4), min(lanes, 4) // 2
    steps: list[str] = []

    def mixed(one: str, other: str, parts: Sequence[Sequence[int]]) -> str:
        """A vector of parts of two, by their places in both."""
        places = ", ".join(str(place) for part in parts for place in part)
        steps.append(f"  {vector} step{len(steps)} = mixed_{vector}({one}, {other}, {places});")
        return f"step{len(steps) - 1}"

    def dealt(one: str, other: str, size: int) -> list[str]:
        firsts = ([q + n for q in range(0, lanes, quad) for n in range(start, start + half, size)] for start in (0, half))
        return [mixed(one, other, [range(n + b, n + b + size) for n in own for b in (0, lanes)]) for own in firsts]

    def by_place(rows: Sequence[str]) -> list[str]:
        if len(rows) == 1:
            return list(rows)
        quads = ([range(n + b, n + b + 4) for b in (0, lanes) for n in range(first, lanes, 8)] for first in (0, 4))
        even, odd = (by_place([mixed(rows[k], rows[k + 1], own) for k in range(0, len(rows), 2)]) for own in quads)
        return [row for pair in zip(even, odd, strict=True) for row in pair]

    yield from (f"  {vector} row{k} = get_{vector}(__{source}, {_row('from', k)});" for k in range(lanes))
    single = [row for k in range(0, lanes, 2) for row in dealt(f"row{k}", f"row{k + 1}", 1)]
    pairs = [row for k in range(0, lanes - 3, 4) for n in (k, k + 1) for row in dealt(single[n], single[n + 2], 2)]
    columns = [by_place((pairs or single)[k::quad]) for k in range(quad)]
    yield from steps
    setter = streaming(operation) if operation.streamed else f"set_{vector}"
    space = "" if operation.streamed else f"__{to}, "
    yield from (f"  {setter}({space}{_row('to', k)}, {columns[k % quad][k // quad]});" for k in range(lanes))


def _narrow(operation: VectorOperation, to: str, source: str) -> Iterator[str]:
    """A block of fewer columns than a quad has: of its rows quads are loaded, put side by side and dealt out, and no vector is made of
    elements. What a quad has beyond its row is of the next ones; of the last rows it begins before the row, as nothing may lie behind them.
    """
    element, lanes, vector, quad = operation.element, operation.lanes, operation.vector, SHORTEST_BLOCK
    if lanes <= quad:  # there may be no room for quads before the last rows
        column = ", ".join(f"from[{row} * from_row + column]" for row in range(lanes))
        yield "  for (int column = 0; column < columns; ++column)"
        yield f"    set_{vector}(__{to}, to + column * to_row, ({vector})({column}));"
        return
    yield f"  {element}{quad} last;"
    rows = []
    for row in range(lanes):
        load = f"get_{element}{quad}(__{source}, {_row('from', row)}"
        if row > lanes - quad:
            name = f"row{row}"
            yield f"  last = {load} + columns - {quad});"
            yield f"  {element}{quad} const {name} = columns == 3 ? last.s1233 : columns == 2 ? last.s2323 : last.s3333;"
            rows.append(name)
        else:
            rows.append(f"{load})")
    yield from (f"  {vector} quads{k} = ({vector})({', '.join(rows[k::quad])});" for k in range(quad))

    def dealt(one: str, other: str, size: int, start: int) -> str:
        firsts = [q + start + k for q in range(0, lanes, quad) for k in range(0, 2, size)]
        own = (place for n in firsts for b in (n, n + lanes) for place in range(b, b + size))
        return f"mixed_{vector}({one}, {other}, {', '.join(map(str, own))})"

    for k in (0, 2):
        yield from (f"  {vector} {half}{k} = {dealt(f'quads{k}', f'quads{k + 1}', 1, at)};" for half, at in (("low", 0), ("high", 2)))
    for number, (half, start) in enumerate((("low", 0), ("low", 2), ("high", 0))):
        condition = f"if (columns > {number}) " if number else ""
        yield f"  {condition}set_{vector}(__{to}, {_row('to', number)}, {dealt(f'{half}0', f'{half}2', 2, start)});"


def _row(array: str, number: int) -> str:
    """Where a row of a block starts."""
    return f"{array} + {number} * {array}_row" if number > 1 else f"{array} + {array}_row" if number else array


def _words(operation: VectorOperation, to: str, source: str) -> Iterator[str]:
    """Four rows whose columns become words, one after another: two stages."""
    lanes, vector = operation.lanes, operation.vector
    yield from (f"  {vector} row{k} = get_{vector}(__{source}, {_row('from', k)});" for k in range(WORD))
    yield f"  {vector} even0, even1, odd0, odd1, words0, words1, words2, words3;"
    yield _dealt("even0", "even1", "row0", "row2")
    yield _dealt("odd0", "odd1", "row1", "row3")
    yield _dealt("words0", "words1", "even0", "odd0")
    yield _dealt("words2", "words3", "even1", "odd1")
    yield from (f"  set_{vector}(__{to}, to + {k * lanes}, words{k});" for k in range(WORD))


def _dealt(low: str, high: str, one: str, other: str) -> str:
    """Two vectors dealt out like cards: an element of each in turn."""
    return f"  {low}.even = {one}.lo; {low}.odd = {other}.lo; {high}.even = {one}.hi; {high}.odd = {other}.hi;"


def streamed_store(operation: VectorOperation) -> str:
    """The OpenCL C text of a store of a whole vector that goes past the caches where it starts at a multiple of so many bytes.

    Pieces and the ordinary store differ, or compilers that see the same store twice make one of both that goes through the caches.
    """
    vector, space, size = operation.vector, operation.spaces[0], STREAMED_BYTES * operation.lanes // operation.vector_bytes
    pieces = "\n".join(
        f"    __builtin_nontemporal_store(value.s{places(first, size)}, (__{space} {operation.element}{size} *)(at + {first}));"
        for first in range(0, operation.lanes, size)
    )
    return f"""
/* Past the caches, which would fetch the lines first, where whole ones are written. */
static inline void {streaming(operation)}(__{space} {operation.element} *at, {vector} value)
{{
#ifdef __clang__
  if (((size_t)at & {operation.streamed - 1}) == 0)
  {{
{pieces}
    return;
  }}
#endif
  set_{vector}(__{space}, at, value);
}}"""


def streaming(operation: VectorOperation) -> str:
    """The name of that function, which takes a pointer and the vector."""
    return f"past_{operation.streamed}_{operation.vector}"


def places(first: int, count: int) -> str:
    """So many places in a vector as OpenCL C has them."""
    return "".join(f"{place:x}" for place in range(first, first + count))


def folded_together(operation: VectorOperation, quirks: Quirks) -> str:
    """The OpenCL C text that combines each number of a vector with the elements of a vector of its own.

    Two vectors become one by an operation, each half of both combined with the other half, until one is left; by itself each takes as many
    operations as there are halves. Elements and then pairs are dealt within quads first, as in a block that is transposed.
    """
    name, vector, lanes, count = operation.name, operation.vector, operation.lanes, operation.results
    rows, lines, dealt = [f"x{k}" for k in range(count)], list[str](), 1
    quad = min(lanes, max(1, QUAD_BYTES * lanes // operation.vector_bytes))

    def step(one: str, other: str, size: int) -> str:
        lines.append(f"  {operation.element}{size} step{len(lines)} = {_combined(operation, quirks, size, one, other)};")
        return f"step{len(lines) - 1}"

    def by_twos(halves: Sequence[Sequence[range]]) -> list[str]:
        """Each two vectors as one: what they have at some places, combined with what they have at the others."""
        first, second = (", ".join(str(place) for part in half for place in part) for half in halves)
        return [
            step(f"mixed_{vector}({one}, {other}, {first})", f"mixed_{vector}({one}, {other}, {second})", lanes)
            for one, other in zip(rows[::2], rows[1::2], strict=True)
        ]

    while len(rows) > 1 and dealt < quad:
        starts = ([q + n for q in range(half, lanes, quad) for n in range(0, quad // 2, dealt)] for half in (0, quad // 2))
        rows = by_twos([[range(n + b, n + b + dealt) for n in half for b in (0, lanes)] for half in starts])
        dealt *= 2
    size, length = lanes, lanes  # of a vector, and in it of what is left of one number or of those that are dealt together
    while length > dealt:
        firsts, seconds = (range(start, size, length) for start in (0, length // 2))
        length //= 2
        if len(rows) > 1:
            rows = by_twos([[range(n + b, n + b + length) for b in (0, lanes) for n in half] for half in (firsts, seconds)])
            continue
        size //= 2
        one, other = (", ".join(f"{rows[0]}.s{places(n, length)}" for n in half) for half in (firsts, seconds))
        rows = [step(f"({operation.element}{size})({one})", f"({operation.element}{size})({other})", size)]
    arguments = ", ".join(f"{vector} x{k}" for k in range(count))
    result = f"{operation.element}{count}"
    return f"""
{mixing(operation)}static inline {result} {name}({result} start, {arguments})
{{
{chr(10).join(lines)}
  return {_combined(operation, quirks, count, "start", rows[0])};
}}"""


def _combined(operation: VectorOperation, quirks: Quirks, size: int, one: str, other: str) -> str:
    """How a fold combines two vectors: by a function of OpenCL's on their halves where it is slow on the widest and the longest."""
    function, operator = operation.function, FOLDS.get(operation.function)
    if operator:
        return f"{one} {operator} {other}"
    if quirks.widest_builtins and (size == WIDEST_VECTOR or size * operation.vector_bytes // operation.lanes >= HALVED_BYTES):
        halves = ", ".join(f"{function}({one}.{half}, {other}.{half})" for half in ("lo", "hi"))
        return f"({operation.element}{size})({halves})"
    return f"{function}({one}, {other})"
