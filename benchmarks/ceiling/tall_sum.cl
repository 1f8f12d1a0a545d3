/* Groups take parts of the rows; four vectors hold a row. */
#define N 64
#define M (1 << 18)
#define PARTS 64

__kernel void parts(__global float const *restrict A, __global float *restrict P)
{
  int g = get_group_id(0);
  __global float const *a = A + g * (M / PARTS) * N;
  float16 c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  for (int m = 0; m < M / PARTS; ++m, a += N)
  {
    c0 += LOAD16(a);
    c1 += LOAD16(a + 16);
    c2 += LOAD16(a + 32);
    c3 += LOAD16(a + 48);
  }
  STORE16(P + g * N, c0);
  STORE16(P + g * N + 16, c1);
  STORE16(P + g * N + 32, c2);
  STORE16(P + g * N + 48, c3);
}

__kernel void merge(__global float const *restrict P, __global float *restrict Z)
{
  for (int n = 0; n < N; ++n)
  {
    float sum = 0;
    for (int g = 0; g < PARTS; ++g)
      sum += P[g * N + n];
    Z[n] = sum;
  }
}
