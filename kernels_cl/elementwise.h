// Helpers of element-wise expressions, included once after common.h in programs that have any.
//
// Names end in 8 or 1, the number of lanes. WN_... are macros whose first argument is a storage type.

// Integer arithmetic that wraps: signed overflow is undefined in C, unsigned is not.
#define UNSIGNED8(T, x) CAT2(unsigned8_, T)(x)
#define SIGNED8(T, x) CAT2(signed8_, T)(x)
#define UNSIGNED1(T, x) CAT2(unsigned1_, T)(x)
#define SIGNED1(T, x) ((T)(x))
#define WN_ADD8(T, a, b) SIGNED8(T, UNSIGNED8(T, a) + UNSIGNED8(T, b))
#define WN_ADD1(T, a, b) SIGNED1(T, UNSIGNED1(T, a) + UNSIGNED1(T, b))
#define WN_SUB8(T, a, b) SIGNED8(T, UNSIGNED8(T, a) - UNSIGNED8(T, b))
#define WN_SUB1(T, a, b) SIGNED1(T, UNSIGNED1(T, a) - UNSIGNED1(T, b))
#define WN_MUL8(T, a, b) SIGNED8(T, UNSIGNED8(T, a) * UNSIGNED8(T, b))
#define WN_MUL1(T, a, b) SIGNED1(T, UNSIGNED1(T, a) * UNSIGNED1(T, b))
#define unsigned8_int as_uint8
#define unsigned8_uint
#define unsigned8_long as_ulong8
#define unsigned8_ulong
#define unsigned8_char as_uchar8
#define unsigned8_uchar
#define signed8_int as_int8
#define signed8_uint
#define signed8_long as_long8
#define signed8_ulong
#define signed8_char as_char8
#define signed8_uchar
#define unsigned1_int (uint)
#define unsigned1_uint
#define unsigned1_long (ulong)
#define unsigned1_ulong
#define unsigned1_char (uchar)
#define unsigned1_uchar

// Whether c, a uint8 boolean, is true, as a mask for SEL on values of type T.
#define WN_TRUE8(T, c) (LANES8(MTYPE(T), c) != (MTYPE(T))(0))
#define WN_TRUE1(T, c) ((c) != 0)
#define WN_DIV8(T, a, b) CAT2(wn_div8_, T)((a), (b))
#define WN_DIV1(T, a, b) CAT2(wn_div1_, T)((a), (b))
#define WN_POW8(T, a, b) CAT2(wn_pow8_, T)((a), (b))
#define WN_POW1(T, a, b) CAT2(wn_pow1_, T)((a), (b))
#define WN_SATURATE8(T, x) CAT2(wn_saturate8_, T)(x)
#define WN_SATURATE1(T, x) CAT2(wn_saturate1_, T)(x)
#define WN_QUANTIZE8(T, ratio, zero) CAT2(wn_quantize8_, T)((ratio), (zero))
#define WN_QUANTIZE1(T, ratio, zero) CAT2(wn_quantize1_, T)((ratio), (zero))

// Adding 1.5 * 2^23 rounds to an integer, half to even, which is then in the low bits: the sum's bits shifted left by
// 23 are that integer's exponent field.
#define WN_MAGIC 12582912.0f
#define WN_LOG2E 1.44269504f
// ln(2) in two parts, the first with so few bits (9, or 15) that its product with an exponent is exact.
#define WN_LN2_HIGH 0.693359375f
#define WN_LN2_LOW -2.12194440e-4f
#define WN_LN2_HIGH15 0.693145752f
#define WN_LN2_LOW15 1.42860677e-6f

// Polynomials with as much of their work side by side as possible (x2 = x * x, x4 = x2 * x2): processors overlap the
// operations of one element better than those of its neighbours.
#define WN_POLY3(x, x2, c3, c2, c1, c0) (((c3) * (x) + (c2)) * (x2) + ((c1) * (x) + (c0)))
#define WN_POLY4(x, x2, c4, c3, c2, c1, c0) (((c4) * (x2) + ((c3) * (x) + (c2))) * (x2) + ((c1) * (x) + (c0)))
#define WN_POLY5(x, x2, c5, c4, c3, c2, c1, c0) \
  ((((c5) * (x) + (c4)) * (x2) + ((c3) * (x) + (c2))) * (x2) + ((c1) * (x) + (c0)))
