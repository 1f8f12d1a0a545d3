/* A group packs A[d, c, a] for 16 a into [a, d, c], which stays in its cache, by exchanging rows and columns of 16 vectors in registers; lanes go along c, the output's
   last axis, in tiles of 12 b. */
#define WIDE (16 * VECTORS(C))
#define TILE_ROWS 12

__kernel void permuted(__global float const *restrict X, __global float const *restrict Y, __global float *restrict P,
                       __global float *restrict Z)
{
  __global float *panel = P + get_group_id(0) * 16 * D * WIDE;
  int first = min((int) get_group_id(0) * 16, A - 16);
  for (int d = 0; d < D; ++d)
    for (int v = 0; v < VECTORS(C); ++v)
    {
      float16 t[16];
      UNROLLED for (int n = 0; n < 16; ++n) t[n] = LOAD16(X + (d * C + PLACE(v, C) + n) * A + first);
      TRANSPOSE(t)
      UNROLLED for (int n = 0; n < 16; ++n) STORE16(panel + (n * D + d) * WIDE + 16 * v, t[n]);
    }
  for (int a = 0; a < 16; ++a)
    for (int v0 = 0; v0 < VECTORS(C); v0 += 2)
      for (int b = 0; b < B; b += TILE_ROWS)
      {
        int row = min(b, B - TILE_ROWS), start = min(v0, VECTORS(C) - 2);
        __global float *z = Z + ((first + a) * B + row) * C;
#define LEFT(r, k) Y[(row + (r)) * D + (k)]
#define RIGHT(k, v) LOAD16(panel + (a * D + (k)) * WIDE + 16 * (start + (v)))
#define KEEP(r, v) STORE16(z + r * C + PLACE(start + v, C), sum[r][v]);
        TILE(TILE_ROWS, 2, D, LEFT, RIGHT, KEEP)
      }
}
