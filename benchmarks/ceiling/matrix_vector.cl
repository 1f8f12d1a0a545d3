/* Lanes along the reduction, four rows at once: each vector of x serves four rows, and four streams keep the memory busy. What is no whole
   vector at the end of a row is added a number at a time; the last rows begin early enough to be four. */
#define BLOCK 32
#define WHOLE (K / 16 * 16)

__kernel void matrix_vector(__global float const *restrict A, __global float const *restrict x, __global float *restrict y)
{
  for (int m = get_group_id(0) * BLOCK; m < min((int) (get_group_id(0) + 1) * BLOCK, M); m += 4)
  {
    int row = min(m, M - 4);
    __global float const *a = A + row * K;
    float16 c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    for (int k = 0; k < WHOLE; k += 16)
    {
      float16 b = LOAD16(x + k);
      c0 += LOAD16(a + k) * b;
      c1 += LOAD16(a + K + k) * b;
      c2 += LOAD16(a + 2 * K + k) * b;
      c3 += LOAD16(a + 3 * K + k) * b;
    }
    float4 sum = (float4)(sum16(c0), sum16(c1), sum16(c2), sum16(c3));
    for (int k = WHOLE; k < K; ++k)
      sum += x[k] * (float4)(a[k], a[K + k], a[2 * K + k], a[3 * K + k]);
    y[row] = sum.x;
    y[row + 1] = sum.y;
    y[row + 2] = sum.z;
    y[row + 3] = sum.w;
  }
}
