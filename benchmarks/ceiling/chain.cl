/* Rows go through all three products while they are near: tiles of rows by all columns, sums in three quarters of the registers. */
#if LANES == 16
typedef float8 eight __attribute__((aligned(4), may_alias));
#define EIGHT(at, v) *(__global eight *)(at) = (v).lo;
#else
#define EIGHT(at, v)
#endif

#define PANELS(n) (((n) + LANES - 1) / LANES)
#define PADDED(n) (LANES * PANELS(n))
#define ROWS(n) DOWN(PANELS(n))
#define BLOCK 48

__kernel void pack(__global float const *restrict u, __global float const *restrict v, __global float const *restrict w,
                   __global float *restrict first, __global float *restrict second, __global float *restrict third)
{
#define PACK(from, to, deep, columns) \
  for (int k = 0; k < deep; ++k) \
    for (int n = 0; n < columns; ++n) to[k * PADDED(columns) + n] = from[k * columns + n];
  PACK(u, first, I, A)
  PACK(v, second, A, B)
  PACK(w, third, B, C)
}

/* A tile of sums, as many rows as leave registers for a row of the right side; rows beyond the last one repeat it. */
#define PRODUCT(from, pitch, deep, right, columns, rows, STORE) \
  for (int t = 0; t < (rows + ROWS(columns) - 1) / ROWS(columns) * TIMES(PANELS(columns)); ++t) \
  { \
    int row = min(t / TIMES(PANELS(columns)) * ROWS(columns), rows - ROWS(columns)); \
    int start = START(t % TIMES(PANELS(columns)), PANELS(columns)); \
    many sum[ROWS(columns)][ACROSS(PANELS(columns))]; \
    _Pragma("unroll") for (int r = 0; r < ROWS(columns); ++r) \
      _Pragma("unroll") for (int p = 0; p < ACROSS(PANELS(columns)); ++p) sum[r][p] = whole(0); \
    for (int k = 0; k < deep; ++k) \
    { \
      many b[ACROSS(PANELS(columns))]; \
      _Pragma("unroll") for (int p = 0; p < ACROSS(PANELS(columns)); ++p) b[p] = READ(right + k * PADDED(columns) + LANES * (start + p)); \
      _Pragma("unroll") for (int r = 0; r < ROWS(columns); ++r) \
      { \
        float a = from[(row + r) * pitch + k]; \
        _Pragma("unroll") for (int p = 0; p < ACROSS(PANELS(columns)); ++p) sum[r][p] += a * b[p]; \
      } \
    } \
    _Pragma("unroll") for (int r = 0; r < ROWS(columns); ++r) \
      _Pragma("unroll") for (int p = 0; p < ACROSS(PANELS(columns)); ++p) { STORE } \
  }

#define NEAR(to, columns) *(__local loose *)(to + (row + r) * PADDED(columns) + LANES * (start + p)) = sum[r][p];
#define FAR(to, columns) \
  { \
    __global float *at = to + (row + r) * columns + LANES * (start + p); \
    if (LANES * (start + p) + LANES <= columns) WRITE(at, sum[r][p]); \
    else { EIGHT(at, sum[r][p]) } \
  }

__kernel void chain(__global float const *restrict X, __global float const *restrict first, __global float const *restrict second,
                    __global float const *restrict third, __global float *restrict Z)
{
  __local float near[BLOCK * PADDED(A)], nearer[BLOCK * PADDED(B)];
  int m = min((int) get_group_id(0) * BLOCK, M - BLOCK);
  __global float const *x = X + m * I;
  __global float *z = Z + m * C;
  PRODUCT(x, I, I, first, A, BLOCK, NEAR(near, A))
  PRODUCT(near, PADDED(A), A, second, B, BLOCK, NEAR(nearer, B))
  PRODUCT(nearer, PADDED(B), B, third, C, BLOCK, FAR(z, C))
}
