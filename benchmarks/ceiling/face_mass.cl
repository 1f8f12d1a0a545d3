/* Nodes in lanes, two elements at once; the factor of a face is multiplied into an element's values, once, not into the operator. */
typedef float8 eight __attribute__((aligned(4), may_alias));

#define AT(v) ((v) < 4 ? 8 * (v) : I - 8)
#define VECTORS(X) X(0) X(1) X(2) X(3) X(4)
#define PART 64

__kernel void pack(__global float const *restrict L, __global float *restrict packed)
{
  for (int f = 0; f < F; ++f)
    for (int j = 0; j < J; ++j)
      for (int v = 0; v < 5; ++v)
        for (int k = 0; k < 8; ++k)
          packed[((f * J + j) * 5 + v) * 8 + k] = L[(f * I + AT(v) + k) * J + j];
}

__kernel void face_mass(__global float const *restrict packed, __global float const *restrict G, __global float const *restrict U,
                        __global float *restrict D)
{
  __local float scaled[2 * F * J];
  for (int e = get_group_id(0) * PART; e < min((int) (get_group_id(0) + 1) * PART, E); e += 2)
  {
    for (int f = 0; f < F; ++f)
      for (int n = 0; n < 2; ++n)
        for (int j = 0; j < J; ++j)
          scaled[n * F * J + f * J + j] = G[f * E + e + n] * U[(f * E + e + n) * J + j];
#define START(v) float8 c##v = 0, d##v = 0;
    VECTORS(START)
    for (int k = 0; k < F * J; ++k)
    {
      float x = scaled[k], y = scaled[F * J + k];
#define STEP(v) { float8 l = *(__global eight const *)(packed + (k * 5 + v) * 8); c##v += l * x; d##v += l * y; }
      VECTORS(STEP)
    }
    __global float *to = D + e * I;
#define STORE(v) *(__global eight *)(to + AT(v)) = c##v; *(__global eight *)(to + I + AT(v)) = d##v;
    VECTORS(STORE)
  }
}
