// Shared by every kernel: included once at the top of each program.
//
// T below is a storage type: float half int uint long ulong char uchar. Arithmetic on half is done in float, so
// that the same source runs with and without cl_khr_fp16. Names that end in 8 work on eight consecutive elements,
// names that end in 1 on one.

// long8 by value between functions of one program is safe; clang would warn of it on standard error.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpsabi"
#endif

#define CAT2_(a, b) a##b
#define CAT2(a, b) CAT2_(a, b)

// Eight lanes converted to the vector type V. pip PoCL's convert_V() gets long8 and ulong8 wrong in either direction
// (512-bit arguments of library functions), and calls a function where one instruction would do.
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector)
#define LANES8(V, v) __builtin_convertvector((v), V)
#endif
#endif
#ifndef LANES8
#define LANES8(V, v) CAT2(convert_, V)(v)
#endif

// Eight halves (as short8) to float8 and back, to nearest even, in the one instruction that x86 has for it; PoCL's
// library takes many.
#if defined(__F16C__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_vcvtph2ps256) && __has_builtin(__builtin_ia32_vcvtps2ph256)
#define HALF8_TO_FLOAT8(v) __builtin_ia32_vcvtph2ps256(v)
#define FLOAT8_TO_HALF8(v) __builtin_ia32_vcvtps2ph256((v), 0)
#endif
#endif

// For the body of a large kernel: PoCL compiles three copies of a kernel, but a function that it calls once. min() and
// max() are calls there, so use the ternary operator.
#define OUTLINE __attribute__((noinline))

// Every index and every size argument: tensors may hold more than 2^31 bytes.
#define IDX long

// Shape or strides by value, unused entries zero.
typedef struct { long d[8]; } dims_t;
// Loop over dimensions from `last` down to `first`. Where code goes through SPIR-V the trip count is constant: rusticl
// reads beyond the arguments when one of them is indexed by a variable inside control flow; a loop that would end early
// tests a flag and says DIMS_DONE.
#if defined(__SPIR__) || defined(__SPIR64__) || defined(__SPIRV__)
#define DIMS_DOWN(k, last, first) for (int k = 7; k >= 0; k--) if (k <= (last) && k >= (first))
#define DIMS_DONE continue
#else
#define DIMS_DOWN(k, last, first) for (int k = (last); k >= (first); k--)
#define DIMS_DONE break
#endif
// A dimension whose number is computed.
static inline long dim_at(const dims_t *s, int k) {
  long found = 0;
  DIMS_DOWN(i, 7, 0) found = i == k ? s->d[i] : found;
  return found;
}

#define CTYPE(T) CAT2(ctype_, T)      // compute type of one element
#define VTYPE(T) CAT2(vtype_, T)      // compute type of eight elements
#define MTYPE(T) CAT2(mtype_, T)      // what comparing two VTYPE(T) gives
#define LOAD(T, p, i) CAT2(load_, T)((p), (i))
#define STORE(T, p, i, v) CAT2(store_, T)((p), (i), (v))
#define LOAD8(T, p, i) CAT2(load8_, T)((p), (i))          // element alignment is enough
#define STORE8(T, p, i, v) CAT2(store8_, T)((p), (i), (v))
#define ALOAD8(T, p, i) CAT2(aload8_, T)((p), (i))        // p + i on a boundary of eight elements
#define ASTORE8(T, p, i, v) CAT2(astore8_, T)((p), (i), (v))
#define LOADN(T, p, i, n) CAT2(loadn_, T)((p), (i), (n))  // the first n < 8 lanes, the others zero
#define STOREN(T, p, i, n, v) CAT2(storen_, T)((p), (i), (n), (v))
#define GATHER8(T, p, i, s, n) CAT2(gather8_, T)((p), (i), (s), (n))  // n <= 8 lanes, s elements apart
#define ROUND1(T, v) CAT2(round1_, T)(v)  // to storage precision: the identity but for half
#define ROUND8(T, v) CAT2(round8_, T)(v)
#define T_HIGHEST(T) CAT2(highest_, T)    // identity of min: infinity for floats
#define T_LOWEST(T) CAT2(lowest_, T)      // identity of max
#define CONVERT8(T, v) LANES8(VTYPE(T), v)  // between compute types; integers keep the low bits
#define CONVERT1(T, v) ((CTYPE(T))(v))

