/* Vectors of LANES numbers, which fill a register, at any element's address. LLVM keeps vectors of 64 bytes whole in a kernel that passes one
   to a function. */
#if LANES == 16
typedef float16 many;
typedef int16 counts;
#define as_many as_float16
#define as_counts as_int16
#define LANE ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
typedef float8 many;
typedef int8 counts;
#define as_many as_float8
#define as_counts as_int8
#define LANE ((int8)(0, 1, 2, 3, 4, 5, 6, 7))
#endif
typedef many loose __attribute__((aligned(4), may_alias));

static inline many whole(many v) { return v; }

#define READ(p) whole(*(__global loose const *)(p))
#define WRITE(p, v) (*(__global loose *)(p) = (v))
#define HERE(p) (*(__local loose *)(p))

/* A row of so many numbers in whole vectors, the last of which begins early enough to end with it. */
#define VECTORS(count) (((count) + LANES - 1) / LANES)
#define PLACE(v, count) (LANES * (v) + LANES <= (count) ? LANES * (v) : (count) - LANES)

#define UNROLLED _Pragma("unroll")

/* Of a row of so many vectors, how many a register tile takes and, at the most, of how many rows: sums fill three quarters of REGISTERS.
   Where these are 16, a tile has few columns: each row meets the vectors of the right side, which lie in registers, too. */
#define SUMS (REGISTERS / 4 * 3)
#define ACROSS(vectors) (REGISTERS >= 32 || (vectors) <= 3 || (vectors) == 5 ? (vectors) : (vectors) % 3 ? 2 : 3)
#define DOWN(vectors) (SUMS / ACROSS(vectors))
#define TIMES(vectors) (((vectors) + ACROSS(vectors) - 1) / ACROSS(vectors))
#define START(t, vectors) min((t) * ACROSS(vectors), (vectors) - ACROSS(vectors))
#define EVENLY(rows, most) (((rows) + ((rows) + (most) - 1) / (most) - 1) / (((rows) + (most) - 1) / (most)))

/* A register tile: sums over k of LEFT(r, k), one number, times RIGHT(k, v), a vector. KEEP(r, v) finds them in sum[r][v]. */
#define TILE(rows, vectors, deep, LEFT, RIGHT, KEEP) \
  { \
    many sum[rows][vectors]; \
    UNROLLED for (int r = 0; r < rows; ++r) \
      UNROLLED for (int v = 0; v < vectors; ++v) sum[r][v] = whole(0); \
    for (int k = 0; k < deep; ++k) \
    { \
      many right[vectors]; \
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

#if LANES == 16
#define HALVES(v, JOIN) JOIN((v).lo, (v).hi)
#else
#define HALVES(v, JOIN) (v)
#endif
#define TOTAL(a, b) ((a) + (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

static inline float sum_of(many v)
{
  float8 a = HALVES(v, TOTAL);
  float4 b = a.lo + a.hi;
  float2 c = b.lo + b.hi;
  return c.x + c.y;
}

static inline many larger(many a, many b) { return a > b ? a : b; }

static inline float largest_of(many v)
{
  float8 a = HALVES(v, LARGER);
  float4 b = a.lo > a.hi ? a.lo : a.hi;
  float2 c = b.lo > b.hi ? b.lo : b.hi;
  return c.x > c.y ? c.x : c.y;
}

/* Cody and Waite's reduction, a polynomial of degree 6, and the power of two put together from bits. Of numbers up to 88. */
static inline many exponential_of(many x)
{
  many y = x > -87.0f ? x : (many)(-87.0f);
  many n = y * 1.44269504f + 12582912.0f;
  counts e = as_counts(n) << 23;
  n = n - 12582912.0f;
  many r = y - n * 0.693145752f - n * 1.42860677e-6f;
  many p = 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return as_many(as_counts(p) + e);
}

/* GELU: erf is a polynomial below 1, and 1 less the eighth power of one above. */
static inline many gelu_of(many x)
{
  many y = x * 0.70710677f, size = as_many(as_counts(y) & 0x7fffffff), z = y * y;
  many far = size > 4.0f ? (many)(4.0f) : size;
  many root = 1.498488418e-4f;
  root = root * far - 2.469727071e-3f;
  root = root * far + 1.292584930e-2f;
  root = root * far - 1.137353666e-2f;
  root = root * far - 6.142636389e-2f;
  root = root * far - 1.450605839e-1f;
  root = root * far + 1.000834703f;
  root = root * root;
  root = root * root;
  many large = 1.0f - root * root;
  many p = -5.631664535e-4f;
  p = p * z + 4.917618819e-3f;
  p = p * z - 2.671138011e-2f;
  p = p * z + 1.128018349e-1f;
  p = p * z - 3.761232793e-1f;
  p = p * z + 1.283791214e-1f;
  return 0.5f * x * (1.0f + as_many(as_counts(size < 1.0f ? y + y * p : large) | (as_counts(x) & (int) 0x80000000)));
}

/* Rows and columns of LANES vectors exchanged: blocks of one, two, four and eight at a time. */
#define INDICES(...) __VA_ARGS__
#define EXCHANGE(t, step, LOW, HIGH) \
  UNROLLED for (int n = 0; n < LANES; ++n) \
    if (!(n & step)) \
    { \
      many a = t[n], b = t[n + step]; \
      t[n] = __builtin_shufflevector(a, b, INDICES LOW); \
      t[n + step] = __builtin_shufflevector(a, b, INDICES HIGH); \
    }
#if LANES == 16
#define TRANSPOSE(t) \
  EXCHANGE(t, 1, (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30), (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)) \
  EXCHANGE(t, 2, (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29), (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)) \
  EXCHANGE(t, 4, (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27), (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)) \
  EXCHANGE(t, 8, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23), (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
#else
#define TRANSPOSE(t) \
  EXCHANGE(t, 1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)) \
  EXCHANGE(t, 2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)) \
  EXCHANGE(t, 4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
#endif
