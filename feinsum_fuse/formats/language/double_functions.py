"""Functions of float64 in OpenCL C on whole vectors, as :mod:`.vector_functions` has those of float32.

``VECTOR`` stands for the type, ``INTS`` for the integers of the same size, ``NAME`` for the function. Exponents are made by shifts to the
left alone: processors without AVX-512 have no arithmetic shift to the right for 64 bits. The polynomials were fitted to the largest error
(Remez), in 50 digits. Tests hold the functions to the largest errors that are stated here at the places that are hard for them.
"""

from __future__ import annotations

from .vector_functions import FLOOR, ROUND

_REDUCED = """
  /* y = n ln(2) + r, with ln(2) in two parts, the first of which times n is exact (Cody and Waite, 1980); adding 1.5 * 2^52 rounds. */
  VECTOR k = y * 1.4426950408889634 + 6755399441055744.0;
  VECTOR n = k - 6755399441055744.0;
  VECTOR r = y - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10;
  VECTOR q = 2.5110049895858716e-08;
  q = q * r + 2.763265575933203e-07;
  q = q * r + 2.7557242336680357e-06;
  q = q * r + 2.4801487326012337e-05;
  q = q * r + 0.00019841269886591;
  q = q * r + 0.0013888888947820891;
  q = q * r + 0.008333333333322207;
  q = q * r + 0.04166666666652199;
  q = q * r + 0.16666666666666674;
  q = q * r + 0.500000000000001;
  /* exp(r) - 1 */
  VECTOR rest = r + r * r * q;"""
_POWER_OF_TWO = "as_VECTOR((as_INTS({}) << 52) + 0x3ff0000000000000)"
"""Two to the power of a whole number to which 1.5 * 2^52 was added."""
_SIGNED = "as_VECTOR(as_INTS({}) | (as_INTS(x) & (long) 0x8000000000000000))"
"""With the sign of x, zeros included."""
_SIZE = "as_VECTOR(as_INTS(x) & 0x7fffffffffffffff)"

DOUBLE_EXP = f"""
static inline VECTOR NAME(VECTOR x)
{{
  VECTOR y = x > 710.0 ? (VECTOR)(710.0) : x;
  y = y < -746.0 ? (VECTOR)(-746.0) : y;{_REDUCED}
  /* In two steps: 2^n alone may be too large, or too small to be normal. */
  VECTOR half_k = n * 0.5 + 6755399441055744.0;
  VECTOR other_k = n - (half_k - 6755399441055744.0) + 6755399441055744.0;
  /* What rounds to 0 is made of zeros: results that are too small to be normal may take a hundred times as long. */
  VECTOR half_power = x < -746.0 ? (VECTOR)(0.0) : {_POWER_OF_TWO.format("half_k")};
  return (1.0 + rest) * half_power * {_POWER_OF_TWO.format("other_k")};
}}"""
"""Within 2 units in the last place."""

DOUBLE_LOG = """
static inline VECTOR NAME(VECTOR x)
{
  /* Numbers too small to be normal are taken times 2^54. x = 2^n (1 + f), with 1 + f from sqrt(1/2) to sqrt(2). */
  INTS is_small = x < 2.2250738585072014e-308;
  INTS bits = as_INTS(is_small ? x * 18014398509481984.0 : x) + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
  VECTOR n = as_VECTOR(((bits >> 52) & 0x7ff) | 0x4330000000000000) - 4503599627371519.0;
  n = is_small ? n - 54.0 : n;
  VECTOR f = as_VECTOR((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
  /* log(1 + f) = 2 artanh(s) = f - f f / 2 + s (f f / 2 + p), which loses nothing where f is small. */
  VECTOR s = f / (2.0 + f), square = s * s, half_square = 0.5 * f * f;
  VECTOR p = 0.14811149415124164;
  p = p * square + 0.1531310474899719;
  p = p * square + 0.18183573713223644;
  p = p * square + 0.22222199052922956;
  p = p * square + 0.2857142872960736;
  p = p * square + 0.3999999999951865;
  p = (p * square + 0.666666666666671) * square;
  VECTOR y = n * 6.93147180369123816490e-01 + (f + ((s * (half_square + p) + n * 1.90821492927058770002e-10) - half_square));
  y = x == 0.0 ? (VECTOR)(-INFINITY) : y;
  y = x < 0.0 ? (VECTOR)(NAN) : y;
  return x < (VECTOR)(INFINITY) ? y : x;
}"""
"""Within 2 units in the last place."""

DOUBLE_TANH = f"""
static inline VECTOR NAME(VECTOR x)
{{
  VECTOR size = {_SIZE};
  VECTOR y = size > 22.0 ? (VECTOR)(44.0) : size + size;{_REDUCED}
  /* exp(2 x) - 1, of which no digit is lost where x is small. */
  VECTOR power = {_POWER_OF_TWO.format("k")};
  VECTOR less = power * rest + (power - 1.0);
  return {_SIGNED.format("less / (less + 2.0)")};
}}"""
"""Within 4 units in the last place."""

