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

#if defined(__clang__) && defined(__AVX512VL__)
/* A whole vector, or the elements that are there, and zeros: no other memory is touched. */
static inline float8 vloadupto_local_float8_at(__local float const *at, int count)
{
  if (count >= 8) return get_float8(__local, at);
  return __builtin_astype(__builtin_ia32_loadups256_mask((void const *)(size_t)at, __builtin_astype((float8)(0.0f), float __attribute__((vector_size(32)))), (unsigned char)((1u << max(count, 0)) - 1u)), float8);
}
#else
/* A whole vector where there is one; at the end of a row the elements that are there, by two vectors that overlap, and zeros. */
static inline float8 vloadupto_local_float8_at(__local float const *at, int count)
{
  float4 low4, high4;
  float2 low2, high2;
  if (count >= 8) return get_float8(__local, at);
  switch (count)
  {
    case 7: low4 = get_float4(__local, at); high4 = get_float4(__local, at + 3); return (float8)(low4, high4.s12, high4.s3, 0);
    case 6: low4 = get_float4(__local, at); high4 = get_float4(__local, at + 2); return (float8)(low4, high4.s23, 0, 0);
    case 5: low4 = get_float4(__local, at); return (float8)(low4, at[4], 0, 0, 0);
    case 4: low4 = get_float4(__local, at); return (float8)(low4, 0, 0, 0, 0);
    case 3: low2 = get_float2(__local, at); return (float8)(low2, at[2], 0, 0, 0, 0, 0);
    case 2: low2 = get_float2(__local, at); return (float8)(low2, 0, 0, 0, 0, 0, 0);
    case 1: return (float8)(at[0], 0, 0, 0, 0, 0, 0, 0);
  }
  return 0;
}
#endif
#define vloadupto_local_float8(x, count) vloadupto_local_float8_at(&(x), count)

static inline void vstore_local_float8_at(__local float *at, float8 value)
{
  set_float8(__local, at, value);
}
#define vstore_local_float8(x, value) vstore_local_float8_at(&(x), value)

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

