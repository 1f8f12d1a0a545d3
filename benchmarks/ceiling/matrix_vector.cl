/* Lanes along the reduction, four rows at once: each vector of B serves four rows, and four streams keep the memory busy. */
#define K 4096

__kernel void matrix_vector(__global float const *restrict A, __global float const *restrict B, __global float *restrict Z)
{
  for (int i = get_group_id(0) * 32; i < get_group_id(0) * 32 + 32; i += 4)
  {
    __global float const *a = A + i * K;
    float16 c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    for (int k = 0; k < K; k += 16)
    {
      float16 b = LOAD16(B + k);
      c0 += LOAD16(a + k) * b;
      c1 += LOAD16(a + K + k) * b;
      c2 += LOAD16(a + 2 * K + k) * b;
      c3 += LOAD16(a + 3 * K + k) * b;
    }
    Z[i] = sum16(c0);
    Z[i + 1] = sum16(c1);
    Z[i + 2] = sum16(c2);
    Z[i + 3] = sum16(c3);
  }
}
