/* A problem after the other, each in tiles of up to 12 rows by all columns, or what 16 registers hold. */
#define WIDE VECTORS(N)
#define TILE_ROWS EVENLY(M, REGISTERS >= 32 ? 12 : DOWN(WIDE))
#define TILES ((M + TILE_ROWS - 1) / TILE_ROWS)
#define BLOCK 64

__kernel void batched(__global float const *restrict X, __global float const *restrict Y, __global float *restrict Z)
{
  for (int n = get_group_id(0) * BLOCK; n < min((int) (get_group_id(0) + 1) * BLOCK, B); ++n)
    UNROLLED for (int t = 0; t < TILES * TIMES(WIDE); ++t)
    {
      int row = min(t / TIMES(WIDE) * TILE_ROWS, M - TILE_ROWS), start = START(t % TIMES(WIDE), WIDE);
      __global float const *a = X + (n * M + row) * K, *b = Y + n * K * N;
      __global float *z = Z + (n * M + row) * N;
#define LEFT(r, k) a[(r) * K + (k)]
#define RIGHT(k, v) READ(b + (k) * N + PLACE(start + (v), N))
#define KEEP(r, v) WRITE(z + r * N + PLACE(start + (v), N), sum[r][v]);
      TILE(TILE_ROWS, ACROSS(WIDE), K, LEFT, RIGHT, KEEP)
    }
}
