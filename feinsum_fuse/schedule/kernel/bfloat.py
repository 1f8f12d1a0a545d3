"""bfloat16 in OpenCL C, which lacks it: 16 bits in memory, a float wherever it is computed with."""

from __future__ import annotations

import numpy as np
from pymbolic.primitives import Call, Variable
from pymbolic.typing import Expression

from ...number_types import BFLOAT16, WIDENED

ELEMENT = "bfloat"
"""The C type."""
TYPE = f"typedef ushort {ELEMENT};\n"
_VALUE, _OF = Variable(WIDENED), Variable("bfloat_of")
BFLOAT_FUNCTIONS = {
    _VALUE.name: "static inline float bfloat_value(bfloat x) { return as_float((uint) x << 16); }",
    _OF.name: """
/* To the nearest one, half to even; what is no number stays none. */
static inline bfloat bfloat_of(float x)
{
  uint bits = as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}""",
}
"""Name -> text of the functions that kernels call."""


def vector_type(lanes: int) -> str:
    """The OpenCL C text that names vectors of it."""
    return f"typedef ushort{lanes} {ELEMENT}{lanes};"


def widened(vector: str, argument: str) -> str:
    """OpenCL C that makes floats, of a vector type, of bfloat16 numbers."""
    return f"as_{vector}(convert_u{vector.replace('float', 'int')}({argument}) << 16)"


def narrowed(name: str, lanes: int) -> str:
    """The OpenCL C text of a function that makes bfloat16 numbers of floats, as ``bfloat_of`` does."""
    return f"""
/* To the nearest ones, half to even; what is no number stays none. */
static inline {ELEMENT}{lanes} {name}_of(float{lanes} x)
{{
  uint{lanes} bits = as_uint{lanes}(x);
  uint{lanes} rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return convert_ushort{lanes}(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) >> 16);
}}
#define {name}(x) {name}_of(x)"""


def value_of(stored: Expression) -> Expression:
    """The float that stored bits are."""
    return Call(_VALUE, (stored,))


def stored_as(value: Expression) -> Expression:
    """The bits that stand for a float."""
    if is_value(value):
        return value.parameters[0]
    if isinstance(value, np.float32):
        return int(np.asarray(value).astype(BFLOAT16).view(np.uint16))
    return Call(_OF, (value,))


def is_value(value: Expression) -> bool:
    """Whether an expression of C is the float that stored bits are."""
    return isinstance(value, Call) and value.function == _VALUE
