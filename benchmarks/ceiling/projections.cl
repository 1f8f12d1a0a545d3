/* The three right sides are packed into panels of 16 columns; each block of rows then meets all panels while it is in the second cache. */
typedef float8 eight __attribute__((aligned(4), may_alias));

#define PANELS (N / 16)
#define BLOCK 96
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)

__kernel void pack(__global float const *restrict A, __global float const *restrict B, __global float const *restrict C,
                   __global float *restrict packed)
{
  int j = get_group_id(0);
  __global float const *from = j < PANELS ? A : j < 2 * PANELS ? B : C;
  for (int k = 0; k < K; ++k)
    for (int v = 0; v < 16; v += 8)
      *(__global eight *)(packed + (j * K + k) * 16 + v) = *(__global eight const *)(from + k * N + j % PANELS * 16 + v);
}

__kernel void projections(__global float const *restrict X, __global float const *restrict packed, __global float *restrict Q,
                          __global float *restrict R, __global float *restrict S)
{
  int first = get_group_id(0) * BLOCK;
  for (int j = 0; j < 3 * PANELS; ++j)
  {
    __global float *to = j < PANELS ? Q : j < 2 * PANELS ? R : S;
    for (int m = first; m < min(first + BLOCK, M); m += 6)
    {
      int row = min(m, M - 6);
      __global float const *a = X + row * K, *b = packed + j * K * 16;
#define START(r) float8 c##r = 0, d##r = 0;
      ROWS(START)
      for (int k = 0; k < K; ++k, b += 16)
      {
        float8 x = *(__global eight const *)b, y = *(__global eight const *)(b + 8);
#define STEP(r) { float s = a[r * K + k]; c##r += s * x; d##r += s * y; }
        ROWS(STEP)
      }
      __global float *z = to + row * N + j % PANELS * 16;
#define STORE(r) *(__global eight *)(z + r * N) = c##r; *(__global eight *)(z + r * N + 8) = d##r;
      ROWS(STORE)
    }
  }
}
