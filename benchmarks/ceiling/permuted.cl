/* A group packs A[d, c, a] for eight a into [d, c] panels once; lanes go along c, the output's last axis. */
#define NA 128
#define NB 96
#define NC 64
#define ND 128
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

__kernel void permuted(__global float const *restrict A, __global float const *restrict B, __global float *restrict Z)
{
  __local float panel[8][2][ND][32];
  int a0 = get_group_id(0) * 8;
  for (int d = 0; d < ND; ++d)
    for (int c = 0; c < NC; ++c)
      for (int a = 0; a < 8; ++a)
        panel[a][c / 32][d][c % 32] = A[(d * NC + c) * NA + a0 + a];
  for (int a = 0; a < 8; ++a)
    for (int c = 0; c < 2; ++c)
      for (int b = 0; b < NB; b += 8)
      {
#define START(r) float16 c##r = 0, d##r = 0;
        ROWS(START)
        for (int d = 0; d < ND; ++d)
        {
          float16 x = whole(*(__local float16 const *)panel[a][c][d]), y = *(__local float16 const *)(panel[a][c][d] + 16);
#define STEP(r) { float s = B[(b + r) * ND + d]; c##r += s * x; d##r += s * y; }
          ROWS(STEP)
        }
        __global float *z = Z + ((a0 + a) * NB + b) * NC + c * 32;
#define STORE(r) STORE16(z + r * NC, c##r); STORE16(z + r * NC + 16, d##r);
        ROWS(STORE)
      }
}
