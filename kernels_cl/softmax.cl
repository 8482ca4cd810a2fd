// Softmax along one dimension of [outer, n, inner]: rows where inner is 1, columns else. Exponentials wait in private
// memory, or in the result where that is plain float; else they are computed again. LOGARITHM: the result's logarithm
// without the exponential's loss, x - m - log(sum). After exp_sums.cl.

#ifndef WIDE
#define WIDE 128  // vectors of columns that one work-item keeps at most
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EXTRA_PASS
#define EXTRA_PASS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(X, p, i, v)
#ifdef PAST  // X is float and the result is too large for the caches
#define EMIT8(p, i, v) STORE8_PAST(p, i, v)
#else
#define EMIT8(p, i, v) STORE8(X, p, i, v)
#endif
#define EMITN(p, i, n, v) STOREN(X, p, i, n, v)
#endif
// The result of exponential e and difference d = x - m, and what it takes of the sum of the exponentials.
#ifdef LOGARITHM
#define RESULT(e, d, s) ((d) - (s))
#define FACTOR(sum) log((sum) * SCALE)
#else
#define RESULT(e, d, s) ((e) * (s))
#define FACTOR(sum) (1.0f / (sum))
#endif
// WAIT_IN_RESULT is defined where X is float and the result is stored plainly.
#ifndef KEPT
#define KEPT 2048  // vectors of a row whose exponentials wait in private memory
#endif
#define BLOCK 512  // elements added one to another before their sum joins the others
#define AHEAD 64   // columns: more rows than the hardware can read ahead at a time
#define SHORT 64   // rows whose exponentials fit into private memory

static inline float largest_of_row(const __global X *x, IDX n) {
  float m = largest_of(x, n / 8 * 8);
  for (IDX i = n / 8 * 8; i < n; i++) {
    const float v = LOAD(X, x, i);
    m = v > m ? v : m;
  }
  return m;
}

// Sum of the exponentials of x - m.
static inline float sum_of(const __global X *x, __global X *y, IDX n, float m) {
  float8 sum8 = (float8)(0.0f);
  IDX i = 0;
  while (i + 8 <= n) {
    float8 a = (float8)(0.0f);
    const IDX stop = n - i < BLOCK ? n : i + BLOCK;
    for (; i + 8 <= stop; i += 8) {
      FETCH(x + n + i);
      const float8 e = EXP8(LOAD8(X, x, i) - m);
#ifdef WAIT_IN_RESULT
      STORE8(X, y, i, e);
#endif
      a += e;
    }
    sum8 += a;
  }
  float sum = sum_lanes(sum8);
  if (i < n) {
    const float8 e = EXP8(LOADN(X, x, i, n - i) - m);
    const float lane[8] = {e.s0, e.s1, e.s2, e.s3, e.s4, e.s5, e.s6, e.s7};
    for (IDX k = i; k < n; k++) {
      sum += lane[k - i];
#ifdef WAIT_IN_RESULT
      STORE(X, y, k, lane[k - i]);
#endif
    }
  }
  return sum;
}

// The result of a row (or part of it) at y[at]: e * scale, the exponentials e having waited or computed now.
static inline void put_row(const __global X *x, __global X *y, IDX at, IDX n, float m, float scale EXTRA_ARGS) {
  IDX i = at;
  const IDX end = at + n;
#ifdef WAIT_IN_RESULT
  for (; i + 8 <= end; i += 8) STORE8(X, y, i, LOAD8(X, y, i) * scale);
  for (; i < end; i++) STORE(X, y, i, LOAD(X, y, i) * scale);
#else
  for (; i + 8 <= end; i += 8) EMIT8(y, i, RESULT(EXP8(LOAD8(X, x, i) - m), LOAD8(X, x, i) - m, scale));
  if (i < end) {
    const float8 d = LOADN(X, x, i, end - i) - m;
    EMITN(y, i, end - i, RESULT(EXP8(d), d, scale));
  }
#endif
}

