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
#define WN_TRUE8(T, c) (CAT2(convert_, MTYPE(T))(c) != 0)
#define WN_TRUE1(T, c) ((c) != 0)
#define WN_DIV8(T, a, b) CAT2(wn_div8_, T)((a), (b))
#define WN_DIV1(T, a, b) CAT2(wn_div1_, T)((a), (b))
#define WN_POW8(T, a, b) CAT2(wn_pow8_, T)((a), (b))
#define WN_POW1(T, a, b) CAT2(wn_pow1_, T)((a), (b))
#define WN_SATURATE8(T, x) CAT2(wn_saturate8_, T)(x)
#define WN_SATURATE1(T, x) CAT2(wn_saturate1_, T)(x)
#define WN_QUANTIZE8(T, ratio, zero) CAT2(wn_quantize8_, T)((ratio), (zero))
#define WN_QUANTIZE1(T, ratio, zero) CAT2(wn_quantize1_, T)((ratio), (zero))

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
#define MASK(T, m) CAT2(convert_, MTYPE(T))(m)
#define ANY(m) any(m)
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
SATURATE(char, -128.0f, 127.0f)
SATURATE(uchar, 0.0f, 255.0f)
SATURATE(int, -2147483648.0f, 2147483520.0f)
SATURATE(uint, 0.0f, 4294967040.0f)
SATURATE(long, -9223372036854775808.0f, 9223371487098961920.0f)
SATURATE(ulong, 0.0f, 18446742974197923840.0f)
#undef SATURATE

// ratio (integral) plus zero, saturating to 32 bits; NaN gives 0. Float sums would be exact to 24 bits only.
#define QUANTIZE(T)                                                                      \
  static inline VEC(T) TFN(wn_quantize, T)(WF ratio, WL zero) {                          \
    WF r = SEL((WF)(0.0f), ratio, ratio == ratio);                                       \
    r = SEL(r, (WF)(-1e12f), r < (WF)(-1e12f));                                          \
    r = SEL(r, (WF)(1e12f), r > (WF)(1e12f));                                            \
    const WL low = (WL)(T_LOWEST(T)), high = (WL)(T_HIGHEST(T));                         \
    WL sum = TO(long, r) + zero;                                                         \
    sum = SEL(sum, low, sum < low);                                                      \
    sum = SEL(sum, high, sum > high);                                                    \
    return SEL(TO(T, sum), (VEC(T))(0), MASK(T, ratio != ratio));                        \
  }
QUANTIZE(int)
QUANTIZE(uint)
#undef QUANTIZE

// Floats -----------------------------------------------------------------------------------------------------

static inline WF FN(wn_abs)(WF x) { return AS_WF(AS_WI(x) & 0x7fffffff); }
static inline WF FN(wn_clip)(WF x, float low, float high) {
  x = SEL(x, (WF)(low), x < (WF)(low));
  return SEL(x, (WF)(high), x > (WF)(high));
}
static inline WF FN(wn_floor)(WF x) { return floor(x); }
static inline WF FN(wn_ceil)(WF x) { return ceil(x); }
static inline WF FN(wn_round)(WF x) { return rint(x); }
static inline WF FN(wn_exp)(WF x) { return exp(x); }
static inline WF FN(wn_expm1)(WF x) { return expm1(x); }
static inline WF FN(wn_log)(WF x) { return log(x); }
static inline WF FN(wn_pow)(WF x, WF y) { return pow(x, y); }
static inline WF FN(wn_erf)(WF x) { return erf(x); }
static inline WF FN(wn_sin)(WF x) { return sin(x); }
static inline WF FN(wn_cos)(WF x) { return cos(x); }
static inline WF FN(wn_tan)(WF x) { return tan(x); }
static inline WF FN(wn_tanh)(WF x) { return tanh(x); }
static inline WF FN(wn_gelu)(WF x) { return 0.5f * x * erfc(x * -0.70710678f); }
static inline WF FN(wn_sigmoid)(WF x) {
  const WF e = exp(-FN(wn_abs)(x));
  return SEL(e, (WF)(1.0f), x >= (WF)(0.0f)) / (1.0f + e);
}
static inline WF FN(wn_softplus)(WF x) {
  return SEL(x, (WF)(0.0f), x < (WF)(0.0f)) + log1p(exp(-FN(wn_abs)(x)));
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
#undef TFN
// end of each width
