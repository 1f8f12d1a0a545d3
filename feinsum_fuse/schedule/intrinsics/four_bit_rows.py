"""Rows in four bits times a vector, as functions of OpenCL C: bytes come four to a word, in which codes become numbers where they stand."""

from __future__ import annotations

from constantdict import constantdict

from ...formats.language.vector_functions import PERMUTES
from ..kernel.operations import BYTES_AHEAD
from .function_intrinsic import FunctionIntrinsic

GROUPS = (32, 64, 128)
"""Numbers that share a factor, of which there are functions."""
PAYS_FROM = 16
"""Rows from which on it pays to put the vector's numbers together: that costs as much as three rows."""
_MEANING = "Z[m] = S[m,g] * (low4(P[m,g,h]) * X[g,h] + high4(P[m,g,h]) * Y[g,h])"
_BLOCK = 64
"""Bytes that are taken at once: sixteen words."""
_BLOCKS = 32
"""Blocks whose numbers of the vector lie prepared, 16 KiB of them: a part of the nearest cache."""
_EACH_FOURTH = ("s048c", "s159d", "s26ae", "s37bf")
_TEXT = f"""
#ifdef __clang__
typedef float NAME_floats __attribute__((ext_vector_type(16), aligned(4), may_alias));
typedef uint NAME_words __attribute__((ext_vector_type(16), aligned(1), may_alias));
#define NAME_load(at) ((float16)*(__global NAME_floats const *)(at))
#define NAME_load_words(at) ((uint16)*(__global NAME_words const *)(at))
#else
#define NAME_load(at) vload16(0, at)
#define NAME_part(k, at) as_uint4(vload16(k, at))
#define NAME_load_words(at) ((uint16)(NAME_part(0, at), NAME_part(1, at), NAME_part(2, at), NAME_part(3, at)))
#endif
#if defined(__clang__) && defined({BYTES_AHEAD})
#define NAME_ask_for(at, part) __builtin_prefetch((void const *)(size_t)((at) + {BYTES_AHEAD} / (part)))
#else
#define NAME_ask_for(at, part) (void)(at)
#endif

/* Code n of sixteen words as numbers, the lowest is code 0. */
#if {PERMUTES}
#define NAME_beside 8
#define NAME_start(y) 0.0f
#define NAME_numbers(words, n) \\
  __builtin_ia32_permvarsf512((float16)(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7), as_int16((words) >> 4 * (n)))
static inline void NAME_prepare(float16 *y) {{ }}
#else
/* Where it stands it is 16^n times as large, what stands beside it is divided by that. What 8 less come to is added up for all rows. */
#define NAME_beside 9
#define NAME_start(y) (y)[8]
#define NAME_numbers(words, n) convert_float16(as_int16((n) < 7 ? (words) & (15u << 4 * (n)) : (words) >> 28))
static inline void NAME_prepare(float16 *y)
{{
  y[8] = -8.0f * (((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7])));
  for (int n = 1; n < 7; ++n) y[n] *= 1.0f / (1 << 4 * n);
}}
#endif
static inline float16 NAME_spread(__global float const *factors) {{ return (float16)(FACTORS); }}
static inline float NAME_total(float16 x)
{{
  float8 eight = x.lo + x.hi;
  float4 four = eight.lo + eight.hi;
  return (four.x + four.z) + (four.y + four.w);
}}
/* What a block of a row adds to its sums. */
static inline float16 NAME_block(__global uchar const *at, __global float const *factors, float16 const *y)
{{
  /* Factors as many groups ahead: another stream, of a fifth of the bytes, whose rows end before hardware has fetched far ahead. */
  NAME_ask_for(at, 1);
  NAME_ask_for(factors, HALF);
  uint16 words = NAME_load_words(at);
  float16 one = NAME_numbers(words, 0) * y[0] + NAME_start(y), other = NAME_numbers(words, 1) * y[1];
  one += NAME_numbers(words, 2) * y[2];
  other += NAME_numbers(words, 3) * y[3];
  one += NAME_numbers(words, 4) * y[4];
  other += NAME_numbers(words, 5) * y[5];
  one += NAME_numbers(words, 6) * y[6];
  other += NAME_numbers(words, 7) * y[7];
  return NAME_spread(factors) * (one + other);
}}

void NAME(
  __global float *Z, __global float const *S, __global uchar const *P, __global float const *X, __global float const *Y,
  int Z_m, int S_m, int S_g, int P_m, int P_g, int P_h, int X_g, int X_h, int Y_g, int Y_h, int m, int g, int h)
{{
  float16 y[NAME_beside * {_BLOCKS}];
  int const blocks = P_g == HALF && S_g == 1 ? g / EACH : 0;
  for (int first = 0; first < blocks; first += {_BLOCKS})
  {{
    int const count = min(blocks - first, {_BLOCKS});
    /* Byte 4 l + b of a block is byte b of word l: what stands beside that byte's low code and its high one, for all words. */
    for (int block = 0; block < count; ++block)
    {{
      __global float const *low = X + EACH * (first + block) * X_g, *high = Y + EACH * (first + block) * Y_g;
      float16 *beside = y + NAME_beside * block;
PREPARED
      NAME_prepare(beside);
    }}
    for (int row = 0; row < m; ++row)
    {{
      __global uchar const *at = P + row * P_m + {_BLOCK} * first;
      __global float const *factors = S + row * S_m + EACH * first;
      float16 sum = 0.0f;
      for (int block = 0; block < count; ++block)
        sum += NAME_block(at + {_BLOCK} * block, factors + EACH * block, y + NAME_beside * block);
      Z[row * Z_m] += NAME_total(sum);
    }}
  }}
  /* Groups that fill no block, or do not follow one another. */
  for (int row = 0; row < m; ++row)
    for (int group = EACH * blocks; group < g; ++group)
    {{
      float sum = 0.0f;
      for (int byte = 0; byte < h; ++byte)
      {{
        int const both = P[row * P_m + group * P_g + byte * P_h];
        sum += ((both & 15) - 8) * X[group * X_g + byte * X_h] + ((both >> 4) - 8) * Y[group * Y_g + byte * Y_h];
      }}
      Z[row * Z_m] += S[row * S_m + group * S_g] * sum;
    }}
}}"""


