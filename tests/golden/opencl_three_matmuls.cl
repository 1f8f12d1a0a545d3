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

#define splat_float8(x) ((float8)(x))
#define vload_global_float8(x) get_float8(__global, &(x))

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

// gid(1): m in tiles of 128 (Matmul1, Matmul2, Matmul3)
// gid(0): m in tiles of 64 (Matmul1, Matmul2, Matmul3)
__kernel void __attribute__ ((reqd_work_group_size(1, 1, 1))) cascade(
    __global float const *__restrict__ T0,
    __global float const *__restrict__ W0,
    __global float const *__restrict__ W1,
    __global float const *__restrict__ W2,
    __global float *__restrict__ T3)
{
  int const m_start = 128 * gid(1) + 64 * gid(0);
  __local float T1_local[64 * 23];
  float8 T1_private[4 * 3];
  __local float T2_local[64 * 23];
  float8 T2_private[4 * 3];
  float8 T3_private[4 * 3];

  if (2 * gid(1) + gid(0) < 3)
  {
    bool const edge = gid(0) == 0 && gid(1) == 1;
    // m in tiles of 4 (Matmul1)
    for (int m_2 = 0; m_2 <= (edge ? 0 : 15); ++m_2)
    {
      T1_private[0] = splat_float8(0.0f);
      T1_private[1] = splat_float8(0.0f);
      T1_private[2] = splat_float8(0.0f);
      T1_private[3] = splat_float8(0.0f);
      T1_private[4] = splat_float8(0.0f);
      T1_private[5] = splat_float8(0.0f);
      T1_private[6] = splat_float8(0.0f);
      T1_private[7] = splat_float8(0.0f);
      T1_private[8] = splat_float8(0.0f);
      if (gid(1) == 0)
      {
        T1_private[9] = splat_float8(0.0f);
        T1_private[10] = splat_float8(0.0f);
        T1_private[11] = splat_float8(0.0f);
      }
      long const at_m = 23 * (m_start + 4 * m_2);
      if (32 * gid(1) + 16 * gid(0) + m_2 < 32)
      {
        // a whole tile
        // n0 (Matmul1)
        for (int n0 = 0; n0 < 23; ++n0)
        {
          float const T0_0 = T0[at_m + n0];
          float8 const W0_0 = vload_global_float8(W0[23 * n0]);
          float8 const W0_1 = vload_global_float8(W0[23 * n0 + 8]);
          float8 const W0_2 = vloadupto_global_float8(W0[23 * n0 + 16], 7);
          float const T0_1 = T0[at_m + n0 + 23];
          float const T0_2 = T0[at_m + n0 + 46];
          float const T0_3 = T0[at_m + n0 + 69];
          T1_private[0] += T0_0 * W0_0;
          T1_private[1] += T0_0 * W0_1;
          T1_private[2] += T0_0 * W0_2;
          T1_private[3] += T0_1 * W0_0;
          T1_private[4] += T0_1 * W0_1;
          T1_private[5] += T0_1 * W0_2;
          T1_private[6] += T0_2 * W0_0;
          T1_private[7] += T0_2 * W0_1;
          T1_private[8] += T0_2 * W0_2;
          T1_private[9] += T0_3 * W0_0;
          T1_private[10] += T0_3 * W0_1;
          T1_private[11] += T0_3 * W0_2;
        }
        vstore_local_float8(T1_local[92 * m_2], T1_private[0]);
        vstore_local_float8(T1_local[92 * m_2 + 8], T1_private[1]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 16], T1_private[2], 7);
        vstore_local_float8(T1_local[92 * m_2 + 23], T1_private[3]);
        vstore_local_float8(T1_local[92 * m_2 + 31], T1_private[4]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 39], T1_private[5], 7);
        vstore_local_float8(T1_local[92 * m_2 + 46], T1_private[6]);
        vstore_local_float8(T1_local[92 * m_2 + 54], T1_private[7]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 62], T1_private[8], 7);
        vstore_local_float8(T1_local[92 * m_2 + 69], T1_private[9]);
        vstore_local_float8(T1_local[92 * m_2 + 77], T1_private[10]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 85], T1_private[11], 7);
      }
      else
      {
        // a tile that is cut
        // n0 (Matmul1)
        for (int n0 = 0; n0 < 23; ++n0)
        {
          float const T0_0 = T0[at_m + n0];
          float8 const W0_0 = vload_global_float8(W0[23 * n0]);
          float8 const W0_1 = vload_global_float8(W0[23 * n0 + 8]);
          float8 const W0_2 = vloadupto_global_float8(W0[23 * n0 + 16], 7);
          float const T0_1 = T0[at_m + n0 + 23];
          float const T0_2 = T0[at_m + n0 + 46];
          T1_private[0] += T0_0 * W0_0;
          T1_private[1] += T0_0 * W0_1;
          T1_private[2] += T0_0 * W0_2;
          T1_private[3] += T0_1 * W0_0;
          T1_private[4] += T0_1 * W0_1;
          T1_private[5] += T0_1 * W0_2;
          T1_private[6] += T0_2 * W0_0;
          T1_private[7] += T0_2 * W0_1;
          T1_private[8] += T0_2 * W0_2;
        }
        vstore_local_float8(T1_local[92 * m_2], T1_private[0]);
        vstore_local_float8(T1_local[92 * m_2 + 8], T1_private[1]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 16], T1_private[2], 7);
        vstore_local_float8(T1_local[92 * m_2 + 23], T1_private[3]);
        vstore_local_float8(T1_local[92 * m_2 + 31], T1_private[4]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 39], T1_private[5], 7);
        vstore_local_float8(T1_local[92 * m_2 + 46], T1_private[6]);
        vstore_local_float8(T1_local[92 * m_2 + 54], T1_private[7]);
        vstoreupto_local_float8(T1_local[92 * m_2 + 62], T1_private[8], 7);
      }
    }
    bool const edge_1 = 2 * gid(1) + gid(0) == 2;
    bool const inside = 2 * gid(1) + gid(0) < 2;
    // m in tiles of 4 (Matmul2)
    for (int m_2 = 0; m_2 <= (edge_1 ? 0 : 15); ++m_2)
    {
      T2_private[0] = splat_float8(0.0f);
      T2_private[1] = splat_float8(0.0f);
      T2_private[2] = splat_float8(0.0f);
      T2_private[3] = splat_float8(0.0f);
      T2_private[4] = splat_float8(0.0f);
      T2_private[5] = splat_float8(0.0f);
      T2_private[6] = splat_float8(0.0f);
      T2_private[7] = splat_float8(0.0f);
      T2_private[8] = splat_float8(0.0f);
      if (inside)
      {
        T2_private[9] = splat_float8(0.0f);
        T2_private[10] = splat_float8(0.0f);
        T2_private[11] = splat_float8(0.0f);
      }
      if (32 * gid(1) + 16 * gid(0) + m_2 < 32)
      {
        // a whole tile
        // n1 (Matmul2)
        for (int n1 = 0; n1 < 23; ++n1)
        {
          float const T1_local_0 = T1_local[92 * m_2 + n1];
          float8 const W1_0 = vload_global_float8(W1[23 * n1]);
          float8 const W1_1 = vload_global_float8(W1[23 * n1 + 8]);
          float8 const W1_2 = vloadupto_global_float8(W1[23 * n1 + 16], 7);
          float const T1_local_1 = T1_local[92 * m_2 + n1 + 23];
          float const T1_local_2 = T1_local[92 * m_2 + n1 + 46];
          float const T1_local_3 = T1_local[92 * m_2 + n1 + 69];
          T2_private[0] += T1_local_0 * W1_0;
          T2_private[1] += T1_local_0 * W1_1;
          T2_private[2] += T1_local_0 * W1_2;
          T2_private[3] += T1_local_1 * W1_0;
          T2_private[4] += T1_local_1 * W1_1;
          T2_private[5] += T1_local_1 * W1_2;
          T2_private[6] += T1_local_2 * W1_0;
          T2_private[7] += T1_local_2 * W1_1;
          T2_private[8] += T1_local_2 * W1_2;
          T2_private[9] += T1_local_3 * W1_0;
          T2_private[10] += T1_local_3 * W1_1;
          T2_private[11] += T1_local_3 * W1_2;
        }
        vstore_local_float8(T2_local[92 * m_2], T2_private[0]);
        vstore_local_float8(T2_local[92 * m_2 + 8], T2_private[1]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 16], T2_private[2], 7);
        vstore_local_float8(T2_local[92 * m_2 + 23], T2_private[3]);
        vstore_local_float8(T2_local[92 * m_2 + 31], T2_private[4]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 39], T2_private[5], 7);
        vstore_local_float8(T2_local[92 * m_2 + 46], T2_private[6]);
        vstore_local_float8(T2_local[92 * m_2 + 54], T2_private[7]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 62], T2_private[8], 7);
        vstore_local_float8(T2_local[92 * m_2 + 69], T2_private[9]);
        vstore_local_float8(T2_local[92 * m_2 + 77], T2_private[10]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 85], T2_private[11], 7);
      }
      else
      {
        // a tile that is cut
        // n1 (Matmul2)
        for (int n1 = 0; n1 < 23; ++n1)
        {
          float const T1_local_0 = T1_local[92 * m_2 + n1];
          float8 const W1_0 = vload_global_float8(W1[23 * n1]);
          float8 const W1_1 = vload_global_float8(W1[23 * n1 + 8]);
          float8 const W1_2 = vloadupto_global_float8(W1[23 * n1 + 16], 7);
          float const T1_local_1 = T1_local[92 * m_2 + n1 + 23];
          float const T1_local_2 = T1_local[92 * m_2 + n1 + 46];
          T2_private[0] += T1_local_0 * W1_0;
          T2_private[1] += T1_local_0 * W1_1;
          T2_private[2] += T1_local_0 * W1_2;
          T2_private[3] += T1_local_1 * W1_0;
          T2_private[4] += T1_local_1 * W1_1;
          T2_private[5] += T1_local_1 * W1_2;
          T2_private[6] += T1_local_2 * W1_0;
          T2_private[7] += T1_local_2 * W1_1;
          T2_private[8] += T1_local_2 * W1_2;
        }
        vstore_local_float8(T2_local[92 * m_2], T2_private[0]);
        vstore_local_float8(T2_local[92 * m_2 + 8], T2_private[1]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 16], T2_private[2], 7);
        vstore_local_float8(T2_local[92 * m_2 + 23], T2_private[3]);
        vstore_local_float8(T2_local[92 * m_2 + 31], T2_private[4]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 39], T2_private[5], 7);
        vstore_local_float8(T2_local[92 * m_2 + 46], T2_private[6]);
        vstore_local_float8(T2_local[92 * m_2 + 54], T2_private[7]);
        vstoreupto_local_float8(T2_local[92 * m_2 + 62], T2_private[8], 7);
      }
    }
    // m in tiles of 4 (Matmul3)
    for (int m_2 = 0; m_2 <= (edge_1 ? 0 : 15); ++m_2)
    {
      T3_private[0] = splat_float8(0.0f);
      T3_private[1] = splat_float8(0.0f);
      T3_private[2] = splat_float8(0.0f);
      T3_private[3] = splat_float8(0.0f);
      T3_private[4] = splat_float8(0.0f);
      T3_private[5] = splat_float8(0.0f);
      T3_private[6] = splat_float8(0.0f);
      T3_private[7] = splat_float8(0.0f);
      T3_private[8] = splat_float8(0.0f);
      if (inside)
      {
        T3_private[9] = splat_float8(0.0f);
        T3_private[10] = splat_float8(0.0f);
        T3_private[11] = splat_float8(0.0f);
      }
      long const T3_at = 23 * (m_start + 4 * m_2);
      if (32 * gid(1) + 16 * gid(0) + m_2 < 32)
      {
        // a whole tile
        // n2 (Matmul3)
        for (int n2 = 0; n2 < 23; ++n2)
        {
          float const T2_local_0 = T2_local[92 * m_2 + n2];
          float8 const W2_0 = vload_global_float8(W2[23 * n2]);
          float8 const W2_1 = vload_global_float8(W2[23 * n2 + 8]);
          float8 const W2_2 = vloadupto_global_float8(W2[23 * n2 + 16], 7);
          float const T2_local_1 = T2_local[92 * m_2 + n2 + 23];
          float const T2_local_2 = T2_local[92 * m_2 + n2 + 46];
          float const T2_local_3 = T2_local[92 * m_2 + n2 + 69];
          T3_private[0] += T2_local_0 * W2_0;
          T3_private[1] += T2_local_0 * W2_1;
          T3_private[2] += T2_local_0 * W2_2;
          T3_private[3] += T2_local_1 * W2_0;
          T3_private[4] += T2_local_1 * W2_1;
          T3_private[5] += T2_local_1 * W2_2;
          T3_private[6] += T2_local_2 * W2_0;
          T3_private[7] += T2_local_2 * W2_1;
          T3_private[8] += T2_local_2 * W2_2;
          T3_private[9] += T2_local_3 * W2_0;
          T3_private[10] += T2_local_3 * W2_1;
          T3_private[11] += T2_local_3 * W2_2;
        }
        vstore_global_float8(T3[T3_at], T3_private[0]);
        vstore_global_float8(T3[T3_at + 8], T3_private[1]);
        vstoreupto_global_float8(T3[T3_at + 16], T3_private[2], 7);
        vstore_global_float8(T3[T3_at + 23], T3_private[3]);
        vstore_global_float8(T3[T3_at + 31], T3_private[4]);
        vstoreupto_global_float8(T3[T3_at + 39], T3_private[5], 7);
        vstore_global_float8(T3[T3_at + 46], T3_private[6]);
        vstore_global_float8(T3[T3_at + 54], T3_private[7]);
        vstoreupto_global_float8(T3[T3_at + 62], T3_private[8], 7);
        vstore_global_float8(T3[T3_at + 69], T3_private[9]);
        vstore_global_float8(T3[T3_at + 77], T3_private[10]);
        vstoreupto_global_float8(T3[T3_at + 85], T3_private[11], 7);
      }
      else
      {
        // a tile that is cut
        // n2 (Matmul3)
        for (int n2 = 0; n2 < 23; ++n2)
        {
          float const T2_local_0 = T2_local[92 * m_2 + n2];
          float8 const W2_0 = vload_global_float8(W2[23 * n2]);
          float8 const W2_1 = vload_global_float8(W2[23 * n2 + 8]);
          float8 const W2_2 = vloadupto_global_float8(W2[23 * n2 + 16], 7);
          float const T2_local_1 = T2_local[92 * m_2 + n2 + 23];
          float const T2_local_2 = T2_local[92 * m_2 + n2 + 46];
          T3_private[0] += T2_local_0 * W2_0;
          T3_private[1] += T2_local_0 * W2_1;
          T3_private[2] += T2_local_0 * W2_2;
          T3_private[3] += T2_local_1 * W2_0;
          T3_private[4] += T2_local_1 * W2_1;
          T3_private[5] += T2_local_1 * W2_2;
          T3_private[6] += T2_local_2 * W2_0;
          T3_private[7] += T2_local_2 * W2_1;
          T3_private[8] += T2_local_2 * W2_2;
        }
        vstore_global_float8(T3[T3_at], T3_private[0]);
        vstore_global_float8(T3[T3_at + 8], T3_private[1]);
        vstoreupto_global_float8(T3[T3_at + 16], T3_private[2], 7);
        vstore_global_float8(T3[T3_at + 23], T3_private[3]);
        vstore_global_float8(T3[T3_at + 31], T3_private[4]);
        vstoreupto_global_float8(T3[T3_at + 39], T3_private[5], 7);
        vstore_global_float8(T3[T3_at + 46], T3_private[6]);
        vstore_global_float8(T3[T3_at + 54], T3_private[7]);
        vstoreupto_global_float8(T3[T3_at + 62], T3_private[8], 7);
      }
    }
  }
}
