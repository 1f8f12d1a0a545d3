/* Eight rows of scores, or six if registers are 16, stay in the nearest cache: the product with packed keys, exponentials beside their sums, the product with the values.
   P, E and F are multiples of a panel. Under a causal mask (CAUSAL) a row meets no panel of keys that begins behind it. */
#define PANELS (P / PANEL)
#define SIX_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#if REGISTERS >= 32
#define ROWS(X) SIX_ROWS(X) X(6) X(7)
#define TILE_ROWS 8
#else
#define ROWS(X) SIX_ROWS(X)
#define TILE_ROWS 6
#endif
#define GROUPS ((M + BLOCK - 1) / BLOCK)

__kernel void pack(__global float const *restrict K, __global float *restrict packed)
{
  int panel = get_group_id(0);
  for (int n = 0; n < PANEL; ++n)
    for (int e = 0; e < E; ++e)
      packed[(panel * E + e) * PANEL + n] = K[(panel * PANEL + n) * E + e];
}

__kernel void attention(__global float const *restrict Q, __global float const *restrict packed, __global float const *restrict V,
                        __global float *restrict O)
{
  __local float S[TILE_ROWS * P];
  int h = get_group_id(0) / GROUPS, first = get_group_id(0) % GROUPS * BLOCK;
  for (int begin = first; begin < min(first + BLOCK, M); begin += TILE_ROWS)
  {
    int m = min(begin, M - TILE_ROWS);
    __global float const *q = Q + (h * M + m) * E, *v = V + h * P * F;
    int panels = CAUSAL ? (m + TILE_ROWS - 1) / PANEL + 1 : PANELS;
#define LEAST(r) many top##r = -INFINITY;
    ROWS(LEAST)
    for (int j = 0; j < panels; ++j)
    {
      __global float const *b = packed + (h * PANELS + j) * E * PANEL;
#define START(r) many c##r = 0, d##r = 0;
      ROWS(START)
      for (int e = 0; e < E; ++e, b += PANEL)
      {
        many x = READ(b), y = READ(b + LANES);
#define SCORE(r) { float s = q[r * E + e]; c##r += s * x; d##r += s * y; }
        ROWS(SCORE)
      }
#define SCALE(r) c##r *= 0.125f; d##r *= 0.125f;
      ROWS(SCALE)
      if (CAUSAL && PANEL * j + PANEL - 1 > m)
      {
#define MASK(r) \
        c##r = LANE + PANEL * j <= m + r ? c##r : (many)(-INFINITY); \
        d##r = LANE + PANEL * j + LANES <= m + r ? d##r : (many)(-INFINITY);
        ROWS(MASK)
      }
#define KEEP(r) \
      HERE(S + r * P + PANEL * j) = c##r; HERE(S + r * P + PANEL * j + LANES) = d##r; top##r = larger(top##r, larger(c##r, d##r));
      ROWS(KEEP)
    }
#define WEIGH(r) \
    many sum##r = 0; \
    float peak##r = largest_of(top##r); \
    for (int p = 0; p < PANEL * panels; p += LANES) \
    { \
      many weight = exponential_of(HERE(S + r * P + p) - peak##r); \
      HERE(S + r * P + p) = weight; \
      sum##r += weight; \
    } \
    float part##r = 1.0f / sum_of(sum##r);
    ROWS(WEIGH)
    for (int f = 0; f < F; f += PANEL)
    {
      ROWS(START)
      for (int p = 0; p < PANEL * panels; ++p)
      {
        many x = READ(v + p * F + f), y = READ(v + p * F + f + LANES);
#define STEP(r) { float s = S[r * P + p]; c##r += s * x; d##r += s * y; }
        ROWS(STEP)
      }
      __global float *z = O + (h * M + m) * F + f;
#define STORE(r) WRITE(z + r * F, part##r * c##r); WRITE(z + r * F + LANES, part##r * d##r);
      ROWS(STORE)
    }
  }
}
