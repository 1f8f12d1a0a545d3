/* Groups take parts of the long sum, each the tiles on and below the diagonal; the merge mirrors them. */
#define M 256
#define K 16384
#define PARTS 16
#define BLOCK 128
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

__kernel void parts(__global float const *restrict A, __global float *restrict P)
{
  int g = get_group_id(0);
  for (int k0 = g * (K / PARTS); k0 < (g + 1) * (K / PARTS); k0 += BLOCK)
    for (int j = 0; j < M; j += 32)
      for (int i = j; i < M; i += 8)
      {
#define START(r) float16 c##r = 0, d##r = 0;
        ROWS(START)
        for (int k = k0; k < k0 + BLOCK; ++k)
        {
          __global float const *a = A + k * M;
          float16 x = LOAD16(a + j), y = LOAD16(a + j + 16);
#define STEP(r) { float s = a[i + r]; c##r += s * x; d##r += s * y; }
          ROWS(STEP)
        }
        __global float *z = P + g * M * M + i * M + j;
#define STORE(r) \
        if (k0 > g * (K / PARTS)) { c##r += LOAD16(z + r * M); d##r += LOAD16(z + r * M + 16); } \
        STORE16(z + r * M, c##r); STORE16(z + r * M + 16, d##r);
        ROWS(STORE)
      }
}

__kernel void merge(__global float const *restrict P, __global float *restrict Z)
{
  int i = get_group_id(0);
  for (int j = 0; j < M; ++j)
  {
    float sum = 0;
    int low = j <= i ? i * M + j : j * M + i;
    for (int g = 0; g < PARTS; ++g)
      sum += P[g * M * M + low];
    Z[i * M + j] = sum;
  }
}