DOUBLE_ERF = f"""
static inline VECTOR NAME(VECTOR x)
{{
  VECTOR size = {_SIZE}, square = x * x;
  VECTOR u = (size > 6.0 ? (VECTOR)(6.0) : size) - 2.0;
  VECTOR root = 8.148228528049132e-14;
  root = root * u - 9.456394440191113e-13;
  root = root * u + 4.864637998480061e-12;
  root = root * u - 1.824563393694698e-11;
  root = root * u + 3.3387820124215925e-11;
  root = root * u + 4.749016919504987e-10;
  root = root * u - 4.043163145161753e-09;
  root = root * u - 1.3802193223485416e-09;
  root = root * u + 1.1367645781272758e-07;
  root = root * u + 1.7574775810352054e-07;
  root = root * u - 5.973393494304624e-06;
  root = root * u + 7.1328504027895256e-06;
  root = root * u + 0.00018642978396649226;
  root = root * u - 0.0006558404204711063;
  root = root * u - 0.002804226548427002;
  root = root * u + 0.017202182837938087;
  root = root * u + 0.018938032883517628;
  root = root * u - 0.28242685069871;
  root = root * u + 0.5113926144390636;
  root = root * root;
  root = root * root;
  VECTOR large = 1.0 - root * root;
  VECTOR p = -7.779119513044025e-10;
  p = p * square + 1.3710796054345678e-08;
  p = p * square - 1.620627177410451e-07;
  p = p * square + 1.6447126176777278e-06;
  p = p * square - 1.4924711872393473e-05;
  p = p * square + 0.00012055293554964029;
  p = p * square - 0.0008548325928596625;
  p = p * square + 0.00522397760610386;
  p = p * square - 0.026866170643109737;
  p = p * square + 0.11283791670944174;
  p = p * square - 0.3761263890318352;
  p = p * square + 0.12837916709551256;
  return {_SIGNED.format("size < 1.0 ? x + x * p : large")};
}}"""
"""Within 3 units in the last place: a polynomial below 1, above it 1 less the eighth power of a polynomial, which is below 0.16."""

_TURNED = """
  /* Beyond, and where there is no number, the quarters are more than what follows tells apart. */
  INTS beyond = !(as_VECTOR(as_INTS(x) & 0x7fffffffffffffff) <= 1647099.0);
  if (ANY(beyond)) return EACH({function});
  /* x = n pi/2 + r, with pi/2 in four parts, of which n times one of the first three is exact; n is below 2^20. */
  VECTOR k = x * 0.6366197723675814 + 6755399441055744.0;
  INTS n = as_INTS(k){shift};
  k = k - 6755399441055744.0;
  VECTOR r = x - k * 1.5707963267341256 - k * 6.077100506303966e-11 - k * 2.0222662487111665e-21 - k * 8.4784276603689e-32, square = r * r;
  VECTOR p = 1.5896811829081528e-10;
  p = p * square - 2.5050758384975978e-08;
  p = p * square + 2.7557313693577104e-06;
  p = p * square - 0.00019841269829812394;
  p = p * square + 0.008333333333322418;
  p = p * square - 0.16666666666666632;
  VECTOR q = -1.1358525208067872e-11;
  q = q * square + 2.0875700628463842e-09;
  q = q * square - 2.755731417776405e-07;
  q = q * square + 2.4801587288846537e-05;
  q = q * square - 0.001388888888887305;
  q = q * square + 0.041666666666666595;
  VECTOR turned = (n & 1) != 0 ? 1.0 - (0.5 * square - square * square * q) : r + r * (square * p);
  turned = as_VECTOR(as_INTS(turned) ^ ((n & 2) << 62));"""

DOUBLE_SIN = f"""
static inline VECTOR NAME(VECTOR x)
{{{_TURNED.format(function="sin", shift="")}
  return x == 0.0 ? x : turned;
}}"""
"""Within 4 units in the last place: of what is left of x beyond multiples of pi/2, polynomials on +-pi/4."""
DOUBLE_COS = f"""
static inline VECTOR NAME(VECTOR x)
{{{_TURNED.format(function="cos", shift=" + 1")}
  return turned;
}}"""
"""Within 4 units in the last place: the sine of x + pi/2, which is not added."""

_IN_DOUBLE = {"2^23": "2^52", "8388608.0f": "4503599627370496.0", "0x4b000000": "0x4330000000000000", "0.0f": "0.0", "1.0f": "1.0"}
_IN_DOUBLE |= {"0x7fffffff": "0x7fffffffffffffff", "(int) 0x80000000": "(long) 0x8000000000000000"}


def _in_double(text: str) -> str:
    """The text of a function of float32, which uses no more than the form of numbers, for float64."""
    for number, longer in _IN_DOUBLE.items():
        text = text.replace(number, longer)
    return text


DOUBLE_ROUND, DOUBLE_FLOOR = _in_double(ROUND), _in_double(FLOOR)
"""Exact."""
