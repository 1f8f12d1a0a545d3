/* Lanes along c, in which A lies; results of LANES a by LANES c have rows and columns exchanged in registers before they go to Z[b, c, a]. */
#define A_PLACES VECTORS(A)

__kernel void permuted_memory(__global float const *restrict X, __global float const *restrict Y, __global float *restrict Z)
{
  __local many results[B][LANES];
  int c = PLACE((int) get_group_id(0), C);
  for (int p = 0; p < A_PLACES; ++p)
  {
    int first = PLACE(p, A);
    for (int a = 0; a < LANES; ++a)
    {
      many sum[B];
      UNROLLED for (int b = 0; b < B; ++b) sum[b] = whole(0);
      UNROLLED for (int d = 0; d < D; ++d)
      {
        many x = READ(X + ((first + a) * D + d) * C + c);
        UNROLLED for (int b = 0; b < B; ++b) sum[b] += Y[d * B + b] * x;
      }
      UNROLLED for (int b = 0; b < B; ++b) results[b][a] = sum[b];
    }
    for (int b = 0; b < B; ++b)
    {
      many t[LANES];
      UNROLLED for (int n = 0; n < LANES; ++n) t[n] = whole(results[b][n]);
      TRANSPOSE(t)
      UNROLLED for (int n = 0; n < LANES; ++n) WRITE(Z + (b * C + c + n) * A + first, t[n]);
    }
  }
}
