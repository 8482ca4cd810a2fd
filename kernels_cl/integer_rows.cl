// y[b, m, n] = sum over k of a[b, m, k] * w[b, k, n] of int16 values, exact in int32: matrix products, and with WINDOW
// convolutions, channels last, whose row m is the window of pixel m, one run of channels after the other.
//
// Pairs of k take the place that elements have in gemm.cl: w lies in panels of 16 columns [panel][tap][pair][16][2]
// (integer_pack.cl), an odd k paired with zero; a work-item copies its rows, TILE_RUN pairs at a time, to groups of
// ROWS rows [pair][ROWS], and what those pairs gave waits in `totals`. A pair is as long as a float.

#ifndef PAIRS
#define PAIRS plain  // or instruction: how pairs are multiplied (pairs.h)
#endif
#ifndef ROWS
#define ROWS 6  // rows of a register tile: 6 or 1
#endif
#ifndef WINDOW
#define WINDOW 0
#endif
// How results leave: see gemm.cl, whose room this is, too.
#ifndef EMIT8
#define EMIT8(y, i, v) STORE8(int, y, i, v)
#endif
#ifndef EMITN
#define EMITN(y, i, n, v) STOREN(int, y, i, n, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif
#define ROOM_TILES 128
#define ROOM_ROWS 60

#if ROWS == 6
#define EACH_ROW(F) TILE_ROWS6(F)
#else
#define EACH_ROW(F) F(0)
#endif

#if WINDOW
// in: height, width. out: height, width. window: strides, padding before, dilations, taps, each of rows and columns.
#define WINDOW_ARGS const __global short *zeros, dims_t in, dims_t out, dims_t window,
#define WINDOW_PASS zeros, in, out, window,
#define TAPS (window.d[6] * window.d[7])
#define LOCATE(r)                                                                            \
  const IDX pixel##r = TILE_MIN(m + r, row_end - 1), line##r = pixel##r / out.d[1];          \
  const IDX y##r = line##r % out.d[0] * window.d[0] - window.d[2];                           \
  const IDX x##r = pixel##r % out.d[1] * window.d[1] - window.d[3];                          \
  const __global short *image##r = a + line##r / out.d[0] * in.d[0] * in.d[1] * K;
#define POINT(r)                                                                             \
  const IDX h##r = y##r + tap / window.d[7] * window.d[4];                                   \
  const IDX v##r = x##r + tap % window.d[7] * window.d[5];                                   \
  const __global short *a##r = (h##r >= 0 && h##r < in.d[0] && v##r >= 0 && v##r < in.d[1]   \
                                    ? image##r + (h##r * in.d[1] + v##r) * K                 \
                                    : zeros) + 2 * first;
#else
#define WINDOW_ARGS
#define WINDOW_PASS
#define TAPS 1
#define LOCATE(r) const __global short *line##r = a + TILE_MIN(m + r, row_end - 1) * K;
#define POINT(r) const __global short *a##r = line##r + 2 * first;
#endif

#define LOAD_PAIRS(r) float8 d##r = PAIRS_AT(a##r, p);
#define COPY_PAIR(r) to[ROWS * p + r] = PAIR_AT(a##r, p);
#define COPY_ONE(r) to[ROWS * p + r] = PAIR_OF_ONE(a##r[2 * p]);
#define CLEAR(r) int8 p##r = 0, q##r = 0;
#define MULTIPLY(r)                                      \
  {                                                      \
    const short16 x_ = PAIR_IN_ALL(a[ROWS * i_ + r]);    \
    p##r += PAIR_SUMS(PAIRS, x_, b0);                    \
    q##r += PAIR_SUMS(PAIRS, x_, b1);                    \
  }
#define STEP(i)                                                \
  {                                                            \
    const IDX i_ = i;                                          \
    const short16 b0 = b[2 * i_], b1 = b[2 * i_ + 1];          \
    TILE_PREFETCH(b + 2 * i_ + 128)                            \
    EACH_ROW(MULTIPLY)                                         \
  }
#define JOIN(r) p##r += t_[2 * r]; q##r += t_[2 * r + 1];
#define KEEP(r) t_[2 * r] = p##r; t_[2 * r + 1] = q##r;

