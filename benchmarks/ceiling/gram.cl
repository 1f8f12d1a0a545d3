/* Groups take parts of the long sum, each the tiles on and below the diagonal; the merge mirrors them. M is a
   multiple of a tile's rows and columns. */
#define BLOCK 128
#define TILE_ROWS (REGISTERS >= 32 ? 8 : 6)
#define STEP ((K + PARTS - 1) / PARTS)

__kernel void parts(__global float const *restrict A, __global float *restrict P)
{
  int g = get_group_id(0), first = g * STEP, end = min(first + STEP, K);
  for (int k0 = first; k0 < end; k0 += BLOCK)
    for (int j = 0; j < M; j += PANEL)
    {
      int column = min(j, M - PANEL);
      for (int i = j / TILE_ROWS * TILE_ROWS; i < M; i += TILE_ROWS)
      {
        __global float const *a = A + k0 * M;
        __global float *z = P + (g * M + i) * M + column;
#define LEFT(r, k) a[(k) * M + i + (r)]
#define RIGHT(k, v) READ(a + (k) * M + column + LANES * (v))
#define KEEP(r, v) WRITE(z + r * M + LANES * v, k0 > first ? READ(z + r * M + LANES * v) + sum[r][v] : sum[r][v]);
        TILE(TILE_ROWS, 2, min(BLOCK, end - k0), LEFT, RIGHT, KEEP)
      }
    }
}

__kernel void merge(__global float const *restrict P, __global float *restrict Z)
{
  int i = get_group_id(0);
  for (int j = 0; j <= i; ++j)
  {
    float sum = 0;
    for (int g = 0; g < PARTS; ++g)
      sum += P[(g * M + i) * M + j];
    Z[i * M + j] = sum;
    Z[j * M + i] = sum;
  }
}
