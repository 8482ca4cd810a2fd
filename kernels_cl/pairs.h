// Sums of products of int16 pairs, as integer products take them: values and weights less their zero points, -255 to
// 255, two neighbours in k to a 32-bit lane.

// A pair in memory of int16 alignment.
typedef int pair_u __attribute__((aligned(2)));
#define PAIR_AT(p, k) (*(const __global pair_u *)((p) + 2 * (k)))
// Eight pairs, as what TILE_TRANSPOSE moves.
typedef float8 pairs8_u __attribute__((aligned(2)));
#define PAIRS_AT(p, k) (*(const __global pairs8_u *)((p) + 2 * (k)))
#define PAIR_OF_ONE(v) ((int)(ushort)(v))
#define PAIR_IN_ALL(x) as_short16((int8)(x))

// Lane i of the result: a[2i] * b[2i] + a[2i + 1] * b[2i + 1]. One instruction of AVX2, for which Intel's runtime has no
// built-in function but whose compiler makes it of the plain form; elsewhere that takes many.
#define PAIR_SUMS(KIND, a, b) CAT2(pair_sums_, KIND)(a, b)
static inline int8 pair_sums_plain(short16 a, short16 b) {
  const int16 products = LANES8(int16, a) * LANES8(int16, b);
  return products.even + products.odd;
}
#if defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_pmaddwd256)
#define HAS_PAIR_INSTRUCTION
#define pair_sums_instruction(a, b) __builtin_ia32_pmaddwd256((a), (b))
#endif
#endif
