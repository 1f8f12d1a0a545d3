"""Functions of float32 in OpenCL C on whole vectors: for devices whose own are slow on them, or wrong.

``VECTOR`` stands for the type, ``INTS`` for the integers of the same size, ``NAME`` for the function, ``EACH(f)`` for the vector of the
device's ``f`` of each lane of ``x``, ``ANY(x)`` for whether a comparison holds in a lane. The polynomials were fitted to the largest
relative error (Lawson's iterations on Chebyshev points), their coefficients rounded one after another. The slow tests hold every float32
number to the largest errors that are stated here. Infinities, zeros and numbers that are none are as in C.
"""

from __future__ import annotations

_SIGNED = "as_VECTOR(as_INTS({}) | (as_INTS(x) & (int) 0x80000000))"
"""With the sign of x, zeros included."""

EXP = """
/* Of numbers whose exponential may be too large, or too small to be normal. */
static inline VECTOR NAME_beyond(VECTOR x)
{
  VECTOR y = x > 89.0f ? (VECTOR)(89.0f) : x;
  y = y < -104.0f ? (VECTOR)(-104.0f) : y;
  /* y = 2 n ln(2) + r, with ln(2) in two parts, the first of which times 2 n is exact (Cody and Waite, 1980). Adding 1.5 * 2^23 + 127
     rounds, and the last bits are those of the exponent of 2^n. */
  VECTOR k = y * 0.7213475204f + 12583039.0f;
  VECTOR power_of_two = as_VECTOR(as_INTS(k) << 23);
  /* What rounds to 0 is made of zeros: processors take a hundred times as long for results that are too small to be normal. */
  power_of_two = x < -104.0f ? (VECTOR)(0.0f) : power_of_two;
  k = k - 12583039.0f;
  VECTOR r = y - k * 1.386291504f - k * 2.857213640e-6f;
  VECTOR q = 1.962980023e-4f;
  q = q * r + 1.410478144e-3f;
  q = q * r + 8.335934952e-3f;
  q = q * r + 4.166122898e-2f;
  q = q * r + 1.666661799e-1f;
  q = q * r + 5.000003576e-1f;
  /* 4^n in two steps. */
  return (1.0f + (r + r * r * q)) * power_of_two * power_of_two;
}
static inline VECTOR NAME(VECTOR x)
{
  INTS beyond = !(as_VECTOR(as_INTS(x) & 0x7fffffff) <= 87.0f);
  if (ANY(beyond)) return NAME_beyond(x);
  /* x = n ln(2) + r; n is added to the exponent of exp(r). */
  VECTOR k = x * 1.442695041f + 12582912.0f;
  INTS n = as_INTS(k) << 23;
  k = k - 12582912.0f;
  VECTOR r = x - k * 0.693145752f - k * 1.428606820e-6f;
  VECTOR q = 1.382068964e-3f;
  q = q * r + 8.368675597e-3f;
  q = q * r + 4.166826606e-2f;
  q = q * r + 1.666652113e-1f;
  q = q * r + 4.999999404e-1f;
  q = q * r + 1.0f;
  q = q * r + 1.0f;
  return as_VECTOR(as_INTS(q) + n);
}"""
"""Within 2 units in the last place."""

LOG = """
static inline VECTOR NAME(VECTOR x)
{
  /* Numbers too small to be normal are taken times 2^23. x = 2^n (1 + f), with 1 + f from sqrt(1/2) to sqrt(2). */
  INTS is_small = x < 1.17549435e-38f;
  INTS bits = as_INTS(is_small ? x * 8388608.0f : x);
  INTS n = (bits - 0x3f3504f3) >> 23;
  VECTOR f = as_VECTOR(bits - (n << 23)) - 1.0f, square = f * f;
  VECTOR k = as_VECTOR((is_small != 0 ? n - 23 : n) + 0x4b400000) - 12582912.0f;
  VECTOR p = -7.636940479e-2f;
  p = p * f + 1.276248544e-1f;
  p = p * f - 1.315955073e-1f;
  p = p * f + 1.420153975e-1f;
  p = p * f - 1.662341058e-1f;
  p = p * f + 2.000124305e-1f;
  p = p * f - 2.500081956e-1f;
  p = p * f + 3.333333135e-1f;
  VECTOR y = k * 0.693145752f + (f + (square * (f * p) - 0.5f * square + k * 1.428606820e-6f));
  y = x == 0.0f ? (VECTOR)(-INFINITY) : y;
  y = x < 0.0f ? (VECTOR)(NAN) : y;
  return x < INFINITY ? y : x;
}"""
"""Within 4 units in the last place: n ln(2) in two parts, and a polynomial."""

