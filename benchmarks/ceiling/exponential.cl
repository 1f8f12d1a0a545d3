/* Rows in vectors, the last of which overlaps the one before it. */
#define BLOCK 16

__kernel void exponential(__global float const *restrict A, __global float const *restrict B, __global float *restrict Y)
{
  for (int m = get_group_id(0) * BLOCK; m < min((int) (get_group_id(0) + 1) * BLOCK, M); ++m)
  {
    __global float const *a = A + m * K;
    __global float *y = Y + m * K;
    for (int k = 0; k < K / 16 * 16; k += 16)
      STORE16(y + k, exponential_of(min(LOAD16(a + k) + LOAD16(B + k), (float16)(88.0f))));
    if (K % 16) STORE16(y + K - 16, exponential_of(min(LOAD16(a + K - 16) + LOAD16(B + K - 16), (float16)(88.0f))));
  }
}
