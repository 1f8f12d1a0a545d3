/* Nodes in lanes, the last vector overlapping the one before it, so that neither sums nor stores need a remainder. The sums of two elements, or of three vectors of four if registers are 16,
   stay in registers while their nodes pass; the operators, as they are packed, stay in the first cache. */
#define WIDE VECTORS(I)
#define PART 64
#define SOME (REGISTERS >= 32 ? 2 : DOWN(3 * WIDE))

__kernel void pack(__global float const *restrict S, __global float *restrict packed)
{
  for (int j = 0; j < J; ++j)
    for (int r = 0; r < 3; ++r)
      for (int v = 0; v < WIDE; ++v)
        for (int n = 0; n < LANES; ++n)
          packed[((j * 3 + r) * WIDE + v) * LANES + n] = S[(r * I + PLACE(v, I) + n) * J + j];
}

__kernel void dg_gradient(__global float const *restrict G, __global float const *restrict packed, __global float const *restrict U,
                          __global float *restrict D)
{
  for (int first = get_group_id(0) * PART; first < min((int) (get_group_id(0) + 1) * PART, E); first += SOME)
  {
    int e = min(first, E - SOME);
    __global float const *u = U + e * J;
    __global float *d = D + e * I;
#define LEFT(r, k) u[(r) * J + (k)]
#define RIGHT(k, v) READ(packed + ((k) * 3 * WIDE + start + (v)) * LANES)
#define KEEP(r, v) derivative[r][start + v] = sum[r][v];
    many derivative[SOME][3 * WIDE];
    UNROLLED for (int t = 0; t < TIMES(3 * WIDE); ++t)
    {
      int start = START(t, 3 * WIDE);
      TILE(SOME, ACROSS(3 * WIDE), J, LEFT, RIGHT, KEEP)
    }
    UNROLLED for (int n = 0; n < SOME; ++n)
      UNROLLED for (int x = 0; x < 3; ++x)
      {
        float g0 = G[(x * 3 + 0) * E + e + n], g1 = G[(x * 3 + 1) * E + e + n], g2 = G[(x * 3 + 2) * E + e + n];
        UNROLLED for (int v = 0; v < WIDE; ++v)
          WRITE(d + (x * E + n) * I + PLACE(v, I),
                  g0 * derivative[n][v] + g1 * derivative[n][WIDE + v] + g2 * derivative[n][2 * WIDE + v]);
      }
  }
}