#define WN_POLY7(x, x2, x4, c7, c6, c5, c4, c3, c2, c1, c0) \
  (WN_POLY3(x, x2, c7, c6, c5, c4) * (x4) + WN_POLY3(x, x2, c3, c2, c1, c0))

// One instruction on x86 processors since 2008, a call on pip PoCL.
#define WN_FLOOR(x) floor(x)
#define WN_CEIL(x) ceil(x)
#define WN_ROUND(x) rint(x)
#if defined(__SSE4_1__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_floor) && __has_builtin(__builtin_elementwise_roundeven)
#undef WN_FLOOR
#undef WN_CEIL
#undef WN_ROUND
#define WN_FLOOR(x) __builtin_elementwise_floor(x)
#define WN_CEIL(x) __builtin_elementwise_ceil(x)
#define WN_ROUND(x) __builtin_elementwise_roundeven(x)
#endif
#endif

// 2 / pi, 32 bits a word, after a word of zeros.
__constant uint WN_TWO_OVER_PI[8] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                     0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

// x less the nearest multiple n of pi / 2 for any |x| >= 1; n modulo 4 in *quadrant (Payne and Hanek's method: of the
// product of x's 24 bits with 2 / pi only the bits around the point are formed). NaN for infinity and NaN.
static inline float wn_reduce_far_lane(float x, int *quadrant) {
  const uint bits = as_uint(x) & 0x7fffffffu;
  const ulong fraction = (bits & 0x7fffffu) | 0x800000u;
  const int offset = (int)(bits >> 23) - 120, word = offset >> 5, shift = offset & 31;
  ulong w[3];
  for (int k = 0; k < 3; k++) {
    const ulong pair = ((ulong)WN_TWO_OVER_PI[word + k] << 32) | WN_TWO_OVER_PI[word + k + 1];
    w[k] = (pair << shift) >> 32;
  }
  // Multiples of pi / 2 modulo 4, with 62 bits after the point.
  const ulong turns = ((fraction * w[0]) << 32) + fraction * w[1] + ((fraction * w[2]) >> 32);
  const int n = (int)((turns + (1ul << 61)) >> 62);
  const float r = (float)(long)(turns - ((ulong)n << 62)) * 3.40612158e-19f;
  *quadrant = x < 0.0f ? -n : n;
  if (bits >= 0x7f800000u) return NAN;
  return x < 0.0f ? -r : r;
}

// each width: W is 8, then 1
#if W == 8
#define WF float8
#define WI int8
#define WU uint8
#define WL long8
#define AS_WF as_float8
#define AS_WI as_int8
#define AS_WU as_uint8
#define SEL SEL8
#define TO(T, x) CONVERT8(T, x)
#define BITS(T, x) CAT2(as_, VTYPE(T))(x)
#define VEC(T) VTYPE(T)
#define MASK(T, m) LANES8(MTYPE(T), m)
#define ANY(m) (as_ulong(LANES8(char8, m)) != 0)
#else
#define WF float
#define WI int
#define WU uint
#define WL long
#define AS_WF as_float
#define AS_WI as_int
#define AS_WU as_uint
#define SEL SEL1
#define TO(T, x) CONVERT1(T, x)
#define BITS(T, x) ((T)(x))
#define VEC(T) T
#define MASK(T, m) (m)
#define ANY(m) (m)
#endif
#define FN(name) CAT2(name, W)
#define TFN(name, T) CAT2(CAT2(name, W), CAT2(_, T))


// Integers ---------------------------------------------------------------------------------------------------

// Quotient toward zero; x / 0 = 0.
#define QUOTIENT(T, DANGEROUS)                                    \
  static inline VEC(T) TFN(wn_div, T)(VEC(T) a, VEC(T) b) {       \
    const VEC(T) zero = 0;                                        \
    const VEC(T) divisor = SEL(b, (VEC(T))(1), DANGEROUS);        \
    return SEL(a / divisor, zero, b == zero);                     \
  }
