#define gid(N) ((int) get_group_id(N))

#ifdef __clang__
typedef float float4_anywhere __attribute__((ext_vector_type(4), aligned(sizeof(float)), may_alias));
#define get_float4(space, at) ((float4)*(space const float4_anywhere *)(at))
#define set_float4(space, at, value) (*(space float4_anywhere *)(at) = (value))
#else
#define get_float4(space, at) vload4(0, at)
#define set_float4(space, at, value) vstore4(value, 0, at)
#endif

#ifdef __clang__
typedef float float8_anywhere __attribute__((ext_vector_type(8), aligned(sizeof(float)), may_alias));
#define get_float8(space, at) ((float8)*(space const float8_anywhere *)(at))
#define set_float8(space, at, value) (*(space float8_anywhere *)(at) = (value))
#else
#define get_float8(space, at) vload8(0, at)
#define set_float8(space, at, value) vstore8(value, 0, at)
#endif

#ifndef mixed_float4
#ifdef __clang__
#define mixed_float4(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define mixed_float4(one, other, ...) shuffle2(one, other, (uint4)(__VA_ARGS__))
#endif
#endif
/* A block of a matrix, transposed; what is no whole block goes element by element. */
static inline void vstoreblock_local_global_float4_at(__local float *to, __global float const *from, int to_row, int from_row, int rows, int columns)
{
  if (rows < 4 || columns < 4)
  {
    for (int column = 0; column < columns; ++column)
      for (int row = 0; row < rows; ++row)
        to[column * to_row + row] = from[row * from_row + column];
    return;
  }
  float4 row0 = get_float4(__global, from);
  float4 row1 = get_float4(__global, from + from_row);
  float4 row2 = get_float4(__global, from + 2 * from_row);
  float4 row3 = get_float4(__global, from + 3 * from_row);
  float4 step0 = mixed_float4(row0, row1, 0, 4, 1, 5);
  float4 step1 = mixed_float4(row0, row1, 2, 6, 3, 7);
  float4 step2 = mixed_float4(row2, row3, 0, 4, 1, 5);
  float4 step3 = mixed_float4(row2, row3, 2, 6, 3, 7);
  float4 step4 = mixed_float4(step0, step2, 0, 1, 4, 5);
  float4 step5 = mixed_float4(step0, step2, 2, 3, 6, 7);
  float4 step6 = mixed_float4(step1, step3, 0, 1, 4, 5);
  float4 step7 = mixed_float4(step1, step3, 2, 3, 6, 7);
  set_float4(__local, to, step4);
  set_float4(__local, to + to_row, step5);
  set_float4(__local, to + 2 * to_row, step6);
  set_float4(__local, to + 3 * to_row, step7);
}
#define vstoreblock_local_global_float4(to, from, to_row, from_row, rows, columns) vstoreblock_local_global_float4_at(&(to), &(from), to_row, from_row, rows, columns)

