// Resampling of two dimensions from tables that the host made: for each output index the lower and the upper source
// index and the weight of the upper one. The tensor is seen as five dimensions: outer, rows, middle, columns, inner.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef LINEAR
#define LINEAR 0             // 1: linear interpolation; 0: nearest neighbour, the lower index alone
#endif
#ifndef ALONG
#define ALONG 0              // 1: inner is 1, a vector is eight columns; 0: a vector is eight inner elements. A few
                             // inner elements are taken for columns, with tables that say so
#endif
#ifndef WHOLE
#define WHOLE 0              // 1: T is an integer type; weights are whole numbers, the result is exact before rounding
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EXTRA_PASS
#define EXTRA_PASS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

#if WHOLE
#define WEIGHT long
#define WIDE long8
#define WIDEN(v) LANES8(long8, v)
#define MIX_ROWS(a, b, t) ((a) * (units.d[0] - (t)) + (b) * (t))
#define MIX_COLUMNS(a, b, t) ((a) * (units.d[1] - (t)) + (b) * (t))
#define RESULT(v) half_to_even(v, units.d[0] * units.d[1])
#define VEC VTYPE(T)
#if LINEAR
// sum / whole, rounded, lane by lane: pip PoCL can't convert between long8 and float8.
static inline VEC half_to_even(long8 sum, long whole) {
  const long lane[8] = {sum.s0, sum.s1, sum.s2, sum.s3, sum.s4, sum.s5, sum.s6, sum.s7};
  CTYPE(T) q[8];
  for (int l = 0; l < 8; l++) {
    const long down = (lane[l] >= 0 ? lane[l] : lane[l] - whole + 1) / whole, twice = (lane[l] - down * whole) * 2;
    q[l] = down + (twice > whole || (twice == whole && (down & 1)));
  }
  return (VEC)(q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7]);
}
#endif
#else
#define WEIGHT float
#define WIDE float8
#define WIDEN(v) (v)
// A weight of zero leaves the lower value alone, be the other infinite.
#define MIX_ROWS(a, b, t) ((t) == 0 ? (a) : (a) * (1.0f - (t)) + (b) * (t))
#if ALONG
#define MIX_COLUMNS(a, b, t) SEL8((a) * (1.0f - (t)) + (b) * (t), a, (t) == (float8)(0))
#else
#define MIX_COLUMNS MIX_ROWS
#endif
#define RESULT(v) (v)
#endif
#define SIZES                                                                                            \
  const IDX R = sizes.d[0], M = sizes.d[1], C = sizes.d[2], I = sizes.d[3], OR = sizes.d[4], OC = sizes.d[5]; \
  const IDX outer_row = line / M, m = line - outer_row * M;                     \
  const IDX o = outer_row / OR, r = outer_row - o * OR;                                                  \
  if (o >= sizes.d[6]) return;                                                                           \
  const IDX pitch = M * C * I, top = ((o * R + low_row[r]) * M + m) * C * I;

// sizes: rows, middle, columns, inner, output rows, output columns, outer.
#if LINEAR
#define TABLES                                                                                   \
  const __global int *low_row, const __global int *high_row, const __global WEIGHT *row_weight,   \
      const __global int *low_column, const __global int *high_column, const __global WEIGHT *column_weight, \
      dims_t units
#define TABLES_PASS low_row, high_row, row_weight, low_column, high_column, column_weight, units
#define BOTTOM const IDX bottom = top + (high_row[r] - low_row[r]) * pitch; const WEIGHT v = row_weight[r];
#else
#define TABLES const __global int *low_row, const __global int *low_column
#define TABLES_PASS low_row, low_column
#define BOTTOM
#endif

#define ARGS const __global T *x, __global T *y, TABLES, dims_t sizes, IDX span
#define PASS x, y, TABLES_PASS, sizes, span