TANH = f"""
static inline VECTOR NAME(VECTOR x)
{{
  /* 2 size = n ln(2) + 2 r, with ln(2) / 2 in two parts, the first of which times n is exact (Cody and Waite, 1980). Adding
     1.5 * 2^23 + 127 rounds, and the last bits are those of the exponent of 2^n. */
  VECTOR size = as_VECTOR(as_INTS(x) & 0x7fffffff);
  VECTOR y = size > 10.0f ? (VECTOR)(10.0f) : size;
  VECTOR k = y * 2.885390082f + 12583039.0f;
  VECTOR power_of_two = as_VECTOR(as_INTS(k) << 23);
  k = k - 12583039.0f;
  VECTOR r = y - k * 0.346572876f - k * 7.14303410e-7f;
  VECTOR q = 4.422060400e-2f;
  q = q * r + 1.338992566e-1f;
  q = q * r + 3.333463073e-1f;
  q = q * r + 6.666608453e-1f;
  q = q * r + 9.999998808e-1f;
  /* (exp(2 size) - 1) / 2 */
  VECTOR grown = (r + r * r * q) * power_of_two + (0.5f * power_of_two - 0.5f);
  VECTOR result = grown / (grown + 1.0f);
  return {_SIGNED.format("result")};
}}"""
"""Within 4 units in the last place: of exp(2x) - 1, whose exponent is added before 1 is taken off, the part that it is of itself and 2."""

ERF = f"""
static inline VECTOR NAME(VECTOR x)
{{
  VECTOR size = as_VECTOR(as_INTS(x) & 0x7fffffff);
  VECTOR far = size > 4.0f ? (VECTOR)(4.0f) : size;
  VECTOR part = -2.064163709e-6f;
  part = part * far + 2.787439189e-5f;
  part = part * far - 9.063827019e-5f;
  part = part * far - 3.216980840e-4f;
  part = part * far + 2.115192125e-3f;
  part = part * far + 1.076285494e-3f;
  part = part * far - 1.855986565e-2f;
  part = part * far - 1.547678560e-2f;
  part = part * far + 1.193673834e-1f;
  part = part * far + 2.820947766e-1f;
  part = part * far;
  part = (part + part) - part * part;
  part = (part + part) - part * part;
  return {_SIGNED.format("part")};
}}"""
"""Within 4 units in the last place: 1 less the fourth power of what a polynomial is less than 1. As ``1 - (1 - p)**2`` is ``2*p - p**2``,
twice over, small results are as exact as large ones, down to where a quarter of one is subnormal: that of the smallest number is 0."""

_RARELY = """
#ifndef rarely
#ifdef __clang__
#define rarely(x) __builtin_expect((x) != 0, 0)
#else
#define rarely(x) (x)
#endif
#endif"""
"""The macro by which compilers know what mostly does not hold, once in a program: calls behind it take no registers from what goes on."""

_TURNED = """
/* Where the halves of a turn are more than what is told apart below, and where there is no number. Written out: PoCL compiles loops under
   conditions that work-items disagree on wrongly. Never a part of what follows, of which compilers would make calls. */
static __attribute__((noinline)) VECTOR NAME_beyond(VECTOR x) {{ return EACH({function}); }}
static inline VECTOR NAME(VECTOR x)
{{
  INTS beyond = !(as_VECTOR(as_INTS(x) & 0x7fffffff) <= 1000.0f);
  if (rarely(ANY(beyond))) return NAME_beyond(x);
{halves}
  VECTOR r = x - k * 3.141357422f - k * 2.352297306e-4f - k * 1.983607945e-09f - k * 5.792147903e-13f, square = r * r;
  VECTOR p = 2.606081807e-6f;
  p = p * square - 1.980977395e-4f;
  p = p * square + 8.333069272e-3f;
  p = p * square - 1.666665971e-1f;
  p = p * square + 1.0f;
  return as_VECTOR(as_INTS(r * p) ^ ({odd} << 31));
}}"""
"""Within 4 units in the last place: of what is left of x beyond multiples of pi, a polynomial on +-pi/2; pi is in four parts, of which k
times one of the first three is exact."""
SIN = _RARELY + _TURNED.format(
    function="sin",
    odd="n",
    halves="""  /* x = k pi + r */
  VECTOR k = x * 0.318309886f + 12582912.0f;
  INTS n = as_INTS(k);
  k = k - 12582912.0f;""",
)
COS = _RARELY + _TURNED.format(
    function="cos",
    odd="(n + 1)",
    halves="""  /* x = (n + 1/2) pi + r */
  VECTOR k = (x * 0.318309886f - 0.5f) + 12582912.0f;
  INTS n = as_INTS(k);
  k = (k - 12582912.0f) + 0.5f;""",
)

