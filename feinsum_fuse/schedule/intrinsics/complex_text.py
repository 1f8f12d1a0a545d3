"""Functions on vectors of complex numbers, in OpenCL C.

Such a vector is one of twice as many real numbers, the real and the imaginary part of each complex number side by side, as they lie in
memory. So it is loaded, stored, added and multiplied by real numbers as these are. A product of complex numbers is two multiply-adds:
``x * y = re(x) * y + im(x) * (i * y)``, and ``i * y`` is ``y`` with the parts exchanged and the sign of the first one flipped. In a
register tile each row's number ``x`` meets the same vector ``y``, for which that is done once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..kernel.operations import BY_NUMBER, FOLDS, LANES, NUMBER_BY_REALS, OF_REALS, Extent, VectorOperation, Verb

_DIGITS = "0123456789abcdef"
_COUNTS = {"count", "start", "length"}
"""Parameters that are numbers of elements."""
_BITS = {"float": ("int", "0x80000000"), "double": ("long", "0x8000000000000000l")}
"""Type of the parts -> whole numbers of as many bits, and the sign's bit."""


def complex_definitions(operation: VectorOperation, whole: str, *, has_value: bool) -> Iterator[tuple[str, str]]:
    """What an operation on complex numbers needs beside the one on real numbers that moves the same bytes, each with a name that says where
    it stands among the others.

    ``whole``: the function that keeps vectors in one piece, if one is needed. ``has_value``: a store is written as an assignment of its
    first element.
    """
    name, lanes, vector = operation.name, operation.lanes, operation.vector
    if operation.on_parts is not None:
        yield f"12_{name}", _moving(operation, operation.on_parts, has_value=has_value)
        return
    if operation.verb in {Verb.MULTIPLY, Verb.MULTIPLY_ADD}:
        if operation.function != NUMBER_BY_REALS and operation.function != OF_REALS:
            yield f"09_turned_{operation.element}{lanes}", _turned(operation)
        yield f"10_{name}", _product(operation)
    elif operation.verb is Verb.SPLAT:
        imaginary = "0" if operation.function == OF_REALS else "(x).imag"
        parts = ", ".join(["(x)" if operation.function == OF_REALS else "(x).real", imaginary] * lanes)
        yield f"10_{name}", f"#define {name}(x) {whole}(({vector})({parts}))"
    elif operation.verb is Verb.CONVERT:
        real = operation.real_element
        text = _with_zeros(f"convert_{real}{lanes}(x)", operation) if operation.function == OF_REALS else f"convert_{vector}(x)"
        yield f"10_{name}", f"#define {name}(x) {whole}({text})"
    elif operation.verb is Verb.PACK:
        names = [f"x{k}" for k in range(lanes)]
        yield f"10_{name}", f"#define {name}({', '.join(names)}) (({vector})({', '.join(f'({x}).real, ({x}).imag' for x in names)}))"
    elif operation.verb is Verb.LANE:
        first, second = _DIGITS[2 * operation.lane], _DIGITS[2 * operation.lane + 1]
        yield f"10_{name}", f"#define {name}(x) {operation.element}_new((x).s{first}, (x).s{second})"
    elif operation.verb is Verb.CONJUGATE:
        yield f"10_{name}", f"#define {name}(x) {_flipped('x', operation, 1)}"
    elif operation.verb is Verb.DIVIDE:
        yield f"10_{name}", f"#define {name}(x, y) ((x) / ({vector})(y))"
    elif operation.verb is Verb.INDEX:
        yield f"10_{name}", _choice(operation)
    else:
        assert operation.verb is Verb.FOLD
        yield f"12_{name}", _fold(operation)  # behind the text of complex numbers


def _moving(operation: VectorOperation, real: VectorOperation, *, has_value: bool) -> str:
    """The macro that moves a vector as one of real numbers."""
    name = operation.name
    places = ["to", "from"] if operation.is_block else ["x"]
    others = ["to_row", "from_row", "rows", "columns"] if operation.is_block else ["value"] if operation.is_store else []
    others += ["count"] if operation.is_counted else ["start", "length"] if operation.extent is Extent.WITHIN else []
    passed = [f"(*(__{space} {real.element} *)&({place}))" for place, space in zip(places, operation.spaces, strict=True)]
    # Elements that lie apart are counted as such.
    passed += [f"2 * ({other})" if other in _COUNTS and real.lanes > operation.lanes else other for other in others]
    call = f"{real.name}({', '.join(passed)})"
    if not operation.is_store:
        call = call if real.vector == operation.vector else f"as_{operation.vector}({call})"
    elif has_value:
        call = f"({call}, {places[0]})"
    return f"#define {name}({', '.join([*places, *others])}) {call}"


