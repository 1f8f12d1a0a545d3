/* Eight rows of scores stay in the nearest cache: the product with packed keys, exponentials beside their sums, the product with the values.
   Sizes are multiples of 32. Under a causal mask (CAUSAL) a row meets no panel of keys that begins behind it. */
#define PANELS (P / 32)
#define BLOCK 32
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define LOCAL16(p) (*(__local any16 *)(p))

static inline float16 larger(float16 a, float16 b) { return a > b ? a : b; }

static inline float largest(float16 v)
{
  float8 a = v.lo > v.hi ? v.lo : v.hi;
  float4 b = a.lo > a.hi ? a.lo : a.hi;
  float2 c = b.lo > b.hi ? b.lo : b.hi;
  return c.x > c.y ? c.x : c.y;
}

/* Of numbers up to 0. */
static inline float16 exponential_of(float16 x)
{
  float16 y = x > -87.0f ? x : (float16)(-87.0f);
  float16 n = y * 1.44269504f + 12582912.0f;
  int16 e = as_int16(n) << 23;
  n = n - 12582912.0f;
  float16 r = y - n * 0.693145752f - n * 1.42860677e-6f;
  float16 p = 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return as_float16(as_int16(p) + e);
}

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
  int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
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
        c##r = lane + 32 * j <= m + r ? c##r : (float16)(-INFINITY); \
        d##r = lane + 32 * j + 16 <= m + r ? d##r : (float16)(-INFINITY);
        ROWS(MASK)
      }
#define KEEP(r) \
      LOCAL16(S + r * P + 32 * j) = c##r; LOCAL16(S + r * P + 32 * j + 16) = d##r; top##r = larger(top##r, larger(c##r, d##r));
      ROWS(KEEP)
    }
#define WEIGH(r) \
    float16 sum##r = 0; \
    float peak##r = largest(top##r); \
    for (int p = 0; p < 32 * panels; p += 16) \
    { \
      float16 weight = exponential_of(LOCAL16(S + r * P + p) - peak##r); \
      LOCAL16(S + r * P + p) = weight; \
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
