// y[b, m, n] = sum over k of a[b, m, k] * w[b, k, n] of int16 values, exact in int32, as float32: matrix products, and
// with WINDOW convolutions, channels last, whose row m is the window of pixel m, one run of channels after the other.
// w lies in panels of 16 columns [panel][tap][pair of k][16][2] (integer_pack.cl), an odd k paired with zero.
//
// One step of k at a time: unrolled, LLVM adds up the steps' sums first and runs out of registers.

#ifndef PAIRS
#define PAIRS plain  // or instruction: how pairs are multiplied (pairs.h)
#endif
#ifndef ROWS
#define ROWS 6  // rows of a register tile: 6 or 1
#endif
#ifndef WINDOW
#define WINDOW 0
#endif
// How results leave: see gemm.cl.
#ifndef EMIT8
#define EMIT8(y, i, v) STORE8(float, y, i, v)
#endif
#ifndef EMITN
#define EMITN(y, i, n, v) STOREN(float, y, i, n, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif

#if ROWS == 6
#define EACH_ROW(F) TILE_ROWS6(F)
#else
#define EACH_ROW(F) F(0)
#endif

#define CLEAR(r) int8 p##r = 0, q##r = 0;
#define STEP(r) MULTIPLY(r, PAIR_AT(a##r, k))
#define LAST(r) MULTIPLY(r, PAIR_OF_ONE(a##r[2 * k]))
#define MULTIPLY(r, pair)                           \
  {                                                 \
    const short16 x_ = PAIR_IN_ALL(pair);           \
    p##r += PAIR_SUMS(PAIRS, x_, b0);               \
    q##r += PAIR_SUMS(PAIRS, x_, b1);               \
  }
// All of the rows' K values; moves b behind them.
#define RUN                                         \
  {                                                 \
    IDX k = 0;                                      \
    for (; k < K / 2; k++, b += 2) {                \
      const short16 b0 = b[0], b1 = b[1];           \
      TILE_PREFETCH(b + 128)                        \
      EACH_ROW(STEP)                                \
    }                                               \
    if (K % 2) {                                    \
      const short16 b0 = b[0], b1 = b[1];           \
      EACH_ROW(LAST)                                \
      b += 2;                                       \
    }                                               \
  }
#define KEEP(r) t_[2 * r] = p##r; t_[2 * r + 1] = q##r;

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
  const IDX h##r = y##r + i * window.d[4], v##r = x##r + j * window.d[5];                    \
  const __global short *a##r = h##r >= 0 && h##r < in.d[0] && v##r >= 0 && v##r < in.d[1]    \
                                   ? image##r + (h##r * in.d[1] + v##r) * K                  \
                                   : zeros;
#else
#define WINDOW_ARGS
#define WINDOW_PASS
#define TAPS 1
#define POINT(r) const __global short *a##r = a + TILE_MIN(m + r, row_end - 1) * K;
#endif

static inline TILE_OUTLINE void integer_rows_item(IDX item0, IDX item1, IDX item2, const __global short *a,
                                                  const __global short *w, WINDOW_ARGS __global float *y, IDX M, IDX N,
                                                  IDX K, IDX rows_per_item, IDX panels_per_item, int batch_rank,
                                                  dims_t batch, dims_t a_step, dims_t w_step EXTRA_ARGS) {
  const IDX row_begin = item1 * rows_per_item;
  const IDX row_end = TILE_MIN(M, row_begin + rows_per_item);
  const IDX panel_end = TILE_MIN((N + TILE_PANEL - 1) / TILE_PANEL, (IDX)(item0 + 1) * panels_per_item);
  PRODUCT_FIND_MATRIX(a, w)
  const IDX y_block = item2 * M * N, panel_size = TAPS * ((K + 1) / 2) * 2 * TILE_PANEL;
  for (IDX panel = item0 * panels_per_item; panel < panel_end; panel++) {
    const IDX n = panel * TILE_PANEL;
    for (IDX m = row_begin; m < row_end; m += ROWS) {
      const __global short16 *b = (const __global short16 *)(w + panel * panel_size);
      int8 t_[2 * ROWS];
      EACH_ROW(CLEAR)
#if WINDOW
      EACH_ROW(LOCATE)
      for (IDX i = 0; i < window.d[6]; i++) {
        for (IDX j = 0; j < window.d[7]; j++) {
          EACH_ROW(POINT)
          RUN
        }
      }
#else
      EACH_ROW(POINT)
      RUN
#endif
      EACH_ROW(KEEP)
      const IDX rows = TILE_MIN((IDX)ROWS, row_end - m);
      for (IDX r = 0; r < 2 * rows; r++) {
        const IDX column = n + r % 2 * 8, at = y_block + (m + r / 2) * N + column;
        const float8 sum = LANES8(float8, t_[r]);
        if (column + 8 <= N) {
          EMIT8(y, at, sum);
        } else if (column < N) {
          EMITN(y, at, N - column, sum);
        }
      }
    }
  }
}

// Work-items: (panels_per_item panels, rows_per_item rows, matrix). Rows of a follow one another; a_step and w_step are
// in elements (see PRODUCT_FIND_MATRIX).
kernel void integer_rows(const __global short *a, const __global short *w, WINDOW_ARGS __global float *y, IDX M, IDX N,
                         IDX K, IDX rows_per_item, IDX panels_per_item, int batch_rank, dims_t batch, dims_t a_step,
                         dims_t w_step EXTRA_ARGS) {
  integer_rows_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, WINDOW_PASS y, M, N, K, rows_per_item,
                    panels_per_item, batch_rank, batch, a_step, w_step EXTRA_PASS);
}
