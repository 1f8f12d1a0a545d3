/* For each i the sum over k, whose result stays near, then the one over j; lanes along s. */
#define WIDE VECTORS(S)
#define PADDED (16 * WIDE)
#define TILES(rows) (((rows) * WIDE + 25) / 26)
#define TILE_ROWS(rows) (((rows) + TILES(rows) - 1) / TILES(rows))

__kernel void tucker(__global float const *restrict X, __global float const *restrict A, __global float const *restrict B,
                     __global float *restrict Z)
{
  __local float near[J * PADDED];
  int i = get_group_id(0);
  for (int t = 0; t < TILES(J); ++t)
  {
    int row = min(t * TILE_ROWS(J), J - TILE_ROWS(J));
    __global float const *x = X + (i * J + row) * K;
#define LEFT(r, k) x[(r) * K + (k)]
#define RIGHT(k, v) LOAD16(B + (k) * S + PLACE(v, S))
#define KEEP(r, v) NEAR16(near + (row + r) * PADDED + 16 * v) = sum[r][v];
    TILE(TILE_ROWS(J), WIDE, K, LEFT, RIGHT, KEEP)
#undef LEFT
#undef RIGHT
#undef KEEP
  }
  for (int t = 0; t < TILES(R); ++t)
  {
    int row = min(t * TILE_ROWS(R), R - TILE_ROWS(R));
#define LEFT(r, k) A[(k) * R + row + (r)]
#define RIGHT(k, v) NEAR16(near + (k) * PADDED + 16 * (v))
#define KEEP(r, v) STORE16(Z + (i * R + row + r) * S + PLACE(v, S), sum[r][v]);
    TILE(TILE_ROWS(R), WIDE, J, LEFT, RIGHT, KEEP)
  }
}
