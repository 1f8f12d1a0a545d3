#define gid(N) ((int) get_group_id(N))

#ifdef __clang__
typedef float float2_anywhere __attribute__((ext_vector_type(2), aligned(sizeof(float)), may_alias));
#define get_float2(space, at) ((float2)*(space const float2_anywhere *)(at))
#define set_float2(space, at, value) (*(space float2_anywhere *)(at) = (value))
#else
#define get_float2(space, at) vload2(0, at)
#define set_float2(space, at, value) vstore2(value, 0, at)
#endif

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
/* A block of a matrix, transposed; what is no whole block goes by smaller blocks that overlap, and zeros behind it. */
static inline void vstoreblockpadded_local_global_float8_at(__local float *to, __global float const *from, int to_row, int from_row, int rows, int columns)
{
  if (rows < 8 || columns < 8)
  {
    for (int column = 0; column < columns; ++column)
      set_float8(__local, to + column * to_row, (float8)(0));
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
#define vstoreblockpadded_local_global_float8(to, from, to_row, from_row, rows, columns) vstoreblockpadded_local_global_float8_at(&(to), &(from), to_row, from_row, rows, columns)

#define splat_float8(x) ((float8)(x))
#define vload_global_float8(x) get_float8(__global, &(x))
#define vload_local_float8(x) get_float8(__local, &(x))

#if defined(__clang__) && defined(__AVX512VL__)
/* A whole vector, or the elements that are there, and zeros: no other memory is touched. */
static inline float8 vloadupto_global_float8_at(__global float const *at, int count)
{
  if (count >= 8) return get_float8(__global, at);
  return __builtin_astype(__builtin_ia32_loadups256_mask((void const *)(size_t)at, __builtin_astype((float8)(0.0f), float __attribute__((vector_size(32)))), (unsigned char)((1u << max(count, 0)) - 1u)), float8);
}
#else
/* A whole vector where there is one; at the end of a row the elements that are there, by two vectors that overlap, and zeros. */
static inline float8 vloadupto_global_float8_at(__global float const *at, int count)
{
  float4 low4, high4;
  float2 low2, high2;
  if (count >= 8) return get_float8(__global, at);
  switch (count)
  {
    case 7: low4 = get_float4(__global, at); high4 = get_float4(__global, at + 3); return (float8)(low4, high4.s12, high4.s3, 0);
    case 6: low4 = get_float4(__global, at); high4 = get_float4(__global, at + 2); return (float8)(low4, high4.s23, 0, 0);
    case 5: low4 = get_float4(__global, at); return (float8)(low4, at[4], 0, 0, 0);
    case 4: low4 = get_float4(__global, at); return (float8)(low4, 0, 0, 0, 0);
    case 3: low2 = get_float2(__global, at); return (float8)(low2, at[2], 0, 0, 0, 0, 0);
    case 2: low2 = get_float2(__global, at); return (float8)(low2, 0, 0, 0, 0, 0, 0);
    case 1: return (float8)(at[0], 0, 0, 0, 0, 0, 0, 0);
  }
  return 0;
}
#endif
#define vloadupto_global_float8(x, count) vloadupto_global_float8_at(&(x), count)

static inline void vstore_global_float8_at(__global float *at, float8 value)
{
  set_float8(__global, at, value);
}
#define vstore_global_float8(x, value) vstore_global_float8_at(&(x), value)

static inline void vstore_local_float8_at(__local float *at, float8 value)
{
  set_float8(__local, at, value);
}
#define vstore_local_float8(x, value) vstore_local_float8_at(&(x), value)

#if defined(__clang__) && defined(__AVX512VL__)
/* A whole vector, or the elements that are there: no other memory is touched. */
static inline void vstoreupto_global_float8_at(__global float *at, float8 value, int count)
{
  if (count >= 8) { set_float8(__global, at, value); return; }
  __builtin_ia32_storeups256_mask((void *)(size_t)at, __builtin_astype(value, float __attribute__((vector_size(32)))), (unsigned char)((1u << max(count, 0)) - 1u));
}
#else
/* A whole vector, or the elements that are there, by two vectors that overlap. */
static inline void vstoreupto_global_float8_at(__global float *at, float8 value, int count)
{
  if (count >= 8)
  {
    set_float8(__global, at, value);
    return;
  }
  switch (count)
  {
    case 7: set_float4(__global, at, value.s0123); set_float4(__global, at + 3, value.s3456); break;
    case 6: set_float4(__global, at, value.s0123); set_float4(__global, at + 2, value.s2345); break;
    case 5: set_float4(__global, at, value.s0123); at[4] = value.s4; break;
    case 4: set_float4(__global, at, value.s0123); break;
    case 3: set_float2(__global, at, value.s01); at[2] = value.s2; break;
    case 2: set_float2(__global, at, value.s01); break;
    case 1: at[0] = value.s0; break;
  }
}
#endif
#define vstoreupto_global_float8(x, value, count) vstoreupto_global_float8_at(&(x), value, count)

#if defined(__clang__) && defined(__AVX512VL__)
/* A whole vector, or the elements that are there: no other memory is touched. */
static inline void vstoreupto_local_float8_at(__local float *at, float8 value, int count)
{
  if (count >= 8) { set_float8(__local, at, value); return; }
  __builtin_ia32_storeups256_mask((void *)(size_t)at, __builtin_astype(value, float __attribute__((vector_size(32)))), (unsigned char)((1u << max(count, 0)) - 1u));
}
#else
/* A whole vector, or the elements that are there, by two vectors that overlap. */
static inline void vstoreupto_local_float8_at(__local float *at, float8 value, int count)
{
  if (count >= 8)
  {
    set_float8(__local, at, value);
    return;
  }
  switch (count)
  {
    case 7: set_float4(__local, at, value.s0123); set_float4(__local, at + 3, value.s3456); break;
    case 6: set_float4(__local, at, value.s0123); set_float4(__local, at + 2, value.s2345); break;
    case 5: set_float4(__local, at, value.s0123); at[4] = value.s4; break;
    case 4: set_float4(__local, at, value.s0123); break;
    case 3: set_float2(__local, at, value.s01); at[2] = value.s2; break;
    case 2: set_float2(__local, at, value.s01); break;
    case 1: at[0] = value.s0; break;
  }
}
#endif
#define vstoreupto_local_float8(x, value, count) vstoreupto_local_float8_at(&(x), value, count)

// gid(1): e in tiles of 128 (T, D)
// gid(0): e in tiles of 64 (T, D)
__kernel void __attribute__ ((reqd_work_group_size(1, 1, 1))) cascade(
    __global float const *__restrict__ G,
    __global float const *__restrict__ U,
    __global float const *__restrict__ S,
    __global float *__restrict__ D)
{
  int const e_start = 128 * gid(1) + 64 * gid(0);
  float8 D_private[4 * 2];
  __local float S_local[3 * 35 * 16];
  __local float T_local[3 * 64 * 35];
  float8 T_private[3 * 2];
  bool const edge = gid(0) == 1 && gid(1) == 390;

  // e (T)
  for (int e_2 = 0; e_2 <= (edge ? 15 : 63); ++e_2)
    // j in tiles of 16 (T)
    for (int j_0 = 0; j_0 < 3; ++j_0)
    {
      T_private[0] = splat_float8(0.0f);
      T_private[2] = splat_float8(0.0f);
      T_private[4] = splat_float8(0.0f);
      long const T_local_at = 35 * e_2 + 16 * j_0;
      if (j_0 < 2)
      {
        // a whole tile
        T_private[1] = splat_float8(0.0f);
        T_private[3] = splat_float8(0.0f);
        T_private[5] = splat_float8(0.0f);
        // x (T)
        for (int x = 0; x < 3; ++x)
        {
          long const G_at = 150000 * x + e_start + e_2;
          float const G_0 = G[G_at];
          long const U_at = 1750000 * x + 35 * (e_start + e_2) + 16 * j_0;
          float8 const U_0 = vload_global_float8(U[U_at]);
          float8 const U_1 = vload_global_float8(U[U_at + 8]);
          float const G_1 = G[G_at + 50000];
          float const G_2 = G[G_at + 100000];
          T_private[0] += G_0 * U_0;
          T_private[1] += G_0 * U_1;
          T_private[2] += G_1 * U_0;
          T_private[3] += G_1 * U_1;
          T_private[4] += G_2 * U_0;
          T_private[5] += G_2 * U_1;
        }
        vstore_local_float8(T_local[T_local_at], T_private[0]);
        vstore_local_float8(T_local[T_local_at + 2240], T_private[2]);
        vstore_local_float8(T_local[T_local_at + 4480], T_private[4]);
        vstore_local_float8(T_local[T_local_at + 8], T_private[1]);
        vstore_local_float8(T_local[T_local_at + 2248], T_private[3]);
        vstore_local_float8(T_local[T_local_at + 4488], T_private[5]);
      }
      else
      {
        // a tile that is cut
        // x (T)
        for (int x = 0; x < 3; ++x)
        {
          float8 const U_0 = vloadupto_global_float8(U[1750000 * x + 35 * (e_start + e_2) + 16 * j_0], 3);
          long const G_at = 150000 * x + e_start + e_2;
          T_private[0] += G[G_at] * U_0;
          T_private[2] += G[G_at + 50000] * U_0;
          T_private[4] += G[G_at + 100000] * U_0;
        }
        vstoreupto_local_float8(T_local[T_local_at], T_private[0], 3);
        vstoreupto_local_float8(T_local[T_local_at + 2240], T_private[2], 3);
        vstoreupto_local_float8(T_local[T_local_at + 4480], T_private[4], 3);
      }
    }
  // i in tiles of 16 (D)
  for (int i_0 = 0; i_0 < 3; ++i_0)
  {
    // Storage of S: fetch r (D)
    for (int r_S = 0; r_S < 3; ++r_S)
      // Storage of S: fetch j (D)
      for (int j_S = 0; j_S < 5; ++j_S)
        // Storage of S: fetch i (D)
        for (int i_S = 0; i_S <= (i_0 == 2 ? 0 : 1); ++i_S)
          vstoreblockpadded_local_global_float8(S_local[560 * r_S + 128 * j_S + 8 * i_S], S[560 * i_0 + 1225 * r_S + 8 * j_S + 280 * i_S], 16, 35, min(35 - 16 * i_0 - 8 * i_S, 8), min(35 - 8 * j_S, 8));
    bool const edge_1 = 2 * gid(1) + gid(0) == 781;
    // e in tiles of 4 (D)
    for (int e_2 = 0; e_2 <= (edge_1 ? 3 : 15); ++e_2)
    {
      D_private[0] = splat_float8(0.0f);
      D_private[2] = splat_float8(0.0f);
      D_private[4] = splat_float8(0.0f);
      D_private[6] = splat_float8(0.0f);
      long const D_at = 35 * (e_start + 4 * e_2) + 16 * i_0;
      if (i_0 < 2)
      {
        // a whole tile
        D_private[1] = splat_float8(0.0f);
        D_private[3] = splat_float8(0.0f);
        D_private[5] = splat_float8(0.0f);
        D_private[7] = splat_float8(0.0f);
        // r (D)
        for (int r = 0; r < 3; ++r)
          // j (D)
          for (int j = 0; j < 35; ++j)
          {
            long const S_local_at = 560 * r + 16 * j;
            float8 const S_local_0 = vload_local_float8(S_local[S_local_at]);
            long const T_local_at = 140 * e_2 + 2240 * r + j;
            float const T_local_0 = T_local[T_local_at];
            float8 const S_local_1 = vload_local_float8(S_local[S_local_at + 8]);
            float const T_local_1 = T_local[T_local_at + 35];
            float const T_local_2 = T_local[T_local_at + 70];
            float const T_local_3 = T_local[T_local_at + 105];
            D_private[0] += S_local_0 * T_local_0;
            D_private[1] += S_local_1 * T_local_0;
            D_private[2] += S_local_0 * T_local_1;
            D_private[3] += S_local_1 * T_local_1;
            D_private[4] += S_local_0 * T_local_2;
            D_private[5] += S_local_1 * T_local_2;
            D_private[6] += S_local_0 * T_local_3;
            D_private[7] += S_local_1 * T_local_3;
          }
        vstore_global_float8(D[D_at], D_private[0]);
        vstore_global_float8(D[D_at + 35], D_private[2]);
        vstore_global_float8(D[D_at + 70], D_private[4]);
        vstore_global_float8(D[D_at + 105], D_private[6]);
        vstore_global_float8(D[D_at + 8], D_private[1]);
        vstore_global_float8(D[D_at + 43], D_private[3]);
        vstore_global_float8(D[D_at + 78], D_private[5]);
        vstore_global_float8(D[D_at + 113], D_private[7]);
      }
      else
      {
        // a tile that is cut
        // r (D)
        for (int r = 0; r < 3; ++r)
          // j (D)
          for (int j = 0; j < 35; ++j)
          {
            float8 const S_local_0 = vload_local_float8(S_local[560 * r + 16 * j]);
            long const T_local_at = 140 * e_2 + 2240 * r + j;
            D_private[0] += S_local_0 * T_local[T_local_at];
            D_private[2] += S_local_0 * T_local[T_local_at + 35];
            D_private[4] += S_local_0 * T_local[T_local_at + 70];
            D_private[6] += S_local_0 * T_local[T_local_at + 105];
          }
        vstoreupto_global_float8(D[D_at], D_private[0], 3);
        vstoreupto_global_float8(D[D_at + 35], D_private[2], 3);
        vstoreupto_global_float8(D[D_at + 70], D_private[4], 3);
        vstoreupto_global_float8(D[D_at + 105], D_private[6], 3);
      }
    }
  }
}
