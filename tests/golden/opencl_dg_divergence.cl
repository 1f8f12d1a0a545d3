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

#define splat_float8(x) ((float8)(x))
#define vload_global_float8(x) get_float8(__global, &(x))
#define vload_local_float8(x) get_float8(__local, &(x))

/* A whole vector where there is one; at the end of a row the elements that are there, and zeros. */
static inline float8 vloadupto_global_float8_at(__global float const *at, int count)
{
  if (count >= 8) return get_float8(__global, at);
  float8 some = 0;
  if (count >= 4)
  {
    some.s0123 = get_float4(__global, at);
    if (count > 4) some.s4 = at[4];
    if (count > 5) some.s5 = at[5];
    if (count > 6) some.s6 = at[6];
  }
  else
  {
    if (count > 0) some.s0 = at[0];
    if (count > 1) some.s1 = at[1];
    if (count > 2) some.s2 = at[2];
  }
  return some;
}
#define vloadupto_global_float8(x, count) vloadupto_global_float8_at(&(x), count)

static inline float vstore_global_float8_at(__global float *at, float8 value)
{
  set_float8(__global, at, value);
  return value.s0;
}
#define vstore_global_float8(x, value) vstore_global_float8_at(&(x), value)

static inline float vstore_local_float8_at(__local float *at, float8 value)
{
  set_float8(__local, at, value);
  return value.s0;
}
#define vstore_local_float8(x, value) vstore_local_float8_at(&(x), value)

static inline float vstoreupto_global_float8_at(__global float *at, float8 value, int count)
{
  if (count >= 8)
  {
    set_float8(__global, at, value);
    return value.s0;
  }
  if (count >= 4)
  {
    set_float4(__global, at, value.s0123);
    if (count > 4) at[4] = value.s4;
    if (count > 5) at[5] = value.s5;
    if (count > 6) at[6] = value.s6;
  }
  else
  {
    if (count > 0) at[0] = value.s0;
    if (count > 1) at[1] = value.s1;
    if (count > 2) at[2] = value.s2;
  }
  return value.s0;
}
#define vstoreupto_global_float8(x, value, count) vstoreupto_global_float8_at(&(x), value, count)