// One name for both widths: lane-wise b where the comparison m holds, else a. Never select(), max() or min() on
// long8 and ulong8: pip PoCL aborts on the first and computes the others wrongly on AVX-512 machines.
#define SEL8(a, b, m) ((m) ? (b) : (a))
#define SEL1(a, b, m) ((m) ? (b) : (a))
// The result of a comparison of eight (-1 / 0) or one (1 / 0) as uint8 1 / 0.
#define BOOL8(m) (LANES8(uchar8, m) & (uchar8)(1))
#define BOOL1(m) ((uchar)((m) ? 1 : 0))

#define ctype_float float
#define vtype_float float8
#define mtype_float int8
#define highest_float INFINITY
#define lowest_float (-INFINITY)
#define ctype_half float
#define vtype_half float8
#define mtype_half int8
#define highest_half INFINITY
#define lowest_half (-INFINITY)
#define ctype_int int
#define vtype_int int8
#define mtype_int int8
#define highest_int INT_MAX
#define lowest_int INT_MIN
#define ctype_uint uint
#define vtype_uint uint8
#define mtype_uint int8
#define highest_uint UINT_MAX
#define lowest_uint 0u
#define ctype_long long
#define vtype_long long8
#define mtype_long long8
#define highest_long LONG_MAX
#define lowest_long LONG_MIN
#define ctype_ulong ulong
#define vtype_ulong ulong8
#define mtype_ulong long8
#define highest_ulong ULONG_MAX
#define lowest_ulong 0ul
#define ctype_char char
#define vtype_char char8
#define mtype_char char8
#define highest_char CHAR_MAX
#define lowest_char CHAR_MIN
#define ctype_short short
#define vtype_short short8
#define mtype_short short8
#define ctype_uchar uchar
#define vtype_uchar uchar8
#define mtype_uchar char8
#define highest_uchar UCHAR_MAX
#define lowest_uchar 0

// Vector pointers that need the alignment of one element only.
typedef float8 float8_u __attribute__((aligned(4)));
typedef int8 int8_u __attribute__((aligned(4)));
typedef uint8 uint8_u __attribute__((aligned(4)));
typedef long8 long8_u __attribute__((aligned(8)));
typedef ulong8 ulong8_u __attribute__((aligned(8)));
typedef short8 short8_u __attribute__((aligned(2)));
typedef char8 char8_u __attribute__((aligned(1)));
typedef uchar8 uchar8_u __attribute__((aligned(1)));

static inline float round1_half(float x) {
  uint bits = as_uint(x);
  uint rounded = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
  float magnitude = fabs(x);
  float y = as_float(rounded);
  y = fabs(y) > 65504.0f ? copysign(INFINITY, x) : y;
  // Adding one half leaves a last place of 2^-24, the spacing of half subnormals.
  y = magnitude < 6.103515625e-05f ? copysign((magnitude + 0.5f) - 0.5f, x) : y;
  return isnan(x) ? x : y;
}
#ifdef HALF8_TO_FLOAT8
static inline float8 round8_half(float8 x) { return HALF8_TO_FLOAT8(FLOAT8_TO_HALF8(x)); }
#else
static inline float8 round8_half(float8 x) {
  uint8 bits = as_uint8(x);
  uint8 sign = bits & 0x80000000u;
  uint8 magnitude = bits & 0x7fffffffu;
  uint8 rounded = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) & ~0x1fffu;
  rounded = select(rounded, (uint8)(0x7f800000u), rounded > 0x477fe000u);
  uint8 tiny = as_uint8((as_float8(magnitude) + 0.5f) - 0.5f);
  rounded = select(rounded, tiny, magnitude < 0x38800000u);
  rounded = select(rounded, magnitude, magnitude > 0x7f800000u);
  return as_float8(rounded | sign);
}
#endif

