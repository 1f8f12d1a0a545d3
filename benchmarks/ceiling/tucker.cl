/* For each i the sum over k, whose result stays near, then the one over j; lanes along s. */
#define WIDE VECTORS(S)
#define PADDED (LANES * WIDE)
#define TILE_ROWS(rows) EVENLY(rows, REGISTERS >= 32 ? 26 / WIDE : DOWN(WIDE))
#define TILES(rows) (((rows) + TILE_ROWS(rows) - 1) / TILE_ROWS(rows))

__kernel void tucker(__global float const *restrict X, __global float const *restrict A, __global float const *restrict B,
                     __global float *restrict Z)
{
  __local float near[J * PADDED];
  int i = get_group_id(0);
  for (int t = 0; t < TILES(J) * TIMES(WIDE); ++t)
  {
    int row = min(t / TIMES(WIDE) * TILE_ROWS(J), J - TILE_ROWS(J)), start = START(t % TIMES(WIDE), WIDE);
    __global float const *x = X + (i * J + row) * K;
#define LEFT(r, k) x[(r) * K + (k)]
#define RIGHT(k, v) READ(B + (k) * S + PLACE(start + (v), S))
#define KEEP(r, v) HERE(near + (row + r) * PADDED + LANES * (start + v)) = sum[r][v];
    TILE(TILE_ROWS(J), ACROSS(WIDE), K, LEFT, RIGHT, KEEP)
#undef LEFT
#undef RIGHT
#undef KEEP
  }
  for (int t = 0; t < TILES(R) * TIMES(WIDE); ++t)
  {
    int row = min(t / TIMES(WIDE) * TILE_ROWS(R), R - TILE_ROWS(R)), start = START(t % TIMES(WIDE), WIDE);
#define LEFT(r, k) A[(k) * R + row + (r)]
#define RIGHT(k, v) HERE(near + (k) * PADDED + LANES * (start + (v)))
#define KEEP(r, v) WRITE(Z + (i * R + row + r) * S + PLACE(start + (v), S), sum[r][v]);
    TILE(TILE_ROWS(R), ACROSS(WIDE), J, LEFT, RIGHT, KEEP)
  }
}
