/* Lanes along the sum: a vector of a row of A meets all columns of B, or half of them if registers are 16, which are packed to lie together and pass in blocks of the nearest
   cache. Sums of a block of rows wait there as vectors; their lanes are added up at the end. */
#define DEEP 256
#define BLOCK 16
#define AT_ONCE (REGISTERS >= 32 ? N : (N + 1) / 2)

__kernel void pack(__global float const *restrict B, __global float *restrict P)
{
  for (int n = 0; n < N; ++n)
    for (int k = 0; k < K; ++k)
      P[n * K + k] = B[k * N + n];
}

__kernel void skinny(__global float const *restrict A, __global float const *restrict P, __global float *restrict Z)
{
  __local many waiting[BLOCK][N];
  int first = min((int) get_group_id(0) * BLOCK, M - BLOCK);
  for (int k0 = 0; k0 < K; k0 += DEEP)
    for (int t = 0; t < BLOCK / ROWS * ((N + AT_ONCE - 1) / AT_ONCE); ++t)
    {
      int m = t % (BLOCK / ROWS) * ROWS, n0 = t / (BLOCK / ROWS) * AT_ONCE, start = min(n0, N - AT_ONCE);
      __global float const *a = A + (first + m) * K;
      many sum[ROWS][AT_ONCE];
      UNROLLED for (int r = 0; r < ROWS; ++r)
        UNROLLED for (int n = 0; n < AT_ONCE; ++n) sum[r][n] = whole(0);
      for (int k = k0; k < min(k0 + DEEP, K); k += LANES)
      {
        many left[ROWS];
        UNROLLED for (int r = 0; r < ROWS; ++r) left[r] = READ(a + r * K + k);
        UNROLLED for (int n = 0; n < AT_ONCE; ++n)
        {
          many b = READ(P + (start + n) * K + k);
          UNROLLED for (int r = 0; r < ROWS; ++r) sum[r][n] += left[r] * b;
        }
      }
      UNROLLED for (int r = 0; r < ROWS; ++r)
        UNROLLED for (int n = 0; n < AT_ONCE; ++n)
          if (start + n >= n0) waiting[m + r][start + n] = k0 ? waiting[m + r][start + n] + sum[r][n] : sum[r][n];
    }
  for (int m = 0; m < BLOCK; ++m)
    for (int n = 0; n < N; ++n)
      Z[(first + m) * N + n] = sum_of(waiting[m][n]);
}