#define round1_float(v) (v)
#define round8_float(v) (v)
#define round1_int(v) (v)
#define round8_int(v) (v)
#define round1_uint(v) (v)
#define round8_uint(v) (v)
#define round1_long(v) (v)
#define round8_long(v) (v)
#define round1_ulong(v) (v)
#define round8_ulong(v) (v)
#define round1_char(v) (v)
#define round8_char(v) (v)
#define round1_short(v) (v)
#define round8_short(v) (v)
#define round1_uchar(v) (v)
#define round8_uchar(v) (v)

#define load_float(p, i) ((p)[i])
#define store_float(p, i, v) ((p)[i] = (v))
#define load8_float(p, i) (*(const __global float8_u *)((p) + (i)))
#define store8_float(p, i, v) (*(__global float8_u *)((p) + (i)) = (v))
#define aload8_float(p, i) (*(const __global float8 *)((p) + (i)))
#define astore8_float(p, i, v) (*(__global float8 *)((p) + (i)) = (v))
static inline float load_half(const __global half *p, long i) { return vload_half(i, p); }
static inline void store_half(__global half *p, long i, float v) { vstore_half_rte(v, i, p); }
#ifdef HALF8_TO_FLOAT8
static inline float8 load8_half(const __global half *p, long i) {
  return HALF8_TO_FLOAT8(*(const __global short8_u *)(p + i));
}
static inline void store8_half(__global half *p, long i, float8 v) {
  *(__global short8_u *)(p + i) = FLOAT8_TO_HALF8(v);
}
#else
static inline float8 load8_half(const __global half *p, long i) { return vload_half8(0, p + i); }
static inline void store8_half(__global half *p, long i, float8 v) { vstore_half8_rte(v, 0, p + i); }
#endif
#define aload8_half(p, i) load8_half((p), (i))
#define astore8_half(p, i, v) store8_half((p), (i), (v))
#define load_int(p, i) ((p)[i])
#define store_int(p, i, v) ((p)[i] = (v))
#define load8_int(p, i) (*(const __global int8_u *)((p) + (i)))
#define store8_int(p, i, v) (*(__global int8_u *)((p) + (i)) = (v))
#define aload8_int(p, i) (*(const __global int8 *)((p) + (i)))
#define astore8_int(p, i, v) (*(__global int8 *)((p) + (i)) = (v))
#define load_uint(p, i) ((p)[i])
#define store_uint(p, i, v) ((p)[i] = (v))
#define load8_uint(p, i) (*(const __global uint8_u *)((p) + (i)))
#define store8_uint(p, i, v) (*(__global uint8_u *)((p) + (i)) = (v))
#define aload8_uint(p, i) (*(const __global uint8 *)((p) + (i)))
#define astore8_uint(p, i, v) (*(__global uint8 *)((p) + (i)) = (v))
#define load_long(p, i) ((p)[i])
#define store_long(p, i, v) ((p)[i] = (v))
#define load8_long(p, i) (*(const __global long8_u *)((p) + (i)))
#define store8_long(p, i, v) (*(__global long8_u *)((p) + (i)) = (v))
#define aload8_long(p, i) (*(const __global long8 *)((p) + (i)))
#define astore8_long(p, i, v) (*(__global long8 *)((p) + (i)) = (v))
#define load_ulong(p, i) ((p)[i])
#define store_ulong(p, i, v) ((p)[i] = (v))
#define load8_ulong(p, i) (*(const __global ulong8_u *)((p) + (i)))
#define store8_ulong(p, i, v) (*(__global ulong8_u *)((p) + (i)) = (v))
#define aload8_ulong(p, i) (*(const __global ulong8 *)((p) + (i)))
#define astore8_ulong(p, i, v) (*(__global ulong8 *)((p) + (i)) = (v))
#define load_char(p, i) ((p)[i])
#define store_char(p, i, v) ((p)[i] = (v))
#define load8_char(p, i) (*(const __global char8_u *)((p) + (i)))
#define store8_char(p, i, v) (*(__global char8_u *)((p) + (i)) = (v))
#define aload8_char(p, i) (*(const __global char8 *)((p) + (i)))
#define astore8_char(p, i, v) (*(__global char8 *)((p) + (i)) = (v))
#define load_short(p, i) ((p)[i])
#define store_short(p, i, v) ((p)[i] = (v))
#define load8_short(p, i) (*(const __global short8_u *)((p) + (i)))
#define store8_short(p, i, v) (*(__global short8_u *)((p) + (i)) = (v))
#define aload8_short(p, i) (*(const __global short8 *)((p) + (i)))
#define astore8_short(p, i, v) (*(__global short8 *)((p) + (i)) = (v))
#define load_uchar(p, i) ((p)[i])
#define store_uchar(p, i, v) ((p)[i] = (v))
#define load8_uchar(p, i) (*(const __global uchar8_u *)((p) + (i)))
#define store8_uchar(p, i, v) (*(__global uchar8_u *)((p) + (i)) = (v))
#define aload8_uchar(p, i) (*(const __global uchar8 *)((p) + (i)))
#define astore8_uchar(p, i, v) (*(__global uchar8 *)((p) + (i)) = (v))

