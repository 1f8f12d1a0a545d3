/* Bytes are never widened: code n of a word of 32 bits is masked where it stands, converted there (an exact number times
   16^n), and multiplied by x / 16^n, which is prepared once for all rows, as is what taking 8 off each code comes to. */
#define ROWS 4096
#define K 4096
#define PAIRS (K / 64)

typedef uint8 any_words __attribute__((aligned(1), may_alias));
typedef float8 any8 __attribute__((aligned(4), may_alias));
#define LOAD8(p) (*(__global any8 const *)(p))
#define CODE(n) (convert_float8(as_int8(words & (15u << 4 * n))) * LOAD8(y + 8 * n))

/* Lane l of a pair of groups has bytes 4l to 4l+3: codes 0, 2, 4, 6 are low ones, 1, 3, 5, 7 high ones, 16 numbers further on. */
__kernel void prepare(__global float const *restrict x, __global float *restrict Y, __global float *restrict C)
{
  for (int pair = 0; pair < PAIRS; ++pair)
    for (int lane = 0; lane < 8; ++lane)
    {
      float sum = 0, factor = 1;
      for (int n = 0; n < 8; ++n, factor /= 16)
      {
        float number = x[64 * pair + 32 * (lane / 4) + 16 * (n % 2) + 4 * (lane % 4) + n / 2];
        Y[64 * pair + 8 * n + lane] = n < 7 ? number * factor : number;
        sum += number;
      }
      C[8 * pair + lane] = -8 * sum;
    }
}

__kernel void four_bits(__global float const *restrict S, __global uchar const *restrict P, __global float const *restrict Y,
                        __global float const *restrict C, __global float *restrict Z)
{
  for (int m = get_group_id(0) * 32; m < get_group_id(0) * 32 + 32; ++m)
  {
    float8 sum = 0;
    for (int pair = 0; pair < PAIRS; ++pair)
    {
      __global uchar const *at = P + m * (K / 2) + 32 * pair;
      __global float const *y = Y + 64 * pair, *s = S + m * (K / 32) + 2 * pair;
#ifdef __clang__
      __builtin_prefetch((void const *)(size_t)(at + 2048));
#endif
      uint8 words = *(__global any_words const *)at;
      float8 even = CODE(0) + CODE(2) + CODE(4) + CODE(6);
      float8 odd = CODE(1) + CODE(3) + CODE(5) + (convert_float8(as_int8(words >> 28)) * LOAD8(y + 56) + LOAD8(C + 8 * pair));
      sum += (float8)((float4)(s[0]), (float4)(s[1])) * (even + odd);
    }
    float4 half_sum = sum.lo + sum.hi;
    float2 quarter = half_sum.lo + half_sum.hi;
    Z[m] = quarter.x + quarter.y;
  }
}
