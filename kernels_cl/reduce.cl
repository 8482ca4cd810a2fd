// Reductions of one dimension of [outer, n, inner]: rows where inner is 1, columns else. What is computed is in macros
// of the joined type A, for eight lanes and one: the first value of a run, MAP of an element, JOIN of two values,
// FINISH of the whole with `count` elements. Longer reductions take several passes; only the first one maps, only the
// last one finishes.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef A
#define A float  // type in which values are joined; integers are unsigned so that they wrap
#endif
#ifndef Y
#define Y float  // storage type of the result
#endif
#ifndef MAP8
#define MAP8(v) (v)
#define MAP1(v) (v)
#endif
#ifndef JOIN8
#define JOIN8(a, b) ((a) + (b))
#define JOIN1(a, b) ((a) + (b))
#define FIRST 0
#define COMPENSATED  // sums of floats keep what rounding loses
#endif
#ifndef FINISH8
#define FINISH8(v) (v)
#define FINISH1(v) (v)
#endif
#ifndef WIDE
#define WIDE 128  // vectors of columns that one work-item keeps
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EXTRA_PASS
#define EXTRA_PASS
#endif
// How elements come, mapped: eight, one, or eight that are n apart. A chain may be put here, whose further inputs are
// TAKE_ARGS.
#ifndef TAKE8
#define TAKE_ARGS
#define TAKE_PASS
#define TAKE8(p, i) MAP8(LOAD8(X, p, i))
#define TAKE1(p, i) MAP1(LOAD(X, p, i))
#define TAKE_ACROSS(p, i, n)                                                                                    \
  MAP8((VTYPE(X))(LOAD(X, p, i), LOAD(X, p, (i) + (n)), LOAD(X, p, (i) + 2 * (n)), LOAD(X, p, (i) + 3 * (n)),   \
                  LOAD(X, p, (i) + 4 * (n)), LOAD(X, p, (i) + 5 * (n)), LOAD(X, p, (i) + 6 * (n)),              \
                  LOAD(X, p, (i) + 7 * (n))))
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(Y, p, i, v)
#define EMIT8(p, i, v) STORE8(Y, p, i, v)
#endif

#define BLOCK 16  // values added one to another before the sum is kept
#define VA VTYPE(A)
#define SA CTYPE(A)
#define FIRST8 ((VA)((SA)(FIRST)))

#ifdef COMPENSATED
// s + c is the sum of all v so far, s alone its rounded value (Knuth's two-sum).
#define KEEP(V, s, c, v)                                       \
  {                                                            \
    const V old_ = (s);                                        \
    const V part_ = (v);                                       \
    (s) = old_ + part_;                                        \
    const V got_ = (s) - old_;                                 \
    (c) += (old_ - ((s) - got_)) + (part_ - got_);             \
  }
#define FINITE(c) ((c) - (c) == 0)
// An overflow to infinity leaves NaN in c.
#define TOTAL8(s, c) SEL8((s), (s) + (c), FINITE(c))
#define TOTAL1(s, c) SEL1((s), (s) + (c), FINITE(c))
#else
#define KEEP(V, s, c, v) (s) = JOINV_##V(s, v);
#define JOINV_VA(a, b) JOIN8(a, b)
#define JOINV_SA(a, b) JOIN1(a, b)
#define TOTAL8(s, c) (s)
#define TOTAL1(s, c) (s)
#endif

static inline SA join_lanes(VA v) {
  return JOIN1(JOIN1(JOIN1(v.s0, v.s4), JOIN1(v.s2, v.s6)), JOIN1(JOIN1(v.s1, v.s5), JOIN1(v.s3, v.s7)));
}

static inline SA sum_lanes(VA v) {
  return ((v.s0 + v.s4) + (v.s2 + v.s6)) + ((v.s1 + v.s5) + (v.s3 + v.s7));
}

// n consecutive elements.
static inline SA reduce_run(const __global X *x, IDX n TAKE_ARGS) {
  VA s = FIRST8, c = (VA)((SA)(0));
  IDX i = 0;
  while (i + 8 <= n) {
    VA a0 = FIRST8, a1 = FIRST8, a2 = FIRST8, a3 = FIRST8;
    const IDX stop = n - i < 32 * BLOCK ? n : i + 32 * BLOCK;
    for (; i + 32 <= stop; i += 32) {
      a0 = JOIN8(a0, TAKE8(x, i));
      a1 = JOIN8(a1, TAKE8(x, i + 8));
      a2 = JOIN8(a2, TAKE8(x, i + 16));
      a3 = JOIN8(a3, TAKE8(x, i + 24));
    }
    for (; i + 8 <= stop; i += 8) a0 = JOIN8(a0, TAKE8(x, i));
    KEEP(VA, s, c, JOIN8(JOIN8(a0, a1), JOIN8(a2, a3)))
  }
  SA sum = join_lanes(s), lost = sum_lanes(c);
  SA rest = FIRST;
  for (; i < n; i++) rest = JOIN1(rest, TAKE1(x, i));
  KEEP(SA, sum, lost, rest)
  return TOTAL1(sum, lost);
}

// Eight short rows at once.
static inline VA reduce_eight_rows(const __global X *x, IDX n TAKE_ARGS) {
  VA s = FIRST8;
  for (IDX i = 0; i < n; i++) {
    const VA v = TAKE_ACROSS(x, i, n);
    s = JOIN8(s, v);
  }
  return s;
}

