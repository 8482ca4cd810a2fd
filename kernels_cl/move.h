// Moving bytes: elements are unsigned integers of their size, so that one kernel serves all types of that size.

typedef ushort8 ushort8_u __attribute__((aligned(2)));

#define EIGHT_OF(E, p, i) (*(const __global CAT2(E, 8_u) *)((p) + (i)))
#define PUT_EIGHT(E, p, i, v) (*(__global CAT2(E, 8_u) *)((p) + (i)) = (v))

// move_E(y, x, n): n consecutive elements from x to y.   fill_E(y, v, n): n consecutive elements of v.
#define DEFINE_MOVE(E) \
  static inline void move_##E(__global E *y, const __global E *x, IDX n) { \
    IDX i = 0; \
    for (; i + 16 <= n; i += 16) { \
      const CAT2(E, 8) a = EIGHT_OF(E, x, i); \
      const CAT2(E, 8) b = EIGHT_OF(E, x, i + 8); \
      PUT_EIGHT(E, y, i, a); \
      PUT_EIGHT(E, y, i + 8, b); \
    } \
    for (; i < n; i++) y[i] = x[i]; \
  } \
  static inline void fill_##E(__global E *y, E v, IDX n) { \
    IDX i = 0; \
    for (; i + 8 <= n; i += 8) PUT_EIGHT(E, y, i, (CAT2(E, 8))(v)); \
    for (; i < n; i++) y[i] = v; \
  }
DEFINE_MOVE(uchar)
DEFINE_MOVE(ushort)
DEFINE_MOVE(uint)
DEFINE_MOVE(ulong)
#undef DEFINE_MOVE

#define MOVE(E, y, x, n) CAT2(move_, E)((y), (x), (n))
#define FILL(E, y, v, n) CAT2(fill_, E)((y), (v), (n))

// Index i of n elements: clamped to [-n, n - 1], negative ones count from the end. Never outside 0 .. n - 1.
static inline IDX clamp_index(IDX i, IDX n) {
  i = i < -n ? -n : i;
  i = i > n - 1 ? n - 1 : i;
  return i < 0 ? i + n : i;
}
