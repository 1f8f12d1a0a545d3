/* A group is a head. Scores of 16 tokens at a time: a vector of products for each, whose lanes are added up all at once by exchanging rows
   and columns. Exponentials stay near; the values meet them four tokens at a time. */
#define WHOLE (P / 16 * 16)
#define PADDED (WHOLE + 16)

__kernel void decoding(__global float const *restrict Q, __global float const *restrict K, __global float const *restrict V,
                       __global float *restrict O)
{
  __local float weights[PADDED];
  int h = get_group_id(0);
  float16 q[E / 16];
  UNROLLED for (int v = 0; v < E / 16; ++v) q[v] = LOAD16(Q + h * E + 16 * v) * 0.125f;
  float16 top = -INFINITY;
  for (int p = 0; p < P; p += 16)
  {
    float16 t[16];
    UNROLLED for (int n = 0; n < 16; ++n)
    {
      __global float const *k = K + (h * P + min(p + n, P - 1)) * E;
      t[n] = q[0] * LOAD16(k);
      UNROLLED for (int v = 1; v < E / 16; ++v) t[n] += q[v] * LOAD16(k + 16 * v);
    }
    TRANSPOSE(t)
    UNROLLED for (int n = 8; n > 0; n /= 2)
      UNROLLED for (int i = 0; i < n; ++i) t[i] += t[i + n];
    float16 scores = LANE + p < P ? t[0] : (float16)(-INFINITY);
    NEAR16(weights + p) = scores;
    top = larger(top, scores);
  }
  float peak = largest16(top);
  float16 sums = 0;
  for (int p = 0; p < P; p += 16)
  {
    float16 weight = exponential_of(NEAR16(weights + p) - peak);
    weight = LANE + p < P ? weight : (float16)(0.0f);
    NEAR16(weights + p) = weight;
    sums += weight;
  }
  float part = 1.0f / sum16(sums);
  float16 sum[4][F / 16];
  UNROLLED for (int n = 0; n < 4; ++n)
    UNROLLED for (int v = 0; v < F / 16; ++v) sum[n][v] = whole(0);
  __global float const *values = V + h * P * F;
  for (int p = 0; p < P / 4 * 4; p += 4)
    UNROLLED for (int n = 0; n < 4; ++n)
      UNROLLED for (int v = 0; v < F / 16; ++v) sum[n][v] += weights[p + n] * LOAD16(values + (p + n) * F + 16 * v);
  for (int p = P / 4 * 4; p < P; ++p)
    UNROLLED for (int v = 0; v < F / 16; ++v) sum[0][v] += weights[p] * LOAD16(values + p * F + 16 * v);
  UNROLLED for (int v = 0; v < F / 16; ++v) STORE16(O + h * F + 16 * v, part * (sum[0][v] + sum[1][v] + sum[2][v] + sum[3][v]));
}
