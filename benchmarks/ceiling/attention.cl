/* Eight rows of scores stay in the nearest cache: the product with packed keys, exponentials beside their sums, the product with the values.
   Sizes are multiples of 32. Under a causal mask (CAUSAL) a row meets no panel of keys that begins behind it. */
#define PANELS (P / 32)
#define BLOCK 32
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

__kernel void pack(__global float const *restrict K, __global float *restrict packed)
{
  int panel = get_group_id(0);
  for (int n = 0; n < 32; ++n)
    for (int e = 0; e < E; ++e)
      packed[(panel * E + e) * 32 + n] = K[(panel * 32 + n) * E + e];
}

__kernel void attention(__global float const *restrict Q, __global float const *restrict packed, __global float const *restrict V,
                        __global float *restrict O)
{
  __local float S[8 * P];
  int h = get_group_id(0) / (M / BLOCK), first = get_group_id(0) % (M / BLOCK) * BLOCK;
  for (int m = first; m < first + BLOCK; m += 8)
  {
    __global float const *q = Q + (h * M + m) * E, *v = V + h * P * F;
    int panels = CAUSAL ? m / 32 + 1 : PANELS;
#define LEAST(r) float16 top##r = -INFINITY;
    ROWS(LEAST)
    for (int j = 0; j < panels; ++j)
    {
      __global float const *b = packed + (h * PANELS + j) * E * 32;
#define START(r) float16 c##r = 0, d##r = 0;
      ROWS(START)
      for (int e = 0; e < E; ++e, b += 32)
      {
        float16 x = LOAD16(b), y = LOAD16(b + 16);
#define SCORE(r) { float s = q[r * E + e]; c##r += s * x; d##r += s * y; }
        ROWS(SCORE)
      }
#define SCALE(r) c##r *= 0.125f; d##r *= 0.125f;
      ROWS(SCALE)
      if (CAUSAL && j == panels - 1)
      {
#define MASK(r) \
        c##r = LANE + 32 * j <= m + r ? c##r : (float16)(-INFINITY); \
        d##r = LANE + 32 * j + 16 <= m + r ? d##r : (float16)(-INFINITY);
        ROWS(MASK)
      }
#define KEEP(r) \
      NEAR16(S + r * P + 32 * j) = c##r; NEAR16(S + r * P + 32 * j + 16) = d##r; top##r = larger(top##r, larger(c##r, d##r));
      ROWS(KEEP)
    }
#define WEIGH(r) \
    float16 sum##r = 0; \
    float peak##r = largest16(top##r); \
    for (int p = 0; p < 32 * panels; p += 16) \
    { \
      float16 weight = exponential_of(NEAR16(S + r * P + p) - peak##r); \
      NEAR16(S + r * P + p) = weight; \
      sum##r += weight; \
    } \
    float part##r = 1.0f / sum16(sum##r);
    ROWS(WEIGH)
    for (int f = 0; f < F; f += 32)
    {
      ROWS(START)
      for (int p = 0; p < 32 * panels; ++p)
      {
        float16 x = LOAD16(v + p * F + f), y = LOAD16(v + p * F + f + 16);
#define STEP(r) { float s = S[r * P + p]; c##r += s * x; d##r += s * y; }
        ROWS(STEP)
      }
      __global float *z = O + (h * M + m) * F + f;
#define STORE(r) STORE16(z + r * F, part##r * c##r); STORE16(z + r * F + 16, part##r * d##r);
      ROWS(STORE)
    }
  }
}
