"""Functions on vectors in OpenCL C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...formats.language.functions import FUNCTIONS, Function
from ...formats.language.vector_functions import PERMUTES
from ..intrinsics.block_text import block_text, folded_together, loaded_apart, places, streamed_store, streaming
from ..intrinsics.complex_text import complex_definitions
from ..intrinsics.product_text import product_definitions
from ..target import Quirks
from .bfloat import ELEMENT, narrowed, vector_type, widened
from .operations import FOLDS, HALVED_BYTES, LANES, NARROW_ELEMENTS, SHORTEST_BLOCK, WIDEST_VECTOR, Extent, VectorOperation, Verb

_MASKS = {"float": "int", "double": "long", "int": "int", "long": "long", "uint": "int"}
_MASKS |= {"char": "char", "uchar": "char", "short": "short", "ushort": "short"}
"""Element type -> that of what comparing its vectors gives."""
_WHOLE = """
/* Some compilers take vectors of this length apart, but in kernels that pass them to a function. */
static inline {0} whole_{0}({0} value) {{ return value; }}"""
"""A function that takes a vector and is inlined makes the compiler keep such vectors whole in the kernel."""


_ASK_FOR = """
#ifdef __clang__
#define ask_for(at) __builtin_prefetch((void const *)(size_t)(at))
#else
#define ask_for(at) (void)(at)
#endif"""
"""OpenCL's own ``prefetch`` is a call in PoCL that does nothing."""
MASKS = "defined(__clang__) && defined(__AVX512VL__)"
"""When the compiler has loads and stores with a mask, of vectors with so many bits (Intel SDM, volume 2, VMOVUPS)."""
MASKED_BITS = (128, 256, 512)
_MASKS_OF_BYTES = "defined(__clang__) && defined(__AVX512BW__) && defined(__AVX512VL__)"
"""The same of bytes and of numbers of 16 bits (VMOVDQU8, VMOVDQU16)."""
_MASKED_NUMBERS = {"float": ("float", "ups"), "char": ("char", "dquqi"), "uchar": ("char", "dquqi")}
_MASKED_NUMBERS |= {"short": ("short", "dquhi"), "ushort": ("short", "dquhi")}
"""Element type -> that of what such instructions move, and what their names say."""
_BITS = {"float": 32, "char": 8, "short": 16}


def _ahead(operation: VectorOperation) -> str:
    """The OpenCL C text of a load that asks for a line behind what it loads, or of what only asks."""
    (space,), name, names = operation.spaces, operation.name, "x, count" if operation.is_counted else "x"
    asked, loaded = f"ask_for((__{space} char const *)&(x) + {operation.distance})", operation.not_ahead.name
    if operation.verb is Verb.ASK:
        return f"#define {name}({names}) {asked}"
    return f"#define {name}({names}) ({asked}, {'' if operation.verb is Verb.ELEMENT else loaded}({names}))"


def _iota(element: str, lanes: int) -> str:
    return f"(({element}{lanes})({', '.join(map(str, range(lanes)))}))"


