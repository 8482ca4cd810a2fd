// Softmax along one dimension of [outer, n, inner]: rows where inner is 1, columns else. Each element's exponential is
// computed once and waits in the result where that is plain float; else it is computed again.

#ifndef T
#define T float  // storage type
#endif
#ifndef WIDE
#define WIDE 16  // vectors of columns that one work-item keeps at most
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#else
#undef WAIT_IN_RESULT  // defined where T is float
#endif
#define BLOCK 512  // elements added one to another before their sum joins the others
#define SHORT 64   // rows whose exponentials fit into private memory
#define ROWS 16    // rows between two looks at the largest elements

// 2^64 exp(x) for x <= 0: the factor, which keeps subnormals apart, cancels in the quotient. NaN passes through.
#define EXP8(x) wn_exp_scaled8(x)
#define EXP1(x) wn_exp_scaled1(x)
#define SCALE 0x1p-64f
// Where all elements so far are -infinity, differences must not be NaN yet: there may be others.
#define SHIFT8(m) SEL8((m), (float8)(0.0f), (m) == (float8)(-INFINITY))

static inline float largest_lane(float8 v) {
  const float4 a = v.lo > v.hi ? v.lo : v.hi;
  const float2 b = a.lo > a.hi ? a.lo : a.hi;
  return b.x > b.y ? b.x : b.y;
}

static inline float sum_lanes(float8 v) {
  return ((v.s0 + v.s4) + (v.s2 + v.s6)) + ((v.s1 + v.s5) + (v.s3 + v.s7));
}

// NaN is left out here and comes back through the exponential.
static inline float largest_of(const __global T *x, IDX n) {
  float8 a8 = (float8)(-INFINITY), b8 = a8, c8 = a8, d8 = a8;
  IDX i = 0;
  for (; i + 32 <= n; i += 32) {
    const float8 a = LOAD8(T, x, i), b = LOAD8(T, x, i + 8), c = LOAD8(T, x, i + 16), d = LOAD8(T, x, i + 24);
    a8 = SEL8(a8, a, a > a8);
    b8 = SEL8(b8, b, b > b8);
    c8 = SEL8(c8, c, c > c8);
    d8 = SEL8(d8, d, d > d8);
  }
  for (; i + 8 <= n; i += 8) {
    const float8 a = LOAD8(T, x, i);
    a8 = SEL8(a8, a, a > a8);
  }
  a8 = SEL8(a8, b8, b8 > a8);
  c8 = SEL8(c8, d8, d8 > c8);
  float m = largest_lane(SEL8(a8, c8, c8 > a8));
  for (; i < n; i++) {
    const float v = LOAD(T, x, i);
    m = v > m ? v : m;
  }
  return m;
}

// Sum of the exponentials of x - m.
static inline float sum_of(const __global T *x, __global T *y, IDX n, float m) {
  float8 sum8 = (float8)(0.0f);
  IDX i = 0;
  while (i + 8 <= n) {
    float8 a = (float8)(0.0f);
    const IDX stop = n - i < BLOCK ? n : i + BLOCK;
    for (; i + 8 <= stop; i += 8) {
      const float8 e = EXP8(LOAD8(T, x, i) - m);
#ifdef WAIT_IN_RESULT
      STORE8(T, y, i, e);
#endif
      a += e;
    }
    sum8 += a;
  }
  float sum = sum_lanes(sum8);
  if (i < n) {
    const float8 e = EXP8(LOADN(T, x, i, n - i) - m);
    const float lane[8] = {e.s0, e.s1, e.s2, e.s3, e.s4, e.s5, e.s6, e.s7};
    for (IDX k = i; k < n; k++) {
      sum += lane[k - i];
#ifdef WAIT_IN_RESULT
      STORE(T, y, k, lane[k - i]);
#endif
    }
  }
  return sum;
}

// The result of a row (or part of it) at y[at]: e * scale, the exponentials e having waited or computed now.
static inline void put_row(const __global T *x, __global T *y, IDX at, IDX n, float m, float scale EXTRA_ARGS) {
  IDX i = at;
  const IDX end = at + n;
#ifdef WAIT_IN_RESULT
  for (; i + 8 <= end; i += 8) STORE8(T, y, i, LOAD8(T, y, i) * scale);
  for (; i < end; i++) STORE(T, y, i, LOAD(T, y, i) * scale);
#else
  for (; i + 8 <= end; i += 8) EMIT8(y, i, EXP8(LOAD8(T, x, i) - m) * scale);
  if (i < end) EMITN(y, i, end - i, EXP8(LOADN(T, x, i, end - i) - m) * scale);
#endif
}

// Work-item: `rows_each` rows.
kernel void softmax_rows(const __global T *x, __global T *y, IDX n, IDX rows, IDX rows_each EXTRA_ARGS) {
  IDX row = (IDX)get_global_id(0) * rows_each;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  for (; row < end; row++) {
    const IDX at = row * n;
    const float m = largest_of(x + at, n);
    const float sum = sum_of(x + at, y + at, n, m);
    put_row(x, y, at, n, m, 1.0f / sum EXTRA_PASS);
  }
}

