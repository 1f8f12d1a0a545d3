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

/* Each number times i: the parts exchanged, and the sign of the first one flipped. */
static inline float8 turned_cfloat4(float8 x)
{
  return as_float8(as_int8(x.s10325476) ^ (int8)(0x80000000, 0, 0x80000000, 0, 0x80000000, 0, 0x80000000, 0));
}

#ifndef PYOPENCL_COMPLEX_ENABLE_EXTENDED_ALIGNMENT
#define PYOPENCL_COMPLEX_ENABLE_EXTENDED_ALIGNMENT 1
#endif

#include <pyopencl-complex.h>

#define splat_cfloat4(x) ((float8)((x).real, (x).imag, (x).real, (x).imag, (x).real, (x).imag, (x).real, (x).imag))
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

#define vmadby_cfloat4(sum, x, y) ((sum) + (x).real * (y) + (x).imag * turned_cfloat4(y))

static inline void vstore_global_float8_at(__global float *at, float8 value)
{
  set_float8(__global, at, value);
}
#define vstore_global_float8(x, value) vstore_global_float8_at(&(x), value)

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

#define vload_global_cfloat4(x) vload_global_float8((*(__global float *)&(x)))
#define vloadupto_global_cfloat4(x, count) vloadupto_global_float8((*(__global float *)&(x)), 2 * (count))
#define vstore_global_cfloat4(x, value) vstore_global_float8((*(__global float *)&(x)), value)
#define vstoreupto_global_cfloat4(x, value, count) vstoreupto_global_float8((*(__global float *)&(x)), value, 2 * (count))

__kernel void __attribute__ ((reqd_work_group_size(1, 1, 1))) cascade(
    __global cfloat_t const *__restrict__ A,
    __global cfloat_t const *__restrict__ B,
    __global cfloat_t *__restrict__ Z)
{
  float8 Z_private[3 * 2];

  // n in tiles of 8 (Z)
  for (int n_0 = 0; n_0 < 2; ++n_0)
  {
    Z_private[0] = splat_cfloat4(cfloat_new(0.0f, 0.0f));
    Z_private[2] = splat_cfloat4(cfloat_new(0.0f, 0.0f));
    Z_private[4] = splat_cfloat4(cfloat_new(0.0f, 0.0f));
    if (n_0 == 0)
    {
      // a whole tile
      Z_private[1] = splat_cfloat4(cfloat_new(0.0f, 0.0f));
      Z_private[3] = splat_cfloat4(cfloat_new(0.0f, 0.0f));
      Z_private[5] = splat_cfloat4(cfloat_new(0.0f, 0.0f));
      // k (Z)
      for (int k = 0; k < 5; ++k)
      {
        cfloat_t const A_0 = A[3 * k];
        long const B_at = 8 * n_0 + 11 * k;
        float8 const B_0 = vload_global_cfloat4(B[B_at]);
        float8 const B_1 = vload_global_cfloat4(B[B_at + 4]);
        cfloat_t const A_1 = A[3 * k + 1];
        cfloat_t const A_2 = A[3 * k + 2];
        Z_private[0] = vmadby_cfloat4(Z_private[0], cfloat_conj(A_0), B_0);
        Z_private[1] = vmadby_cfloat4(Z_private[1], cfloat_conj(A_0), B_1);
        Z_private[2] = vmadby_cfloat4(Z_private[2], cfloat_conj(A_1), B_0);
        Z_private[3] = vmadby_cfloat4(Z_private[3], cfloat_conj(A_1), B_1);
        Z_private[4] = vmadby_cfloat4(Z_private[4], cfloat_conj(A_2), B_0);
        Z_private[5] = vmadby_cfloat4(Z_private[5], cfloat_conj(A_2), B_1);
      }
      vstore_global_cfloat4(Z[8 * n_0], Z_private[0]);
      vstore_global_cfloat4(Z[8 * n_0 + 11], Z_private[2]);
      vstore_global_cfloat4(Z[8 * n_0 + 22], Z_private[4]);
      vstore_global_cfloat4(Z[8 * n_0 + 4], Z_private[1]);
      vstore_global_cfloat4(Z[8 * n_0 + 15], Z_private[3]);
      vstore_global_cfloat4(Z[8 * n_0 + 26], Z_private[5]);
    }
    else
    {
      // a tile that is cut
      // k (Z)
      for (int k = 0; k < 5; ++k)
      {
        float8 const B_0 = vloadupto_global_cfloat4(B[8 * n_0 + 11 * k], 3);
        Z_private[0] = vmadby_cfloat4(Z_private[0], cfloat_conj(A[3 * k]), B_0);
        Z_private[2] = vmadby_cfloat4(Z_private[2], cfloat_conj(A[3 * k + 1]), B_0);
        Z_private[4] = vmadby_cfloat4(Z_private[4], cfloat_conj(A[3 * k + 2]), B_0);
      }
      vstoreupto_global_cfloat4(Z[8 * n_0], Z_private[0], 3);
      vstoreupto_global_cfloat4(Z[8 * n_0 + 11], Z_private[2], 3);
      vstoreupto_global_cfloat4(Z[8 * n_0 + 22], Z_private[4], 3);
    }
  }
}
