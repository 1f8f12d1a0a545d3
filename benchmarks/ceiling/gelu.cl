/* Both axes as one, so that all vectors are whole but the last, which overlaps the one before it. */
#define ALL (M * K)
#define PART (1 << 15)

__kernel void gelu(__global float const *restrict X, __global float const *restrict R, __global float *restrict Y)
{
  int first = get_group_id(0) * PART, last = min(first + PART, ALL & ~15);
  for (int k = first; k < last; k += 16) STORE16(Y + k, gelu_of(LOAD16(X + k)) + LOAD16(R + k));
  if (last == (ALL & ~15)) STORE16(Y + ALL - 16, gelu_of(LOAD16(X + ALL - 16)) + LOAD16(R + ALL - 16));
}
