/* B stays in the nearest cache as it is; tiles of rows by all columns, the last vector overlapping the one before it. */
#define WIDE VECTORS(N)
#define TILE_ROWS DOWN(WIDE)
#define BLOCK 1024

__kernel void tall(__global float const *restrict A, __global float const *restrict B, __global float *restrict Z)
{
  int first = get_group_id(0) * BLOCK;
  for (int m = first; m < min(first + BLOCK, M); m += TILE_ROWS)
  {
    int row = min(m, M - TILE_ROWS);
    UNROLLED for (int t = 0; t < TIMES(WIDE); ++t)
    {
      int start = START(t, WIDE);
#define LEFT(r, k) A[(row + (r)) * K + (k)]
#define RIGHT(k, v) READ(B + (k) * N + PLACE(start + (v), N))
#define KEEP(r, v) WRITE(Z + (row + r) * N + PLACE(start + (v), N), sum[r][v]);
      TILE(TILE_ROWS, ACROSS(WIDE), K, LEFT, RIGHT, KEEP)
    }
  }
}
