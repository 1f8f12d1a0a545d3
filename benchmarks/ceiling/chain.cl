/* Rows go through all three products while they are near: tiles of rows by all columns, sums in 24 registers. */
typedef float8 eight __attribute__((aligned(4), may_alias));

#define PANELS(n) (((n) + 15) / 16)
#define PADDED(n) (16 * PANELS(n))
#define ROWS(n) (24 / PANELS(n))
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
  for (int start = 0; start < rows; start += ROWS(columns)) \
  { \
    int row = min(start, rows - ROWS(columns)); \
    float16 sum[ROWS(columns)][PANELS(columns)]; \
    _Pragma("unroll") for (int r = 0; r < ROWS(columns); ++r) \
      _Pragma("unroll") for (int p = 0; p < PANELS(columns); ++p) sum[r][p] = whole(0); \
    for (int k = 0; k < deep; ++k) \
    { \
      float16 b[PANELS(columns)]; \
      _Pragma("unroll") for (int p = 0; p < PANELS(columns); ++p) b[p] = LOAD16(right + k * PADDED(columns) + 16 * p); \
      _Pragma("unroll") for (int r = 0; r < ROWS(columns); ++r) \
      { \
        float a = from[(row + r) * pitch + k]; \
        _Pragma("unroll") for (int p = 0; p < PANELS(columns); ++p) sum[r][p] += a * b[p]; \
      } \
    } \
    _Pragma("unroll") for (int r = 0; r < ROWS(columns); ++r) \
      _Pragma("unroll") for (int p = 0; p < PANELS(columns); ++p) { STORE } \
  }

#define NEAR(to, columns) *(__local any16 *)(to + (row + r) * PADDED(columns) + 16 * p) = sum[r][p];
#define FAR(to, columns) \
  { \
    __global float *at = to + (row + r) * columns + 16 * p; \
    if (16 * p + 16 <= columns) STORE16(at, sum[r][p]); \
    else *(__global eight *)at = sum[r][p].lo; \
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
