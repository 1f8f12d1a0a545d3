/* Vectors at any element's address. LLVM keeps vectors of 64 bytes whole in a kernel that passes one to a function. */
typedef float16 any16 __attribute__((aligned(4), may_alias));

static inline float16 whole(float16 v) { return v; }

#define LOAD16(p) whole(*(__global any16 const *)(p))
#define STORE16(p, v) (*(__global any16 *)(p) = (v))
#define NEAR16(p) (*(__local any16 *)(p))
#define LANE ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

/* A row of so many numbers in whole vectors, the last of which begins early enough to end with it. */
#define VECTORS(count) (((count) + 15) / 16)
#define PLACE(v, count) (16 * (v) + 16 <= (count) ? 16 * (v) : (count) - 16)

#define UNROLLED _Pragma("unroll")

/* A register tile: sums over k of LEFT(r, k), one number, times RIGHT(k, v), a vector. KEEP(r, v) finds them in sum[r][v]. */
#define TILE(rows, vectors, deep, LEFT, RIGHT, KEEP) \
  { \
    float16 sum[rows][vectors]; \
    UNROLLED for (int r = 0; r < rows; ++r) \
      UNROLLED for (int v = 0; v < vectors; ++v) sum[r][v] = whole(0); \
    for (int k = 0; k < deep; ++k) \
    { \
      float16 right[vectors]; \
      UNROLLED for (int v = 0; v < vectors; ++v) right[v] = RIGHT(k, v); \
      UNROLLED for (int r = 0; r < rows; ++r) \
      { \
        float left = LEFT(r, k); \
        UNROLLED for (int v = 0; v < vectors; ++v) sum[r][v] += left * right[v]; \
      } \
    } \
    UNROLLED for (int r = 0; r < rows; ++r) \
      UNROLLED for (int v = 0; v < vectors; ++v) { KEEP(r, v) } \
  }

static inline float sum16(float16 v)
{
  float8 a = v.lo + v.hi;
  float4 b = a.lo + a.hi;
  float2 c = b.lo + b.hi;
  return c.x + c.y;
}

static inline float16 larger(float16 a, float16 b) { return a > b ? a : b; }

static inline float largest16(float16 v)
{
  float8 a = v.lo > v.hi ? v.lo : v.hi;
  float4 b = a.lo > a.hi ? a.lo : a.hi;
  float2 c = b.lo > b.hi ? b.lo : b.hi;
  return c.x > c.y ? c.x : c.y;
}

/* Cody and Waite's reduction, a polynomial of degree 6, and the power of two put together from bits. Of numbers up to 88. */
static inline float16 exponential_of(float16 x)
{
  float16 y = x > -87.0f ? x : (float16)(-87.0f);
  float16 n = y * 1.44269504f + 12582912.0f;
  int16 e = as_int16(n) << 23;
  n = n - 12582912.0f;
  float16 r = y - n * 0.693145752f - n * 1.42860677e-6f;
  float16 p = 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return as_float16(as_int16(p) + e);
}

/* GELU: erf is a polynomial below 1, and 1 less the eighth power of one above. */
static inline float16 gelu_of(float16 x)
{
  float16 y = x * 0.70710677f, size = as_float16(as_int16(y) & 0x7fffffff), z = y * y;
  float16 far = size > 4.0f ? (float16)(4.0f) : size;
  float16 root = 1.498488418e-4f;
  root = root * far - 2.469727071e-3f;
  root = root * far + 1.292584930e-2f;
  root = root * far - 1.137353666e-2f;
  root = root * far - 6.142636389e-2f;
  root = root * far - 1.450605839e-1f;
  root = root * far + 1.000834703f;
  root = root * root;
  root = root * root;
  float16 large = 1.0f - root * root;
  float16 p = -5.631664535e-4f;
  p = p * z + 4.917618819e-3f;
  p = p * z - 2.671138011e-2f;
  p = p * z + 1.128018349e-1f;
  p = p * z - 3.761232793e-1f;
  p = p * z + 1.283791214e-1f;
  return 0.5f * x * (1.0f + as_float16(as_int16(size < 1.0f ? y + y * p : large) | (as_int16(x) & (int) 0x80000000)));
}

/* Rows and columns of 16 vectors exchanged: blocks of one, two, four and eight at a time. */
#define INDICES(...) __VA_ARGS__
#define EXCHANGE(t, step, LOW, HIGH) \
  UNROLLED for (int n = 0; n < 16; ++n) \
    if (!(n & step)) \
    { \
      float16 a = t[n], b = t[n + step]; \
      t[n] = __builtin_shufflevector(a, b, INDICES LOW); \
      t[n + step] = __builtin_shufflevector(a, b, INDICES HIGH); \
    }
#define TRANSPOSE(t) \
  EXCHANGE(t, 1, (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30), (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)) \
  EXCHANGE(t, 2, (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29), (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)) \
  EXCHANGE(t, 4, (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27), (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)) \
  EXCHANGE(t, 8, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23), (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
