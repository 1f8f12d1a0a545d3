/* A group is a head. Scores of LANES tokens at a time: a vector of products for each, whose lanes are added up all at once by exchanging rows
   and columns. Exponentials stay near; the values meet them four tokens at a time. */
#define WHOLE (P / LANES * LANES)
/* Sums of values, of which more are independent where there are registers. */
#define APART (REGISTERS >= 32 ? 4 : 1)
#define PADDED (WHOLE + LANES)

__kernel void decoding(__global float const *restrict Q, __global float const *restrict K, __global float const *restrict V,
                       __global float *restrict O)
{
  __local float weights[PADDED];
  int h = get_group_id(0);
  many q[E / LANES];
  UNROLLED for (int v = 0; v < E / LANES; ++v) q[v] = READ(Q + h * E + LANES * v) * 0.125f;
  many top = -INFINITY;
  for (int p = 0; p < P; p += LANES)
  {
    many t[LANES];
    UNROLLED for (int n = 0; n < LANES; ++n)
    {
      __global float const *k = K + (h * P + min(p + n, P - 1)) * E;
      t[n] = q[0] * READ(k);
      UNROLLED for (int v = 1; v < E / LANES; ++v) t[n] += q[v] * READ(k + LANES * v);
    }
    TRANSPOSE(t)
    UNROLLED for (int n = LANES / 2; n > 0; n /= 2)
      UNROLLED for (int i = 0; i < n; ++i) t[i] += t[i + n];
    many scores = LANE + p < P ? t[0] : (many)(-INFINITY);
    HERE(weights + p) = scores;
    top = larger(top, scores);
  }
  float peak = largest_of(top);
  many sums = 0;
  for (int p = 0; p < P; p += LANES)
  {
    many weight = exponential_of(HERE(weights + p) - peak);
    weight = LANE + p < P ? weight : (many)(0.0f);
    HERE(weights + p) = weight;
    sums += weight;
  }
  float part = 1.0f / sum_of(sums);
  many sum[APART][F / LANES];
  UNROLLED for (int n = 0; n < APART; ++n)
    UNROLLED for (int v = 0; v < F / LANES; ++v) sum[n][v] = whole(0);
  __global float const *values = V + h * P * F;
  for (int p = 0; p < P / APART * APART; p += APART)
    UNROLLED for (int n = 0; n < APART; ++n)
      UNROLLED for (int v = 0; v < F / LANES; ++v) sum[n][v] += weights[p + n] * READ(values + (p + n) * F + LANES * v);
  for (int p = P / APART * APART; p < P; ++p)
    UNROLLED for (int v = 0; v < F / LANES; ++v) sum[0][v] += weights[p] * READ(values + p * F + LANES * v);
  UNROLLED for (int n = 1; n < APART; ++n)
    UNROLLED for (int v = 0; v < F / LANES; ++v) sum[0][v] += sum[n][v];
  UNROLLED for (int v = 0; v < F / LANES; ++v) WRITE(O + h * F + LANES * v, part * sum[0][v]);
}
