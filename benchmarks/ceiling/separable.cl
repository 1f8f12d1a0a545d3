/* A group takes two rows of the image: the 3x3 part goes to a panel in the nearest caches, channels apart, and the 1x1 part runs over it in
   tiles of 8 channels, or 4 if registers are 16, by 3 vectors of points. Both rows lie together in the output, so that only the last vector overlaps the one before. */
#define POINTS (2 * Q)
#define AT(v) PLACE(min(v, VECTORS(POINTS) - 1), POINTS)

__kernel void separable(__global float const *restrict X, __global float const *restrict D, __global float const *restrict F,
                        __global float *restrict Y)
{
  __local float panel[C * POINTS];
  int p = min(2 * (int) get_group_id(0), P - 2);
  for (int c = 0; c < C; ++c)
  {
    __global float const *x = X + (c * H + p) * W, *d = D + 9 * c;
    UNROLLED for (int v = 0; v < VECTORS(Q); ++v)
    {
      many a = whole(0), b = whole(0);
      UNROLLED for (int r = 0; r < 4; ++r)
        UNROLLED for (int s = 0; s < 3; ++s)
        {
          many y = READ(x + r * W + PLACE(v, Q) + s);
          if (r < 3) a += y * d[3 * r + s];
          if (r > 0) b += y * d[3 * r - 3 + s];
        }
      HERE(panel + c * POINTS + PLACE(v, Q)) = a;
      HERE(panel + c * POINTS + Q + PLACE(v, Q)) = b;
    }
  }
  for (int v0 = 0; v0 < VECTORS(POINTS); v0 += 3)
    for (int o = 0; o < O; o += DOWN(3))
    {
      int place0 = AT(v0), place1 = AT(v0 + 1), place2 = AT(v0 + 2);
#define PLACE_OF(v) (v == 0 ? place0 : v == 1 ? place1 : place2)
#define LEFT(r, k) F[(o + (r)) * C + (k)]
#define RIGHT(k, v) HERE(panel + (k) * POINTS + PLACE_OF(v))
#define KEEP(r, v) WRITE(Y + ((o + r) * P + p) * Q + PLACE_OF(v), sum[r][v]);
      TILE(DOWN(3), 3, C, LEFT, RIGHT, KEEP)
    }
}
