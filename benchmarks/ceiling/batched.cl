/* A problem after the other, each in tiles of up to 12 rows by all columns. */
#define WIDE VECTORS(N)
#define TILES ((M + 11) / 12)
#define TILE_ROWS ((M + TILES - 1) / TILES)
#define BLOCK 64

__kernel void batched(__global float const *restrict X, __global float const *restrict Y, __global float *restrict Z)
{
  for (int n = get_group_id(0) * BLOCK; n < min((int) (get_group_id(0) + 1) * BLOCK, B); ++n)
    UNROLLED for (int t = 0; t < TILES; ++t)
    {
      int row = min(t * TILE_ROWS, M - TILE_ROWS);
      __global float const *a = X + (n * M + row) * K, *b = Y + n * K * N;
      __global float *z = Z + (n * M + row) * N;
#define LEFT(r, k) a[(r) * K + (k)]
#define RIGHT(k, v) LOAD16(b + (k) * N + PLACE(v, N))
#define KEEP(r, v) STORE16(z + r * N + PLACE(v, N), sum[r][v]);
      TILE(TILE_ROWS, WIDE, K, LEFT, RIGHT, KEEP)
    }
}
