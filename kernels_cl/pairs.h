// Sums of products of int16 pairs, as integer products take them: values and weights less their zero points, -255 to
// 255, two neighbours in k to a 32-bit lane.

// A pair in memory of int16 alignment.
typedef int pair_u __attribute__((aligned(2)));
#define PAIR_AT(p, k) (*(const __global pair_u *)((p) + 2 * (k)))
#define PAIR_OF_ONE(v) ((int)(ushort)(v))
#define PAIR_IN_ALL(x) as_short16((int8)(x))

// Lane i of the result: a[2i] * b[2i] + a[2i + 1] * b[2i + 1]. One instruction of AVX2; the plain form takes several.
#define PAIR_SUMS(KIND, a, b) CAT2(pair_sums_, KIND)(a, b)
#define pair_sums_plain(a, b) \
  (LANES8(int8, (a).even) * LANES8(int8, (b).even) + LANES8(int8, (a).odd) * LANES8(int8, (b).odd))
#if defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_pmaddwd256)
#define HAS_PAIR_INSTRUCTION
#define pair_sums_instruction(a, b) __builtin_ia32_pmaddwd256((a), (b))
#endif
#endif
