/* Lanes along the reduction, four rows at once: each vector of x serves four rows, and four streams keep the memory busy. What is no whole
   vector at the end of a row is added a number at a time; the last rows begin early enough to be four. */
#define BLOCK 32
#define WHOLE (K / LANES * LANES)

__kernel void matrix_vector(__global float const *restrict A, __global float const *restrict x, __global float *restrict y)
{
  for (int m = get_group_id(0) * BLOCK; m < min((int) (get_group_id(0) + 1) * BLOCK, M); m += 4)
  {
    int row = min(m, M - 4);
    __global float const *a = A + row * K;
    many c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    for (int k = 0; k < WHOLE; k += LANES)
    {
      many b = READ(x + k);
      c0 += READ(a + k) * b;
      c1 += READ(a + K + k) * b;
      c2 += READ(a + 2 * K + k) * b;
      c3 += READ(a + 3 * K + k) * b;
    }
    float4 sum = (float4)(sum_of(c0), sum_of(c1), sum_of(c2), sum_of(c3));
    for (int k = WHOLE; k < K; ++k)
      sum += x[k] * (float4)(a[k], a[K + k], a[2 * K + k], a[3 * K + k]);
    y[row] = sum.x;
    y[row + 1] = sum.y;
    y[row + 2] = sum.z;
    y[row + 3] = sum.w;
  }
}