VECTOR_MAX = """
static inline VECTOR NAME(VECTOR x, VECTOR y)
{
  return ((y > x) | (x != x)) ? y : x;
}"""
"""Exact; of a number and what is none the number, as ``fmax``."""
RUNNING_MAX = """
static inline VECTOR NAME(VECTOR x, VECTOR y)
{
  return y > x ? y : x;
}"""
"""The same where x is the largest so far: it began at minus infinity, and never became what is no number. One instruction, where the
function above has four that wait for one another."""
RUNNING_MIN = RUNNING_MAX.replace("y > x", "y < x")
VECTOR_MIN = VECTOR_MAX.replace("y > x", "y < x")
"""Exact; of a number and what is none the number, as ``fmin``."""

_WHOLE = """
#ifdef __has_builtin
#if __has_builtin(__builtin_elementwise_{0})
#define whole_by_{0}(x) __builtin_elementwise_{0}(x)
#endif
#endif
"""
_ROUNDED = """
  /* From 2^23 on numbers are whole; adding it to smaller ones rounds. */
  VECTOR large = as_VECTOR(as_INTS(x) & 0x7fffffff) < 8388608.0f ? as_VECTOR((as_INTS(x) & (int) 0x80000000) | 0x4b000000) : (VECTOR)(0.0f);
  VECTOR rounded = x + large - large;"""
ROUND = f"""{_WHOLE.format("roundeven")}static inline VECTOR NAME(VECTOR x)
{{
#ifdef whole_by_roundeven
  return whole_by_roundeven(x);
#else{_ROUNDED}
  return {_SIGNED.format("rounded")};
#endif
}}"""
FLOOR = f"""{_WHOLE.format("floor")}static inline VECTOR NAME(VECTOR x)
{{
#ifdef whole_by_floor
  return whole_by_floor(x);
#else{_ROUNDED}
  rounded = rounded > x ? rounded - 1.0f : rounded;
  return {_SIGNED.format("rounded")};
#endif
}}"""
"""Exact, as the one before. Compilers that have the instruction name it; PoCL's own functions take lane after lane."""

