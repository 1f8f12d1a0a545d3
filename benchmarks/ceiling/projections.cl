/* The three right sides are packed side by side into panels of three vectors; each block of rows then meets all panels while it is in the second
   cache. Each vector belongs to one of them. */
#define PANELS (3 * N / PANEL)
#define TILE_ROWS DOWN(3)

__kernel void pack(__global float const *restrict A, __global float const *restrict B, __global float const *restrict C,
                   __global float *restrict packed)
{
  int j = get_group_id(0);
  for (int v = 0; v < 3; ++v)
  {
    int column = PANEL * j + LANES * v;
    __global float const *from = column < N ? A : column < 2 * N ? B : C;
    for (int k = 0; k < K; ++k) WRITE(packed + (j * K + k) * PANEL + LANES * v, READ(from + k * N + column % N));
  }
}

__kernel void projections(__global float const *restrict X, __global float const *restrict packed, __global float *restrict Q,
                          __global float *restrict R, __global float *restrict S)
{
  int first = get_group_id(0) * BLOCK;
  for (int j = 0; j < PANELS; ++j)
    for (int m = first; m < min(first + BLOCK, M); m += TILE_ROWS)
    {
      int row = min(m, M - TILE_ROWS);
      __global float *to[3];
      UNROLLED for (int v = 0; v < 3; ++v)
      {
        int column = PANEL * j + LANES * v;
        to[v] = (column < N ? Q : column < 2 * N ? R : S) + row * N + column % N;
      }
#define LEFT(r, k) X[(row + (r)) * K + (k)]
#define RIGHT(k, v) READ(packed + (j * K + (k)) * PANEL + LANES * (v))
#define KEEP(r, v) WRITE(to[v] + r * N, sum[r][v]);
      TILE(TILE_ROWS, 3, K, LEFT, RIGHT, KEEP)
    }
}