def four_bit_rows(group: int) -> FunctionIntrinsic:
    """Rows in four bits, with a factor for each group of so many numbers, times a vector.

    Of 64 bytes, 128 numbers, a row costs a load, eight look-ups, seven shifts and nine multiply-adds; without an instruction that looks up
    sixteen numbers seven masks, a shift, eight conversions, an addition and nine multiply-adds of as many numbers. What the vector
    has beside each byte of a word is put together once for all rows of a call.
    """
    half = group // 2
    name, each = f"four_bit_rows_{group}", _BLOCK // half
    floats = _BLOCK // 4 // each
    factors = ", ".join(f"(float{floats})(factors[{k}])" if each > 1 else f"factors[{k}]" for k in range(each))
    prepared = [
        line
        for number, (part, apart) in enumerate((("low", "X_g"), ("high", "Y_g")))
        for line in (
            *(f"float16 {part}{k} = NAME_load({part} + {16 * k // half} * {apart} + {16 * k % half});" for k in range(_BLOCK // 16)),
            *(
                f"beside[{2 * byte + number}] = (float16)({', '.join(f'{part}{k}.{lanes}' for k in range(_BLOCK // 16))});"
                for byte, lanes in enumerate(_EACH_FOURTH)
            ),
        )
    ]
    text = _TEXT.replace("PREPARED", "\n".join(f"      {line}" for line in prepared)).replace("FACTORS", factors)
    for word, meaning in (("NAME", name), ("HALF", str(half)), ("EACH", str(each))):
        text = text.replace(word, meaning)
    return FunctionIntrinsic(
        name,
        _MEANING,
        constantdict({"Z": "float32", "S": "float32", "P": "uint8", "X": "float32", "Y": "float32"}),
        text,
        constantdict(dict.fromkeys("ZSPXY", "global")),
        constantdict({"h": half}),
        constantdict(dict.fromkeys("PXY", "h")),
        is_usual=True,
        pays_from=constantdict({"m": PAYS_FROM}),
        lanes="h",
        idea=four_bit_rows.__doc__ or "",
    )