def definitions(operation: VectorOperation, quirks: Quirks, *, has_value: bool = False) -> Iterator[tuple[str, str]]:
    """What an operation needs, each with a name that says where it stands among the others.

    ``has_value``: a store is written as an assignment of its first element, as loopy writes it on its own.
    """
    if operation.called is not None:
        yield f"14_{operation.name}", operation.called.definition
        return
    if operation.distance:
        if operation.verb is Verb.LOAD:
            yield from definitions(operation.not_ahead, quirks)
        yield "09_ask_for", _ASK_FOR
        yield f"11_{operation.name}", _ahead(operation)
        return
    if operation.real_element:
        if operation.on_parts is not None:
            yield from definitions(operation.on_parts, quirks, has_value=has_value)
        elif _is_halved(operation, quirks):
            yield f"08_whole_{operation.vector}", _WHOLE.format(operation.vector)
        yield from complex_definitions(operation, "whole_" + operation.vector if _is_halved(operation, quirks) else "", has_value=has_value)
        return
    if operation.step > 1:
        # Vectors of elements that lie together are mixed; of these so many as are there are loaded by a function.
        needed = definitions(operation.together, quirks)
        yield from (text for text in needed if operation.is_counted or not text[0].startswith("10_"))
        yield f"11_{operation.name}", definition(operation, quirks)
        return
    lanes = operation.lanes
    if operation.element == ELEMENT:
        yield from ((f"07_{ELEMENT}{length}", vector_type(length)) for length in LANES if length <= lanes)
    if operation.tile is not None:
        # Rows of the right operand are read as vectors.
        yield f"09_anywhere_{(right := operation.tile.right)}{lanes}", anywhere(right, lanes, quirks)
        yield from product_definitions(operation)
        return
    if _is_halved(operation, quirks):
        yield f"08_whole_{operation.vector}", _WHOLE.format(operation.vector)
    while operation.spaces and operation.extent is not Extent.ALIGNED:
        yield f"09_anywhere_{operation.element}{lanes}", anywhere(operation.element, lanes, quirks)
        lanes //= 2
        if not operation.is_counted or lanes < LANES[0]:
            break
    if operation.extent is Extent.NARROW:
        yield f"09_anywhere_{operation.element}{SHORTEST_BLOCK}", anywhere(operation.element, SHORTEST_BLOCK, quirks)
    if operation.streamed:
        yield f"09_past_{operation.streamed}_{operation.vector}", streamed_store(operation)
    if operation.smaller_block is not None:
        yield from definitions(operation.smaller_block, quirks, has_value=has_value)
    # Blocks call smaller ones.
    name = f"10_{operation.lanes:02d}_{operation.name}" if operation.is_block else f"10_{operation.name}"
    yield name, definition(operation, quirks, has_value=has_value)


def _is_halved(operation: VectorOperation, quirks: Quirks) -> bool:
    """Whether it makes vectors that the compiler would take apart."""
    return quirks.halved_vectors and operation.makes_whole and operation.vector_bytes == HALVED_BYTES


def anywhere(element: str, lanes: int, quirks: Quirks) -> str:
    """The OpenCL C text that reads and writes vectors at any element's address."""
    vector = f"{element}{lanes}"
    if not quirks.slow_vector_loads:
        return f"""
#define get_{vector}(space, at) vload{lanes}(0, at)
#define set_{vector}(space, at, value) vstore{lanes}(value, 0, at)"""
    return f"""
#ifdef __clang__
typedef {element} {vector}_anywhere __attribute__((ext_vector_type({lanes}), aligned(sizeof({element})), may_alias));
#define get_{vector}(space, at) (({vector})*(space const {vector}_anywhere *)(at))
#define set_{vector}(space, at, value) (*(space {vector}_anywhere *)(at) = (value))
#else
#define get_{vector}(space, at) vload{lanes}(0, at)
#define set_{vector}(space, at, value) vstore{lanes}(value, 0, at)
#endif"""


def own_function(function: Function, name: str, lanes: int, element: str = "float", *, is_running: bool = False) -> str:
    """The OpenCL C text of a function that is our own, under a name; as with OpenCL's, a scalar stands for a vector of it."""
    vector = f"{element}{lanes}"
    ints, text = f"{_MASKS[element]}{lanes}", function.own_running if is_running else function.own_text(element)
    any_lane = _any_lane(ints, lanes) if "ANY(" in text else ""
    each = ", ".join(f"{function.opencl}(x.s{lane:x})" for lane in range(lanes))
    for word, meaning in (
        (f"EACH({function.opencl})", f"({vector})({each})"),
        ("ANY(", f"any_{ints}("),
        ("NAME", f"{name}_of"),
        ("VECTOR", vector),
        ("DOUBLES", f"double{lanes}"),
        ("LONGS", f"long{lanes}"),
        ("INTS", ints),
    ):
        text = text.replace(word, meaning)
    names = ("x", "y")[: function.arity]
    macro = f"#define {name}({', '.join(names)}) {name}_of({', '.join(f'({vector})({x})' for x in names)})"
    return f"{any_lane}{text}\n{macro}"


