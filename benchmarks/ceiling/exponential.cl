/* Vectors of 32 bytes: PoCL's code for AVX2 ends with a segmentation fault where functions take vectors of 64. */
typedef float8 eight __attribute__((aligned(4), may_alias));

/* Cody and Waite's reduction, a polynomial of degree 6, and the power of two put together from bits. */
static inline float8 exponential_of(float8 x)
{
  float8 y = min(max(x, (float8)(-87.0f)), (float8)(88.0f));
  float8 n = y * 1.44269504f + 12582912.0f;
  int8 e = as_int8(n) << 23;
  n = n - 12582912.0f;
  float8 r = y - n * 0.693145752f - n * 1.42860677e-6f;
  float8 p = 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return as_float8(as_int8(p) + e);
}

__kernel void exponential(__global float const *restrict A, __global float *restrict Z)
{
  int first = get_group_id(0) * (1 << 15);
  for (int k = first; k < first + (1 << 15); k += 8)
    *(__global eight *)(Z + k) = exponential_of(*(__global eight const *)(A + k));
}