// The lowest value / -1 traps on some devices; divided by 1 it wraps to itself.
#define SIGNED_QUOTIENT(T) QUOTIENT(T, (b == zero) | ((b == (VEC(T))(-1)) & (a == (VEC(T))(T_LOWEST(T)))))
#define UNSIGNED_QUOTIENT(T) QUOTIENT(T, b == zero)
SIGNED_QUOTIENT(char)
SIGNED_QUOTIENT(int)
SIGNED_QUOTIENT(long)
UNSIGNED_QUOTIENT(uchar)
UNSIGNED_QUOTIENT(uint)
UNSIGNED_QUOTIENT(ulong)
#undef QUOTIENT
#undef SIGNED_QUOTIENT
#undef UNSIGNED_QUOTIENT

// Power by squaring, modulo the type's range; U is the unsigned type of the same width.
#define UNSIGNED_POWER(U)                                                   \
  static inline VEC(U) TFN(wn_pow, U)(VEC(U) a, VEC(U) b) {                 \
    const VEC(U) zero = 0, one = 1;                                         \
    VEC(U) power = one;                                                     \
    while (ANY(b != zero)) {                                                \
      power = SEL(power, (VEC(U))(power * a), (b & one) != zero);           \
      a = (VEC(U))(a * a);                                                  \
      b = (VEC(U))(b >> one);                                               \
    }                                                                       \
    return power;                                                           \
  }
// A negative exponent gives the reciprocal of the power toward zero: only 1 and -1 have one that isn't zero.
#define SIGNED_POWER(T, U)                                                               \
  static inline VEC(T) TFN(wn_pow, T)(VEC(T) a, VEC(T) b) {                              \
    const VEC(T) zero = 0, one = 1;                                                      \
    const VEC(T) sign = SEL(one, a, (b & one) != zero);                                  \
    const VEC(T) reciprocal = SEL(SEL(zero, sign, a == (VEC(T))(-1)), one, a == one);    \
    const VEC(T) exponent = SEL(b, zero, b < zero);                                      \
    const VEC(U) power = TFN(wn_pow, U)(BITS(U, a), BITS(U, exponent));                  \
    return SEL(BITS(T, power), reciprocal, b < zero);                                    \
  }
UNSIGNED_POWER(uchar)
UNSIGNED_POWER(uint)
UNSIGNED_POWER(ulong)
SIGNED_POWER(char, uchar)
SIGNED_POWER(int, uint)
SIGNED_POWER(long, ulong)
#undef UNSIGNED_POWER
#undef SIGNED_POWER

// Float to integer: toward zero, saturating, NaN to 0. HIGH is the largest float that fits.
#define SATURATE(T, LOW, HIGH)                                                           \
  static inline VEC(T) TFN(wn_saturate, T)(WF x) {                                       \
    WF y = SEL((WF)(0.0f), x, x == x);                                                   \
    y = SEL(y, (WF)(LOW), y < (WF)(LOW));                                                \
    y = SEL(y, (WF)(HIGH), y > (WF)(HIGH));                                              \
    return SEL(TO(T, y), (VEC(T))(T_HIGHEST(T)), MASK(T, x > (WF)(HIGH)));               \
  }
SATURATE(int, -2147483648.0f, 2147483520.0f)
SATURATE(uint, 0.0f, 4294967040.0f)
SATURATE(long, -9223372036854775808.0f, 9223371487098961920.0f)
SATURATE(ulong, 0.0f, 18446742974197923840.0f)
#undef SATURATE
static inline VEC(char) TFN(wn_saturate, char)(WF x) {
  const WF y = SEL((WF)(0.0f), x, x == x);
  return TO(char, TO(int, SEL(SEL(y, (WF)(-128.0f), y < (WF)(-128.0f)), (WF)(127.0f), y > (WF)(127.0f))));
}
static inline VEC(uchar) TFN(wn_saturate, uchar)(WF x) {
  const WF y = SEL((WF)(0.0f), x, x > (WF)(0.0f));
  return TO(uchar, TO(int, SEL(y, (WF)(255.0f), y > (WF)(255.0f))));
}