def _any_lane(ints: str, lanes: int) -> str:
    """The macro that says whether a comparison of vectors holds in a lane, once in a program.

    PoCL's ``any`` takes lane after lane; where the compiler combines lanes itself, that is a test of a mask.
    """
    otherwise = "any(x)" if lanes < WIDEST_VECTOR else "(any((x).lo) | any((x).hi))"  # a function of OpenCL: by halves
    return f"""
#ifndef any_{ints}
#ifdef __has_builtin
#if __has_builtin(__builtin_reduce_or)
#define any_{ints}(x) __builtin_reduce_or(x)
#endif
#endif
#ifndef any_{ints}
#define any_{ints}(x) {otherwise}
#endif
#endif"""


def _builtin(operation: VectorOperation, function: str, arguments: tuple[str, ...], quirks: Quirks, *, is_converted: bool) -> str:
    """A function of OpenCL on whole vectors, or on the halves of the widest and the longest."""
    name, vector = operation.name, operation.vector

    def call(dtype: str, values: list[str]) -> str:
        called = f"{function}({', '.join(values)})"
        return f"convert_{dtype}({called})" if is_converted else called

    names, whole = ", ".join(arguments), [f"({vector})({argument})" for argument in arguments]
    if not quirks.widest_builtins or (operation.lanes < WIDEST_VECTOR and operation.vector_bytes < HALVED_BYTES):
        return f"#define {name}({names}) {call(vector, whole)}"
    half = f"{operation.element}{operation.lanes // 2}"
    low, high = (call(half, [f"{argument}.{part}" for argument in arguments]) for part in ("lo", "hi"))
    return f"""
static inline {vector} {name}_by_halves({", ".join(f"{vector} {argument}" for argument in arguments)})
{{
  return ({vector})({low}, {high});
}}
#define {name}({names}) {name}_by_halves({", ".join(whole)})"""


def definition(operation: VectorOperation, quirks: Quirks, *, has_value: bool = False) -> str:
    """The OpenCL C text of an operation; ``has_value`` as in :func:`definitions`."""
    name, lanes, vector = operation.name, operation.lanes, operation.vector
    whole = f"whole_{vector}" if _is_halved(operation, quirks) else ""
    match operation.verb:
        case Verb.SPLAT:
            return f"#define {name}(x) {whole}(({vector})(x))"
        case Verb.CONVERT:
            # What a narrow type has no room for is cut to its bits, as of whole numbers: left to the compiler otherwise.
            through = f"convert_int{lanes}(x)" if operation.element in NARROW_ELEMENTS else "x"
            return f"#define {name}(x) {whole}(convert_{vector}({through}))"
        case Verb.WIDEN:
            return f"#define {name}(x) {whole}({widened(vector, 'x')})"
        case Verb.NARROW:
            return narrowed(name, lanes)
        case Verb.PACK:
            names = ", ".join(f"x{k}" for k in range(lanes))
            return f"#define {name}({names}) (({vector})({names}))"
        case Verb.LANE:
            return f"#define {name}(x) ((x).s{operation.lane:x})"
        case Verb.FUNCTION | Verb.BUILTIN:
            return _function(operation, FUNCTIONS[operation.function], quirks)
        case Verb.DIVIDE:
            return f"#define {name}(x, y) (({vector})(x) / ({vector})(y))"
        case Verb.IOTA:
            element = operation.element
            return f"#define {name}(first, step) ({_iota(element, lanes)} * ({element})(step) + ({element})(first))"
        case Verb.INDEX | Verb.WHERE:
            return _choice(operation)
        case Verb.FOLD:
            return _fold(operation) if operation.results == 1 else folded_together(operation, quirks)
        case Verb.BLOCK | Verb.WORDS:
            counts = ["to_row", "from_row", "rows", "columns"]
            return f"{block_text(operation)}\n{_stores(operation, ['to', 'from'], counts, has_value)}"
    return _of_memory(operation, whole, quirks, has_value)


