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

// gid(0): m in tiles of 64 (Matmul0)
__kernel void __attribute__ ((reqd_work_group_size(1, 1, 1))) cascade(
    __global float const *__restrict__ T0,
    __global float const *__restrict__ W0,
    __global float *__restrict__ T1)
{
  float8 T1_private[4 * 2];
  __local float W0_local[256 * 16];

  // n0 in tiles of 256 (Matmul0)
  for (int n0_0 = 0; n0_0 < 2; ++n0_0)
    // n1 in tiles of 16 (Matmul0)
    for (int n1_0 = 0; n1_0 < 3; ++n1_0)
    {
      // Storage of W0: fetch n0 (Matmul0)
      for (int n0_W0 = 0; n0_W0 <= (n0_0 == 1 ? 43 : 255); ++n0_W0)
        // Storage of W0: fetch n1 (Matmul0)
        for (int n1_W0 = 0; n1_W0 < 2; ++n1_W0)
          vstore_local_float8(W0_local[16 * n0_W0 + 8 * n1_W0], vloadupto_global_float8(W0[11520 * n0_0 + 16 * n1_0 + 45 * n0_W0 + 8 * n1_W0], 45 - 16 * n1_0 - 8 * n1_W0));
      bool const edge = gid(0) == 1;
      // m in tiles of 4 (Matmul0)
      for (int m_2 = 0; m_2 <= (edge ? 0 : 15); ++m_2)
      {
        long const T1_at = 45 * (64 * gid(0) + 4 * m_2) + 16 * n1_0;
        long const at_m_n0 = 300 * (64 * gid(0) + 4 * m_2) + 256 * n0_0;
        if (16 * gid(0) + m_2 < 16)
        {
          // a whole tile
          if (n0_0 == 0)
          {
            T1_private[0] = splat_float8(0.0f);
            T1_private[1] = splat_float8(0.0f);
            T1_private[2] = splat_float8(0.0f);
            T1_private[3] = splat_float8(0.0f);
            T1_private[4] = splat_float8(0.0f);
            T1_private[5] = splat_float8(0.0f);
            T1_private[6] = splat_float8(0.0f);
            T1_private[7] = splat_float8(0.0f);
          }
          else
          {
            T1_private[0] = vload_global_float8(T1[T1_at]);
            T1_private[1] = vloadupto_global_float8(T1[T1_at + 8], 37 - 16 * n1_0);
            T1_private[2] = vload_global_float8(T1[T1_at + 45]);
            T1_private[3] = vloadupto_global_float8(T1[T1_at + 53], 37 - 16 * n1_0);
            T1_private[4] = vload_global_float8(T1[T1_at + 90]);
            T1_private[5] = vloadupto_global_float8(T1[T1_at + 98], 37 - 16 * n1_0);
            T1_private[6] = vload_global_float8(T1[T1_at + 135]);
            T1_private[7] = vloadupto_global_float8(T1[T1_at + 143], 37 - 16 * n1_0);
          }
          // n0 (Matmul0)
          for (int n0_1 = 0; n0_1 <= (n0_0 == 1 ? 43 : 255); ++n0_1)
          {
            float const T0_0 = T0[at_m_n0 + n0_1];
            float8 const W0_local_0 = vload_local_float8(W0_local[16 * n0_1]);
            float8 const W0_local_1 = vload_local_float8(W0_local[16 * n0_1 + 8]);
            float const T0_1 = T0[at_m_n0 + n0_1 + 300];
            float const T0_2 = T0[at_m_n0 + n0_1 + 600];
            float const T0_3 = T0[at_m_n0 + n0_1 + 900];
            T1_private[0] += T0_0 * W0_local_0;
            T1_private[1] += T0_0 * W0_local_1;
            T1_private[2] += T0_1 * W0_local_0;
            T1_private[3] += T0_1 * W0_local_1;
            T1_private[4] += T0_2 * W0_local_0;
            T1_private[5] += T0_2 * W0_local_1;
            T1_private[6] += T0_3 * W0_local_0;
            T1_private[7] += T0_3 * W0_local_1;
          }
          vstore_global_float8(T1[T1_at], T1_private[0]);
          vstoreupto_global_float8(T1[T1_at + 8], T1_private[1], 37 - 16 * n1_0);
          vstore_global_float8(T1[T1_at + 45], T1_private[2]);
          vstoreupto_global_float8(T1[T1_at + 53], T1_private[3], 37 - 16 * n1_0);
          vstore_global_float8(T1[T1_at + 90], T1_private[4]);
          vstoreupto_global_float8(T1[T1_at + 98], T1_private[5], 37 - 16 * n1_0);
          vstore_global_float8(T1[T1_at + 135], T1_private[6]);
          vstoreupto_global_float8(T1[T1_at + 143], T1_private[7], 37 - 16 * n1_0);
        }
        else
        {
          // a tile that is cut
          if (n0_0 == 0)
          {
            T1_private[0] = splat_float8(0.0f);
            T1_private[1] = splat_float8(0.0f);
            T1_private[2] = splat_float8(0.0f);
            T1_private[3] = splat_float8(0.0f);
            T1_private[4] = splat_float8(0.0f);
            T1_private[5] = splat_float8(0.0f);
          }
          else
          {
            T1_private[0] = vload_global_float8(T1[T1_at]);
            T1_private[1] = vloadupto_global_float8(T1[T1_at + 8], 37 - 16 * n1_0);
            T1_private[2] = vload_global_float8(T1[T1_at + 45]);
            T1_private[3] = vloadupto_global_float8(T1[T1_at + 53], 37 - 16 * n1_0);
            T1_private[4] = vload_global_float8(T1[T1_at + 90]);
            T1_private[5] = vloadupto_global_float8(T1[T1_at + 98], 37 - 16 * n1_0);
          }
          // n0 (Matmul0)
          for (int n0_1 = 0; n0_1 <= (n0_0 == 1 ? 43 : 255); ++n0_1)
          {
            float const T0_0 = T0[at_m_n0 + n0_1];
            float8 const W0_local_0 = vload_local_float8(W0_local[16 * n0_1]);
            float8 const W0_local_1 = vload_local_float8(W0_local[16 * n0_1 + 8]);
            float const T0_1 = T0[at_m_n0 + n0_1 + 300];
            float const T0_2 = T0[at_m_n0 + n0_1 + 600];
            T1_private[0] += T0_0 * W0_local_0;
            T1_private[1] += T0_0 * W0_local_1;
            T1_private[2] += T0_1 * W0_local_0;
            T1_private[3] += T0_1 * W0_local_1;
            T1_private[4] += T0_2 * W0_local_0;
            T1_private[5] += T0_2 * W0_local_1;
          }
          vstore_global_float8(T1[T1_at], T1_private[0]);
          vstoreupto_global_float8(T1[T1_at + 8], T1_private[1], 37 - 16 * n1_0);
          vstore_global_float8(T1[T1_at + 45], T1_private[2]);
          vstoreupto_global_float8(T1[T1_at + 53], T1_private[3], 37 - 16 * n1_0);
          vstore_global_float8(T1[T1_at + 90], T1_private[4]);
          vstoreupto_global_float8(T1[T1_at + 98], T1_private[5], 37 - 16 * n1_0);
        }
      }
    }
}