// Rounded ratio plus zero, saturating; NaN gives 0. Adding WN_MAGIC rounds, and leaves an integer in the bits.
#define QUANTIZE(T)                                                                      \
  static inline VEC(T) TFN(wn_quantize, T)(WF ratio, VEC(T) zero) {                      \
    WF r = SEL(ratio, (WF)(-1e5f), ratio < (WF)(-1e5f));                                 \
    r = SEL(r, (WF)(1e5f), r > (WF)(1e5f));                                              \
    WI sum = AS_WI(r + WN_MAGIC) + (TO(int, zero) - 0x4b400000);                         \
    sum = SEL(sum, (WI)(T_LOWEST(T)), sum < (WI)(T_LOWEST(T)));                          \
    sum = SEL(sum, (WI)(T_HIGHEST(T)), sum > (WI)(T_HIGHEST(T)));                        \
    return TO(T, SEL((WI)(0), sum, ratio == ratio));                                     \
  }
QUANTIZE(char)
QUANTIZE(uchar)
#undef QUANTIZE
// To 32 bits the sum is in 64: floats would be exact to 24 bits only.
#define QUANTIZE(T)                                                                      \
  static inline VEC(T) TFN(wn_quantize, T)(WF ratio, VEC(T) zero) {                      \
    WF r = SEL((WF)(0.0f), ratio, ratio == ratio);                                       \
    r = SEL(r, (WF)(-1e12f), r < (WF)(-1e12f));                                          \
    r = WN_ROUND(SEL(r, (WF)(1e12f), r > (WF)(1e12f)));                                  \
    const WL low = (WL)(T_LOWEST(T)), high = (WL)(T_HIGHEST(T));                         \
    WL sum = TO(long, r) + TO(long, zero);                                               \
    sum = SEL(sum, low, sum < low);                                                      \
    sum = SEL(sum, high, sum > high);                                                    \
    return SEL(TO(T, sum), (VEC(T))(0), MASK(T, ratio != ratio));                        \
  }
QUANTIZE(int)
QUANTIZE(uint)
#undef QUANTIZE

// Floats -----------------------------------------------------------------------------------------------------
//
// Own polynomials (minimax fits, coefficients rounded to float), since library calls are slow or scalar on some
// devices. The errors given are the largest over all float32 arguments, in units of the last place (ulp). Everything
// holds with and without contraction to fused multiply-add. NaN passes through.

static inline WF FN(wn_abs)(WF x) { return AS_WF(AS_WI(x) & 0x7fffffff); }
static inline WF FN(wn_negative)(WF x) { return AS_WF(AS_WI(x) | (int)0x80000000); }  // -|x|
static inline WF FN(wn_at_least)(WF x, float low) { return SEL(x, (WF)(low), x < (WF)(low)); }
static inline WF FN(wn_at_most)(WF x, float high) { return SEL(x, (WF)(high), x > (WF)(high)); }
static inline WF FN(wn_clip)(WF x, float low, float high) { return FN(wn_at_most)(FN(wn_at_least)(x, low), high); }
static inline WF FN(wn_floor)(WF x) { return WN_FLOOR(x); }
static inline WF FN(wn_ceil)(WF x) { return WN_CEIL(x); }
static inline WF FN(wn_round)(WF x) { return WN_ROUND(x); }

