/* The sum over j first, with lanes along k, in which X lies; then, for each r and some of q, the sum over i, whose result stays near, and the
   one over k with lanes along s. */
#define TRIPLES ((VECTORS(K) + 2) / 3)
#define AT(v) PLACE(min(v, VECTORS(K) - 1), K)
#define R_TILES ((R + 8) / 9)
#define R_ROWS ((R + R_TILES - 1) / R_TILES)
#define WIDE VECTORS(S)
#define Q_ROWS ((Q + PARTS - 1) / PARTS)
#define Q_TILES ((Q_ROWS + 7) / 8)
#define Q_TILE_ROWS ((Q_ROWS + Q_TILES - 1) / Q_TILES)

__kernel void over_j(__global float const *restrict X, __global float const *restrict B, __global float *restrict T)
{
  int i = get_group_id(0);
  __global float const *x = X + i * J * K;
  for (int n = 0; n < TRIPLES; ++n)
    for (int t = 0; t < R_TILES; ++t)
    {
      int row = min(t * R_ROWS, R - R_ROWS), place0 = AT(3 * n), place1 = AT(3 * n + 1), place2 = AT(3 * n + 2);
      __global float *z = T + (i * R + row) * K;
#define PLACE_OF(v) (v == 0 ? place0 : v == 1 ? place1 : place2)
#define LEFT(r, k) B[(k) * R + row + (r)]
#define RIGHT(k, v) LOAD16(x + (k) * K + PLACE_OF(v))
#define KEEP(r, v) STORE16(z + r * K + PLACE_OF(v), sum[r][v]);
      TILE(R_ROWS, 3, J, LEFT, RIGHT, KEEP)
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
  for (int n = 0; n < TRIPLES; ++n)
    for (int t = 0; t < Q_TILES; ++t)
    {
      int row = min(t * Q_TILE_ROWS, Q_ROWS - Q_TILE_ROWS), place0 = AT(3 * n), place1 = AT(3 * n + 1), place2 = AT(3 * n + 2);
#define LEFT(r, k) A[(k) * Q + q + row + (r)]
#define RIGHT(k, v) LOAD16(T + ((k) * R + one) * K + PLACE_OF(v))
#define KEEP(r, v) NEAR16(near + (row + r) * K + PLACE_OF(v)) = sum[r][v];
      TILE(Q_TILE_ROWS, 3, I, LEFT, RIGHT, KEEP)
#undef LEFT
#undef RIGHT
#undef KEEP
    }
#define LEFT(r, k) near[(r) * K + (k)]
#define RIGHT(k, v) LOAD16(C + (k) * S + PLACE(v, S))
#define KEEP(r, v) STORE16(Z + ((q + r) * R + one) * S + PLACE(v, S), sum[r][v]);
  TILE(Q_ROWS, WIDE, K, LEFT, RIGHT, KEEP)
}