// gid(1): i in tiles of 16 (T, Y)
// gid(0): i in tiles of 8 (T, Y)
__kernel void __attribute__ ((reqd_work_group_size(1, 1, 1))) cascade(
    __global float const *__restrict__ X,
    __global float const *__restrict__ C,
    __global float const *__restrict__ B,
    __global float *__restrict__ Y)
{
  int const i_start = 16 * gid(1) + 8 * gid(0);
  __local float T_local[8 * 40];
  float8 T_private[2 * 4];
  __local float Y_local[35];
  float8 Y_private[4];

  if (2 * gid(1) + gid(0) < 3)
  {
    bool const edge = gid(0) == 0 && gid(1) == 1;
    // i (T, Y)
    for (int i_2 = 0; i_2 <= (edge ? 2 : 7); ++i_2)
    {
      // j in tiles of 8 (T, Y)
      for (int j_0 = 0; j_0 < 3; ++j_0)
      {
        // j in tiles of 2 (T)
        for (int j_1 = 0; j_1 <= (j_0 == 2 ? 1 : 3); ++j_1)
          // r in tiles of 32 (T)
          for (int r_0 = 0; r_0 < 2; ++r_0)
          {
            T_private[0] = splat_float8(0.0f);
            long const at_i_j = 361 * (i_start + i_2) + 19 * (8 * j_0 + 2 * j_1);
            long const T_local_at = 80 * j_1 + 32 * r_0;
            bool const inside_j = 4 * j_0 + j_1 < 9;
            if (r_0 == 0 && inside_j)
            {
              // a whole tile
              T_private[1] = splat_float8(0.0f);
              T_private[2] = splat_float8(0.0f);
              T_private[3] = splat_float8(0.0f);
              T_private[4] = splat_float8(0.0f);
              T_private[5] = splat_float8(0.0f);
              T_private[6] = splat_float8(0.0f);
              T_private[7] = splat_float8(0.0f);
              // k (T)
              for (int k = 0; k < 19; ++k)
              {
                float const X_0 = X[at_i_j + k];
                long const C_at = 32 * r_0 + 35 * k;
                float8 const C_0 = vload_global_float8(C[C_at]);
                float const X_1 = X[at_i_j + k + 19];
                float8 const C_1 = vload_global_float8(C[C_at + 8]);
                float8 const C_2 = vload_global_float8(C[C_at + 16]);
                float8 const C_3 = vload_global_float8(C[C_at + 24]);
                T_private[0] += X_0 * C_0;
                T_private[4] += X_1 * C_0;
                T_private[1] += X_0 * C_1;
                T_private[5] += X_1 * C_1;
                T_private[2] += X_0 * C_2;
                T_private[6] += X_1 * C_2;
                T_private[3] += X_0 * C_3;
                T_private[7] += X_1 * C_3;
              }
              vstore_local_float8(T_local[T_local_at], T_private[0]);
              vstore_local_float8(T_local[T_local_at + 8], T_private[1]);
              vstore_local_float8(T_local[T_local_at + 16], T_private[2]);
              vstore_local_float8(T_local[T_local_at + 24], T_private[3]);
              vstore_local_float8(T_local[T_local_at + 40], T_private[4]);
              vstore_local_float8(T_local[T_local_at + 48], T_private[5]);
              vstore_local_float8(T_local[T_local_at + 56], T_private[6]);
              vstore_local_float8(T_local[T_local_at + 64], T_private[7]);
            }
            else
            {
              // a tile that is cut
              if (r_0 == 0)
              {
                T_private[1] = splat_float8(0.0f);
                T_private[2] = splat_float8(0.0f);
                T_private[3] = splat_float8(0.0f);
                // k (T)
                for (int k = 0; k < 19; ++k)
                {
                  float const X_0 = X[at_i_j + k];
                  long const C_at = 32 * r_0 + 35 * k;
                  T_private[0] += X_0 * vload_global_float8(C[C_at]);
                  T_private[1] += X_0 * vload_global_float8(C[C_at + 8]);
                  T_private[2] += X_0 * vload_global_float8(C[C_at + 16]);
                  T_private[3] += X_0 * vload_global_float8(C[C_at + 24]);
                }
                vstore_local_float8(T_local[T_local_at], T_private[0]);
                vstore_local_float8(T_local[T_local_at + 8], T_private[1]);
                vstore_local_float8(T_local[T_local_at + 16], T_private[2]);
                vstore_local_float8(T_local[T_local_at + 24], T_private[3]);
              }
              else if (inside_j)
              {
                T_private[4] = splat_float8(0.0f);
                // k (T)
                for (int k = 0; k < 19; ++k)
                {
                  float8 const C_0 = vloadupto_global_float8(C[32 * r_0 + 35 * k], 3);
                  T_private[0] += X[at_i_j + k] * C_0;
                  T_private[4] += X[at_i_j + k + 19] * C_0;
                }
                vstore_local_float8(T_local[T_local_at], T_private[0]);
                vstore_local_float8(T_local[T_local_at + 40], T_private[4]);
              }
              else
              {
                // k (T)
                for (int k = 0; k < 19; ++k)
                  T_private[0] += X[at_i_j + k] * vloadupto_global_float8(C[32 * r_0 + 35 * k], 3);
                vstore_local_float8(T_local[T_local_at], T_private[0]);
              }
            }
          }
        // r in tiles of 32 (Y)
        for (int r_0 = 0; r_0 < 2; ++r_0)
        {
          long const at_j_r = 280 * j_0 + 32 * r_0;
          if (r_0 == 0)
          {
            // a whole tile
            if (j_0 == 0)
            {
              Y_private[0] = splat_float8(0.0f);
              Y_private[1] = splat_float8(0.0f);
              Y_private[2] = splat_float8(0.0f);
              Y_private[3] = splat_float8(0.0f);
            }
            else
            {
              Y_private[0] = vload_local_float8(Y_local[32 * r_0]);
              Y_private[1] = vload_local_float8(Y_local[32 * r_0 + 8]);
              Y_private[2] = vload_local_float8(Y_local[32 * r_0 + 16]);
              Y_private[3] = vload_local_float8(Y_local[32 * r_0 + 24]);
            }
            // j (Y)
            for (int j_1 = 0; j_1 <= (j_0 == 2 ? 2 : 7); ++j_1)
            {
              long const T_local_at = 32 * r_0 + 40 * j_1;
              Y_private[0] += vload_local_float8(T_local[T_local_at]) * vload_global_float8(B[at_j_r + 35 * j_1]);
              Y_private[1] += vload_local_float8(T_local[T_local_at + 8]) * vload_global_float8(B[at_j_r + 35 * j_1 + 8]);
              Y_private[2] += vload_local_float8(T_local[T_local_at + 16]) * vload_global_float8(B[at_j_r + 35 * j_1 + 16]);
              Y_private[3] += vload_local_float8(T_local[T_local_at + 24]) * vload_global_float8(B[at_j_r + 35 * j_1 + 24]);
            }
            vstore_local_float8(Y_local[32 * r_0], Y_private[0]);
            vstore_local_float8(Y_local[32 * r_0 + 8], Y_private[1]);
            vstore_local_float8(Y_local[32 * r_0 + 16], Y_private[2]);
            vstore_local_float8(Y_local[32 * r_0 + 24], Y_private[3]);
          }
          else
          {
            // a tile that is cut
            if (j_0 == 0)
              Y_private[0] = splat_float8(0.0f);
            else
              Y_private[0] = vloadupto_local_float8(Y_local[32 * r_0], 3);
            // j (Y)
            for (int j_1 = 0; j_1 <= (j_0 == 2 ? 2 : 7); ++j_1)
              Y_private[0] += vload_local_float8(T_local[32 * r_0 + 40 * j_1]) * vloadupto_global_float8(B[at_j_r + 35 * j_1], 3);
            vstoreupto_local_float8(Y_local[32 * r_0], Y_private[0], 3);
          }
        }
      }
      // Storage of Y: write back r (Y)
      for (int r_Y = 0; r_Y < 35; ++r_Y)
        Y[35 * (i_start + i_2) + r_Y] = Y_local[r_Y];
    }
  }
}
