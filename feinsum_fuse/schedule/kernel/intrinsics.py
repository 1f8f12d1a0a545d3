"""OpenCL functions on vectors, as callables that loopy can type and write.

A vector is an element type (``float8``), never a loop: arguments stay scalar arrays and are read and written through these functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.function_interface import ScalarCallable
from loopy.types import NumpyType

from ...formats.functions import FUNCTIONS
from ..errors import VectorAccessError
from ..target import Quirks

_C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long", "uint32": "uint", "int8": "char", "uint8": "uchar"}
LANES = (2, 4, 8, 16)
WIDEST = LANES[-1]
SHORTEST = 4
"""Fewer elements than so many are moved one by one."""


def c_type(dtype: str) -> str:
    """The OpenCL C type of a NumPy type name; :class:`VectorAccessError` if there are no vectors of it."""
    if dtype not in _C_TYPES:
        raise VectorAccessError(f"there are no vectors of {dtype}", hint=f"Vectors are made of {', '.join(_C_TYPES)}.")
    return _C_TYPES[dtype]


def has_vectors(dtype: str) -> bool:
    """Whether there are vectors of a NumPy type."""
    return dtype in _C_TYPES


@cache
def vector_dtype(dtype: str, lanes: int) -> np.dtype[np.void]:
    """The element type of a vector; :class:`VectorAccessError` for a number of lanes that OpenCL lacks."""
    from pyopencl import cltypes

    if lanes not in LANES:
        raise VectorAccessError(f"OpenCL has no vectors of {lanes} elements", hint=f"Use {', '.join(map(str, LANES))}.")
    found: np.dtype[np.void] = np.dtype(getattr(cltypes, f"{c_type(dtype)}{lanes}"))
    return found


@dataclass(frozen=True, init=False)
class Intrinsic(ScalarCallable):  # type: ignore[misc]
    """A function whose name says its type: ``<what>_<C type><lanes>`` is a vector; ``lane<k>_...`` and ``vstore..._...`` are elements.

    A store is an expression that has the first element's value, so that ``C[i] = vstore_global_float8(C[i], v)`` is an ordinary
    assignment for loopy; the macro takes the address of the element.
    """

    quirks: Quirks
    """What its text avoids."""

    def __init__(self, name: str, quirks: Quirks, **known: object) -> None:
        super().__init__(name, **known)
        object.__setattr__(self, "quirks", quirks)

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):  # type: ignore[no-untyped-def]
        known = {k: v for k, v in arg_id_to_dtype.items() if k >= 0}
        if any(v is None for v in known.values()):
            return self.copy(arg_id_to_dtype=constantdict(known)), clbl_inf_ctx
        _, element, lanes = parts(self.name)
        dtype = next(d for d, text in _C_TYPES.items() if text == element)
        result = np.dtype(dtype) if self.name.startswith(("lane", "vstore")) else vector_dtype(dtype, lanes)
        return self.copy(name_in_target=self.name, arg_id_to_dtype=constantdict({**known, -1: NumpyType(result)})), clbl_inf_ctx

    def generate_preambles(self, target: object) -> Iterator[tuple[str, str]]:
        what, element, lanes = parts(self.name)
        yield f"09_anywhere_{element}{lanes}", anywhere(element, lanes, self.quirks)
        while "upto" in what and (lanes := lanes // 2) >= SHORTEST:
            yield f"09_anywhere_{element}{lanes}", anywhere(element, lanes, self.quirks)
        yield f"10_{self.name}", definition(self.name, self.quirks)

    def update_persistent_hash(self, key_hash, key_builder):  # type: ignore[no-untyped-def]
        # loopy keeps generated code on disk: another definition is another function.
        key_builder.update_for_dataclass(key_hash, self)
        key_builder.rec(key_hash, definition(self.name, self.quirks))


def anywhere(element: str, lanes: int, quirks: Quirks) -> str:
    """The OpenCL C text that reads and writes vectors at any element's address."""
    vector = f"{element}{lanes}"
    if not quirks.called_vector_loads:
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


_MASKS = {"float": "int", "double": "long", "int": "int", "long": "long", "uint": "int", "char": "char", "uchar": "char"}
"""Element type -> that of what comparing its vectors gives."""
_OPERATORS = {"ge": ">=", "gt": ">", "eq": "==", "ne": "!="}


def _iota(element: str, lanes: int) -> str:
    return f"(({element}{lanes})({', '.join(map(str, range(lanes)))}))"


def parts(name: str) -> tuple[str, str, int]:
    """(what, C element type, lanes) of an intrinsic's name."""
    found = re.fullmatch(r"(\w+?)_(u?[a-z]+)(\d+)", name)
    assert found, name
    return found[1], found[2], int(found[3])


def _builtin(name: str, function: str, vector: str, arguments: tuple[str, ...], quirks: Quirks, *, is_converted: bool) -> str:
    """A function of OpenCL on whole vectors, or on the halves of the widest."""

    def call(dtype: str, values: list[str]) -> str:
        called = f"{function}({', '.join(values)})"
        return f"convert_{dtype}({called})" if is_converted else called

    names, whole = ", ".join(arguments), [f"({vector})({argument})" for argument in arguments]
    if not quirks.widest_builtins or not vector.endswith(str(WIDEST)):
        return f"#define {name}({names}) {call(vector, whole)}"
    half = f"{vector.removesuffix(str(WIDEST))}{WIDEST // 2}"
    low, high = (call(half, [f"{argument}.{part}" for argument in arguments]) for part in ("lo", "hi"))
    return f"""
static inline {vector} {name}_by_halves({', '.join(f'{vector} {argument}' for argument in arguments)})
{{
  return ({vector})({low}, {high});
}}
#define {name}({names}) {name}_by_halves({', '.join(whole)})"""


