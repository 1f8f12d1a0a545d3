/* The sum over j first, with lanes along k, in which X lies: no lane of the short rank r is lost. What it gives meets B, packed with lanes
   along k too, and one vector of sums is left for each r, whose lanes are added up at the end of an i. */
#define PLACES VECTORS(K)
#define TILE_ROWS EVENLY(R, REGISTERS >= 32 ? 8 : 4)
#define TILES ((R + TILE_ROWS - 1) / TILE_ROWS)
#define SHARE (J * K / (TILES * ((PLACES + 2) / 3)) + 1)

/* Lanes that a vector shares with the one before it are zero. */
__kernel void pack(__global float const *restrict B, __global float *restrict P)
{
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 3 * ((PLACES + 2) / 3); ++v)
      for (int n = 0; n < LANES; ++n)
        P[(r * 3 * ((PLACES + 2) / 3) + v) * LANES + n] = v < PLACES && PLACE(v, K) + n >= LANES * v ? B[(PLACE(v, K) + n) * R + r] : 0.0f;
}

__kernel void mttkrp(__global float const *restrict X, __global float const *restrict A, __global float const *restrict P,
                     __global float *restrict Z)
{
  __local many waiting[R];
  int i = get_group_id(0);
  __global float const *x = X + i * J * K;
  for (int r = 0; r < R; ++r) waiting[r] = 0;
  for (int v0 = 0; v0 < PLACES; v0 += 3)
    for (int t = 0; t < TILES; ++t)
    {
      int start = min(t * TILE_ROWS, R - TILE_ROWS);
      int place0 = PLACE(v0, K), place1 = PLACE(v0 + 1, K), place2 = PLACE(v0 + 2, K);
      /* The next i comes in while this one is computed with. */
      __global float const *next = x + J * K + (v0 / 3 * TILES + t) * SHARE;
      if (i + 1 < I)
        for (int n = 0; n < SHARE; n += LANES) __builtin_prefetch((void const *)(size_t)(next + n), 0, 2);
      __global float const *p = P + (start * 3 * ((PLACES + 2) / 3) + v0) * LANES;
#define LEFT(r, k) A[(k) * R + start + (r)]
#define RIGHT(k, v) READ(x + (k) * K + (v == 0 ? place0 : v == 1 ? place1 : place2))
#define KEEP(r, v) if (start + r >= t * TILE_ROWS) waiting[start + r] += sum[r][v] * READ(p + r * 3 * ((PLACES + 2) / 3) * LANES + LANES * v);
      TILE(TILE_ROWS, 3, J, LEFT, RIGHT, KEEP)
    }
  for (int r = 0; r < R; ++r) Z[i * R + r] = sum_of(waiting[r]);
}
