/* Nodes in lanes, eight elements at once; the factor of a face is multiplied into an element's values, once, not into the operator. */
#define WIDE VECTORS(I)
#define PART 64
#define TILE_ROWS 8

__kernel void pack(__global float const *restrict L, __global float *restrict packed)
{
  for (int f = 0; f < F; ++f)
    for (int j = 0; j < J; ++j)
      for (int v = 0; v < WIDE; ++v)
        for (int n = 0; n < 16; ++n)
          packed[((f * J + j) * WIDE + v) * 16 + n] = L[(f * I + PLACE(v, I) + n) * J + j];
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
#define LEFT(r, k) scaled[(r) * F * J + (k)]
#define RIGHT(k, v) LOAD16(packed + ((k) * WIDE + (v)) * 16)
#define KEEP(r, v) STORE16(D + (e + r) * I + PLACE(v, I), sum[r][v]);
    TILE(TILE_ROWS, WIDE, F * J, LEFT, RIGHT, KEEP)
  }
}
