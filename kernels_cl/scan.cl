// Running sums along one dimension of [outer, n, inner]: inclusive or exclusive, from the low or the high end.
// A long dimension is cut into parts whose totals are known before.

#ifndef X
#define X float  // storage type
#endif
#ifndef A
#define A float  // type of sums; integers are unsigned so that they wrap
#endif
#ifdef INTEGER
#define KEEP(V, s, c, v) (s) += (v);
#define TOTAL8(s, c) (s)
#define TOTAL1(s, c) (s)
#else
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
#endif
#ifndef WIDE
#define WIDE 128  // vectors of columns that one work-item keeps
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(X, p, i, v)
#ifdef PAST  // X is float and the result is too large for the caches
#define EMIT8(p, i, v) STORE8_PAST(p, i, v)
#else
#define EMIT8(p, i, v) STORE8(X, p, i, v)
#endif
#endif

#define VA VTYPE(A)
#define SA CTYPE(A)
#define ROWS 8  // at a time, so that memory is read along them
#define FORWARD(v) (reversed ? (v).s76543210 : (v))

// Work-item: `rows_each` rows, or one of the `parts` (`chunk` elements each) of one row; totals[row, part] are sums.
kernel void scan_rows(const __global X *x, __global X *y, const __global A *totals, IDX n, IDX rows, IDX rows_each,
                      IDX parts, IDX chunk, int exclusive, int reversed EXTRA_ARGS) {
  IDX row = (IDX)get_global_id(0) * rows_each;
  const IDX part = get_global_id(1);
  if (row >= rows || part >= parts) return;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  const IDX begin = part * chunk;
  const IDX length = begin + chunk < n ? chunk : n - begin;
  const VA zero = (VA)((SA)(0));
  for (; row < end; row++) {
    SA s = 0, c = 0;
    const IDX stop = reversed ? parts : part;
    for (IDX p = reversed ? part + 1 : 0; p < stop; p++) KEEP(SA, s, c, totals[row * parts + p])
    const IDX from = row * n + begin;
    IDX i = 0;
    for (; i + 8 <= length; i += 8) {
      const IDX at = reversed ? from + length - 8 - i : from + i;
      const VA v = CONVERT8(A, LOAD8(X, x, at));
      VA sum = FORWARD(v);
      sum += (VA)(zero.s0, sum.s0123, sum.s45, sum.s6);
      sum += (VA)(zero.s01, sum.s0123, sum.s45);
      sum += (VA)(zero.s0123, sum.s0123);
      const SA carry = TOTAL1(s, c);
      const VA out = carry + (exclusive ? (VA)(zero.s0, sum.s0123, sum.s45, sum.s6) : sum);
      EMIT8(y, at, CONVERT8(X, FORWARD(out)));
      KEEP(SA, s, c, sum.s7)
    }
    for (; i < length; i++) {
      const IDX at = reversed ? from + length - 1 - i : from + i;
      const SA v = (SA)LOAD(X, x, at);
      if (exclusive) EMIT(y, at, CONVERT1(X, TOTAL1(s, c)));
      KEEP(SA, s, c, v)
      if (!exclusive) EMIT(y, at, CONVERT1(X, TOTAL1(s, c)));
    }
  }
}

// Work-item: up to 8 * WIDE columns, `chunk` rows of one of the `parts`, `outer_each` of the outer dimension;
// totals[outer, part, inner] are sums.
kernel void scan_columns(const __global X *x, __global X *y, const __global A *totals, IDX n, IDX inner, IDX outer,
                         IDX outer_each, IDX parts, IDX chunk, int exclusive, int reversed EXTRA_ARGS) {
  const IDX column = (IDX)get_global_id(0) * (8 * WIDE);
  const IDX part = get_global_id(1);
  const IDX begin = part * chunk;
  IDX o = (IDX)get_global_id(2) * outer_each;
  if (column >= inner || begin >= n || o >= outer) return;
  const IDX rows = begin + chunk < n ? chunk : n - begin;
  const IDX end = o + outer_each < outer ? o + outer_each : outer;
  const IDX width = inner - column < 8 * WIDE ? inner - column : 8 * WIDE;
  const IDX vectors = width / 8;
  const IDX first = reversed ? part + 1 : 0, stop = reversed ? parts : part;
  const IDX step = reversed ? -inner : inner;
  VA s[WIDE], c[WIDE];
  for (; o < end; o++) {
    const IDX from = (o * n + begin) * inner + column;
    const __global A *before = totals + o * parts * inner + column;
    for (IDX v = 0; v < vectors; v++) {
      s[v] = c[v] = (VA)((SA)(0));
      for (IDX p = first; p < stop; p++) KEEP(VA, s[v], c[v], LOAD8(A, before, p * inner + v * 8))
    }
    for (IDX r = 0; r < rows; r += ROWS) {
      const IDX count = rows - r < ROWS ? rows - r : ROWS;
      const IDX begin_row = from + (reversed ? rows - 1 - r : r) * inner;
      for (IDX v = 0; v < vectors; v += 2) {
        const IDX next = v + 1 < vectors ? v + 1 : v;  // two vectors, a cache line of floats
        VA sum0 = s[v], lost0 = c[v], sum1 = s[next], lost1 = c[next];
        IDX at = begin_row;
        for (IDX k = 0; k < count; k++, at += step) {
          const VA a = CONVERT8(A, LOAD8(X, x, at + v * 8)), b = CONVERT8(A, LOAD8(X, x, at + next * 8));
          const VA before0 = TOTAL8(sum0, lost0), before1 = TOTAL8(sum1, lost1);
          KEEP(VA, sum0, lost0, a)
          KEEP(VA, sum1, lost1, b)
          EMIT8(y, at + v * 8, CONVERT8(X, exclusive ? before0 : TOTAL8(sum0, lost0)));
          if (next > v) EMIT8(y, at + next * 8, CONVERT8(X, exclusive ? before1 : TOTAL8(sum1, lost1)));
        }
        s[v] = sum0;
        c[v] = lost0;
        s[next] = sum1;
        c[next] = lost1;
      }
    }
    for (IDX k = vectors * 8; k < width; k++) {
      SA sum = 0, lost = 0;
      for (IDX p = first; p < stop; p++) KEEP(SA, sum, lost, before[p * inner + k])
      for (IDX r = 0; r < rows; r++) {
        const IDX at = from + (reversed ? rows - 1 - r : r) * inner + k;
        const SA v = (SA)LOAD(X, x, at);
        if (exclusive) EMIT(y, at, CONVERT1(X, TOTAL1(sum, lost)));
        KEEP(SA, sum, lost, v)
        if (!exclusive) EMIT(y, at, CONVERT1(X, TOTAL1(sum, lost)));
      }
    }
  }
}