POW = """
/* |x|^y = 2^(y log2 |x|) in float64, whose errors are far below those of float32. |x| = 2^n m, with m from sqrt(1/2) to sqrt(2). */
static inline VECTOR NAME_of_size(VECTOR x, VECTOR y)
{
  INTS is_small = x < 1.17549435e-38f;
  INTS bits = as_INTS(is_small ? x * 8388608.0f : x);
  INTS n = (bits - 0x3f3504f3) >> 23;
  VECTOR m = as_VECTOR(bits - (n << 23));
  n = is_small ? n - 23 : n;
  /* The series of log((1 + s) / (1 - s)), with s = (m - 1) / (m + 1): one step of Newton's from the quotient in float32. */
  DOUBLES one_more = convert_DOUBLES(m) + 1.0;
  DOUBLES inverse = convert_DOUBLES(1.0f / (m + 1.0f));
  inverse = inverse * (2.0 - one_more * inverse);
  DOUBLES s = (convert_DOUBLES(m) - 1.0) * inverse;
  DOUBLES z = s * s;
  DOUBLES t = 0.19235933878519512;
  t = t * z + 0.22195308321368667;
  t = t * z + 0.2623081892525388;
  t = t * z + 0.3205988979753252;
  t = t * z + 0.4121985831111324;
  t = t * z + 0.5770780163555853;
  t = t * z + 0.9617966939259756;
  t = t * z + 2.8853900817779268;
  t = t * s + convert_DOUBLES(n);
  DOUBLES p = convert_DOUBLES(y) * t;
  p = p > 200.0 ? (DOUBLES)(200.0) : p;
  p = p < -200.0 ? (DOUBLES)(-200.0) : p;
  /* p = k + r: adding 1.5 * 2^52 rounds, and the last bits are those of the exponent of 2^k. */
  DOUBLES k = p + 6755399441055744.0;
  DOUBLES r = p - (k - 6755399441055744.0);
  DOUBLES q = 1.3215486790144305e-06;
  q = q * r + 1.5252733804059838e-05;
  q = q * r + 0.00015403530393381606;
  q = q * r + 0.0013333558146428441;
  q = q * r + 0.009618129107628477;
  q = q * r + 0.055504108664821576;
  q = q * r + 0.2402265069591007;
  q = q * r + 0.6931471805599453;
  q = q * r + 1.0;
  return convert_VECTOR(as_DOUBLES(as_LONGS(q) + (as_LONGS(k) << 52)));
}
/* What is negative, zero, infinite or no number, as C has it. */
static inline VECTOR NAME_beyond(VECTOR x, VECTOR y)
{
  VECTOR size = as_VECTOR(as_INTS(x) & 0x7fffffff), exponent = as_VECTOR(as_INTS(y) & 0x7fffffff);
  INTS is_large = exponent >= 16777216.0f;
  INTS whole = convert_INTS((is_large | (y != y)) ? (VECTOR)(0.0f) : y);
  INTS is_whole = is_large | (convert_VECTOR(whole) == y);
  INTS is_below = (size < 1.0f) ^ (y < 0.0f);
  VECTOR z = NAME_of_size(size, exponent < INFINITY ? y : (VECTOR)(1.0f));
  z = ((size == 0.0f) | (size == INFINITY) | (exponent == INFINITY)) ? (is_below ? (VECTOR)(0.0f) : (VECTOR)(INFINITY)) : z;
  z = as_VECTOR(as_INTS(z) | (is_whole & (whole << 31) & as_INTS(x) & (int) 0x80000000));
  z = ((x < 0.0f) & (size < INFINITY) & !is_whole) ? (VECTOR)(NAN) : z;
  z = ((x != x) | (y != y)) ? x + y : z;
  return ((y == 0.0f) | (x == 1.0f) | ((size == 1.0f) & (exponent == INFINITY))) ? (VECTOR)(1.0f) : z;
}
static inline VECTOR NAME(VECTOR x, VECTOR y)
{
  INTS beyond = !((x > 0.0f) & (x < INFINITY) & (as_VECTOR(as_INTS(y) & 0x7fffffff) < INFINITY));
  return ANY(beyond) ? NAME_beyond(x, y) : NAME_of_size(x, y);
}"""
"""Within 1 unit in the last place."""

LOW4 = """
static inline VECTOR __attribute__((overloadable)) NAME(VECTOR x) { return convert_VECTOR((convert_INTS(x) & 15) - 8); }"""
HIGH4 = """
static inline VECTOR __attribute__((overloadable)) NAME(VECTOR x) { return convert_VECTOR(((convert_INTS(x) >> 4) & 15) - 8); }"""
LOW4_OF_BYTES = """
static inline VECTOR __attribute__((overloadable)) NAME(BYTES x) { return convert_VECTOR((convert_INTS(x) & 15) - 8); }"""
HIGH4_OF_BYTES = """
static inline VECTOR __attribute__((overloadable)) NAME(BYTES x) { return convert_VECTOR((convert_INTS(x) >> 4) - 8); }"""
"""Of unsigned bytes as they are loaded, which need not become floating-point numbers before."""
_CODES = f"(float16)({', '.join(map(str, range(-8, 8)))})"
LOW4_OF_TABLE = f"""
static inline float16 __attribute__((overloadable)) NAME(uchar16 x)
{{
  return __builtin_ia32_permvarsf512({_CODES}, __builtin_convertvector(x, int16));
}}"""
HIGH4_OF_TABLE = LOW4_OF_TABLE.replace("convertvector(x, int16)", "convertvector(x, int16) >> 4")
"""Of sixteen bytes where an instruction looks up sixteen numbers in a register, by the low four bits of each index (Intel SDM, volume 2,
VPERMPS): a mask, a difference and a conversion less."""
PERMUTES = "defined(__clang__) && defined(__AVX512F__)"
"""When the compiler has that instruction."""