#if ALONG
static inline OUTLINE void resample_along_item(IDX item, IDX line, ARGS EXTRA_ARGS) {
  SIZES
  BOTTOM
  const IDX first = item * span, end = first + span < OC ? first + span : OC, at = line * OC;
#define PICK8(row, table, c)                                                                                     \
  (VTYPE(T))(LOAD(T, x, row + table[c]), LOAD(T, x, row + table[c + 1]), LOAD(T, x, row + table[c + 2]),         \
             LOAD(T, x, row + table[c + 3]), LOAD(T, x, row + table[c + 4]), LOAD(T, x, row + table[c + 5]),     \
             LOAD(T, x, row + table[c + 6]), LOAD(T, x, row + table[c + 7]))
  IDX c = first;
  for (; c + 8 <= end; c += 8) {
#if LINEAR
#if WHOLE
    const long8 t = LOAD8(long, column_weight, c);
#else
    const float8 t = LOAD8(float, column_weight, c);
#endif
    const WIDE a = MIX_COLUMNS(WIDEN(PICK8(top, low_column, c)), WIDEN(PICK8(top, high_column, c)), t);
    const WIDE b = MIX_COLUMNS(WIDEN(PICK8(bottom, low_column, c)), WIDEN(PICK8(bottom, high_column, c)), t);
    const WIDE mixed = MIX_ROWS(a, b, v);
    EMIT8(y, at + c, RESULT(mixed));
#else
    const VTYPE(T) picked = PICK8(top, low_column, c);
    EMIT8(y, at + c, picked);
#endif
  }
  for (; c < end; c++) {
#define PICK1(row, table) (VTYPE(T))(LOAD(T, x, row + table[c]))
#if LINEAR
    const WIDE t = (WIDE)(column_weight[c]);
    const WIDE a = MIX_COLUMNS(WIDEN(PICK1(top, low_column)), WIDEN(PICK1(top, high_column)), t);
    const WIDE b = MIX_COLUMNS(WIDEN(PICK1(bottom, low_column)), WIDEN(PICK1(bottom, high_column)), t);
    const WIDE mixed = MIX_ROWS(a, b, v);
    const VTYPE(T) one = RESULT(mixed);
    EMIT(y, at + c, one.s0);
#else
    EMIT(y, at + c, LOAD(T, x, top + low_column[c]));
#endif
  }
}

// Work-items: (run of `span` columns, outer and output row and middle).
kernel void resample_along(ARGS EXTRA_ARGS) {
  resample_along_item(get_global_id(0), get_global_id(1), PASS EXTRA_PASS);
}
#else
static inline OUTLINE void resample_inner_item(IDX item, IDX line, ARGS EXTRA_ARGS) {
  SIZES
  BOTTOM
  const IDX first = item * span, end = first + span < OC ? first + span : OC;
  for (IDX c = first; c < end; c++) {
    const IDX at = (line * OC + c) * I, low = top + low_column[c] * I;
#if LINEAR
    const IDX low_high = top + high_column[c] * I, high_low = bottom + low_column[c] * I;
    const IDX high_high = bottom + high_column[c] * I;
    const WEIGHT t = column_weight[c];
#define MIXED(GET)                                                                            \
  RESULT(MIX_ROWS(MIX_COLUMNS(WIDEN(GET(low + i)), WIDEN(GET(low_high + i)), t),              \
                  MIX_COLUMNS(WIDEN(GET(high_low + i)), WIDEN(GET(high_high + i)), t), v))
#else
#define MIXED(GET) GET(low + i)
#endif
#define ALL(p) LOAD8(T, x, p)
#define SOME(p) LOADN(T, x, p, I - i)
    IDX i = 0;
    for (; i + 8 <= I; i += 8) {
      const VTYPE(T) mixed = MIXED(ALL);
      EMIT8(y, at + i, mixed);
    }
    if (i < I) {
      const VTYPE(T) mixed = MIXED(SOME);
      EMITN(y, at + i, I - i, mixed);
    }
  }
}

// Work-items: (run of `span` output columns, outer and output row and middle).
kernel void resample_inner(ARGS EXTRA_ARGS) {
  resample_inner_item(get_global_id(0), get_global_id(1), PASS EXTRA_PASS);
}
#endif
