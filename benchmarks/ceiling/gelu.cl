/* Both axes as one, so that all vectors are whole. erf is a polynomial below 1, and 1 less the eighth power of one above. */
typedef float8 eight __attribute__((aligned(4), may_alias));

#define ALL (M * K)
#define PART (1 << 15)

static inline float8 phi(float8 x)
{
  float8 y = x * 0.70710677f, size = as_float8(as_int8(y) & 0x7fffffff), z = y * y;
  float8 far = size > 4.0f ? (float8)(4.0f) : size;
  float8 root = 1.498488418e-4f;
  root = root * far - 2.469727071e-3f;
  root = root * far + 1.292584930e-2f;
  root = root * far - 1.137353666e-2f;
  root = root * far - 6.142636389e-2f;
  root = root * far - 1.450605839e-1f;
  root = root * far + 1.000834703f;
  root = root * root;
  root = root * root;
  float8 large = 1.0f - root * root;
  float8 p = -5.631664535e-4f;
  p = p * z + 4.917618819e-3f;
  p = p * z - 2.671138011e-2f;
  p = p * z + 1.128018349e-1f;
  p = p * z - 3.761232793e-1f;
  p = p * z + 1.283791214e-1f;
  return 0.5f * x * (1.0f + as_float8(as_int8(size < 1.0f ? y + y * p : large) | (as_int8(x) & (int) 0x80000000)));
}

__kernel void gelu(__global float const *restrict X, __global float const *restrict R, __global float *restrict Y)
{
  int first = get_group_id(0) * PART, last = min(first + PART, ALL & ~7);
  for (int k = first; k < last; k += 8)
    *(__global eight *)(Y + k) = phi(*(__global eight const *)(X + k)) + *(__global eight const *)(R + k);
  if (last == (ALL & ~7))
    for (int k = last; k < ALL; ++k)
      Y[k] = phi((float8)(X[k])).s0 + R[k];
}
