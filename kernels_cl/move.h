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

// Results too large to be found in a cache later are written past the caches, by whole cache lines: on 64 MiB that
// saves a third of the traffic. Translators to SPIR-V may not know the intrinsics.
#define LINE_BYTES 64
#if defined(__has_builtin) && !defined(__SPIR__) && !defined(__SPIR64__) && !defined(__SPIRV__)
#if __has_builtin(__builtin_nontemporal_store)
#define PUT_PAST(V, p, v) __builtin_nontemporal_store((v), (__global V *)(p))
#endif
#if __has_builtin(__builtin_prefetch)
#define FETCH(p) __builtin_prefetch(p)
#endif
#endif
#ifndef PUT_PAST
#define PUT_PAST(V, p, v) (*(__global V *)(p) = (v))
#endif
#ifndef FETCH
#define FETCH(p)
#endif
#define ON_LINE(p) (((size_t)(p) & (LINE_BYTES - 1)) == 0)

// Eight floats past the caches where their place is aligned.
#define STORE8_PAST(p, i, v)                                                                  \
  do {                                                                                        \
    if (((size_t)((p) + (i)) & 31) == 0) PUT_PAST(float8, (p) + (i), v);                      \
    else STORE8(float, p, i, v);                                                              \
  } while (0)

typedef uint8 uint8_b __attribute__((aligned(1)));

// move_past(y, x, n): n bytes.   fill_past_E(y, v, n): n elements of v.
static inline void move_past(__global uchar *y, const __global uchar *x, IDX n) {
  IDX i = 0;
  for (; i < n && !ON_LINE(y + i); i++) y[i] = x[i];
  for (; i + LINE_BYTES <= n; i += LINE_BYTES) {
    const uint8 a = *(const __global uint8_b *)(x + i);
    const uint8 b = *(const __global uint8_b *)(x + i + 32);
    PUT_PAST(uint8, y + i, a);
    PUT_PAST(uint8, y + i + 32, b);
  }
  for (; i < n; i++) y[i] = x[i];
}
#define DEFINE_FILL_PAST(E) \
  static inline void fill_past_##E(__global E *y, E v, IDX n) { \
    IDX i = 0; \
    for (; i < n && !ON_LINE(y + i); i++) y[i] = v; \
    for (; i + 8 <= n; i += 8) PUT_PAST(CAT2(E, 8), y + i, (CAT2(E, 8))(v)); \
    for (; i < n; i++) y[i] = v; \
  }
DEFINE_FILL_PAST(uchar)
DEFINE_FILL_PAST(ushort)
DEFINE_FILL_PAST(uint)
DEFINE_FILL_PAST(ulong)
#undef DEFINE_FILL_PAST

#define MOVE_PAST(E, y, x, n) move_past((__global uchar *)(y), (const __global uchar *)(x), (n) * (IDX)sizeof(E))
#define FILL_PAST(E, y, v, n) CAT2(fill_past_, E)((y), (v), (n))
#define MOVE(E, y, x, n) CAT2(move_, E)((y), (x), (n))
#define FILL(E, y, v, n) CAT2(fill_, E)((y), (v), (n))

// Index i of n elements: clamped to [-n, n - 1], negative ones count from the end. Never outside 0 .. n - 1.
static inline IDX clamp_index(IDX i, IDX n) {
  i = i < -n ? -n : i;
  i = i > n - 1 ? n - 1 : i;
  return i < 0 ? i + n : i;
}
