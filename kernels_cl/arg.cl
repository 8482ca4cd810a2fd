// Index of the largest or smallest element of one dimension of [outer, n, inner]: the first of equal ones, never that
// of a NaN while there is a number.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef Y
#define Y int  // type of the result; long for the parts of a split dimension
#endif
#ifndef BETTER8
#define BETTER8(v, best) (~((v) <= (best)) & ((v) == (v)))  // a number against NaN too
#define BETTER1(v, best) (!((v) <= (best)) && (v) == (v))
#define WORST NAN
#endif
#ifndef WIDE
#define WIDE 128  // vectors of columns that one work-item keeps
#endif

#define VX VTYPE(X)
#define SX CTYPE(X)

// First of the best of eight lanes, the best of lane k being element at[k] * 8 + k.
static inline IDX best_lane(VX best, int8 at) {
  const SX v[8] = {best.s0, best.s1, best.s2, best.s3, best.s4, best.s5, best.s6, best.s7};
  const int w[8] = {at.s0, at.s1, at.s2, at.s3, at.s4, at.s5, at.s6, at.s7};
  int found = 0;
  for (int k = 1; k < 8; k++)
    if (BETTER1(v[k], v[found]) || (v[k] == v[found] && w[k] < w[found])) found = k;
  return (IDX)w[found] * 8 + found;
}

static inline IDX arg_run(const __global X *x, IDX n) {
  VX best8 = (VX)((SX)(WORST));
  int8 at8 = (int8)(0);
  const int vectors = n / 8;
  for (int i = 0; i < vectors; i++) {
    const VX v = LOAD8(X, x, (IDX)i * 8);
    const MTYPE(X) better = BETTER8(v, best8);
    best8 = SEL8(best8, v, better);
    at8 = SEL8(at8, (int8)(i), LANES8(int8, better));
  }
  IDX at = vectors > 0 ? best_lane(best8, at8) : 0;
  SX best = LOAD(X, x, at);
  for (IDX i = (IDX)vectors * 8; i < n; i++) {
    const SX v = LOAD(X, x, i);
    if (BETTER1(v, best)) {
      best = v;
      at = i;
    }
  }
  return at;
}

// Work-item: `rows_each` rows, or the `chunk` elements of one of the `parts` of one row.
kernel void arg_rows(const __global X *x, __global Y *y, IDX n, IDX rows, IDX rows_each, IDX parts, IDX chunk) {
  IDX row = (IDX)get_global_id(0) * rows_each;
  const IDX part = get_global_id(1);
  if (row >= rows || part >= parts) return;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
  for (; row < end; row++) y[row * parts + part] = (Y)(begin + arg_run(x + row * n + begin, length));
}

static inline IDX arg_column(const __global X *x, IDX rows, IDX inner) {
  SX best = LOAD(X, x, 0);
  IDX at = 0;
  for (IDX r = 1; r < rows; r++) {
    const SX v = LOAD(X, x, r * inner);
    if (BETTER1(v, best)) {
      best = v;
      at = r;
    }
  }
  return at;
}

#define ROWS 16  // at a time, so that memory is read along them

// Up to WIDE vectors of columns; the best elements' rows in `at`.
static inline void arg_wide(const __global X *x, IDX rows, IDX inner, IDX vectors, VX *best, int8 *at) {
  for (IDX v = 0; v < vectors; v++) {
    best[v] = (VX)((SX)(WORST));
    at[v] = (int8)(0);
  }
  for (IDX r = 0; r < rows; r += ROWS) {
    const IDX end = r + ROWS < rows ? r + ROWS : rows;
    for (IDX v = 0; v < vectors; v++) {
      VX found = best[v];
      int8 where = at[v];
      for (IDX k = r; k < end; k++) {
        const VX a = LOAD8(X, x, k * inner + v * 8);
        const MTYPE(X) better = BETTER8(a, found);
        found = SEL8(found, a, better);
        where = SEL8(where, (int8)((int)k), LANES8(int8, better));
      }
      best[v] = found;
      at[v] = where;
    }
  }
}

// Work-item: up to 8 * WIDE columns, `chunk` rows of one of the `parts`, `outer_each` of the outer dimension.
kernel void arg_columns(const __global X *x, __global Y *y, IDX n, IDX inner, IDX outer, IDX outer_each, IDX parts,
                        IDX chunk) {
  const IDX column = (IDX)get_global_id(0) * (8 * WIDE);
  const IDX begin = (IDX)get_global_id(1) * chunk;
  IDX o = (IDX)get_global_id(2) * outer_each;
  if (column >= inner || begin >= n || o >= outer) return;
  const IDX rows = begin + chunk < n ? chunk : n - begin;
  const IDX end = o + outer_each < outer ? o + outer_each : outer;
  const IDX width = inner - column < 8 * WIDE ? inner - column : 8 * WIDE;
  const IDX vectors = width / 8;
  VX best[WIDE];
  int8 at[WIDE];
  for (; o < end; o++) {
    const __global X *from = x + (o * n + begin) * inner + column;
    __global Y *to = y + (o * parts + (IDX)get_global_id(1)) * inner + column;
    arg_wide(from, rows, inner, vectors, best, at);
    for (IDX v = 0; v < vectors; v++) {
      const int w[8] = {at[v].s0, at[v].s1, at[v].s2, at[v].s3, at[v].s4, at[v].s5, at[v].s6, at[v].s7};
      for (int k = 0; k < 8; k++) to[v * 8 + k] = (Y)(begin + w[k]);
    }
    for (IDX k = vectors * 8; k < width; k++) to[k] = (Y)(begin + arg_column(from + k, rows, inner));
  }
}

// The best of the parts' winners. Work-item: one element of the result.
kernel void arg_merge(const __global X *x, const __global long *winners, __global Y *y, IDX n, IDX inner, IDX outer,
                      IDX parts) {
  const IDX i = get_global_id(0);
  if (i >= outer * inner) return;
  const IDX o = i / inner;
  const IDX k = i - o * inner;
  IDX at = 0;
  SX best = WORST;
  for (IDX p = 0; p < parts; p++) {
    const IDX candidate = winners[(o * parts + p) * inner + k];
    const SX v = LOAD(X, x, (o * n + candidate) * inner + k);
    if (p == 0 || BETTER1(v, best)) {
      best = v;
      at = candidate;
    }
  }
  y[i] = (Y)at;
}