// A row of at most KEPT vectors.
static inline void softmax_kept(const __global X *x, __global X *y, IDX at, IDX n, float m EXTRA_ARGS) {
  float8 kept[KEPT + 1];
  float8 even = (float8)(0.0f), odd = even;
  const IDX vectors = n / 8, lanes = n % 8;
  IDX v = 0;
  for (; v + 2 <= vectors; v += 2) {
    FETCH(x + at + n + v * 8);  // the next row, while this one is computed
    const float8 a = EXP8(LOAD8(X, x, at + v * 8) - m), b = EXP8(LOAD8(X, x, at + v * 8 + 8) - m);
    kept[v] = a;
    kept[v + 1] = b;
    even += a;
    odd += b;
  }
  if (v < vectors) {
    kept[v] = EXP8(LOAD8(X, x, at + v * 8) - m);
    even += kept[v];
  }
  float sum = sum_lanes(even + odd);
  if (lanes > 0) {
    const float8 e = EXP8(LOADN(X, x, at + vectors * 8, lanes) - m);
    const float lane[8] = {e.s0, e.s1, e.s2, e.s3, e.s4, e.s5, e.s6, e.s7};
    for (IDX k = 0; k < lanes; k++) sum += lane[k];
    kept[vectors] = e;
  }
  const float scale = FACTOR(sum);
  for (v = 0; v < vectors; v++) EMIT8(y, at + v * 8, RESULT(kept[v], LOAD8(X, x, at + v * 8) - m, scale));
  if (lanes > 0)
    EMITN(y, at + vectors * 8, lanes, RESULT(kept[vectors], LOADN(X, x, at + vectors * 8, lanes) - m, scale));
}

// Work-item: `rows_each` rows.
static inline OUTLINE void softmax_rows_item(IDX item0, const __global X *x, __global X *y, IDX n, IDX rows,
                                             IDX rows_each EXTRA_ARGS) {
  IDX row = item0 * rows_each;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  for (; row < end; row++) {
    const IDX at = row * n;
    const float m = largest_of_row(x + at, n);
    if (n <= KEPT * 8) {
      softmax_kept(x, y, at, n, m EXTRA_PASS);
    } else {
      const float sum = sum_of(x + at, y + at, n, m);
      put_row(x, y, at, n, m, FACTOR(sum) EXTRA_PASS);
    }
  }
}

kernel void softmax_rows(const __global X *x, __global X *y, IDX n, IDX rows, IDX rows_each EXTRA_ARGS) {
  softmax_rows_item(get_global_id(0), x, y, n, rows, rows_each EXTRA_PASS);
}

// Long rows in two launches: largest element and sum of each of the `parts` of `chunk` elements, two floats a part ...
kernel void softmax_parts(const __global X *x, __global X *y, __global float *found, IDX n, IDX parts, IDX chunk) {
  const IDX part = get_global_id(0);
  const IDX row = get_global_id(1);
  if (part >= parts) return;
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
  const IDX at = row * n + begin;
  const float m = largest_of_row(x + at, length);
  const IDX k = (row * parts + part) * 2;
  found[k] = m;
  found[k + 1] = sum_of(x + at, y + at, length, SHIFT1(m));
}

// ... and the result. Exponentials that waited are relative to the part's own largest element.
kernel void softmax_join(const __global X *x, __global X *y, const __global float *found, IDX n, IDX parts,
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
  const float scale = FACTOR(sum);
#endif
  put_row(x, y, row * n + begin, length, m, scale EXTRA_PASS);
}

