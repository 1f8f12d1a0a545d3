/* The sum over j first, with lanes along k, in which X lies; then, for each r and some of q, the sum over i, whose result stays near, and the
   one over k with lanes along s. */
#define EACH (REGISTERS >= 32 ? 3 : 2)
#define PARTS_OF_K ((VECTORS(K) + EACH - 1) / EACH)
#define AT(v) PLACE(min(v, VECTORS(K) - 1), K)
#define R_ROWS EVENLY(R, REGISTERS >= 32 ? 9 : DOWN(EACH))
#define R_TILES ((R + R_ROWS - 1) / R_ROWS)
#define WIDE VECTORS(S)
#define Q_ROWS ((Q + PARTS - 1) / PARTS)
#define Q_TILE_ROWS EVENLY(Q_ROWS, REGISTERS >= 32 ? 8 : DOWN(EACH))
#define Q_TILES ((Q_ROWS + Q_TILE_ROWS - 1) / Q_TILE_ROWS)
#define LAST_ROWS EVENLY(Q_ROWS, REGISTERS >= 32 ? Q_ROWS : DOWN(WIDE))

__kernel void over_j(__global float const *restrict X, __global float const *restrict B, __global float *restrict T)
{
  int i = get_group_id(0);
  __global float const *x = X + i * J * K;
  for (int n = 0; n < PARTS_OF_K; ++n)
    for (int t = 0; t < R_TILES; ++t)
    {
      int row = min(t * R_ROWS, R - R_ROWS);
      int place0 = AT(EACH * n), place1 = AT(EACH * n + 1), place2 = AT(EACH * n + 2);
      __global float *z = T + (i * R + row) * K;
#define PLACE_OF(v) (v == 0 ? place0 : v == 1 ? place1 : place2)
#define LEFT(r, k) B[(k) * R + row + (r)]
#define RIGHT(k, v) READ(x + (k) * K + PLACE_OF(v))
#define KEEP(r, v) WRITE(z + r * K + PLACE_OF(v), sum[r][v]);
      TILE(R_ROWS, EACH, J, LEFT, RIGHT, KEEP)
#undef LEFT
#undef RIGHT
#undef KEEP
    }
}

__kernel void over_i_and_k(__global float const *restrict T, __global float const *restrict A, __global float const *restrict C,
                           __global float *restrict Z)
{
  __local float near[Q_ROWS * K];
  int q = min((int) get_group_id(0) / R * Q_ROWS, Q - Q_ROWS), one = get_group_id(0) % R;
  for (int n = 0; n < PARTS_OF_K; ++n)
    for (int t = 0; t < Q_TILES; ++t)
    {
      int row = min(t * Q_TILE_ROWS, Q_ROWS - Q_TILE_ROWS);
      int place0 = AT(EACH * n), place1 = AT(EACH * n + 1), place2 = AT(EACH * n + 2);
#define LEFT(r, k) A[(k) * Q + q + row + (r)]
#define RIGHT(k, v) READ(T + ((k) * R + one) * K + PLACE_OF(v))
#define KEEP(r, v) HERE(near + (row + r) * K + PLACE_OF(v)) = sum[r][v];
      TILE(Q_TILE_ROWS, EACH, I, LEFT, RIGHT, KEEP)
#undef LEFT
#undef RIGHT
#undef KEEP
    }
  for (int t = 0; t < (Q_ROWS + LAST_ROWS - 1) / LAST_ROWS * TIMES(WIDE); ++t)
  {
    int row = min(t / TIMES(WIDE) * LAST_ROWS, Q_ROWS - LAST_ROWS), start = START(t % TIMES(WIDE), WIDE);
#define LEFT(r, k) near[(row + (r)) * K + (k)]
#define RIGHT(k, v) READ(C + (k) * S + PLACE(start + (v), S))
#define KEEP(r, v) WRITE(Z + ((q + row + r) * R + one) * S + PLACE(start + (v), S), sum[r][v]);
    TILE(LAST_ROWS, ACROSS(WIDE), K, LEFT, RIGHT, KEEP)
  }
}
