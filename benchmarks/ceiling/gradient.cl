/* Nodes in lanes: five vectors hold a row of 35, the last from node 27, so that neither sums nor stores need a remainder. The 15 sums of
   an element stay in registers while its nodes pass; the operators, 16.8 KB as they are packed, stay in the first cache. */
typedef float8 eight __attribute__((aligned(4), may_alias));

#define E 32768
#define I 35
#define PART 64
#define AT(v) ((v) < 4 ? 8 * (v) : I - 8)
#define VECTORS(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3) X(r, 4)
#define ALL(X) VECTORS(X, 0) VECTORS(X, 1) VECTORS(X, 2)

__kernel void pack(__global float const *restrict S, __global float *restrict P)
{
  for (int j = 0; j < I; ++j)
    for (int r = 0; r < 3; ++r)
      for (int v = 0; v < 5; ++v)
        for (int k = 0; k < 8; ++k)
          P[((j * 3 + r) * 5 + v) * 8 + k] = S[(r * I + AT(v) + k) * I + j];
}

__kernel void gradient(__global float const *restrict G, __global float const *restrict P, __global float const *restrict U,
                       __global float *restrict D)
{
  for (int e = get_group_id(0) * PART; e < (get_group_id(0) + 1) * PART; ++e)
  {
#define START(r, v) float8 c##r##v = 0;
    ALL(START)
    for (int j = 0; j < I; ++j)
    {
      float u = U[e * I + j];
      __global float const *p = P + j * 120;
#define STEP(r, v) c##r##v += u * *(__global eight const *)(p + (r * 5 + v) * 8);
      ALL(STEP)
    }
    for (int x = 0; x < 3; ++x)
    {
      float g0 = G[(x * 3 + 0) * E + e], g1 = G[(x * 3 + 1) * E + e], g2 = G[(x * 3 + 2) * E + e];
      __global float *d = D + (x * E + e) * I;
#define STORE(r, v) *(__global eight *)(d + AT(v)) = g0 * c0##v + g1 * c1##v + g2 * c2##v;
      VECTORS(STORE, 0)
    }
  }
}
