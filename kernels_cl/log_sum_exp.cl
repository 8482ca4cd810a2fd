// log(sum(exp(x))) over one dimension of [outer, n, inner], shifted by the largest element so that nothing overflows.
// The results of parts go through the same kernels again.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef Y
#define Y float  // storage type of the result
#endif
#ifndef WIDE
#define WIDE 8  // vectors of columns that one work-item keeps
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(Y, p, i, v)
#define EMIT8(p, i, v) STORE8(Y, p, i, v)
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

// An infinite largest element must not give inf - inf.
static inline float shift_of(float m) { return isfinite(m) ? m : 0.0f; }
static inline float8 shift8_of(float8 m) { return SEL8((float8)(0.0f), m, isfinite(m)); }

static inline float log_sum_exp_run(const __global X *x, IDX n) {
  float8 m8 = (float8)(-INFINITY), n8 = m8;
  IDX i = 0;
  for (; i + 16 <= n; i += 16) {
    const float8 a = LOAD8(X, x, i), b = LOAD8(X, x, i + 8);
    m8 = SEL8(m8, a, a > m8);
    n8 = SEL8(n8, b, b > n8);
  }
  float m = fmax(largest_lane(m8), largest_lane(n8));
  for (; i < n; i++) m = fmax(m, LOAD(X, x, i));
  const float shift = shift_of(m);
  float8 sum8 = (float8)(0.0f);
  for (i = 0; i + 8 <= n;) {
    float8 a = (float8)(0.0f);
    const IDX stop = n - i < BLOCK ? n : i + BLOCK;
    for (; i + 8 <= stop; i += 8) a += wn_exp8(LOAD8(X, x, i) - shift);
    sum8 += a;
  }
  float sum = sum_lanes(sum8);
  for (; i < n; i++) sum += wn_exp1(LOAD(X, x, i) - shift);
  return shift + log(sum);
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
  float m = -INFINITY;
  for (IDX r = 0; r < rows; r++) m = fmax(m, LOAD(X, x, r * inner));
  const float shift = shift_of(m);
  float sum = 0.0f;
  for (IDX r = 0; r < rows; r++) sum += wn_exp1(LOAD(X, x, r * inner) - shift);
  return shift + log(sum);
}

// Up to WIDE vectors of columns, row by row.
static inline void log_sum_exp_wide(const __global X *x, IDX rows, IDX inner, IDX vectors, float8 *shift, float8 *sum) {
  for (IDX v = 0; v < vectors; v++) {
    shift[v] = (float8)(-INFINITY);
    sum[v] = (float8)(0.0f);
  }
  for (IDX r = 0; r < rows; r++) {
    for (IDX v = 0; v < vectors; v++) {
      const float8 a = LOAD8(X, x, r * inner + v * 8);
      shift[v] = SEL8(shift[v], a, a > shift[v]);
    }
  }
  for (IDX v = 0; v < vectors; v++) shift[v] = shift8_of(shift[v]);
  for (IDX r = 0; r < rows; r++)
    for (IDX v = 0; v < vectors; v++) sum[v] += wn_exp8(LOAD8(X, x, r * inner + v * 8) - shift[v]);
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
  float8 shift[WIDE], sum[WIDE];
  for (; o < end; o++) {
    const __global X *from = x + (o * n + begin) * inner + column;
    const IDX to = (o * parts + (IDX)get_global_id(1)) * inner + column;
    log_sum_exp_wide(from, rows, inner, vectors, shift, sum);
    for (IDX v = 0; v < vectors; v++) EMIT8(y, to + v * 8, shift[v] + log(sum[v]));
    for (IDX k = vectors * 8; k < width; k++) EMIT(y, to + k, log_sum_exp_column(from + k, rows, inner));
  }
}
