/* A group packs A[d, c, a] for LANES a into [a, d, c], which stays in its cache, by exchanging rows and columns of vectors in registers;
   lanes go along c, the output's last axis, in tiles of 12 b by 2 vectors. With 16 registers 6 b, and an odd number of short vectors begins
   with 3 of them by 4 b. */
#define WIDE (LANES * VECTORS(C))
#define THREE (REGISTERS < 32 && VECTORS(C) % 2 ? 3 : 0)

__kernel void permuted(__global float const *restrict X, __global float const *restrict Y, __global float *restrict P,
                       __global float *restrict Z)
{
  __global float *panel = P + get_group_id(0) * LANES * D * WIDE;
  int first = min((int) get_group_id(0) * LANES, A - LANES);
  for (int d = 0; d < D; ++d)
    for (int v = 0; v < VECTORS(C); ++v)
    {
      many t[LANES];
      UNROLLED for (int n = 0; n < LANES; ++n) t[n] = READ(X + (d * C + PLACE(v, C) + n) * A + first);
      TRANSPOSE(t)
      UNROLLED for (int n = 0; n < LANES; ++n) WRITE(panel + (n * D + d) * WIDE + LANES * v, t[n]);
    }
  for (int a = 0; a < LANES; ++a)
  {
#define TILES(vectors) \
    for (int b = 0; b < B; b += SUMS / vectors) \
    { \
      int row = min(b, B - SUMS / vectors); \
      __global float *z = Z + ((first + a) * B + row) * C; \
      TILE(SUMS / vectors, vectors, D, LEFT, RIGHT, KEEP) \
    }
#define LEFT(r, k) Y[(row + (r)) * D + (k)]
#define RIGHT(k, v) READ(panel + (a * D + (k)) * WIDE + LANES * (start + (v)))
#define KEEP(r, v) WRITE(z + r * C + PLACE(start + v, C), sum[r][v]);
    if (THREE)
    {
      int start = 0;
      TILES(3)
    }
    for (int v0 = THREE; v0 < VECTORS(C); v0 += 2)
    {
      int start = min(v0, VECTORS(C) - 2);
      TILES(2)
    }
  }
}
