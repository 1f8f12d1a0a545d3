/* 48 rows of the hidden layer stay in a core's cache, panels of columns of both matrices pass by; register tiles of two vectors. Columns that
   fill up the last panels are zero, and so is the GELU of them. */
#define F_PANELS ((F + PANEL - 1) / PANEL)
#define B_PANELS ((B + PANEL - 1) / PANEL)
#define BLOCK 48
#define SIX_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#if REGISTERS >= 32
#define ROWS(X) SIX_ROWS(X) X(6) X(7) X(8) X(9) X(10) X(11)
#else
#define ROWS(X) SIX_ROWS(X)
#endif

__kernel void pack(__global float const *restrict V, __global float const *restrict W, __global float *restrict first,
                   __global float *restrict second)
{
  for (int j = 0; j < F_PANELS; ++j)
    for (int a = 0; a < A; ++a)
      for (int n = 0; n < PANEL; ++n)
        first[(j * A + a) * PANEL + n] = PANEL * j + n < F ? V[a * F + PANEL * j + n] : 0.0f;
  for (int j = 0; j < B_PANELS; ++j)
    for (int f = 0; f < F; ++f)
      for (int n = 0; n < PANEL; ++n)
        second[(j * F + f) * PANEL + n] = PANEL * j + n < B ? W[f * B + PANEL * j + n] : 0.0f;
}

__kernel void perceptron(__global float const *restrict X, __global float const *restrict first, __global float const *restrict second,
                         __global float *restrict Y)
{
  __local float G[BLOCK * PANEL * F_PANELS];
  int start = min((int) get_group_id(0) * BLOCK, M - BLOCK);
#define START(r) many c##r = 0, d##r = 0;
#define STEP(r) { float s = a[r * WIDTH + k]; c##r += s * x; d##r += s * y; }
  for (int j = 0; j < F_PANELS; ++j)
    for (int m = 0; m < BLOCK; m += DOWN(2))
    {
      __global float const *a = X + (start + m) * A, *b = first + j * A * PANEL;
      ROWS(START)
#define WIDTH A
      for (int k = 0; k < A; ++k, b += PANEL)
      {
        many x = READ(b), y = READ(b + LANES);
        ROWS(STEP)
      }
      __local float *g = G + m * PANEL * F_PANELS + PANEL * j;
#define HIDDEN(r) HERE(g + r * PANEL * F_PANELS) = gelu_of(c##r); HERE(g + r * PANEL * F_PANELS + LANES) = gelu_of(d##r);
      ROWS(HIDDEN)
#undef WIDTH
    }
  for (int j = 0; j < B_PANELS; ++j)
    for (int m = 0; m < BLOCK; m += DOWN(2))
    {
      __local float const *a = G + m * PANEL * F_PANELS;
      __global float const *b = second + j * F * PANEL;
      ROWS(START)
#define WIDTH (PANEL * F_PANELS)
      for (int k = 0; k < F; ++k, b += PANEL)
      {
        many x = READ(b), y = READ(b + LANES);
        ROWS(STEP)
      }
      __global float *z = Y + (start + m) * B + PANEL * j;
      if (PANEL * j + PANEL <= B)
      {
#define STORE(r) WRITE(z + r * B, c##r); WRITE(z + r * B + LANES, d##r);
        ROWS(STORE)
      }
      else
      {
        float sums[DOWN(2)][PANEL];
#define SPILL(r) *(loose *)sums[r] = c##r; *(loose *)(sums[r] + LANES) = d##r;
        ROWS(SPILL)
        for (int r = 0; r < DOWN(2); ++r)
          for (int n = 0; n < B - PANEL * j; ++n)
            z[r * B + n] = sums[r][n];
      }
#undef WIDTH
    }
}