// Few rows: the exponentials of sixteen columns, a cache line of floats, are kept.
static inline void softmax_short(const __global X *x, __global X *y, IDX at, IDX n, IDX inner EXTRA_ARGS) {
  float8 kept0[SHORT], kept1[SHORT];
  float8 m0 = (float8)(-INFINITY), m1 = m0, sum0 = (float8)(0.0f), sum1 = sum0;
  for (IDX r = 0; r < n; r++) {
    FETCH(x + at + r * inner + AHEAD);
    const float8 a = LOAD8(X, x, at + r * inner), b = LOAD8(X, x, at + r * inner + 8);
    m0 = LARGER8(m0, a);
    m1 = LARGER8(m1, b);
    kept0[r] = a;
    kept1[r] = b;
  }
  for (IDX r = 0; r < n; r++) {
    const float8 a = EXP8(kept0[r] - m0), b = EXP8(kept1[r] - m1);
    sum0 += a;
    sum1 += b;
#ifndef LOGARITHM
    kept0[r] = a;
    kept1[r] = b;
#endif
  }
  sum0 = FACTOR(sum0);
  sum1 = FACTOR(sum1);
  for (IDX r = 0; r < n; r++) {
    EMIT8(y, at + r * inner, RESULT(kept0[r], kept0[r] - m0, sum0));
    EMIT8(y, at + r * inner + 8, RESULT(kept1[r], kept1[r] - m1, sum1));
  }
}

// Work-item: `vectors_each` (at most WIDE) vectors of columns of one index of the outer dimension.
static inline OUTLINE void softmax_columns_item(IDX item0, IDX item1, const __global X *x, __global X *y, IDX n,
                                                IDX inner, IDX outer, IDX vectors_each EXTRA_ARGS) {
  IDX column = item0 * vectors_each * 8;
  const IDX o = item1;
  if (column >= inner || o >= outer) return;
  const IDX last = column + vectors_each * 8 < inner ? column + vectors_each * 8 : inner;
  const IDX base = o * n * inner;
  if (n <= SHORT) {
    for (; column + 16 <= last; column += 16) softmax_short(x, y, base + column, n, inner EXTRA_PASS);
  }
  const IDX at = base + column;
  const IDX vectors = (last - column) / 8, lanes = (last - column) % 8;
  float8 m[WIDE], scale[WIDE];
  sums_wide(x + at, n, inner, vectors, m, scale);
  for (IDX v = 0; v < vectors; v++) scale[v] = FACTOR(scale[v]);
  for (IDX r = 0; r < n; r += ROWS) {
    const IDX end = r + ROWS < n ? r + ROWS : n;
    for (IDX v = 0; v < vectors; v += 2) {
      const IDX next = v + 1 < vectors ? v + 1 : v;  // two vectors, a cache line of floats
      for (IDX k = r; k < end; k++) FETCH(x + at + (k + ROWS) * inner + v * 8);
      float8 a[ROWS], b[ROWS];  // first all loads, then all stores, which may differ in high address bits only
      for (IDX k = r; k < end; k++) {
        const IDX i = at + k * inner;
        const float8 d = LOAD8(X, x, i + v * 8) - m[v], e = LOAD8(X, x, i + next * 8) - m[next];
        a[k - r] = RESULT(EXP8(d), d, scale[v]);
        b[k - r] = RESULT(EXP8(e), e, scale[next]);
      }
      for (IDX k = r; k < end; k++) {
        const IDX i = at + k * inner;
        EMIT8(y, i + v * 8, a[k - r]);
        if (next > v) EMIT8(y, i + next * 8, b[k - r]);
      }
    }
  }
  if (lanes > 0) {
    const IDX tail = at + vectors * 8;
    float8 top, sum;
    sums_part(x + tail, n, inner, lanes, &top, &sum);
    sum = FACTOR(sum);
    for (IDX r = 0; r < n; r++) {
      const IDX i = tail + r * inner;
      const float8 d = LOADN(X, x, i, lanes) - top;
      EMITN(y, i, lanes, RESULT(EXP8(d), d, sum));
    }
  }
}

kernel void softmax_columns(const __global X *x, __global X *y, IDX n, IDX inner, IDX outer,
                            IDX vectors_each EXTRA_ARGS) {
  softmax_columns_item(get_global_id(0), get_global_id(1), x, y, n, inner, outer, vectors_each EXTRA_PASS);
}
