/* Panels of 32 columns, the last one filled up with zeros; register tiles of 12 x 32, whose sums stay in 24 registers for all of K. The last
   tile of rows begins early enough to be whole. */
#define PANELS ((N + 31) / 32)
#define BLOCK 48
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__kernel void pack(__global float const *restrict B, __global float *restrict P)
{
  int j = get_group_id(0), columns = min(32, N - 32 * j);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < 32; ++n)
      P[(j * K + k) * 32 + n] = n < columns ? B[k * N + 32 * j + n] : 0.0f;
}

__kernel void odd(__global float const *restrict A, __global float const *restrict P, __global float *restrict Z)
{
  int first = get_group_id(0) * BLOCK;
  for (int j = 0; j < PANELS; ++j)
    for (int m = first; m < min(first + BLOCK, M); m += 12)
    {
      int row = min(m, M - 12);
      __global float const *b = P + j * K * 32, *a = A + row * K;
#define START(r) float16 c##r = 0, d##r = 0;
      ROWS(START)
      for (int k = 0; k < K; ++k, b += 32)
      {
        float16 x = LOAD16(b), y = LOAD16(b + 16);
#define STEP(r) { float s = a[r * K + k]; c##r += s * x; d##r += s * y; }
        ROWS(STEP)
      }
      __global float *z = Z + row * N + 32 * j;
      if (32 * j + 32 <= N)
      {
#define STORE(r) STORE16(z + r * N, c##r); STORE16(z + r * N + 16, d##r);
        ROWS(STORE)
      }
      else
      {
        float sums[12][32];
#define SPILL(r) *(any16 *)sums[r] = c##r; *(any16 *)(sums[r] + 16) = d##r;
        ROWS(SPILL)
        for (int r = 0; r < 12; ++r)
          for (int n = 0; n < N - 32 * j; ++n)
            z[r * N + n] = sums[r][n];
      }
    }
}
