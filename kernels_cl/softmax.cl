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

static inline float largest_lane(float8 v) {
  const float4 a = fmax(v.lo, v.hi);
  const float2 b = fmax(a.lo, a.hi);
  return fmax(b.x, b.y);
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
  float m = largest_lane(fmax(fmax(a8, b8), fmax(c8, d8)));
  for (; i < n; i++) m = fmax(m, LOAD(T, x, i));
  return m;
}

// Sum of exp(x - m).
static inline float sum_of(const __global T *x, __global T *y, IDX n, float m) {
  float8 sum8 = (float8)(0.0f);
  IDX i = 0;
  while (i + 8 <= n) {
    float8 a = (float8)(0.0f);
    const IDX stop = n - i < BLOCK ? n : i + BLOCK;
    for (; i + 8 <= stop; i += 8) {
      const float8 e = wn_exp8(LOAD8(T, x, i) - m);
#ifdef WAIT_IN_RESULT
      STORE8(T, y, i, e);
#endif
      a += e;
    }
    sum8 += a;
  }
  float sum = sum_lanes(sum8);
  if (i < n) {
    const float8 e = wn_exp8(LOADN(T, x + i, 0, n - i) - m);
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
  for (; i + 8 <= end; i += 8) EMIT8(y, i, wn_exp8(LOAD8(T, x, i) - m) * scale);
  if (i < end) EMITN(y, i, end - i, wn_exp8(LOADN(T, x, i, end - i) - m) * scale);
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
  found[k + 1] = sum_of(x + at, y + at, length, isfinite(m) ? m : 0.0f);
}

// ... and the result. Exponentials that waited are relative to the part's own largest element.
kernel void softmax_join(const __global T *x, __global T *y, const __global float *found, IDX n, IDX parts,
                         IDX chunk EXTRA_ARGS) {
  const IDX part = get_global_id(0);
  const IDX row = get_global_id(1);
  if (part >= parts) return;
  const __global float *pairs = found + row * parts * 2;
  float m = -INFINITY;
  for (IDX k = 0; k < parts; k++) m = fmax(m, pairs[2 * k]);
  float sum = 0.0f;
  for (IDX k = 0; k < parts; k++) sum += pairs[2 * k + 1] * wn_exp1(pairs[2 * k] - m);
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
#ifdef WAIT_IN_RESULT
  const float scale = wn_exp1(pairs[2 * part] - m) / sum;
#else
  const float scale = 1.0f / sum;
#endif
  put_row(x, y, row * n + begin, length, m, scale EXTRA_PASS);
}

// One vector of columns, or `lanes` < 8 of them.
static inline float8 column_load(const __global T *x, IDX i, IDX lanes) {
  return lanes == 8 ? LOAD8(T, x, i) : LOADN(T, x, i, lanes);
}

static inline void column_keep(__global T *y, IDX i, IDX lanes, float8 v) {
  if (lanes == 8) STORE8(T, y, i, v);
  else STOREN(T, y, i, lanes, v);
}

// Work-item: `vectors_each` (at most WIDE) vectors of columns of one index of the outer dimension.
kernel void softmax_columns(const __global T *x, __global T *y, IDX n, IDX inner, IDX outer,
                            IDX vectors_each EXTRA_ARGS) {
  const IDX column = (IDX)get_global_id(0) * vectors_each * 8;
  const IDX o = get_global_id(1);
  if (column >= inner || o >= outer) return;
  const IDX width = inner - column < vectors_each * 8 ? inner - column : vectors_each * 8;
  const IDX vectors = width / 8, last = width - vectors * 8;
  const IDX at = o * n * inner + column;
  float8 m[WIDE + 1], s[WIDE + 1];
  for (IDX v = 0; v <= vectors; v++) {
    m[v] = (float8)(-INFINITY);
    s[v] = (float8)(0.0f);
  }
  for (IDX r = 0; r < n; r++) {
    for (IDX v = 0; v < vectors; v++) {
      const float8 a = LOAD8(T, x, at + r * inner + v * 8);
      m[v] = SEL8(m[v], a, a > m[v]);
    }
    if (last > 0) {
      const float8 a = LOADN(T, x, at + r * inner + vectors * 8, last);
      m[vectors] = SEL8(m[vectors], a, a > m[vectors]);
    }
  }
  for (IDX r = 0; r < n; r++) {
    for (IDX v = 0; v * 8 < width; v++) {
      const IDX i = at + r * inner + v * 8;
      const IDX lanes = v < vectors ? 8 : last;
      const float8 e = wn_exp8(column_load(x, i, lanes) - m[v]);
#ifdef WAIT_IN_RESULT
      column_keep(y, i, lanes, e);
#endif
      s[v] += e;
    }
  }
  for (IDX v = 0; v * 8 < width; v++) s[v] = 1.0f / s[v];
  for (IDX r = 0; r < n; r++) {
    for (IDX v = 0; v * 8 < width; v++) {
      const IDX i = at + r * inner + v * 8;
      const IDX lanes = v < vectors ? 8 : last;
#ifdef WAIT_IN_RESULT
      column_keep(y, i, lanes, column_load(y, i, lanes) * s[v]);
#else
      const float8 e = wn_exp8(column_load(x, i, lanes) - m[v]) * s[v];
      if (lanes == 8) EMIT8(y, i, e);
      else EMITN(y, i, lanes, e);
#endif
    }
  }
}