// Work-item: `rows_each` rows, or the `chunk` elements of one of the `parts` of one row.
static inline OUTLINE void reduce_rows_item(IDX item0, IDX item1, const __global X *x, __global Y *y, IDX n, IDX rows,
                                            IDX rows_each, IDX parts, IDX chunk, IDX count TAKE_ARGS EXTRA_ARGS) {
  IDX row = item0 * rows_each;
  const IDX part = item1;
  if (row >= rows || part >= parts) return;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  if (n < 32) {
    for (; row + 8 <= end; row += 8) EMIT8(y, row, CONVERT8(Y, FINISH8(reduce_eight_rows(x + row * n, n TAKE_PASS))));
  }
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
  for (; row < end; row++)
    EMIT(y, row * parts + part, CONVERT1(Y, FINISH1(reduce_run(x + row * n + begin, length TAKE_PASS))));
}

kernel void reduce_rows(const __global X *x, __global Y *y, IDX n, IDX rows, IDX rows_each, IDX parts, IDX chunk,
                        IDX count TAKE_ARGS EXTRA_ARGS) {
  reduce_rows_item(get_global_id(0), get_global_id(1), x, y, n, rows, rows_each, parts, chunk,
                   count TAKE_PASS EXTRA_PASS);
}

// Up to WIDE vectors of columns, `rows` rows of `inner` elements: BLOCK rows at a time, so that memory is read along
// the rows, and two vectors, which are a cache line of floats.
static inline void reduce_wide(const __global X *x, IDX rows, IDX inner, IDX vectors, VA *s, VA *c TAKE_ARGS) {
  for (IDX v = 0; v < vectors; v++) {
    s[v] = FIRST8;
    c[v] = (VA)((SA)(0));
  }
  for (IDX r = 0; r < rows; r += BLOCK) {
    const IDX count = rows - r;
    const __global X *p = x + r * inner;
    IDX v = 0;
    for (; count >= BLOCK && v + 2 <= vectors; v += 2, p += 16) {
      VA a = TAKE8(p, 0), b = TAKE8(p, 8);
#pragma unroll
      for (int j = 1; j < BLOCK; j++) {
        a = JOIN8(a, TAKE8(p, j * inner));
        b = JOIN8(b, TAKE8(p, j * inner + 8));
      }
      KEEP(VA, s[v], c[v], a)
      KEEP(VA, s[v + 1], c[v + 1], b)
    }
    for (; v < vectors; v++, p += 8) {
      VA a = TAKE8(p, 0);
      for (IDX j = 1; j < count && j < BLOCK; j++) a = JOIN8(a, TAKE8(p, j * inner));
      KEEP(VA, s[v], c[v], a)
    }
  }
}

static inline SA reduce_column(const __global X *x, IDX rows, IDX inner TAKE_ARGS) {
  SA s = FIRST, c = 0;
  for (IDX r = 0; r < rows; r += BLOCK) {
    SA a = FIRST;
    for (IDX j = r; j < r + BLOCK && j < rows; j++) a = JOIN1(a, TAKE1(x, j * inner));
    KEEP(SA, s, c, a)
  }
  return TOTAL1(s, c);
}

// Work-item: up to 8 * WIDE columns, `chunk` rows of one of the `parts`, `outer_each` of the outer dimension.
static inline OUTLINE void reduce_columns_item(IDX item0, IDX item1, IDX item2, const __global X *x, __global Y *y,
                                               IDX n, IDX inner, IDX outer, IDX outer_each, IDX parts, IDX chunk,
                                               IDX count TAKE_ARGS EXTRA_ARGS) {
  const IDX column = item0 * (8 * WIDE);
  const IDX begin = item1 * chunk;
  IDX o = item2 * outer_each;
  if (column >= inner || begin >= n || o >= outer) return;
  const IDX rows = begin + chunk < n ? chunk : n - begin;
  const IDX end = o + outer_each < outer ? o + outer_each : outer;
  const IDX width = inner - column < 8 * WIDE ? inner - column : 8 * WIDE;
  const IDX vectors = width / 8;
  VA s[WIDE], c[WIDE];
  for (; o < end; o++) {
    const __global X *from = x + (o * n + begin) * inner + column;
    const IDX to = (o * parts + item1) * inner + column;
    reduce_wide(from, rows, inner, vectors, s, c TAKE_PASS);
    for (IDX v = 0; v < vectors; v++) EMIT8(y, to + v * 8, CONVERT8(Y, FINISH8(TOTAL8(s[v], c[v]))));
    for (IDX k = vectors * 8; k < width; k++)
      EMIT(y, to + k, CONVERT1(Y, FINISH1(reduce_column(from + k, rows, inner TAKE_PASS))));
  }
}

kernel void reduce_columns(const __global X *x, __global Y *y, IDX n, IDX inner, IDX outer, IDX outer_each, IDX parts,
                           IDX chunk, IDX count TAKE_ARGS EXTRA_ARGS) {
  reduce_columns_item(get_global_id(0), get_global_id(1), get_global_id(2), x, y, n, inner, outer, outer_each, parts,
                      chunk, count TAKE_PASS EXTRA_PASS);
}