def _function(operation: VectorOperation, function: Function, quirks: Quirks) -> str:
    """The OpenCL C text of a function of the table on vectors."""
    name, element, lanes, vector = operation.name, operation.element, operation.lanes, operation.vector
    if function.is_ours:
        if not quirks.widest_builtins or lanes < WIDEST_VECTOR:
            return function.text_of(f"{name}_of", vector, lanes) + f"\n#define {name}(x) {name}_of(x)"
        half = function.text_of(f"{name}_half", f"{element}{lanes // 2}", lanes // 2)
        by_halves = f"(({vector})({name}_half((x).lo), {name}_half((x).hi)))"
        if not function.of_table or vector != "float16":
            return f"{half}\n#define {name}(x) {by_halves}"
        return f"""{half}
#if {PERMUTES}
static inline {vector} __attribute__((overloadable)) {name}_of({vector} x) {{ return {by_halves}; }}
{function.of_table.replace("NAME", f"{name}_of").strip()}
#define {name}(x) {name}_of(x)
#else
#define {name}(x) {by_halves}
#endif"""
    if function.own_text(element) and getattr(quirks, function.taken_where):
        return own_function(function, name, lanes, element, is_running=operation.is_running)
    kind = "f" if element in {"float", "double"} else "i"
    # Of integers abs gives unsigned ones.
    is_converted = kind == "i" and function.arity == 1
    return _builtin(operation, function.opencl_name(kind), ("x", "y")[: function.arity], quirks, is_converted=is_converted)


def _choice(operation: VectorOperation) -> str:
    """The OpenCL C text that takes lane by lane one of two vectors."""
    name, vector, operator = operation.name, operation.vector, operation.comparison
    chosen = f"? ({vector})(then) : ({vector})(otherwise))"
    if operation.verb is Verb.WHERE:
        return f"#define {name}(x, y, then, otherwise) (({vector})(x) {operator} ({vector})(y) {chosen}"
    return f"#define {name}(first, step, then, otherwise) ({_compared(operation, 'step', 'first', operator)} {chosen}"


def _compared(operation: VectorOperation, step: str, first: str, operator: str) -> str:
    """How whole numbers, a step apart from lane to lane, compare with 0, as a mask for the operation's vectors."""
    mask = _MASKS[operation.element]
    counted = "int" if mask in {"char", "short"} else mask
    lane = f"{_iota(counted, operation.lanes)} * ({counted})({step}) + ({counted})({first}) {operator} 0"
    return lane if mask == counted else f"convert_{mask}{operation.lanes}({lane})"


def _fold(operation: VectorOperation) -> str:
    """The OpenCL C text that combines a number with all elements: halves with one another, as often as there are halves.

    Taken one after another they would wait for one another as often as there are lanes, which cost attention to a single query an eighth
    of its time.
    """
    name, element, operator = operation.name, operation.element, FOLDS.get(operation.function)

    def combined(first: str, second: str) -> str:
        return f"{first} {operator} {second}" if operator else f"{operation.function}({first}, {second})"

    lines, vector, lanes = [], "x", operation.lanes // 2
    while lanes > 1:
        lines.append(f"  {element}{lanes} x{lanes} = {combined(f'{vector}.lo', f'{vector}.hi')};")
        vector, lanes = f"x{lanes}", lanes // 2
    last = combined(f"{vector}.s0", f"{vector}.s1")
    lines.append(f"  return {combined('start', f'({last})' if operator else last)};")
    return "\n".join(["", f"static inline {element} {name}({element} start, {operation.vector} x)", "{", *lines, "}"])


def _stores(operation: VectorOperation, elements: Sequence[str], others: Sequence[str], has_value: bool) -> str:
    """The macro that takes elements for places, of which the first one is changed, and other parameters as they are."""
    name = operation.name
    call = f"{name}_at({', '.join([*(f'&({element})' for element in elements), *others])})"
    return f"#define {name}({', '.join([*elements, *others])}) {f'({call}, {elements[0]})' if has_value else call}"


def _of_memory(operation: VectorOperation, whole: str, quirks: Quirks, has_value: bool) -> str:
    """The OpenCL C text of a load or a store; ``whole``: the function that keeps vectors in one piece, if one is needed."""
    name, element, lanes, vector = operation.name, operation.element, operation.lanes, operation.vector
    (space,), is_load = operation.spaces, operation.verb is Verb.LOAD
    pointer = f"__{space} {element} "
    if operation.step > 1:
        return loaded_apart(operation, whole)
    if operation.extent is Extent.WHOLE and is_load:
        loaded = f"get_{vector}(__{space}, &(x))"
        return f"#define {name}(x) {whole}({loaded})" if whole else f"#define {name}(x) {loaded}"
    if operation.extent is Extent.ALIGNED and is_load:
        return f"#define {name}(x) (*(__{space} {vector} const *)&(x))"
    if operation.extent is Extent.ALIGNED:
        return f"""
static inline void {name}_at({pointer}*at, {vector} value)
{{
  *(__{space} {vector} *)at = value;
}}
{_stores(operation, ["x"], ["value"], has_value)}"""
    if operation.extent is Extent.WITHIN:
        return f"{_loaded_within(operation, quirks)}\n#define {name}(x, start, length) {name}_at(&(x), start, length)"
    shorter = [length for length in reversed(LANES) if length < lanes]
    if is_load:
        halves = "\n".join(f"  {element}{length} low{length}, high{length};" for length in shorter)
        cases = "\n".join(f"    case {count}: {_loaded(operation, count)}" for count in reversed(range(1, lanes)))
        body = f"""
/* A whole vector where there is one; at the end of a row the elements that are there, by two vectors that overlap, and zeros. */
static inline {vector} {name}_at({pointer}const *at, int count)
{{
{halves}
  if (count >= {lanes}) return get_{vector}(__{space}, at);
  switch (count)
  {{
{cases}
  }}
  return 0;
}}"""
        return f"{_masked(operation, quirks, body)}\n#define {name}(x, count) {name}_at(&(x), count)"
    if operation.extent is Extent.WHOLE:
        return f"""
static inline void {name}_at({pointer}*at, {vector} value)
{{
  {_set(operation)}
}}
{_stores(operation, ["x"], ["value"], has_value)}"""
    if operation.extent is Extent.MERGED:
        return f"""
/* The first elements of a vector, with those that are there behind them. */
static inline void {name}_at({pointer}*at, {vector} value, int count)
{{
  set_{vector}(__{space}, at, {_compared(operation, "-1", "count", ">")} ? value : get_{vector}(__{space}, at));
}}
{_stores(operation, ["x"], ["value", "count"], has_value)}"""
    cases = "\n".join(f"    case {count}: {_stored(operation, count)} break;" for count in reversed(range(1, lanes)))
    body = f"""
/* A whole vector, or the elements that are there, by two vectors that overlap. */
static inline void {name}_at({pointer}*at, {vector} value, int count)
{{
  if (count >= {lanes})
  {{
    {_set(operation)}
    return;
  }}
  switch (count)
  {{
{cases}
  }}
}}"""
    return f"{_masked(operation, quirks, body)}\n{_stores(operation, ['x'], ['value', 'count'], has_value)}"


def _set(operation: VectorOperation) -> str:
    """The OpenCL C text that stores a whole ``value``."""
    vector, (space,) = operation.vector, operation.spaces
    return f"{streaming(operation)}(at, value);" if operation.streamed else f"set_{vector}(__{space}, at, value);"


def _masked(operation: VectorOperation, quirks: Quirks, otherwise: str) -> str:
    """The load or store of so many elements by one instruction where the compiler has it, and else this text.

    A private array whose place goes to such an instruction would not be kept in registers.
    """
    lanes, vector, (space,) = operation.lanes, operation.vector, operation.spaces
    native, mask = _native_vector(operation, quirks), _mask_type(lanes)
    if native is None:
        return otherwise
    some, is_load = f"({mask})((1u << max(count, 0)) - 1u)", operation.verb is Verb.LOAD
    if is_load:
        zeros = f"__builtin_astype(({vector})({_zero(operation)}), {native})"
        called = f"{_masked_name(operation)}((void const *)(size_t)at, {zeros}, {some})"
        head = f"{vector} {operation.name}_at(__{space} {operation.element} const *at, int count)"
        line = f"return __builtin_astype({called}, {vector});"
        whole = f"return get_{vector}(__{space}, at);"
    else:
        head = f"void {operation.name}_at(__{space} {operation.element} *at, {vector} value, int count)"
        line = f"{_masked_name(operation)}((void *)(size_t)at, __builtin_astype(value, {native}), {some});"
        whole = _set(operation)
    return f"""
#if {_masks(operation)}
/* A whole vector, or the elements that are there{", and zeros" if is_load else ""}: no other memory is touched. */
static inline {head}
{{
  if (count >= {lanes}) {whole if is_load else f"{{ {whole} return; }}"}
  {line}
}}
#else
{otherwise.strip()}
#endif"""


def _native_vector(operation: VectorOperation, quirks: Quirks) -> str | None:
    """The C type of what instructions with a mask move; ``None`` where there are none."""
    (number, _), (space,) = _MASKED_NUMBERS.get(operation.element, ("", "")), operation.spaces
    if not number or _BITS[number] * operation.lanes not in MASKED_BITS or space == "private" or not quirks.slow_vector_parts:
        return None
    return f"{number} __attribute__((vector_size({operation.vector_bytes})))"


def _masked_name(operation: VectorOperation) -> str:
    """The compiler's name of the instruction with a mask that does so."""
    (number, word), verb = _MASKED_NUMBERS[operation.element], "load" if operation.verb is Verb.LOAD else "store"
    return f"__builtin_ia32_{verb}{word}{_BITS[number] * operation.lanes}_mask"


def _masks(operation: VectorOperation) -> str:
    """When the compiler has that instruction."""
    return MASKS if operation.element == "float" else _MASKS_OF_BYTES


def _zero(operation: VectorOperation) -> str:
    """What elements that are not there are."""
    return "0.0f" if operation.element == "float" else "0"


def _mask_type(lanes: int) -> str:
    return "unsigned short" if lanes > 8 else "unsigned char"


def _loaded_within(operation: VectorOperation, quirks: Quirks) -> str:
    """The load of a vector of which some lanes may lie before or behind a row: by an instruction with a mask, or element by element."""
    element, lanes, vector, (space,) = operation.element, operation.lanes, operation.vector, operation.spaces
    otherwise = f"""
  {element} part[{lanes}];
  for (int lane = 0; lane < {lanes}; ++lane) part[lane] = start + lane >= 0 && start + lane < length ? row[start + lane] : 0;
  return vload{lanes}(0, part);"""
    if (native := _native_vector(operation, quirks)) is not None:
        mask = _mask_type(lanes)
        otherwise = f"""
#if {_masks(operation)}
  {mask} some = ({mask})(((1u << clamp(length - start, 0, {lanes})) - 1u) & ~((1u << clamp(-start, 0, {lanes})) - 1u));
  {native} zeros = __builtin_astype(({vector})({_zero(operation)}), {native});
  {native} loaded = {_masked_name(operation)}((void const *)(size_t)(row + start), zeros, some);
  return __builtin_astype(loaded, {vector});
#else{otherwise}
#endif"""
    return f"""
/* A whole vector of a row, or at its ends the elements that are there, and zeros. */
static inline {vector} {operation.name}_at(__{space} {element} const *row, int start, int length)
{{
  if (start >= 0 && start + {lanes} <= length) return get_{vector}(__{space}, row + start);{otherwise}
}}"""


def _loaded(operation: VectorOperation, count: int) -> str:
    """C that returns the first ``count`` elements and zeros: of a vector at the first one, and of one that ends with the last one."""
    element, (space,), length = operation.element, operation.spaces, _longest(count)
    rest, zeros = count - length, ["0"] * (operation.lanes - count)
    if length == 1:
        return f"return ({operation.vector})({', '.join(['at[0]', *zeros])});"
    text, parts = f"low{length} = get_{element}{length}(__{space}, at);", [f"low{length}"]
    if rest == 1:
        parts.append(f"at[{length}]")
    elif rest:
        text += f" high{length} = get_{element}{length}(__{space}, at + {rest});"
        first = length - rest
        while first < length:
            size = _longest(length - first)
            parts.append(f"high{length}.s{places(first, size)}")
            first += size
    return f"{text} return ({operation.vector})({', '.join([*parts, *zeros])});"


def _stored(operation: VectorOperation, count: int) -> str:
    """C that stores the first ``count`` elements of ``value`` alike."""
    element, (space,), length = operation.element, operation.spaces, _longest(count)
    rest = count - length
    if length == 1:
        return "at[0] = value.s0;"
    text = f"set_{element}{length}(__{space}, at, value.s{places(0, length)});"
    if rest == 1:
        text += f" at[{length}] = value.s{length:x};"
    elif rest:
        text += f" set_{element}{length}(__{space}, at + {rest}, value.s{places(rest, length)});"
    return text


def _longest(count: int) -> int:
    """The length of the longest vector with at most so many elements; 1 if there is none."""
    return max((length for length in LANES if length <= count), default=1)