// exp(r) - 1 for |r| <= ln(2) / 2.
static inline WF FN(wn_expm1_core)(WF r) {
  const WF s = r * r;
  return s * WN_POLY4(r, s, 0.00139387208f, 0.00836715382f, 0.0416664258f, 0.16666539f, 0.5f) + r;
}
// (1 + q) * 2^n for the n in the low bits of t; in two steps, since the result may be subnormal.
static inline WF FN(wn_scale)(WF q, WF t) {
  const WI n = AS_WI(t), half_n = n >> 1;
  const WF first = AS_WF((half_n << 23) + 0x3f800000), second = AS_WF(((n - half_n) << 23) + 0x3f800000);
  return (q * first + first) * second;
}
static inline WF FN(wn_exp)(WF x) {
  x = FN(wn_clip)(x, -104.0f, 89.0f);
  const WF t = x * WN_LOG2E + WN_MAGIC, n = t - WN_MAGIC;
  return FN(wn_scale)(FN(wn_expm1_core)((x - n * WN_LN2_HIGH) - n * WN_LN2_LOW), t);
}
// 2^64 exp(x) for x <= 0.
static inline WF FN(wn_exp_scaled)(WF x) {
  x = FN(wn_at_least)(x, -104.0f);
  const WF t = x * WN_LOG2E + WN_MAGIC, n = t - WN_MAGIC;
  const WF power = AS_WF((AS_WI(t) << 23) + 0x5f800000);
  return FN(wn_expm1_core)((x - n * WN_LN2_HIGH) - n * WN_LN2_LOW) * power + power;
}
// exp(x) - 1 for x <= 0, without cancellation.
static inline WF FN(wn_expm1)(WF x) {
  x = FN(wn_at_least)(x, -18.0f);
  const WF t = x * WN_LOG2E + WN_MAGIC, n = t - WN_MAGIC;
  const WF q = FN(wn_expm1_core)((x - n * WN_LN2_HIGH) - n * WN_LN2_LOW);
  const WF power = AS_WF((AS_WI(t) << 23) + 0x3f800000);
  return power * q + (power - 1.0f);
}
// The sign bit chooses the side; 2^64 exp(-|x|) keeps the quotient's subnormals.
static inline WF FN(wn_sigmoid)(WF x) {
  const WF e = FN(wn_exp_scaled)(FN(wn_negative)(x));
  return SEL((WF)(0x1p64f), e, AS_WI(x) < 0) / (0x1p64f + e);
}
// log(1 + exp(-|x|)) as 2 atanh(s) with s = e / (2 + e) <= 1/3.
static inline WF FN(wn_softplus)(WF x) {
  const WF e = FN(wn_exp_scaled)(FN(wn_negative)(x));
  const WF s = e / (0x1p65f + e), z = s * s;
  const WF p = WN_POLY3(z, z * z, 0.280294597f, 0.27998209f, 0.400217503f, 0.666664124f);
  return SEL(x, (WF)(0.0f), x < (WF)(0.0f)) + (s * z * p + 2.0f * s);
}

static inline WF FN(wn_log)(WF x) {
  // Zero, subnormal, negative, infinite, or NaN: rare, and all in these two comparisons of bits.
  const WI edge = (AS_WI(x) < 0x00800000) | (AS_WI(x) > 0x7f7fffff);
  const int any = ANY(edge);
  const WI tiny = x < (WF)(0x1p-126f);
  const WF normal = any ? SEL(x, x * 0x1p23f, tiny) : x;
  const WI bits = AS_WI(normal) - 0x3f3504f3;
  const WF f = AS_WF((bits & 0x7fffff) + 0x3f3504f3) - 1.0f, s = f * f;
  WF e = TO(float, bits >> 23);
  if (any) e -= SEL((WF)(0.0f), (WF)(23.0f), tiny);
  const WF p = WN_POLY7(f, s, s * s, -0.078615576f, 0.128817394f, -0.131279439f, 0.141810998f, -0.166246414f,
                        0.200022966f, -0.250008076f, 0.333333164f);
  const WF y = ((s * f * p + e * WN_LN2_LOW) - 0.5f * s + f) + e * WN_LN2_HIGH;
  if (!any) return y;
  const WF wrong = SEL(SEL(x, (WF)(NAN), x < (WF)(0.0f)), (WF)(-INFINITY), x == (WF)(0.0f));
  return SEL(wrong, y, (x > (WF)(0.0f)) & (x < (WF)(INFINITY)));
}