def _turned(operation: VectorOperation) -> str:
    """The function that multiplies each number by ``i``."""
    name, vector = f"turned_{operation.element}{operation.lanes}", operation.vector
    exchanged = "".join(f"{_DIGITS[2 * k + 1]}{_DIGITS[2 * k]}" for k in range(operation.lanes))
    return f"""
/* Each number times i: the parts exchanged, and the sign of the first one flipped. */
static inline {vector} {name}({vector} x)
{{
  return {_flipped(f"x.s{exchanged}", operation, 0)};
}}"""


def _flipped(value: str, operation: VectorOperation, part: int) -> str:
    """A vector with the sign of one of both parts of each number flipped."""
    whole, sign = _BITS[operation.real_element]
    wide, signs = f"{whole}{2 * operation.lanes}", ", ".join([sign if k == part else "0" for k in (0, 1)] * operation.lanes)
    return f"as_{operation.vector}(as_{wide}({value}) ^ ({wide})({signs}))"


def _product(operation: VectorOperation) -> str:
    """The macro of a product, or of one that is added to something."""
    name, vector, kind = operation.name, operation.vector, operation.function
    turned = f"turned_{operation.element}{operation.lanes}"
    both = "".join(f"{digit}{digit}" for digit in _DIGITS[: operation.lanes])
    sum_, names = ("(sum) + ", "sum, x, y") if operation.verb is Verb.MULTIPLY_ADD else ("", "x, y")
    if kind == OF_REALS:
        return f"#define {name}({names}) ({sum_}(x).s{both} * (y))"
    if kind == NUMBER_BY_REALS:
        parts = ", ".join(["(x).real", "(x).imag"] * operation.lanes)
        return f"#define {name}({names}) ({sum_}({vector})({parts}) * (y).s{both})"
    if kind == BY_NUMBER:
        return f"#define {name}({names}) ({sum_}(x).real * (y) + (x).imag * {turned}(y))"
    real, imaginary = ("".join(f"{_DIGITS[2 * k + part]}" * 2 for k in range(operation.lanes)) for part in (0, 1))
    head = ", ".join(f"{vector} {parameter}" for parameter in names.split(", "))
    return f"""
static inline {vector} {name}({head})
{{
  return {"sum + " if sum_ else ""}x.s{real} * y + x.s{imaginary} * {turned}(y);
}}"""


def _with_zeros(reals: str, operation: VectorOperation) -> str:
    """Real numbers as complex ones."""
    both = "".join(f"{digit}{digit}" for digit in _DIGITS[: operation.lanes])
    whole, _ = _BITS[operation.real_element]
    wide = f"{whole}{2 * operation.lanes}"
    kept = ", ".join(["-1", "0"] * operation.lanes)
    return f"as_{operation.vector}(as_{wide}(({reals}).s{both}) & ({wide})({kept}))"


def _choice(operation: VectorOperation) -> str:
    """The macro that takes number by number one of two vectors, as whole numbers a step apart compare with 0."""
    name, vector = operation.name, operation.vector
    whole, _ = _BITS[operation.real_element]
    places = ", ".join(f"{lane}, {lane}" for lane in range(operation.lanes))
    index = f"({whole}{2 * operation.lanes})({places}) * ({whole})(step) + ({whole})(first)"
    chosen = f"? ({vector})(then) : ({vector})(otherwise))"
    return f"#define {name}(first, step, then, otherwise) ({index} {operation.comparison} 0 {chosen}"


def _fold(operation: VectorOperation) -> str:
    """The function that adds all numbers of a vector to one: halves to one another, as often as there are halves."""
    assert FOLDS[operation.function] == "+"
    name, real, number = operation.name, operation.real_element, operation.number
    lines: Sequence[str] = [
        f"  {real}{2 * length} x{2 * length} = {before}.lo + {before}.hi;"
        for length, before in ((n, "x" if 2 * n == operation.lanes else f"x{4 * n}") for n in reversed((1, *LANES)) if n < operation.lanes)
    ]
    body = "\n".join([*lines, f"  return {operation.element}_new(start.real + x2.s0, start.imag + x2.s1);"])
    return f"\nstatic inline {number} {name}({number} start, {operation.vector} x)\n{{\n{body}\n}}"
