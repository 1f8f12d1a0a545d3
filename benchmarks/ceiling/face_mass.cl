/* Nodes in lanes, eight elements at once; the factor of a face is multiplied into an element's values, once, not into the operator. */
#define WIDE VECTORS(I)
#define PART 64
#define TILE_ROWS 8

__kernel void pack(__global float const *restrict L, __global float *restrict packed)
{
  for (int f = 0; f < F; ++f)
    for (int j = 0; j < J; ++j)
      for (int v = 0; v < WIDE; ++v)
        for (int n = 0; n < LANES; ++n)
          packed[((f * J + j) * WIDE + v) * LANES + n] = L[(f * I + PLACE(v, I) + n) * J + j];
}

__kernel void face_mass(__global float const *restrict packed, __global float const *restrict G, __global float const *restrict U,
                        __global float *restrict D)
{
  __local float scaled[TILE_ROWS * F * J];
  for (int first = get_group_id(0) * PART; first < min((int) (get_group_id(0) + 1) * PART, E); first += TILE_ROWS)
  {
    int e = min(first, E - TILE_ROWS);
    for (int f = 0; f < F; ++f)
      for (int n = 0; n < TILE_ROWS; ++n)
        for (int j = 0; j < J; ++j)
          scaled[n * F * J + f * J + j] = G[f * E + e + n] * U[(f * E + e + n) * J + j];
#define LEFT(r, k) scaled[(row + (r)) * F * J + (k)]
#define RIGHT(k, v) READ(packed + ((k) * WIDE + start + (v)) * LANES)
#define KEEP(r, v) WRITE(D + (e + row + r) * I + PLACE(start + (v), I), sum[r][v]);
    UNROLLED for (int t = 0; t < TILE_ROWS / DOWN(WIDE) * TIMES(WIDE); ++t)
    {
      int row = t / TIMES(WIDE) * DOWN(WIDE), start = START(t % TIMES(WIDE), WIDE);
      TILE(DOWN(WIDE), ACROSS(WIDE), F * J, LEFT, RIGHT, KEEP)
    }
  }
}
