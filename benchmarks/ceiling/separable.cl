/* A group takes two rows of the image: the 3x3 part goes to a panel in the nearest caches, channels apart, and the 1x1 part runs over it in
   tiles of 6 channels x 16 points. Both rows lie together in the output, so that only the last tile overlaps the one before it. */
typedef float8 eight __attribute__((aligned(4), may_alias));

#define POINTS (2 * Q)
#define LAST (POINTS - 16)
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)

__kernel void separable(__global float const *restrict X, __global float const *restrict D, __global float const *restrict F,
                        __global float *restrict Y)
{
  __local float panel[C * POINTS];
  int p = min(2 * (int) get_group_id(0), P - 2);
  for (int c = 0; c < C; ++c)
  {
    __global float const *x = X + (c * H + p) * W, *d = D + 9 * c;
    for (int v = 0; v < (Q + 7) / 8; ++v)
    {
      int q = min(8 * v, Q - 8);
      float8 a = 0, b = 0;
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int s = 0; s < 3; ++s)
        {
          float8 y = *(__global eight const *)(x + r * W + q + s);
          if (r < 3) a += y * d[3 * r + s];
          if (r > 0) b += y * d[3 * r - 3 + s];
        }
      *(__local eight *)(panel + c * POINTS + q) = a;
      *(__local eight *)(panel + c * POINTS + Q + q) = b;
    }
  }
  for (int v = 0; v < (POINTS + 15) / 16; ++v)
  {
    int q = min(16 * v, LAST);
    for (int o = 0; o < O; o += 6)
    {
#define START(r) float8 c##r = 0, d##r = 0;
      ROWS(START)
      for (int c = 0; c < C; ++c)
      {
        __local float const *t = panel + c * POINTS + q;
        float8 x = *(__local eight const *)t, y = *(__local eight const *)(t + 8);
#define STEP(r) { float f = F[(o + r) * C + c]; c##r += f * x; d##r += f * y; }
        ROWS(STEP)
      }
      __global float *y = Y + o * P * Q + p * Q + q;
#define STORE(r) *(__global eight *)(y + r * P * Q) = c##r; *(__global eight *)(y + r * P * Q + 8) = d##r;
      ROWS(STORE)
    }
  }
}