#define WN_CUT(x) AS_WF(AS_WI(x) & -4096)
// pow ---------------------------------------------------------------------------------------------------------
// exp(y log(x)) with the logarithm and its product with y kept in two floats each; products of floats cut to 12 bits
// are exact.

// The first stage: x > 0 (normal) as 2^e (1 + f), and the result f^3 p in log(1 + f) = f - f^2 / 2 + f^3 p.
static inline WF FN(wn_pow_split)(WF x, WF *e, WF *f) {
  const WI bits = AS_WI(x) - 0x3f2d0000;
  const WF r = AS_WF((bits & 0x7fffff) + 0x3f2d0000) - 1.0f, s = r * r;
  const WF p = WN_POLY4(r, s, 0.107757211f, -0.128215447f, 0.110379748f, -0.121987671f, 0.142828241f) * (s * s) +
               WN_POLY3(r, s, -0.16679503f, 0.200002015f, -0.249998197f, 0.333333313f);
  *e = TO(float, bits >> 23);
  *f = r;
  return s * r * p;
}
// The second: y log(x) as the result plus *low.
static inline WF FN(wn_pow_product)(WF e, WF f, WF cube, WF y, WF *low) {
  const WF cut = WN_CUT(f), rest = f - cut, square = 0.5f * cut * cut;
  const WF base = e * WN_LN2_HIGH15, u = f - square, log_high = base + u;
  const WF v = ((f - u) - square) + (cube - rest * (0.5f * rest + cut));
  const WF log_low = ((base - log_high) + u) + (e * WN_LN2_LOW15 + v);
  const WF log_cut = WN_CUT(log_high + log_low), y_cut = WN_CUT(y);
  *low = (y - y_cut) * log_cut + y * ((log_high - log_cut) + log_low);
  return log_cut * y_cut;
}
static inline WF FN(wn_pow_exp)(WF high, WF low, WF *t) {
  *t = (high + low) * WN_LOG2E + WN_MAGIC;
  const WF n = *t - WN_MAGIC;
  return FN(wn_expm1_core)((high - n * WN_LN2_HIGH15) + (low - n * WN_LN2_LOW15));
}
// C's pow() for all arguments.
static inline WF FN(wn_pow_any)(WF x, WF y) {
  const WF zero = 0.0f, infinity = INFINITY, base = FN(wn_abs)(x);
  const WI tiny = base < (WF)(0x1p-126f);
  WF e, f, low, t;
  const WF cube = FN(wn_pow_split)(SEL(base, base * 0x1p24f, tiny), &e, &f);
  // Beyond 2^34 every power but those of 1 is 0 or infinite.
  const WF exponent = FN(wn_clip)(y, -0x1p34f, 0x1p34f);
  WF high = FN(wn_pow_product)(e - SEL(zero, (WF)(24.0f), tiny), f, cube, exponent, &low);
  const WF all = high + low;
  const WI beyond = FN(wn_abs)(all) > (WF)(110.0f);
  high = SEL(high, FN(wn_clip)(all, -110.0f, 110.0f), beyond);
  low = SEL(low, zero, beyond);
  const WF q = FN(wn_pow_exp)(high, low, &t);
  WF power = FN(wn_scale)(q, t);
  const WI whole = WN_FLOOR(y) == y, even = WN_FLOOR(0.5f * y) == 0.5f * y;
  power = SEL(power, SEL(infinity, zero, (base == zero) == (y > zero)), (base == zero) | (base == infinity));
  power = SEL(power, -power, (whole != 0) & (even == 0) & (AS_WI(x) < 0));
  power = SEL(power, (WF)(NAN), (x < zero) & (base < infinity) & (whole == 0));
  power = SEL(power, x + y, (x != x) | (y != y));
  return SEL(power, (WF)(1.0f), (y == zero) | (x == (WF)(1.0f)));
}
// The third: the power, from y log(|x|) = high + low.
static inline WF FN(wn_pow_end)(WF x, WF y, WF high, WF low) {
  WF t;
  const WF q = FN(wn_pow_exp)(high, low, &t), scale = AS_WF((AS_WI(t) << 23) + 0x3f800000);
  WF power = q * scale + scale;
  const WI beyond = (AS_WI(x) > 0x7f7fffff) | !(FN(wn_abs)(high + low) < (WF)(87.0f));
  if (ANY(beyond | (AS_WI(x) < 0x00800000))) {
    // Arguments or results that are zero, subnormal, infinite, or NaN; or x is just negative.
    const WI base = AS_WI(x) & 0x7fffffff;
    if (ANY(beyond | (base < 0x00800000) | (base > 0x7f7fffff))) return FN(wn_pow_any)(x, y);
    const WF whole = FN(wn_clip)(y, -0x1p30f, 0x1p30f);
    const WI n = TO(int, whole);
    power = AS_WF(AS_WI(power) ^ (AS_WI(x) & (n << 31)));
    power = SEL(power, (WF)(NAN), (AS_WI(x) < 0) & (TO(float, n) != whole));
  }
  return power;
}
// x to the power of 1/2: the root but for minus zero and minus infinity.
static inline WF FN(wn_pow_half)(WF x) { return SEL(sqrt(x) + 0.0f, (WF)(INFINITY), x == (WF)(-INFINITY)); }