static inline float vstoreupto_local_float8_at(__local float *at, float8 value, int count)
{
  if (count >= 8)
  {
    set_float8(__local, at, value);
    return value.s0;
  }
  if (count >= 4)
  {
    set_float4(__local, at, value.s0123);
    if (count > 4) at[4] = value.s4;
    if (count > 5) at[5] = value.s5;
    if (count > 6) at[6] = value.s6;
  }
  else
  {
    if (count > 0) at[0] = value.s0;
    if (count > 1) at[1] = value.s1;
    if (count > 2) at[2] = value.s2;
  }
  return value.s0;
}
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

  // e (T)
  for (int e_2 = 0; e_2 <= (gid(0) == 1 && gid(1) == 390 ? 15 : 63); ++e_2)
    // j in tiles of 16 (T)
    for (int j_0 = 0; j_0 < 3; ++j_0)
    {
      T_private[0] = splat_float8(0.0f);
      T_private[2] = splat_float8(0.0f);
      T_private[4] = splat_float8(0.0f);
      if (j_0 <= 1)
      {
        T_private[1] = splat_float8(0.0f);
        T_private[3] = splat_float8(0.0f);
        T_private[5] = splat_float8(0.0f);
      }
      // x (T)
      for (int x = 0; x < 3; ++x)
      {
        int const U_at = 1750000 * x + 35 * (e_start + e_2) + 16 * j_0;
        float8 const U_0 = vloadupto_global_float8(U[U_at], 35 - 16 * j_0);
        int const G_at = 150000 * x + e_start + e_2;
        T_private[0] += G[G_at] * U_0;
        T_private[2] += G[G_at + 50000] * U_0;
        T_private[4] += G[G_at + 100000] * U_0;
        if (j_0 <= 1)
        {
          float8 const U_1 = vload_global_float8(U[U_at + 8]);
          T_private[1] += G[G_at] * U_1;
          T_private[3] += G[G_at + 50000] * U_1;
          T_private[5] += G[G_at + 100000] * U_1;
        }
      }
      int const T_local_at = 35 * e_2 + 16 * j_0;
      vstoreupto_local_float8(T_local[T_local_at], T_private[0], 35 - 16 * j_0);
      vstoreupto_local_float8(T_local[T_local_at + 2240], T_private[2], 35 - 16 * j_0);
      vstoreupto_local_float8(T_local[T_local_at + 4480], T_private[4], 35 - 16 * j_0);
      if (j_0 <= 1)
      {
        vstore_local_float8(T_local[T_local_at + 8], T_private[1]);
        vstore_local_float8(T_local[T_local_at + 2248], T_private[3]);
        vstore_local_float8(T_local[T_local_at + 4488], T_private[5]);
      }
    }
  // i in tiles of 16 (D)
  for (int i_0 = 0; i_0 < 3; ++i_0)
  {
    // Storage of S: fetch r (D)
    for (int r_S = 0; r_S < 3; ++r_S)
      // Storage of S: fetch i (D)
      for (int i_S = 0; i_S <= (i_0 == 2 ? 2 : 15); ++i_S)
        // Storage of S: fetch j (D)
        for (int j_S = 0; j_S < 35; ++j_S)
          S_local[560 * r_S + i_S + 16 * j_S] = S[560 * i_0 + 1225 * r_S + 35 * i_S + j_S];
    // e in tiles of 4 (D)
    for (int e_2 = 0; e_2 <= (2 * gid(1) + gid(0) == 781 ? 3 : 15); ++e_2)
    {
      D_private[0] = splat_float8(0.0f);
      D_private[2] = splat_float8(0.0f);
      D_private[4] = splat_float8(0.0f);
      D_private[6] = splat_float8(0.0f);
      if (i_0 <= 1)
      {
        D_private[1] = splat_float8(0.0f);
        D_private[3] = splat_float8(0.0f);
        D_private[5] = splat_float8(0.0f);
        D_private[7] = splat_float8(0.0f);
      }
      // r (D)
      for (int r = 0; r < 3; ++r)
        // j (D)
        for (int j = 0; j < 35; ++j)
        {
          int const S_local_at = 560 * r + 16 * j;
          float8 const S_local_0 = vload_local_float8(S_local[S_local_at]);
          int const T_local_at = 140 * e_2 + 2240 * r + j;
          D_private[0] += S_local_0 * T_local[T_local_at];
          D_private[2] += S_local_0 * T_local[T_local_at + 35];
          D_private[4] += S_local_0 * T_local[T_local_at + 70];
          D_private[6] += S_local_0 * T_local[T_local_at + 105];
          if (i_0 <= 1)
          {
            float8 const S_local_1 = vload_local_float8(S_local[S_local_at + 8]);
            D_private[1] += S_local_1 * T_local[T_local_at];
            D_private[3] += S_local_1 * T_local[T_local_at + 35];
            D_private[5] += S_local_1 * T_local[T_local_at + 70];
            D_private[7] += S_local_1 * T_local[T_local_at + 105];
          }
        }
      int const D_at = 35 * (e_start + 4 * e_2) + 16 * i_0;
      vstoreupto_global_float8(D[D_at], D_private[0], 35 - 16 * i_0);
      vstoreupto_global_float8(D[D_at + 35], D_private[2], 35 - 16 * i_0);
      vstoreupto_global_float8(D[D_at + 70], D_private[4], 35 - 16 * i_0);
      vstoreupto_global_float8(D[D_at + 105], D_private[6], 35 - 16 * i_0);
      if (i_0 <= 1)
      {
        vstore_global_float8(D[D_at + 8], D_private[1]);
        vstore_global_float8(D[D_at + 43], D_private[3]);
        vstore_global_float8(D[D_at + 78], D_private[5]);
        vstore_global_float8(D[D_at + 113], D_private[7]);
      }
    }
  }
}