#ifndef mixed_float8
#ifdef __clang__
#define mixed_float8(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define mixed_float8(one, other, ...) shuffle2(one, other, (uint8)(__VA_ARGS__))
#endif
#endif
/* A block of a matrix, transposed; what is no whole block goes by smaller blocks that overlap. */
static inline void vstoreblock_local_global_float8_at(__local float *to, __global float const *from, int to_row, int from_row, int rows, int columns)
{
  if (rows < 8 || columns < 8)
  {
    if (rows < 4 || columns < 4)
    {
      vstoreblock_local_global_float4(*to, *from, to_row, from_row, rows, columns);
      return;
    }
    for (int row = 0; row < rows; row += 4)
      for (int column = 0; column < columns; column += 4)
      {
        int const r = min(row, rows - 4), c = min(column, columns - 4);
        vstoreblock_local_global_float4(to[c * to_row + r], from[r * from_row + c], to_row, from_row, 4, 4);
      }
    return;
  }
  float8 row0 = get_float8(__global, from);
  float8 row1 = get_float8(__global, from + from_row);
  float8 row2 = get_float8(__global, from + 2 * from_row);
  float8 row3 = get_float8(__global, from + 3 * from_row);
  float8 row4 = get_float8(__global, from + 4 * from_row);
  float8 row5 = get_float8(__global, from + 5 * from_row);
  float8 row6 = get_float8(__global, from + 6 * from_row);
  float8 row7 = get_float8(__global, from + 7 * from_row);
  float8 step0 = mixed_float8(row0, row1, 0, 8, 1, 9, 4, 12, 5, 13);
  float8 step1 = mixed_float8(row0, row1, 2, 10, 3, 11, 6, 14, 7, 15);
  float8 step2 = mixed_float8(row2, row3, 0, 8, 1, 9, 4, 12, 5, 13);
  float8 step3 = mixed_float8(row2, row3, 2, 10, 3, 11, 6, 14, 7, 15);
  float8 step4 = mixed_float8(row4, row5, 0, 8, 1, 9, 4, 12, 5, 13);
  float8 step5 = mixed_float8(row4, row5, 2, 10, 3, 11, 6, 14, 7, 15);
  float8 step6 = mixed_float8(row6, row7, 0, 8, 1, 9, 4, 12, 5, 13);
  float8 step7 = mixed_float8(row6, row7, 2, 10, 3, 11, 6, 14, 7, 15);
  float8 step8 = mixed_float8(step0, step2, 0, 1, 8, 9, 4, 5, 12, 13);
  float8 step9 = mixed_float8(step0, step2, 2, 3, 10, 11, 6, 7, 14, 15);
  float8 step10 = mixed_float8(step1, step3, 0, 1, 8, 9, 4, 5, 12, 13);
  float8 step11 = mixed_float8(step1, step3, 2, 3, 10, 11, 6, 7, 14, 15);
  float8 step12 = mixed_float8(step4, step6, 0, 1, 8, 9, 4, 5, 12, 13);
  float8 step13 = mixed_float8(step4, step6, 2, 3, 10, 11, 6, 7, 14, 15);
  float8 step14 = mixed_float8(step5, step7, 0, 1, 8, 9, 4, 5, 12, 13);
  float8 step15 = mixed_float8(step5, step7, 2, 3, 10, 11, 6, 7, 14, 15);
  float8 step16 = mixed_float8(step8, step12, 0, 1, 2, 3, 8, 9, 10, 11);
  float8 step17 = mixed_float8(step8, step12, 4, 5, 6, 7, 12, 13, 14, 15);
  float8 step18 = mixed_float8(step9, step13, 0, 1, 2, 3, 8, 9, 10, 11);
  float8 step19 = mixed_float8(step9, step13, 4, 5, 6, 7, 12, 13, 14, 15);
  float8 step20 = mixed_float8(step10, step14, 0, 1, 2, 3, 8, 9, 10, 11);
  float8 step21 = mixed_float8(step10, step14, 4, 5, 6, 7, 12, 13, 14, 15);
  float8 step22 = mixed_float8(step11, step15, 0, 1, 2, 3, 8, 9, 10, 11);
  float8 step23 = mixed_float8(step11, step15, 4, 5, 6, 7, 12, 13, 14, 15);
  set_float8(__local, to, step16);
  set_float8(__local, to + to_row, step18);
  set_float8(__local, to + 2 * to_row, step20);
  set_float8(__local, to + 3 * to_row, step22);
  set_float8(__local, to + 4 * to_row, step17);
  set_float8(__local, to + 5 * to_row, step19);
  set_float8(__local, to + 6 * to_row, step21);
  set_float8(__local, to + 7 * to_row, step23);
}
#define vstoreblock_local_global_float8(to, from, to_row, from_row, rows, columns) vstoreblock_local_global_float8_at(&(to), &(from), to_row, from_row, rows, columns)

