/* Rows in vectors, the last of which overlaps the one before it. */
#define BLOCK 16

__kernel void exponential(__global float const *restrict A, __global float const *restrict B, __global float *restrict Y)
{
  for (int m = get_group_id(0) * BLOCK; m < min((int) (get_group_id(0) + 1) * BLOCK, M); ++m)
  {
    __global float const *a = A + m * K;
    __global float *y = Y + m * K;
    for (int k = 0; k < K / LANES * LANES; k += LANES)
      WRITE(y + k, exponential_of(min(READ(a + k) + READ(B + k), (many)(88.0f))));
    if (K % LANES) WRITE(y + K - LANES, exponential_of(min(READ(a + K - LANES) + READ(B + K - LANES), (many)(88.0f))));
  }
}