// `count` pairs from `start` on of the rows row_begin .. row_end - 1 to groups [pair][ROWS], which lie
// ROWS * count + 2 apart; rows beyond the last are anything.
static inline void copy_pairs(const __global short *a, WINDOW_ARGS int *target, IDX row_begin, IDX row_end, IDX start,
                              IDX count, IDX K) {
  const IDX pairs = (K + 1) / 2;
  for (IDX m = row_begin; m < row_end; m += ROWS, target += ROWS * count + 2) {
    int *to = target;
    EACH_ROW(LOCATE)
    IDX run = 0;
    for (IDX s = start; s < start + count; s += run, to += ROWS * run) {
      // What is left of a tap.
      const IDX tap = s / pairs, first = s - tap * pairs;
      run = TILE_MIN(pairs - first, start + count - s);
      const IDX whole = TILE_MIN(run, K / 2 - first);
      EACH_ROW(POINT)
      IDX p = 0;
#if ROWS == 6
      for (; p + 8 <= whole; p += 8) {
        TILE_ROWS6(LOAD_PAIRS)
        TILE_STORE_ROWS6((float *)to + 6 * p, d0, d1, d2, d3, d4, d5)
      }
#endif
      for (; p < whole; p++) { EACH_ROW(COPY_PAIR) }
      if (p < run) { EACH_ROW(COPY_ONE) }
    }
  }
}

// `count` pairs of one tile, a group of rows by 16 columns. t_: what earlier pairs gave, unless `first`; what all gave
// so far.
static inline void multiply_pairs(const int *a, const __global short16 *b, IDX count, int first, int8 *t_) {
  EACH_ROW(CLEAR)
  // Four at a time LLVM adds up their sums first and runs out of registers.
  for (; count >= 2; count -= 2, a += 2 * ROWS, b += 4) { STEP(0) STEP(1) }
  if (count) { STEP(0) }
  if (!first) { EACH_ROW(JOIN) }
  EACH_ROW(KEEP)
}

static inline TILE_OUTLINE void integer_rows_item(IDX item0, IDX item1, IDX item2, const __global short *a,
                                                  const __global short *w, WINDOW_ARGS __global int *y, IDX M, IDX N,
                                                  IDX K, IDX rows_per_item, IDX panels_per_item, int batch_rank,
                                                  dims_t batch, dims_t a_step, dims_t w_step EXTRA_ARGS) {
  const IDX row_begin = item1 * rows_per_item;
  const IDX row_end = TILE_MIN(M, row_begin + rows_per_item);
  const IDX n_begin = item0 * panels_per_item * TILE_PANEL;
  const IDX n_end = TILE_MIN(N, n_begin + panels_per_item * TILE_PANEL);
  PRODUCT_FIND_MATRIX(a, w)
  const IDX steps = TAPS * ((K + 1) / 2);
  int8 totals[2 * ROWS * ROOM_TILES];
  int8 rows_[ROOM_ROWS * TILE_RUN / 8 + 8];
  for (IDX s = 0; s < steps; s += TILE_RUN) {
    const IDX count = TILE_MIN((IDX)TILE_RUN, steps - s);
    copy_pairs(a, WINDOW_PASS (int *)rows_, row_begin, row_end, s, count, K);
    int8 *t_ = totals;
    for (IDX n = n_begin; n < n_end; n += TILE_PANEL) {
      const __global short16 *b = (const __global short16 *)(w + n * steps * 2) + 2 * s;
      for (IDX m = row_begin; m < row_end; m += ROWS) {
        const int *group = (const int *)rows_ + (m - row_begin) / ROWS * (ROWS * count + 2);
        multiply_pairs(group, b, count, s == 0, t_);
        const IDX rows = s + count < steps ? 0 : TILE_MIN((IDX)ROWS, row_end - m);
        for (IDX r = 0; r < 2 * rows; r++) {
          const IDX column = n + r % 2 * 8, at = item2 * M * N + (m + r / 2) * N + column;
          const int8 sum = t_[r];
          if (column + 8 <= N) {
            EMIT8(y, at, sum);
          } else if (column < N) {
            EMITN(y, at, N - column, sum);
          }
        }
        t_ += steps > TILE_RUN ? 2 * ROWS : 0;
      }
    }
  }
}

// Work-items: (panels_per_item panels, rows_per_item rows, matrix). Rows of a follow one another; a_step and w_step are
// in elements (see PRODUCT_FIND_MATRIX).
kernel void integer_rows(const __global short *a, const __global short *w, WINDOW_ARGS __global int *y, IDX M, IDX N,
                         IDX K, IDX rows_per_item, IDX panels_per_item, int batch_rank, dims_t batch, dims_t a_step,
                         dims_t w_step EXTRA_ARGS) {
  integer_rows_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, WINDOW_PASS y, M, N, K, rows_per_item,
                    panels_per_item, batch_rank, batch, a_step, w_step EXTRA_PASS);
}