#ifndef any_int8
#ifdef __has_builtin
#if __has_builtin(__builtin_reduce_or)
#define any_int8(x) __builtin_reduce_or(x)
#endif
#endif
#ifndef any_int8
#define any_int8(x) any(x)
#endif
#endif
/* Of numbers whose exponential may be too large, or too small to be normal. */
static inline float8 builtinexp_float8_of_beyond(float8 x)
{
  float8 y = x > 89.0f ? (float8)(89.0f) : x;
  y = y < -104.0f ? (float8)(-104.0f) : y;
  /* y = 2 n ln(2) + r, with ln(2) in two parts, the first of which times 2 n is exact (Cody and Waite, 1980). Adding 1.5 * 2^23 + 127
     rounds, and the last bits are those of the exponent of 2^n. */
  float8 k = y * 0.7213475204f + 12583039.0f;
  float8 power_of_two = as_float8(as_int8(k) << 23);
  /* What rounds to 0 is made of zeros: processors take a hundred times as long for results that are too small to be normal. */
  power_of_two = x < -104.0f ? (float8)(0.0f) : power_of_two;
  k = k - 12583039.0f;
  float8 r = y - k * 1.386291504f - k * 2.857213640e-6f;
  float8 q = 1.962980023e-4f;
  q = q * r + 1.410478144e-3f;
  q = q * r + 8.335934952e-3f;
  q = q * r + 4.166122898e-2f;
  q = q * r + 1.666661799e-1f;
  q = q * r + 5.000003576e-1f;
  /* 4^n in two steps. */
  return (1.0f + (r + r * r * q)) * power_of_two * power_of_two;
}
static inline float8 builtinexp_float8_of(float8 x)
{
  int8 beyond = !(as_float8(as_int8(x) & 0x7fffffff) <= 87.0f);
  if (any_int8(beyond)) return builtinexp_float8_of_beyond(x);
  /* x = n ln(2) + r; n is added to the exponent of exp(r). */
  float8 k = x * 1.442695041f + 12582912.0f;
  int8 n = as_int8(k) << 23;
  k = k - 12582912.0f;
  float8 r = x - k * 0.693145752f - k * 1.428606820e-6f;
  float8 q = 1.382068964e-3f;
  q = q * r + 8.368675597e-3f;
  q = q * r + 4.166826606e-2f;
  q = q * r + 1.666652113e-1f;
  q = q * r + 4.999999404e-1f;
  q = q * r + 1.0f;
  q = q * r + 1.0f;
  return as_float8(as_int8(q) + n);
}
#define builtinexp_float8(x) builtinexp_float8_of((float8)(x))

#define lane0_float8(x) ((x).s0)
#define lane1_float8(x) ((x).s1)
#define lane2_float8(x) ((x).s2)
#define lane3_float8(x) ((x).s3)
#define lane4_float8(x) ((x).s4)
#define lane5_float8(x) ((x).s5)
#define lane6_float8(x) ((x).s6)
#define lane7_float8(x) ((x).s7)
#define splat_float8(x) ((float8)(x))
#define vdiv_float8(x, y) ((float8)(x) / (float8)(y))
#define vload_local_float8(x) get_float8(__local, &(x))

static inline float8 vrunningmax_float8_of(float8 x, float8 y)
{
  return y > x ? y : x;
}
#define vrunningmax_float8(x, y) vrunningmax_float8_of((float8)(x), (float8)(y))

static inline void vstore_local_float8_at(__local float *at, float8 value)
{
  set_float8(__local, at, value);
}
#define vstore_local_float8(x, value) vstore_local_float8_at(&(x), value)