def definition(name: str, quirks: Quirks) -> str:
    """The OpenCL C text of an intrinsic."""
    what, element, lanes = parts(name)
    vector = f"{element}{lanes}"
    if what == "splat":
        return f"#define {name}(x) (({vector})(x))"
    if what == "pack":
        names = ", ".join(f"x{k}" for k in range(lanes))
        return f"#define {name}({names}) (({vector})({names}))"
    if what.startswith("lane"):
        return f"#define {name}(x) ((x).s{int(what[4:]):x})"
    function = FUNCTIONS.get(what.removeprefix("builtin") if what.startswith("builtin") else what.removeprefix("v"))
    if function is not None:
        kind = "f" if element in {"float", "double"} else "i"
        # Of integers abs gives unsigned ones.
        is_converted = kind == "i" and function.arity == 1
        return _builtin(name, function.opencl_name(kind), vector, ("x", "y")[: function.arity], quirks, is_converted=is_converted)
    if what == "viota":
        return f"#define {name}(first, step) ({_iota(element, lanes)} * ({element})(step) + ({element})(first))"
    if what.startswith(("vindex", "vwhere")):
        operator = _OPERATORS[what[6:]]
        chosen = f"? ({vector})(then) : ({vector})(otherwise))"
        if what.startswith("vwhere"):
            return f"#define {name}(x, y, then, otherwise) (({vector})(x) {operator} ({vector})(y) {chosen}"
        mask = _MASKS[element]
        counted = "int" if mask == "char" else mask
        lane = f"{_iota(counted, lanes)} * ({counted})(step) + ({counted})(first) {operator} 0"
        lane = lane if mask == counted else f"convert_{mask}{lanes}({lane})"
        return f"#define {name}(first, step, then, otherwise) ({lane} {chosen}"
    if what == "vdiv":
        return f"#define {name}(x, y) (({vector})(x) / ({vector})(y))"
    return _of_memory(name)


def _of_memory(name: str) -> str:
    """The OpenCL C text of a load or a store."""
    what, element, lanes = parts(name)
    what, space = what.split("_")
    vector, pointer = f"{element}{lanes}", f"__{space} {element} "
    if what == "vload":
        return f"#define {name}(x) get_{vector}(__{space}, &(x))"
    if what == "vloadupto":
        return f"""
/* A whole vector where there is one; at the end of a row the elements that are there, and zeros. */
static inline {vector} {name}_at({pointer}const *at, int count)
{{
  if (count >= {lanes}) return get_{vector}(__{space}, at);
  {vector} some = 0;
{_parts_of(element, lanes, 0, f"some.s{{0}} = get_{{1}}(__{space}, {{2}});", "some.s{0} = {1};")}
  return some;
}}
#define {name}(x, count) {name}_at(&(x), count)"""
    if what == "vstore":
        return f"""
static inline {element} {name}_at({pointer}*at, {vector} value)
{{
  set_{vector}(__{space}, at, value);
  return value.s0;
}}
#define {name}(x, value) {name}_at(&(x), value)"""
    assert what == "vstoreupto", name
    return f"""
static inline {element} {name}_at({pointer}*at, {vector} value, int count)
{{
  if (count >= {lanes})
  {{
    set_{vector}(__{space}, at, value);
    return value.s0;
  }}
{_parts_of(element, lanes, 0, f"set_{{1}}(__{space}, {{2}}, value.s{{0}});", "{1} = value.s{0};")}
  return value.s0;
}}
#define {name}(x, value, count) {name}_at(&(x), value, count)"""


def _parts_of(element: str, lanes: int, first: int, several: str, single: str, indent: str = "  ") -> str:
    """C that moves fewer than ``lanes`` elements, those from ``first`` to ``count``, by halves of vectors.

    ``several`` and ``single``: what moves some, with their places in the vector, their type or memory, and their address.
    """
    half = lanes // 2
    if half < SHORTEST:
        singles = [f"{indent}if (count > {k}) " + single.format(f"{k:x}", f"at[{k}]") for k in range(first, first + lanes - 1)]
        return "\n".join(singles)
    places = "".join(f"{k:x}" for k in range(first, first + half))
    above, below = (_parts_of(element, half, start, several, single, indent + "  ") for start in (first + half, first))
    whole = several.format(places, f"{element}{half}", f"at + {first}" if first else "at")
    head = f"{indent}if (count >= {first + half})\n{indent}{{\n{indent}  {whole}\n{above}\n{indent}}}\n"
    return head + f"{indent}else\n{indent}{{\n{below}\n{indent}}}"


def registered(t_unit: lp.TranslationUnit, names: set[str], quirks: Quirks) -> lp.TranslationUnit:
    """The program with these intrinsics known to it."""
    for name in sorted(names - set(t_unit.callables_table)):
        t_unit = lp.register_callable(t_unit, name, Intrinsic(name, quirks))
    return t_unit
