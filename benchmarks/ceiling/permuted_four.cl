/* One product of [a b, e f] and [e f, c d]: the second operand is packed into panels of 32 columns, the first is read as it lies, whose rows b
   are F apart for each e. */
#define COLUMNS (C * D)
#define PANELS ((COLUMNS + 31) / 32)
#define TILES ((B + 12) / 13)
#define TILE_ROWS ((B + TILES - 1) / TILES)

__kernel void pack(__global float const *restrict Y, __global float *restrict P)
{
  int j = get_group_id(0);
  for (int n = 0; n < 32; ++n)
  {
    int column = 32 * j + n, c = column / D, d = column % D;
    for (int e = 0; e < E; ++e)
      for (int f = 0; f < F; ++f)
        P[((j * E + e) * F + f) * 32 + n] = column < COLUMNS ? Y[((d * F + f) * C + c) * E + e] : 0.0f;
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
      int row = min(t * TILE_ROWS, B - TILE_ROWS), columns = min(32, COLUMNS - 32 * j);
      __global float *z = Z + (a * B + row) * COLUMNS + 32 * j;
#define LEFT(r, k) rows[(row + (r)) * (E * F) + (k)]
#define RIGHT(k, v) LOAD16(P + (j * (E * F) + (k)) * 32 + 16 * (v))
#define KEEP(r, v) \
      if (columns == 32) STORE16(z + r * COLUMNS + 16 * v, sum[r][v]); \
      else { float one[16]; *(any16 *)one = sum[r][v]; for (int n = 0; n < min(16, columns - 16 * v); ++n) z[r * COLUMNS + 16 * v + n] = one[n]; }
      TILE(TILE_ROWS, 2, E * F, LEFT, RIGHT, KEEP)
    }
}