// gid(2): h (S, X, N, L, A, O)
// gid(1): m in tiles of 64 (S, X, N, L, A, O)
// gid(0): m in tiles of 32 (S, X, N, L, A, O)
__kernel void __attribute__ ((reqd_work_group_size(1, 1, 1))) cascade(
    __global float const *__restrict__ Q,
    __global float const *__restrict__ K,
    __global float const *__restrict__ V,
    __global float *__restrict__ O)
{
  int const m_start = 64 * gid(1) + 32 * gid(0);
  __local float A_local[64 * 32];
  float8 A_private[4 * 2];
  __local float L_local[32];
  float8 L_private[2];
  __local float N_local[64 * 32];
  float8 O_vector;
  __local float Q_local[64 * 32];
  __local float S_local[64 * 32];
  float8 S_private[4 * 2];
  __local float X_local[32];
  float8 X_private[2];
  __local float X_scale_local[32];

  // Storage of Q: fetch e (S)
  for (int e_Q = 0; e_Q < 8; ++e_Q)
    // Storage of Q: fetch m (S)
    for (int m_Q = 0; m_Q < 4; ++m_Q)
      vstoreblock_local_global_float8(Q_local[256 * e_Q + 8 * m_Q], Q[65536 * gid(2) + 64 * (m_start + 8 * m_Q) + 8 * e_Q], 32, 64, 8, 8);
  // p in tiles of 64 (S, X, N, L, A)
  for (int p_0 = 0; p_0 < 16; ++p_0)
  {
    if (p_0 > 0)
      // m in tiles of 16 (X.before)
      for (int m_2 = 0; m_2 < 2; ++m_2)
        // m in tiles of 8 (X.before)
        for (int m_3 = 0; m_3 < 2; ++m_3)
        {
          long const at_m = 16 * m_2 + 8 * m_3;
          vstore_local_float8(X_scale_local[at_m], vload_local_float8(X_local[at_m]));
        }
    // m in tiles of 16 (S)
    for (int m_2 = 0; m_2 < 2; ++m_2)
      // p in tiles of 4 (S)
      for (int p_1 = 0; p_1 < 16; ++p_1)
      {
        S_private[0] = splat_float8(0.0f);
        S_private[1] = splat_float8(0.0f);
        S_private[2] = splat_float8(0.0f);
        S_private[3] = splat_float8(0.0f);
        S_private[4] = splat_float8(0.0f);
        S_private[5] = splat_float8(0.0f);
        S_private[6] = splat_float8(0.0f);
        S_private[7] = splat_float8(0.0f);
        // e (S)
        for (int e = 0; e < 64; ++e)
        {
          long const Q_local_at = 16 * m_2 + 32 * e;
          float8 const Q_local_0 = vload_local_float8(Q_local[Q_local_at]);
          long const K_at = 65536 * gid(2) + 64 * (64 * p_0 + 4 * p_1) + e;
          float const K_0 = K[K_at];
          float8 const Q_local_1 = vload_local_float8(Q_local[Q_local_at + 8]);
          float const K_1 = K[K_at + 64];
          float const K_2 = K[K_at + 128];
          float const K_3 = K[K_at + 192];
          S_private[0] += Q_local_0 * K_0;
          S_private[1] += Q_local_1 * K_0;
          S_private[2] += Q_local_0 * K_1;
          S_private[3] += Q_local_1 * K_1;
          S_private[4] += Q_local_0 * K_2;
          S_private[5] += Q_local_1 * K_2;
          S_private[6] += Q_local_0 * K_3;
          S_private[7] += Q_local_1 * K_3;
        }
        long const S_local_at = 16 * m_2 + 128 * p_1;
        vstore_local_float8(S_local[S_local_at], 0.125f * S_private[0]);
        vstore_local_float8(S_local[S_local_at + 8], 0.125f * S_private[1]);
        vstore_local_float8(S_local[S_local_at + 32], 0.125f * S_private[2]);
        vstore_local_float8(S_local[S_local_at + 40], 0.125f * S_private[3]);
        vstore_local_float8(S_local[S_local_at + 64], 0.125f * S_private[4]);
        vstore_local_float8(S_local[S_local_at + 72], 0.125f * S_private[5]);
        vstore_local_float8(S_local[S_local_at + 96], 0.125f * S_private[6]);
        vstore_local_float8(S_local[S_local_at + 104], 0.125f * S_private[7]);
      }
    // m in tiles of 16 (X)
    for (int m_2 = 0; m_2 < 2; ++m_2)
    {
      if (p_0 == 0)
      {
        X_private[0] = splat_float8(-3.4028235e+38f);
        X_private[1] = splat_float8(-3.4028235e+38f);
      }
      else
      {
        X_private[0] = vload_local_float8(X_local[16 * m_2]);
        X_private[1] = vload_local_float8(X_local[16 * m_2 + 8]);
      }
      // p (X)
      for (int p_1 = 0; p_1 < 64; ++p_1)
      {
        long const S_local_at = 16 * m_2 + 32 * p_1;
        X_private[0] = vrunningmax_float8(X_private[0], vload_local_float8(S_local[S_local_at]));
        X_private[1] = vrunningmax_float8(X_private[1], vload_local_float8(S_local[S_local_at + 8]));
      }
      vstore_local_float8(X_local[16 * m_2], X_private[0]);
      vstore_local_float8(X_local[16 * m_2 + 8], X_private[1]);
    }
    if (p_0 > 0)
    {
      // m in tiles of 16 (X.scale, L.rescale)
      for (int m_2 = 0; m_2 < 2; ++m_2)
        // m in tiles of 8 (X.scale, L.rescale)
        for (int m_3 = 0; m_3 < 2; ++m_3)
        {
          long const at_m = 16 * m_2 + 8 * m_3;
          vstore_local_float8(X_scale_local[at_m], builtinexp_float8(vload_local_float8(X_scale_local[at_m]) - vload_local_float8(X_local[at_m])));
          vstore_local_float8(L_local[at_m], vload_local_float8(L_local[at_m]) * vload_local_float8(X_scale_local[at_m]));
        }
      // m in tiles of 16 (A.rescale)
      for (int m_2 = 0; m_2 < 2; ++m_2)
        // f in tiles of 4 (A.rescale)
        for (int f_0 = 0; f_0 < 16; ++f_0)
          // f (A.rescale)
          for (int f_1 = 0; f_1 < 4; ++f_1)
            // m in tiles of 8 (A.rescale)
            for (int m_3 = 0; m_3 < 2; ++m_3)
            {
              long const A_local_at = 16 * m_2 + 128 * f_0 + 32 * f_1 + 8 * m_3;
              vstore_local_float8(A_local[A_local_at], vload_local_float8(A_local[A_local_at]) * vload_local_float8(X_scale_local[16 * m_2 + 8 * m_3]));
            }
    }
    // p (N)
    for (int p_1 = 0; p_1 < 64; ++p_1)
      // m in tiles of 8 (N)
      for (int m_2 = 0; m_2 < 4; ++m_2)
      {
        long const at_p_m = 32 * p_1 + 8 * m_2;
        vstore_local_float8(N_local[at_p_m], builtinexp_float8(vload_local_float8(S_local[at_p_m]) - vload_local_float8(X_local[8 * m_2])));
      }
    // m in tiles of 16 (L)
    for (int m_2 = 0; m_2 < 2; ++m_2)
    {
      if (p_0 == 0)
      {
        L_private[0] = splat_float8(0.0f);
        L_private[1] = splat_float8(0.0f);
      }
      else
      {
        L_private[0] = vload_local_float8(L_local[16 * m_2]);
        L_private[1] = vload_local_float8(L_local[16 * m_2 + 8]);
      }
      // p (L)
      for (int p_1 = 0; p_1 < 64; ++p_1)
      {
        long const N_local_at = 16 * m_2 + 32 * p_1;
        L_private[0] += vload_local_float8(N_local[N_local_at]);
        L_private[1] += vload_local_float8(N_local[N_local_at + 8]);
      }
      vstore_local_float8(L_local[16 * m_2], L_private[0]);
      vstore_local_float8(L_local[16 * m_2 + 8], L_private[1]);
    }
    // m in tiles of 16 (A)
    for (int m_2 = 0; m_2 < 2; ++m_2)
      // f in tiles of 4 (A)
      for (int f_0 = 0; f_0 < 16; ++f_0)
      {
        long const A_local_at = 16 * m_2 + 128 * f_0;
        if (p_0 == 0)
        {
          A_private[0] = splat_float8(0.0f);
          A_private[1] = splat_float8(0.0f);
          A_private[2] = splat_float8(0.0f);
          A_private[3] = splat_float8(0.0f);
          A_private[4] = splat_float8(0.0f);
          A_private[5] = splat_float8(0.0f);
          A_private[6] = splat_float8(0.0f);
          A_private[7] = splat_float8(0.0f);
        }
        else
        {
          A_private[0] = vload_local_float8(A_local[A_local_at]);
          A_private[1] = vload_local_float8(A_local[A_local_at + 8]);
          A_private[2] = vload_local_float8(A_local[A_local_at + 32]);
          A_private[3] = vload_local_float8(A_local[A_local_at + 40]);
          A_private[4] = vload_local_float8(A_local[A_local_at + 64]);
          A_private[5] = vload_local_float8(A_local[A_local_at + 72]);
          A_private[6] = vload_local_float8(A_local[A_local_at + 96]);
          A_private[7] = vload_local_float8(A_local[A_local_at + 104]);
        }
        // p (A)
        for (int p_1 = 0; p_1 < 64; ++p_1)
        {
          long const N_local_at = 16 * m_2 + 32 * p_1;
          float8 const N_local_0 = vload_local_float8(N_local[N_local_at]);
          long const V_at = 65536 * gid(2) + 64 * (64 * p_0 + p_1) + 4 * f_0;
          float const V_0 = V[V_at];
          float8 const N_local_1 = vload_local_float8(N_local[N_local_at + 8]);
          float const V_1 = V[V_at + 1];
          float const V_2 = V[V_at + 2];
          float const V_3 = V[V_at + 3];
          A_private[0] += N_local_0 * V_0;
          A_private[1] += N_local_1 * V_0;
          A_private[2] += N_local_0 * V_1;
          A_private[3] += N_local_1 * V_1;
          A_private[4] += N_local_0 * V_2;
          A_private[5] += N_local_1 * V_2;
          A_private[6] += N_local_0 * V_3;
          A_private[7] += N_local_1 * V_3;
        }
        vstore_local_float8(A_local[A_local_at], A_private[0]);
        vstore_local_float8(A_local[A_local_at + 8], A_private[1]);
        vstore_local_float8(A_local[A_local_at + 32], A_private[2]);
        vstore_local_float8(A_local[A_local_at + 40], A_private[3]);
        vstore_local_float8(A_local[A_local_at + 64], A_private[4]);
        vstore_local_float8(A_local[A_local_at + 72], A_private[5]);
        vstore_local_float8(A_local[A_local_at + 96], A_private[6]);
        vstore_local_float8(A_local[A_local_at + 104], A_private[7]);
      }
  }
  // f (O)
  for (int f = 0; f < 64; ++f)
    // m in tiles of 8 (O)
    for (int m_2 = 0; m_2 < 4; ++m_2)
    {
      O_vector = vdiv_float8(vload_local_float8(A_local[32 * f + 8 * m_2]), vload_local_float8(L_local[8 * m_2]));
      long const O_at = 65536 * gid(2) + 64 * (m_start + 8 * m_2) + f;
      O[O_at] = lane0_float8(O_vector);
      O[O_at + 64] = lane1_float8(O_vector);
      O[O_at + 128] = lane2_float8(O_vector);
      O[O_at + 192] = lane3_float8(O_vector);
      O[O_at + 256] = lane4_float8(O_vector);
      O[O_at + 320] = lane5_float8(O_vector);
      O[O_at + 384] = lane6_float8(O_vector);
      O[O_at + 448] = lane7_float8(O_vector);
    }
}
