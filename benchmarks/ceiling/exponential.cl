/* Cody and Waite's reduction, a polynomial of degree 6, and the power of two put together from bits. */
static inline float16 exponential_of(float16 x)
{
  float16 y = min(max(x, (float16)(-87.0f)), (float16)(88.0f));
  float16 n = y * 1.44269504f + 12582912.0f;
  int16 e = as_int16(n) << 23;
  n = n - 12582912.0f;
  float16 r = y - n * 0.693145752f - n * 1.42860677e-6f;
  float16 p = 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return as_float16(as_int16(p) + e);
}

__kernel void exponential(__global float const *restrict A, __global float *restrict Z)
{
  int first = get_group_id(0) * (1 << 15);
  for (int k = first; k < first + (1 << 15); k += 16)
    STORE16(Z + k, exponential_of(LOAD16(A + k)));
}
