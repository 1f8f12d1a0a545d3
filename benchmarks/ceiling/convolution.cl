/* Lanes along q, which lies together, a whole row of the image at once, or three vectors if registers are 16; the filter is packed so that channels of the output lie together. */
#define WIDE VECTORS(Q)
#define TILE_ROWS (REGISTERS < 32 || WIDE > 3 ? 4 : 8)
#define AT(v) PLACE(min(v, WIDE - 1), Q)
#define AT_ONCE (REGISTERS >= 32 ? WIDE : 3)

__kernel void pack(__global float const *restrict F, __global float *restrict packed)
{
  int o = get_group_id(0);
  for (int k = 0; k < C * 9; ++k)
    packed[k * O + o] = F[o * C * 9 + k];
}

__kernel void convolution(__global float const *restrict X, __global float const *restrict packed, __global float *restrict Y)
{
  int p = get_group_id(0) / 2, half_of = (O / TILE_ROWS + 1) / 2 * TILE_ROWS, begin = get_group_id(0) % 2 * half_of;
  for (int o = begin; o < min(begin + half_of, O); o += TILE_ROWS)
    for (int v0 = 0; v0 < WIDE; v0 += AT_ONCE)
    {
      int start = max(0, min(v0, WIDE - AT_ONCE));
      many sum[TILE_ROWS][AT_ONCE];
      UNROLLED for (int n = 0; n < TILE_ROWS; ++n)
        UNROLLED for (int v = 0; v < AT_ONCE; ++v) sum[n][v] = whole(0);
      for (int c = 0; c < C; ++c)
        for (int r = 0; r < 3; ++r)
        {
          __global float const *x = X + (c * H + p + r) * W, *f = packed + (c * 3 + r) * 3 * O + o;
          UNROLLED for (int s = 0; s < 3; ++s)
          {
            many right[AT_ONCE];
            UNROLLED for (int v = 0; v < AT_ONCE; ++v) right[v] = READ(x + s + AT(start + v));
            UNROLLED for (int n = 0; n < TILE_ROWS; ++n)
              UNROLLED for (int v = 0; v < AT_ONCE; ++v) sum[n][v] += f[s * O + n] * right[v];
          }
        }
      UNROLLED for (int n = 0; n < TILE_ROWS; ++n)
        UNROLLED for (int v = 0; v < AT_ONCE; ++v) WRITE(Y + ((o + n) * P + p) * Q + AT(start + v), sum[n][v]);
    }
}
