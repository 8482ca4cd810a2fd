// log(sum(exp(x))) over one dimension of [outer, n, inner], shifted by the largest element so far so that nothing
// overflows; one reading of the memory. The results of parts go through the same kernels again. After exp_sums.cl.

#ifndef Y
#define Y float  // storage type of the result
#endif
#ifndef WIDE
#define WIDE 128  // vectors of columns that one work-item keeps
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(Y, p, i, v)
#define EMIT8(p, i, v) STORE8(Y, p, i, v)
#endif
#define RUN 2048  // elements of a row between two looks at the largest one: they stay in the nearest cache

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
  float m = -INFINITY;
  float8 sum8 = (float8)(0.0f);
  IDX i = 0;
  while (i + 8 <= n) {
    const IDX stop = i + RUN < n ? i + RUN : n / 8 * 8;
    const float found = largest_of(x + i, stop - i);
    const float larger = found > m ? found : m;
    const float shift = SHIFT1(larger);
    float8 more = (float8)(0.0f);
    for (; i < stop; i += 8) more += EXP8(LOAD8(X, x, i) - shift);
    sum8 = sum8 * (EXP1(m - shift) * SCALE) + more;
    m = larger;
  }
  float sum = sum_lanes(sum8);
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
    sums_wide(from, rows, inner, vectors, m, sum);
    if (vectors * 8 < width)
      sums_part(from + vectors * 8, rows, inner, width - vectors * 8, m + vectors, sum + vectors);
    for (IDX v = 0; v * 8 < width; v++) {
      const IDX lanes = width - v * 8;
      if (lanes >= 8 && !any(m[v] - m[v] != (float8)(0.0f))) {
        EMIT8(y, to + v * 8, m[v] + log(sum[v] * SCALE));
      } else {
        const float a[8] = {m[v].s0, m[v].s1, m[v].s2, m[v].s3, m[v].s4, m[v].s5, m[v].s6, m[v].s7};
        const float b[8] = {sum[v].s0, sum[v].s1, sum[v].s2, sum[v].s3, sum[v].s4, sum[v].s5, sum[v].s6, sum[v].s7};
        for (int k = 0; k < 8 && k < lanes; k++)
          EMIT(y, to + v * 8 + k, log_sum_exp_result(a[k], b[k], from + v * 8 + k, rows, inner));
      }
    }
  }
}
