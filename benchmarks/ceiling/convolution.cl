/* Lanes along w, which lies together; the filter is packed so that eight channels of the output lie together. */
#define C 64
#define H 56
#define W 56
#define WIDE (W + 2)
#define COUNT 64
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

__kernel void pack(__global float const *restrict F, __global float *restrict P)
{
  int n = get_group_id(0);
  for (int k = 0; k < C * 9; ++k)
    P[k * COUNT + n] = F[n * C * 9 + k];
}

__kernel void convolution(__global float const *restrict I, __global float const *restrict P, __global float *restrict O)
{
  int h = get_group_id(0);
  for (int w = 0; w < W; w += 28)
    for (int n = 0; n < COUNT; n += 8)
    {
#define START(r) float16 c##r = 0, d##r = 0;
      ROWS(START)
      for (int c = 0; c < C; ++c)
        for (int r = 0; r < 3; ++r)
          for (int s = 0; s < 3; ++s)
          {
            __global float const *i = I + (c * (H + 2) + h + r) * WIDE + w + s, *f = P + ((c * 3 + r) * 3 + s) * COUNT + n;
            float16 x = LOAD16(i), y = LOAD16(i + 12);
#define STEP(q) { float t = f[q]; c##q += t * x; d##q += t * y; }
            ROWS(STEP)
          }
      __global float *o = O + (n * H + h) * W + w;
#define STORE(q) STORE16(o + q * H * W, c##q); STORE16(o + q * H * W + 12, d##q);
      ROWS(STORE)
    }
}