static inline float8 gather8_float(const __global float *p, long i, long s, long n) {
  float lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_float(p, i + k * s);
  return (float8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_float(p, i, n) gather8_float((p), (i), 1, (n))
static inline void storen_float(__global float *p, long i, long n, float8 v) {
  float lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_float(p, i + k, lane[k]);
}
static inline float8 gather8_half(const __global half *p, long i, long s, long n) {
  float lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_half(p, i + k * s);
  return (float8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_half(p, i, n) gather8_half((p), (i), 1, (n))
static inline void storen_half(__global half *p, long i, long n, float8 v) {
  float lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_half(p, i + k, lane[k]);
}
static inline int8 gather8_int(const __global int *p, long i, long s, long n) {
  int lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_int(p, i + k * s);
  return (int8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_int(p, i, n) gather8_int((p), (i), 1, (n))
static inline void storen_int(__global int *p, long i, long n, int8 v) {
  int lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_int(p, i + k, lane[k]);
}
static inline uint8 gather8_uint(const __global uint *p, long i, long s, long n) {
  uint lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_uint(p, i + k * s);
  return (uint8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_uint(p, i, n) gather8_uint((p), (i), 1, (n))
static inline void storen_uint(__global uint *p, long i, long n, uint8 v) {
  uint lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_uint(p, i + k, lane[k]);
}
static inline long8 gather8_long(const __global long *p, long i, long s, long n) {
  long lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_long(p, i + k * s);
  return (long8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_long(p, i, n) gather8_long((p), (i), 1, (n))
static inline void storen_long(__global long *p, long i, long n, long8 v) {
  long lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_long(p, i + k, lane[k]);
}
static inline ulong8 gather8_ulong(const __global ulong *p, long i, long s, long n) {
  ulong lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_ulong(p, i + k * s);
  return (ulong8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_ulong(p, i, n) gather8_ulong((p), (i), 1, (n))
static inline void storen_ulong(__global ulong *p, long i, long n, ulong8 v) {
  ulong lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_ulong(p, i + k, lane[k]);
}
static inline char8 gather8_char(const __global char *p, long i, long s, long n) {
  char lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_char(p, i + k * s);
  return (char8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_char(p, i, n) gather8_char((p), (i), 1, (n))
static inline void storen_char(__global char *p, long i, long n, char8 v) {
  char lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_char(p, i + k, lane[k]);
}
static inline short8 gather8_short(const __global short *p, long i, long s, long n) {
  short lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_short(p, i + k * s);
  return (short8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_short(p, i, n) gather8_short((p), (i), 1, (n))
static inline void storen_short(__global short *p, long i, long n, short8 v) {
  short lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_short(p, i + k, lane[k]);
}
static inline uchar8 gather8_uchar(const __global uchar *p, long i, long s, long n) {
  uchar lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) lane[k] = load_uchar(p, i + k * s);
  return (uchar8)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
#define loadn_uchar(p, i, n) gather8_uchar((p), (i), 1, (n))
static inline void storen_uchar(__global uchar *p, long i, long n, uchar8 v) {
  uchar lane[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
  for (int k = 0; k < n; k++) store_uchar(p, i + k, lane[k]);
}
