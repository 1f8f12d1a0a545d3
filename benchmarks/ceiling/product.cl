/* Panels of two vectors, the last one filled up with zeros; register tiles of 12 rows, whose sums stay in 24 registers for all of K. With 16
   registers 6 rows, and panels pass in strips of DEEP rows, which stay in the nearest cache while a group's rows meet them. The last tile of
   rows begins early enough to be whole, and keeps what is new. A and B lie in either order: places are A_M m + A_K k and B_K k + B_N n. */
#define PANELS ((N + PANEL - 1) / PANEL)
#define TILE_ROWS DOWN(2)

__kernel void pack(__global float const *restrict B, __global float *restrict P)
{
  int j = get_group_id(0), columns = min(PANEL, N - PANEL * j);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < PANEL; ++n)
      P[(j * K + k) * PANEL + n] = n < columns ? B[k * B_K + (PANEL * j + n) * B_N] : 0.0f;
}

static inline void keep(__global float *z, many sum, int columns, int more)
{
  if (columns >= LANES) WRITE(z, more ? READ(z) + sum : sum);
  else
  {
    float one[LANES];
    *(loose *)one = sum;
    for (int n = 0; n < columns; ++n) z[n] = more ? z[n] + one[n] : one[n];
  }
}

__kernel void product(__global float const *restrict A, __global float const *restrict P, __global float *restrict Z)
{
  int first = get_group_id(0) * BLOCK;
  for (int k0 = 0; k0 < K; k0 += DEEP)
    for (int j = 0; j < PANELS; ++j)
      for (int m = first; m < min(first + BLOCK, M); m += TILE_ROWS)
      {
        int row = min(m, M - TILE_ROWS), columns = min(PANEL, N - PANEL * j), deep = min(DEEP, K - k0);
        __global float const *b = P + (j * K + k0) * PANEL, *a = A + row * A_M + k0 * A_K;
        __global float *z = Z + row * N + PANEL * j;
#define LEFT(r, k) a[(r) * A_M + (k) * A_K]
#define RIGHT(k, v) READ(b + (k) * PANEL + LANES * (v))
#define KEEP(r, v) if (row + r >= m) keep(z + r * N + LANES * v, sum[r][v], columns - LANES * v, k0);
        TILE(TILE_ROWS, 2, deep, LEFT, RIGHT, KEEP)
      }
}