// Long rows in two launches: largest element and sum of each of the `parts` of `chunk` elements, two floats a part ...
kernel void softmax_parts(const __global T *x, __global T *y, __global float *found, IDX n, IDX parts, IDX chunk) {
  const IDX part = get_global_id(0);
  const IDX row = get_global_id(1);
  if (part >= parts) return;
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
  const IDX at = row * n + begin;
  const float m = largest_of(x + at, length);
  const IDX k = (row * parts + part) * 2;
  found[k] = m;
  found[k + 1] = sum_of(x + at, y + at, length, m == -INFINITY ? 0.0f : m);
}

// ... and the result. Exponentials that waited are relative to the part's own largest element.
kernel void softmax_join(const __global T *x, __global T *y, const __global float *found, IDX n, IDX parts,
                         IDX chunk EXTRA_ARGS) {
  const IDX part = get_global_id(0);
  const IDX row = get_global_id(1);
  if (part >= parts) return;
  const __global float *pairs = found + row * parts * 2;
  float m = -INFINITY;
  for (IDX k = 0; k < parts; k++) m = pairs[2 * k] > m ? pairs[2 * k] : m;
  float sum = 0.0f;
  for (IDX k = 0; k < parts; k++) sum += pairs[2 * k + 1] * (EXP1(pairs[2 * k] - m) * SCALE);
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
#ifdef WAIT_IN_RESULT
  const float scale = EXP1(pairs[2 * part] - m) * SCALE / sum;
#else
  const float scale = 1.0f / sum;
#endif
  put_row(x, y, row * n + begin, length, m, scale EXTRA_PASS);
}

// One vector of columns, or the first `lanes` < 8 of it.
static inline float8 column_load(const __global T *x, IDX i, IDX lanes) {
  return lanes == 8 ? LOAD8(T, x, i) : LOADN(T, x, i, lanes);
}

#define COLUMN_EMIT(i, v)                \
  if (lanes == 8) EMIT8(y, i, v);        \
  else EMITN(y, i, lanes, v)

// Few rows: the exponentials are kept.
static inline void softmax_short(const __global T *x, __global T *y, IDX at, IDX n, IDX inner, IDX lanes EXTRA_ARGS) {
  float8 kept[SHORT];
  float8 m = (float8)(-INFINITY), sum = (float8)(0.0f);
  for (IDX r = 0; r < n; r++) {
    kept[r] = column_load(x, at + r * inner, lanes);
    m = SEL8(m, kept[r], kept[r] > m);
  }
  for (IDX r = 0; r < n; r++) {
    kept[r] = EXP8(kept[r] - m);
    sum += kept[r];
  }
  const float8 scale = 1.0f / sum;
  for (IDX r = 0; r < n; r++) {
    const float8 v = kept[r] * scale;
    COLUMN_EMIT(at + r * inner, v);
  }
}

// Many rows, ROWS at a time: largest elements, and sums of exponentials relative to the largest so far.
static inline void column_sums(const __global T *x, IDX n, IDX inner, IDX width, float8 *m, float8 *sum) {
  for (IDX v = 0; v * 8 < width; v++) {
    m[v] = (float8)(-INFINITY);
    sum[v] = (float8)(0.0f);
  }
  for (IDX r = 0; r < n; r += ROWS) {
    const IDX count = n - r < ROWS ? n - r : ROWS;
    for (IDX v = 0; v * 8 < width; v++) {
      const IDX lanes = width - v * 8 < 8 ? width - v * 8 : 8;
      const __global T *p = x + r * inner + v * 8;
      float8 larger = m[v];
      for (IDX k = 0; k < count; k++) {
        const float8 a = column_load(p, k * inner, lanes);
        larger = SEL8(larger, a, a > larger);
      }
      const float8 shift = SHIFT8(larger);
      float8 more = sum[v] * (EXP8(m[v] - shift) * SCALE);
      for (IDX k = 0; k < count; k++) more += EXP8(column_load(p, k * inner, lanes) - shift);
      sum[v] = more;
      m[v] = larger;
    }
  }
}

// Work-item: `vectors_each` (at most WIDE) vectors of columns of one index of the outer dimension.
kernel void softmax_columns(const __global T *x, __global T *y, IDX n, IDX inner, IDX outer,
                            IDX vectors_each EXTRA_ARGS) {
  const IDX column = (IDX)get_global_id(0) * vectors_each * 8;
  const IDX o = get_global_id(1);
  if (column >= inner || o >= outer) return;
  const IDX width = inner - column < vectors_each * 8 ? inner - column : vectors_each * 8;
  const IDX at = o * n * inner + column;
  if (n <= SHORT) {
    for (IDX c = 0; c < width; c += 8)
      softmax_short(x, y, at + c, n, inner, width - c < 8 ? width - c : 8 EXTRA_PASS);
    return;
  }
  float8 m[WIDE], scale[WIDE];
  column_sums(x + at, n, inner, width, m, scale);
  for (IDX v = 0; v * 8 < width; v++) scale[v] = 1.0f / scale[v];
  for (IDX r = 0; r < n; r++) {
    for (IDX v = 0; v * 8 < width; v++) {
      const IDX i = at + r * inner + v * 8;
      const IDX lanes = width - v * 8 < 8 ? width - v * 8 : 8;
      const float8 e = EXP8(column_load(x, i, lanes) - m[v]) * scale[v];
      COLUMN_EMIT(i, e);
    }
  }
}
