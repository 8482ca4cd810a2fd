// Put before softmax.cl and log_sum_exp.cl: largest elements, and sums of exponentials relative to them, of rows and
// columns. NaN never becomes the largest element; it comes back through the exponential.

#ifndef X
#define X float  // storage type of the input
#endif

// 2^64 exp(x) for x <= 0; the factor keeps subnormals apart. NaN passes through.
#define EXP8(x) wn_exp_scaled8(x)
#define EXP1(x) wn_exp_scaled1(x)
#define SCALE 0x1p-64f
// Where all elements so far are -infinity, differences must not be NaN yet: there may be others.
#define SHIFT8(m) SEL8((m), (float8)(0.0f), (m) == (float8)(-INFINITY))
#define SHIFT1(m) SEL1((m), 0.0f, (m) == -INFINITY)
#define LARGER8(m, v) SEL8((m), (v), (v) > (m))
#define ROWS 8   // rows of columns between two looks at the largest elements

static inline float largest_lane(float8 v) {
  const float4 a = v.lo > v.hi ? v.lo : v.hi;
  const float2 b = a.lo > a.hi ? a.lo : a.hi;
  return b.x > b.y ? b.x : b.y;
}

static inline float sum_lanes(float8 v) {
  return ((v.s0 + v.s4) + (v.s2 + v.s6)) + ((v.s1 + v.s5) + (v.s3 + v.s7));
}

// The largest of n consecutive elements; n is a multiple of 8.
static inline float largest_of(const __global X *x, IDX n) {
  float8 a = (float8)(-INFINITY), b = a, c = a, d = a;
  IDX i = 0;
  for (; i + 32 <= n; i += 32) {
    const float8 p = LOAD8(X, x, i), q = LOAD8(X, x, i + 8), r = LOAD8(X, x, i + 16), s = LOAD8(X, x, i + 24);
    a = LARGER8(a, p);
    b = LARGER8(b, q);
    c = LARGER8(c, r);
    d = LARGER8(d, s);
  }
  for (; i < n; i += 8) {
    const float8 p = LOAD8(X, x, i);
    a = LARGER8(a, p);
  }
  a = LARGER8(a, b);
  c = LARGER8(c, d);
  return largest_lane(LARGER8(a, c));
}

// One more look at ROWS rows of a vector of columns, all of which stay in registers.
static inline void sums_block(const __global X *p, IDX inner, float8 *m, float8 *sum) {
  float8 a0 = LOAD8(X, p, 0), a1 = LOAD8(X, p, inner), a2 = LOAD8(X, p, 2 * inner), a3 = LOAD8(X, p, 3 * inner);
  float8 a4 = LOAD8(X, p, 4 * inner), a5 = LOAD8(X, p, 5 * inner), a6 = LOAD8(X, p, 6 * inner);
  float8 a7 = LOAD8(X, p, 7 * inner);
  const float8 old = *m;
  const float8 b0 = LARGER8(LARGER8(old, a0), a1), b1 = LARGER8(LARGER8(old, a2), a3);
  const float8 b2 = LARGER8(LARGER8(old, a4), a5), b3 = LARGER8(LARGER8(old, a6), a7);
  const float8 c0 = LARGER8(b0, b1), c1 = LARGER8(b2, b3);
  const float8 now = LARGER8(c0, c1);
  const float8 shift = SHIFT8(now);
  a0 = EXP8(a0 - shift) + EXP8(a1 - shift);
  a2 = EXP8(a2 - shift) + EXP8(a3 - shift);
  a4 = EXP8(a4 - shift) + EXP8(a5 - shift);
  a6 = EXP8(a6 - shift) + EXP8(a7 - shift);
  *sum = *sum * (EXP8(old - shift) * SCALE) + ((a0 + a2) + (a4 + a6));
  *m = now;
}

// `rows` rows of whole vectors of columns, `inner` elements apart.
static inline void sums_wide(const __global X *x, IDX rows, IDX inner, IDX vectors, float8 *m, float8 *sum) {
  for (IDX v = 0; v < vectors; v++) {
    m[v] = (float8)(-INFINITY);
    sum[v] = (float8)(0.0f);
  }
  IDX r = 0;
  for (; r + ROWS <= rows; r += ROWS)
    for (IDX v = 0; v < vectors; v++) {
      for (IDX k = 0; k < ROWS && v % 2 == 0; k++) FETCH(x + (r + ROWS + k) * inner + v * 8);
      sums_block(x + r * inner + v * 8, inner, m + v, sum + v);
    }
  for (; r < rows; r++) {
    for (IDX v = 0; v < vectors; v++) {
      const float8 a = LOAD8(X, x, r * inner + v * 8);
      const float8 now = LARGER8(m[v], a), shift = SHIFT8(now);
      sum[v] = sum[v] * (EXP8(m[v] - shift) * SCALE) + EXP8(a - shift);
      m[v] = now;
    }
  }
}

// The same for the first `lanes` < 8 columns of one vector.
static inline void sums_part(const __global X *x, IDX rows, IDX inner, IDX lanes, float8 *m, float8 *sum) {
  float8 a = (float8)(-INFINITY), all = (float8)(0.0f);
  for (IDX r = 0; r < rows; r++) {
    const float8 s = LOADN(X, x, r * inner, lanes);
    a = LARGER8(a, s);
  }
  const float8 shift = SHIFT8(a);
  for (IDX r = 0; r < rows;) {
    const IDX stop = rows - r < 256 ? rows : r + 256;
    float8 some = (float8)(0.0f);  // long sums stay exact
    for (; r < stop; r++) some += EXP8(LOADN(X, x, r * inner, lanes) - shift);
    all += some;
  }
  *m = a;
  *sum = all;
}
