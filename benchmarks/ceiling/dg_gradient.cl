/* Nodes in lanes, the last vector overlapping the one before it, so that neither sums nor stores need a remainder. The sums of two elements
   stay in registers while their nodes pass; the operators, as they are packed, stay in the first cache. */
#define WIDE VECTORS(I)
#define PART 64
#define TWO 2

__kernel void pack(__global float const *restrict S, __global float *restrict packed)
{
  for (int j = 0; j < J; ++j)
    for (int r = 0; r < 3; ++r)
      for (int v = 0; v < WIDE; ++v)
        for (int n = 0; n < 16; ++n)
          packed[((j * 3 + r) * WIDE + v) * 16 + n] = S[(r * I + PLACE(v, I) + n) * J + j];
}

__kernel void dg_gradient(__global float const *restrict G, __global float const *restrict packed, __global float const *restrict U,
                          __global float *restrict D)
{
  for (int first = get_group_id(0) * PART; first < min((int) (get_group_id(0) + 1) * PART, E); first += TWO)
  {
    int e = min(first, E - TWO);
    __global float const *u = U + e * J;
    __global float *d = D + e * I;
#define LEFT(r, k) u[(r) * J + (k)]
#define RIGHT(k, v) LOAD16(packed + ((k) * 3 * WIDE + (v)) * 16)
#define KEEP(r, v) derivative[r][v] = sum[r][v];
    float16 derivative[TWO][3 * WIDE];
    TILE(TWO, 3 * WIDE, J, LEFT, RIGHT, KEEP)
    UNROLLED for (int n = 0; n < TWO; ++n)
      UNROLLED for (int x = 0; x < 3; ++x)
      {
        float g0 = G[(x * 3 + 0) * E + e + n], g1 = G[(x * 3 + 1) * E + e + n], g2 = G[(x * 3 + 2) * E + e + n];
        UNROLLED for (int v = 0; v < WIDE; ++v)
          STORE16(d + (x * E + n) * I + PLACE(v, I),
                  g0 * derivative[n][v] + g1 * derivative[n][WIDE + v] + g2 * derivative[n][2 * WIDE + v]);
      }
  }
}