// tanh(-|x|) = (p (1 + tau) - (1 - tau)) / (p (1 + tau) + (1 - tau)) with exp(-2 |x|) = p (1 + tau) / (1 - tau), where p
// is a power of two and tau = tanh(u) for |u| <= ln(2) / 4.
static inline WF FN(wn_tanh)(WF x) {
  const WF a = FN(wn_at_least)(FN(wn_negative)(x), -9.1f);
  const WF t = a * (2.0f * WN_LOG2E) + WN_MAGIC, n = t - WN_MAGIC;
  const WF u = (a - n * (0.5f * WN_LN2_HIGH)) - n * (0.5f * WN_LN2_LOW), s = u * u;
  const WF tau = (0.13106434f * s - 0.333311945f) * (u * s) + u;
  const WF p = AS_WF((AS_WI(t) << 23) + 0x3f800000);
  const WF y = (tau * (1.0f + p) - (1.0f - p)) / ((1.0f + p) - tau * (1.0f - p));
  return AS_WF(AS_WI(y) ^ (~AS_WI(x) & (int)0x80000000));
}

// erf as x times a rational function of x^2 up to where it is 1 in float.
static inline WF FN(wn_erf)(WF x) {
  const WF s = FN(wn_at_most)(x * x, 16.81f), s2 = s * s;
  const WF p = WN_POLY5(s, s2, 2.2533643e-06f, 0.000305342517f, 0.0039269994f, 0.0560930856f, 0.200837076f,
                        1.20606232f);
  const WF d = WN_POLY5(s, s2, 4.13978123e-05f, 0.00122439116f, 0.0158030353f, 0.120918743f, 0.534268379f,
                        1.06884491f);
  return FN(wn_clip)(x * p / d, -1.0f, 1.0f);
}
// x (1/2 + erf(x / sqrt(2)) / 2); the sum is exactly 0 below -5.8, so that nothing is left of a large negative x.
static inline WF FN(wn_gelu)(WF x) {
  const WF s = FN(wn_at_most)(x * x, 33.64f), s2 = s * s;
  const WF p = WN_POLY5(s, s2, 1.70299544e-08f, 4.62133312e-06f, 0.00011904088f, 0.00339735066f, 0.0243382472f,
                        0.29211244f);
  const WF d = WN_POLY5(s, s2, 8.85441068e-07f, 5.24616917e-05f, 0.00135408936f, 0.0207180735f, 0.183042988f,
                        0.732217312f);
  return x * (0.5f + FN(wn_clip)(x * p / d, -0.5f, 0.5f));
}

