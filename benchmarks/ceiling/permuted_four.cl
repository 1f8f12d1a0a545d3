/* One product of [a b, e f] and [e f, c d]: the second operand is packed into panels of columns, the first is read as it lies, whose rows b
   are F apart for each e. */
#define COLUMNS (C * D)
#define PANELS ((COLUMNS + PANEL - 1) / PANEL)
#define TILE_ROWS EVENLY(B, REGISTERS >= 32 ? 13 : DOWN(PANEL / LANES))
#define TILES ((B + TILE_ROWS - 1) / TILE_ROWS)

__kernel void pack(__global float const *restrict Y, __global float *restrict P)
{
  int j = get_group_id(0);
  for (int n = 0; n < PANEL; ++n)
  {
    int column = PANEL * j + n, c = column / D, d = column % D;
    for (int e = 0; e < E; ++e)
      for (int f = 0; f < F; ++f)
        P[((j * E + e) * F + f) * PANEL + n] = column < COLUMNS ? Y[((d * F + f) * C + c) * E + e] : 0.0f;
  }
}

__kernel void permuted_four(__global float const *restrict X, __global float const *restrict P, __global float *restrict Z)
{
  __local float rows[B * E * F];
  int a = get_group_id(0);
  for (int e = 0; e < E; ++e)
    for (int b = 0; b < B; ++b)
      for (int f = 0; f < F; ++f)
        rows[(b * E + e) * F + f] = X[((a * E + e) * B + b) * F + f];
  for (int j = 0; j < PANELS; ++j)
    for (int t = 0; t < TILES; ++t)
    {
      int row = min(t * TILE_ROWS, B - TILE_ROWS), columns = min(PANEL, COLUMNS - PANEL * j);
      __global float *z = Z + (a * B + row) * COLUMNS + PANEL * j;
#define LEFT(r, k) rows[(row + (r)) * (E * F) + (k)]
#define RIGHT(k, v) READ(P + (j * (E * F) + (k)) * PANEL + LANES * (v))
#define KEEP(r, v) \
      if (columns == PANEL) WRITE(z + r * COLUMNS + LANES * v, sum[r][v]); \
      else { float one[LANES]; *(loose *)one = sum[r][v]; for (int n = 0; n < min(LANES, columns - LANES * v); ++n) z[r * COLUMNS + LANES * v + n] = one[n]; }
      TILE(TILE_ROWS, PANEL / LANES, E * F, LEFT, RIGHT, KEEP)
    }
}
