/* Panels of 32 columns, so that a register tile of 8 x 32 reads two vectors that lie together and eight numbers for 16 multiply-adds. */
#define N 1024
#define KC 256

__kernel void pack(__global float const *restrict B, __global float *restrict P)
{
  int j = get_group_id(0);
  for (int k = 0; k < N; ++k)
    for (int v = 0; v < 32; v += 16)
      STORE16(P + (j * N + k) * 32 + v, LOAD16(B + k * N + j * 32 + v));
}

#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

__kernel void product(__global float const *restrict A, __global float const *restrict P, __global float *restrict Z)
{
  int i0 = get_group_id(0) * 64;
  for (int kc = 0; kc < N; kc += KC)
    for (int j = 0; j < N / 32; ++j)
      for (int i = i0; i < i0 + 64; i += 8)
      {
        __global float const *b = P + (j * N + kc) * 32, *a = A + i * N + kc;
#define START(r) float16 c##r = 0, d##r = 0;
        ROWS(START)
        for (int k = 0; k < KC; ++k, b += 32)
        {
          float16 x = LOAD16(b), y = LOAD16(b + 16);
#define STEP(r) { float s = a[r * N + k]; c##r += s * x; d##r += s * y; }
          ROWS(STEP)
        }
        __global float *z = Z + i * N + j * 32;
#define STORE(r) \
        if (kc) { c##r += LOAD16(z + r * N); d##r += LOAD16(z + r * N + 16); } \
        STORE16(z + r * N, c##r); STORE16(z + r * N + 16, d##r);
        ROWS(STORE)
      }
}