// x less the nearest multiple n of pi / 2, for |x| < 39000; n ends up in the low bits of *quadrant. The four parts of
// pi / 2 are short enough for exact products.
static inline WF FN(wn_reduce)(WF x, WI *quadrant) {
  const WF t = x * 0.636619772f + WN_MAGIC, n = t - WN_MAGIC;
  *quadrant = AS_WI(t);
  WF r = x - n * 1.5703125f;
  r -= n * 4.8351287841796875e-4f;
  r -= n * 3.1385570764541626e-7f;
  return r - n * 6.0771005065061922e-11f;
}
#if W == 8
static inline float8 wn_reduce_far8(float8 x, float8 r, int8 *quadrant) {
  float lane[8] = {x.s0, x.s1, x.s2, x.s3, x.s4, x.s5, x.s6, x.s7};
  float reduced[8] = {r.s0, r.s1, r.s2, r.s3, r.s4, r.s5, r.s6, r.s7};
  int n[8] = {quadrant->s0, quadrant->s1, quadrant->s2, quadrant->s3, quadrant->s4, quadrant->s5, quadrant->s6, quadrant->s7};
  for (int k = 0; k < 8; k++)
    if (!(fabs(lane[k]) < 39000.0f)) reduced[k] = wn_reduce_far_lane(lane[k], n + k);
  *quadrant = (int8)(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]);
  return (float8)(reduced[0], reduced[1], reduced[2], reduced[3], reduced[4], reduced[5], reduced[6], reduced[7]);
}
#else
static inline float wn_reduce_far1(float x, float r, int *quadrant) { return wn_reduce_far_lane(x, quadrant); }
#endif
static inline WF FN(wn_reduce_any)(WF x, WI *quadrant) {
  WF r = FN(wn_reduce)(x, quadrant);
  const WI far = !(FN(wn_abs)(x) < (WF)(39000.0f));
  if (ANY(far)) r = FN(wn_reduce_far)(x, r, quadrant);
  return r;
}
// Sine and cosine for |r| <= pi / 4.
static inline WF FN(wn_sin_core)(WF r) {
  const WF s = r * r;
  return ((-0.000195184053f * s + 0.0083321901f) * s - 0.166666552f) * (s * r) + r;
}
static inline WF FN(wn_cos_core)(WF r) {
  const WF s = r * r;
  return ((2.44306684e-05f * s - 0.00138873013f) * s + 0.0416666456f) * (s * s) + (1.0f - 0.5f * s);
}
static inline WF FN(wn_circle)(WF r, WI quadrant) {
  const WF y = SEL(FN(wn_sin_core)(r), FN(wn_cos_core)(r), (quadrant & 1) != 0);
  return AS_WF(AS_WI(y) ^ ((quadrant & 2) << 30));
}
static inline WF FN(wn_sin)(WF x) {
  WI quadrant;
  const WF r = FN(wn_reduce_any)(x, &quadrant);
  return FN(wn_circle)(r, quadrant);
}
static inline WF FN(wn_cos)(WF x) {
  WI quadrant;
  const WF r = FN(wn_reduce_any)(x, &quadrant);
  return FN(wn_circle)(r, quadrant + 1);
}
static inline WF FN(wn_tan)(WF x) {
  WI quadrant;
  const WF r = FN(wn_reduce_any)(x, &quadrant), s = FN(wn_sin_core)(r), c = FN(wn_cos_core)(r);
  const WI odd = (quadrant & 1) != 0;
  return SEL(s, -c, odd) / SEL(c, s, odd);
}

// Beyond 1e30 the quotient is 1 long since; the limit also keeps infinity / infinity away.
static inline WF FN(wn_softsign)(WF x) {
  x = FN(wn_clip)(x, -1e30f, 1e30f);
  return x / (1.0f + FN(wn_abs)(x));
}
// Dividing the gate first keeps large x from overflowing; minus infinity times the gate 0 would be NaN.
static inline WF FN(wn_hard_swish)(WF x) {
  const WF gate = FN(wn_clip)(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
  return SEL(x * gate, (WF)(0.0f), x < (WF)(-1e30f));
}

#undef WF
#undef WI
#undef WU
#undef WL
#undef AS_WF
#undef AS_WI
#undef AS_WU
#undef SEL
#undef TO
#undef BITS
#undef VEC
#undef MASK
#undef ANY
#undef FN
#undef WN_CUT
#undef TFN
// end of each width
