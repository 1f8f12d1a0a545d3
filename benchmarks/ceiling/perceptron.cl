/* 48 rows of the hidden layer stay in a core's cache, panels of 32 columns of both matrices pass by; register tiles of 12 x 32. Columns that
   fill up the last panels are zero, and so is the GELU of them. */
#define F_PANELS ((F + 31) / 32)
#define B_PANELS ((B + 31) / 32)
#define BLOCK 48
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__kernel void pack(__global float const *restrict V, __global float const *restrict W, __global float *restrict first,
                   __global float *restrict second)
{
  for (int j = 0; j < F_PANELS; ++j)
    for (int a = 0; a < A; ++a)
      for (int n = 0; n < 32; ++n)
        first[(j * A + a) * 32 + n] = 32 * j + n < F ? V[a * F + 32 * j + n] : 0.0f;
  for (int j = 0; j < B_PANELS; ++j)
    for (int f = 0; f < F; ++f)
      for (int n = 0; n < 32; ++n)
        second[(j * F + f) * 32 + n] = 32 * j + n < B ? W[f * B + 32 * j + n] : 0.0f;
}

__kernel void perceptron(__global float const *restrict X, __global float const *restrict first, __global float const *restrict second,
                         __global float *restrict Y)
{
  __local float G[BLOCK * 32 * F_PANELS];
  int start = min((int) get_group_id(0) * BLOCK, M - BLOCK);
#define START(r) float16 c##r = 0, d##r = 0;
#define STEP(r) { float s = a[r * WIDTH + k]; c##r += s * x; d##r += s * y; }
  for (int j = 0; j < F_PANELS; ++j)
    for (int m = 0; m < BLOCK; m += 12)
    {
      __global float const *a = X + (start + m) * A, *b = first + j * A * 32;
      ROWS(START)
#define WIDTH A
      for (int k = 0; k < A; ++k, b += 32)
      {
        float16 x = LOAD16(b), y = LOAD16(b + 16);
        ROWS(STEP)
      }
      __local float *g = G + m * 32 * F_PANELS + 32 * j;
#define HIDDEN(r) NEAR16(g + r * 32 * F_PANELS) = gelu_of(c##r); NEAR16(g + r * 32 * F_PANELS + 16) = gelu_of(d##r);
      ROWS(HIDDEN)
#undef WIDTH
    }
  for (int j = 0; j < B_PANELS; ++j)
    for (int m = 0; m < BLOCK; m += 12)
    {
      __local float const *a = G + m * 32 * F_PANELS;
      __global float const *b = second + j * F * 32;
      ROWS(START)
#define WIDTH (32 * F_PANELS)
      for (int k = 0; k < F; ++k, b += 32)
      {
        float16 x = LOAD16(b), y = LOAD16(b + 16);
        ROWS(STEP)
      }
      __global float *z = Y + (start + m) * B + 32 * j;
      if (32 * j + 32 <= B)
      {
#define STORE(r) STORE16(z + r * B, c##r); STORE16(z + r * B + 16, d##r);
        ROWS(STORE)
      }
      else
      {
        float sums[12][32];
#define SPILL(r) *(any16 *)sums[r] = c##r; *(any16 *)(sums[r] + 16) = d##r;
        ROWS(SPILL)
        for (int r = 0; r < 12; ++r)
          for (int n = 0; n < B - 32 * j; ++n)
            z[r * B + n] = sums[r][n];
      }
#undef WIDTH
    }
}
