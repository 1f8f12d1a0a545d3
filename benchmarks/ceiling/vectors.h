/* Vectors at any element's address. LLVM keeps vectors of 64 bytes whole in a kernel that passes one to a function. */
typedef float16 any16 __attribute__((aligned(4), may_alias));

static inline float16 whole(float16 v) { return v; }

#define LOAD16(p) whole(*(__global any16 const *)(p))
#define STORE16(p, v) (*(__global any16 *)(p) = (v))

static inline float sum16(float16 v)
{
  float8 a = v.lo + v.hi;
  float4 b = a.lo + a.hi;
  float2 c = b.lo + b.hi;
  return c.x + c.y;
}

