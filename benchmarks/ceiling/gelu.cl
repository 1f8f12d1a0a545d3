/* Both axes as one, so that all vectors are whole but the last, which overlaps the one before it. */
#define ALL (M * K)
#define PART (1 << 15)

__kernel void gelu(__global float const *restrict X, __global float const *restrict R, __global float *restrict Y)
{
  int first = get_group_id(0) * PART, last = min(first + PART, ALL / LANES * LANES);
  for (int k = first; k < last; k += LANES) WRITE(Y + k, gelu_of(READ(X + k)) + READ(R + k));
  if (last == (ALL / LANES * LANES)) WRITE(Y + ALL - LANES, gelu_of(READ(X + ALL - LANES)) + READ(R + ALL - LANES));
}
