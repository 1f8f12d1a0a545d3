/* Lanes along q, which lies together, a whole row of the image at once; the filter is packed so that channels of the output lie together. */
#define WIDE VECTORS(Q)
#define TILE_ROWS (WIDE > 3 ? 4 : 8)

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
  {
    float16 sum[TILE_ROWS][WIDE];
    UNROLLED for (int n = 0; n < TILE_ROWS; ++n)
      UNROLLED for (int v = 0; v < WIDE; ++v) sum[n][v] = whole(0);
    for (int c = 0; c < C; ++c)
      for (int r = 0; r < 3; ++r)
      {
        __global float const *x = X + (c * H + p + r) * W, *f = packed + (c * 3 + r) * 3 * O + o;
        UNROLLED for (int s = 0; s < 3; ++s)
        {
          float16 right[WIDE];
          UNROLLED for (int v = 0; v < WIDE; ++v) right[v] = LOAD16(x + s + PLACE(v, Q));
          UNROLLED for (int n = 0; n < TILE_ROWS; ++n)
            UNROLLED for (int v = 0; v < WIDE; ++v) sum[n][v] += f[s * O + n] * right[v];
        }
      }
    UNROLLED for (int n = 0; n < TILE_ROWS; ++n)
      UNROLLED for (int v = 0; v < WIDE; ++v) STORE16(Y + ((o + n) * P + p) * Q + PLACE(v, Q), sum[n][v]);
  }
}
