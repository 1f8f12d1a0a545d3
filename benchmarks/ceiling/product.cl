/* Panels of 32 columns, the last one filled up with zeros; register tiles of 12 x 32, whose sums stay in 24 registers for all of K. The last
   tile of rows begins early enough to be whole. A and B lie in either order: places are A_M m + A_K k and B_K k + B_N n. */
#define PANELS ((N + 31) / 32)
#define TILE_ROWS 12

__kernel void pack(__global float const *restrict B, __global float *restrict P)
{
  int j = get_group_id(0), columns = min(32, N - 32 * j);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < 32; ++n)
      P[(j * K + k) * 32 + n] = n < columns ? B[k * B_K + (32 * j + n) * B_N] : 0.0f;
}

__kernel void product(__global float const *restrict A, __global float const *restrict P, __global float *restrict Z)
{
  int first = get_group_id(0) * BLOCK;
  for (int j = 0; j < PANELS; ++j)
    for (int m = first; m < min(first + BLOCK, M); m += TILE_ROWS)
    {
      int row = min(m, M - TILE_ROWS), columns = min(32, N - 32 * j);
      __global float const *b = P + j * K * 32, *a = A + row * A_M;
      __global float *z = Z + row * N + 32 * j;
#define LEFT(r, k) a[(r) * A_M + (k) * A_K]
#define RIGHT(k, v) LOAD16(b + (k) * 32 + 16 * (v))
#define KEEP(r, v) \
      if (columns == 32) STORE16(z + r * N + 16 * v, sum[r][v]); \
      else { float one[16]; *(any16 *)one = sum[r][v]; for (int n = 0; n < min(16, columns - 16 * v); ++n) z[r * N + 16 * v + n] = one[n]; }
      TILE(TILE_ROWS, 2, K, LEFT, RIGHT, KEEP)
    }
}
