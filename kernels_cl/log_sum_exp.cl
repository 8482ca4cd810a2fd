// log(sum(exp(x))) over one dimension of [outer, n, inner], shifted by the largest element so far so that nothing
// overflows; one reading of the memory. The results of parts go through the same kernels again.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef Y
#define Y float  // storage type of the result
#endif
#ifndef WIDE
#define WIDE 64  // vectors of columns that one work-item keeps
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(Y, p, i, v)
#define EMIT8(p, i, v) STORE8(Y, p, i, v)
#endif
#define RUN 2048  // elements of a row between two looks at the largest one: they stay in the nearest cache
#define ROWS 16   // rows of columns, likewise

// 2^64 exp(x) for x <= 0. NaN passes through.
#define EXP8(x) wn_exp_scaled8(x)
#define EXP1(x) wn_exp_scaled1(x)
#define SCALE 0x1p-64f
// -infinity as the largest element must not give infinity - infinity.
#define SHIFT8(m) SEL8((m), (float8)(0.0f), (m) == (float8)(-INFINITY))
#define SHIFT1(m) SEL1((m), 0.0f, (m) == -INFINITY)

static inline float largest_lane(float8 v) {
  const float4 a = v.lo > v.hi ? v.lo : v.hi;
  const float2 b = a.lo > a.hi ? a.lo : a.hi;
  return b.x > b.y ? b.x : b.y;
}

static inline float sum_lanes(float8 v) {
  return ((v.s0 + v.s4) + (v.s2 + v.s6)) + ((v.s1 + v.s5) + (v.s3 + v.s7));
}

// m is the largest element but for NaN, sum that of the exponentials relative to it. Where m is infinite, sum can't
// tell NaN from the rest, so the elements are looked at again.
static inline float log_sum_exp_result(float m, float sum, const __global X *x, IDX n, IDX step) {
  if (m > -INFINITY && m < INFINITY) return m + log(sum * SCALE);
  for (IDX i = 0; i < n; i++) {
    const float v = LOAD(X, x, i * step);
    if (v != v) return v;
  }
  return m;
}

static inline float log_sum_exp_run(const __global X *x, IDX n) {
  float m = -INFINITY, sum = 0.0f;
  float8 sum8 = (float8)(0.0f);
  IDX i = 0;
  while (i + 8 <= n) {
    const IDX stop = i + RUN < n ? i + RUN : n;
    float8 a8 = (float8)(-INFINITY), b8 = a8;
    IDX k = i;
    for (; k + 16 <= stop; k += 16) {
      const float8 a = LOAD8(X, x, k), b = LOAD8(X, x, k + 8);
      a8 = SEL8(a8, a, a > a8);
      b8 = SEL8(b8, b, b > b8);
    }
    for (; k + 8 <= stop; k += 8) {
      const float8 a = LOAD8(X, x, k);
      a8 = SEL8(a8, a, a > a8);
    }
    const float found = largest_lane(SEL8(a8, b8, b8 > a8));
    const float larger = found > m ? found : m;
    const float shift = SHIFT1(larger);
    float8 more = (float8)(0.0f);
    for (; i + 8 <= stop; i += 8) more += EXP8(LOAD8(X, x, i) - shift);
    sum8 = sum8 * (EXP1(m - shift) * SCALE) + more;
    m = larger;
  }
  sum = sum_lanes(sum8);
  for (; i < n; i++) {
    const float v = LOAD(X, x, i);
    const float larger = v > m ? v : m;
    sum = sum * (EXP1(m - SHIFT1(larger)) * SCALE) + EXP1(v - SHIFT1(larger));
    m = larger;
  }
  return log_sum_exp_result(m, sum, x, n, 1);
}

// Work-item: `rows_each` rows, or the `chunk` elements of one of the `parts` of one row.
kernel void log_sum_exp_rows(const __global X *x, __global Y *y, IDX n, IDX rows, IDX rows_each, IDX parts,
                             IDX chunk EXTRA_ARGS) {
  IDX row = (IDX)get_global_id(0) * rows_each;
  const IDX part = get_global_id(1);
  if (row >= rows || part >= parts) return;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
  for (; row < end; row++) EMIT(y, row * parts + part, log_sum_exp_run(x + row * n + begin, length));
}

static inline float log_sum_exp_column(const __global X *x, IDX rows, IDX inner) {
  float m = -INFINITY, sum = 0.0f;
  for (IDX r = 0; r < rows; r++) {
    const float v = LOAD(X, x, r * inner);
    m = v > m ? v : m;
  }
  const float shift = SHIFT1(m);
  for (IDX r = 0; r < rows; r++) sum += EXP1(LOAD(X, x, r * inner) - shift);
  return log_sum_exp_result(m, sum, x, rows, inner);
}

// Up to WIDE vectors of columns: largest elements and sums of exponentials relative to them.
static inline void log_sum_exp_wide(const __global X *x, IDX rows, IDX inner, IDX vectors, float8 *m, float8 *sum) {
  for (IDX v = 0; v < vectors; v++) {
    m[v] = (float8)(-INFINITY);
    sum[v] = (float8)(0.0f);
  }
  for (IDX r = 0; r < rows; r += ROWS) {
    const IDX count = rows - r < ROWS ? rows - r : ROWS;
    for (IDX v = 0; v < vectors; v++) {
      const __global X *p = x + r * inner + v * 8;
      float8 larger = m[v];
      for (IDX k = 0; k < count; k++) {
        const float8 a = LOAD8(X, p, k * inner);
        larger = SEL8(larger, a, a > larger);
      }
      const float8 shift = SHIFT8(larger);
      float8 more = sum[v] * (EXP8(m[v] - shift) * SCALE);
      for (IDX k = 0; k < count; k++) more += EXP8(LOAD8(X, p, k * inner) - shift);
      sum[v] = more;
      m[v] = larger;
    }
  }
}

// Work-item: up to 8 * WIDE columns, `chunk` rows of one of the `parts`, `outer_each` of the outer dimension.
kernel void log_sum_exp_columns(const __global X *x, __global Y *y, IDX n, IDX inner, IDX outer, IDX outer_each,
                                IDX parts, IDX chunk EXTRA_ARGS) {
  const IDX column = (IDX)get_global_id(0) * (8 * WIDE);
  const IDX begin = (IDX)get_global_id(1) * chunk;
  IDX o = (IDX)get_global_id(2) * outer_each;
  if (column >= inner || begin >= n || o >= outer) return;
  const IDX rows = begin + chunk < n ? chunk : n - begin;
  const IDX end = o + outer_each < outer ? o + outer_each : outer;
  const IDX width = inner - column < 8 * WIDE ? inner - column : 8 * WIDE;
  const IDX vectors = width / 8;
  float8 m[WIDE], sum[WIDE];
  for (; o < end; o++) {
    const __global X *from = x + (o * n + begin) * inner + column;
    const IDX to = (o * parts + (IDX)get_global_id(1)) * inner + column;
    log_sum_exp_wide(from, rows, inner, vectors, m, sum);
    for (IDX v = 0; v < vectors; v++) {
      if (any(m[v] - m[v] != (float8)(0.0f))) {
        for (int k = 0; k < 8; k++) EMIT(y, to + v * 8 + k, log_sum_exp_column(from + v * 8 + k, rows, inner));
      } else {
        EMIT8(y, to + v * 8, m[v] + log(sum[v] * SCALE));
      }
    }
    for (IDX k = vectors * 8; k < width; k++) EMIT(y, to + k, log_sum_exp_column(from + k, rows, inner));
  }
}
