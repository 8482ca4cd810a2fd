// y[b, m, n] = alpha * sum over k of a[b, m, k] * w[b, k, n] + beta * c[m, n], accumulated in float32.
//
// One work-item computes `rows_per_item` rows (a multiple of 6) of `panels_per_item` panels of 16 columns. What it reads
// again and again lies in the order of use: groups of six rows as [k][6], panels as [k][16]. Strides of a power of two
// would put all rows of a tile into the same few places of the first cache. An operand that does not come in that order
// is copied into memory of the work-item's own, TILE_RUN steps of k at a time; what those steps gave waits in `totals`.
// See tile.h for the register tiles.

// Storage type of y, c and operands that do not come packed.
#ifndef T
#define T float
#endif
// 1: a comes as [group of six rows][k][6] in float32 (pack_rows of pack.cl). Else element (m, k) lies at
// m * a_row + k * a_column, one of the two being 1; 2 where a_column is, a is float32 and used for so few columns that
// copying it would not pay.
#ifndef A_FORM
#define A_FORM 0
#endif
// 1: w comes as [panel][k][16] in float32 (pack.cl), zeros beyond the last column; else element (k, n) lies at
// k * w_row + n * w_column, one of the two being 1.
#ifndef W_PACKED
#define W_PACKED 1
#endif
// Most tiles of a work-item where k exceeds TILE_RUN, most rows whose steps fit where a is copied, and most panels
// where w is copied and a packed: as in tiles/matrix.py, for TILE_RUN steps each. Panels are copied four at a time:
// whole lines of memory, and more of a row than one line.
#define ROOM_TILES 128
#define ROOM_ROWS 60
#define ROOM_PANELS 4
// What is added to the product: see tile.h.
#ifndef HAS_C
#define HAS_C 0
#endif
// How results leave: eight, or the first n of eight, consecutive elements from index i. An element-wise chain may
// be put here, whose further inputs are EXTRA_ARGS.
#ifndef EMIT8
#define EMIT8(y, i, v) STORE8(T, y, i, v)
#endif
#ifndef EMITN
#define EMITN(y, i, n, v) STOREN(T, y, i, n, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif

#if A_FORM == 0
#define A_SPACE __private
#define A_TYPE T
#else
#define A_SPACE __global
#define A_TYPE float
#endif
// Rows of a tile of 8 columns, and how far on the next row is at which one may begin.
#if A_FORM == 2
#define NARROW_ROWS 8
#define NARROW_STEP 8
#else
#define NARROW_ROWS 12
#define NARROW_STEP 6
#endif
#if W_PACKED
#define TILE_SPACE __global
#define W_TYPE float
#else
#define TILE_SPACE __private
#define W_TYPE T
#endif

#define ROW_OF(r) const __global T *a##r = from + TILE_MIN((IDX)r, rows - 1) * row;
#define ROW_LOAD(r) float8 d##r = LOAD8(T, a##r, k);
#define ROW_COPY(r) to[6 * k + r] = LOAD(T, a##r, k);
#define ROW_AT(r) const __global float *a##r = from; from = from + (m + r + 1 < row_end ? a_row : 0);
#define ZERO_ROWS8(r) float8 p##r = start_low;
#define JOIN8(r) p##r = p##r + t_[r];
#define KEEP8(r) t_[r] = p##r;
#define START16(r) float8 p##r = start_low, q##r = start_high;
#define START8(r) float8 p##r = start_low, q##r = start_low;
#define JOIN(r) p##r = p##r + t_[r]; q##r = q##r + t_[6 + r];
#define KEEP(r) t_[r] = p##r; t_[6 + r] = q##r;
#define LEAVE16(r) \
  EMIT8(y, i, PRODUCT_FULL(m + r, n, p##r)); \
  EMIT8(y, i + 8, PRODUCT_FULL(m + r, n + 8, q##r)); \
  i += N;

// Rows row_begin .. row_end - 1 of a, `count` steps of k, to groups of six [k][6], which lie
// 6 * count + 2 apart; rows beyond the last are anything.
static inline void copy_rows(const __global T *a, float *target, IDX row, IDX column, IDX count, IDX row_begin,
                             IDX row_end, IDX M) {
  if (column == 1) {
    for (IDX m = row_begin; m < row_end; m += 6, target += 6 * count + 2) {
      const IDX rows = row_end - m;
      const __global T *from = a + m * row;
      float *to = target;
      TILE_ROWS6(ROW_OF)
      IDX k = 0;
      for (; k + 8 <= count; k += 8) {
        TILE_ROWS6(ROW_LOAD)
        TILE_STORE_ROWS6(to + 6 * k, d0, d1, d2, d3, d4, d5)
      }
      for (; k < count; k++) { TILE_ROWS6(ROW_COPY) }
    }
  } else {
    for (IDX k = 0; k < count; k++, a += column) {
      float *to = target + 6 * k;
      IDX m = row_begin;
      for (; m < row_end && m + 8 <= M; m += 6, to += 6 * count + 2) TILE_STORE6(to, LOAD8(T, a, m))
      for (; m < row_end; m += 6, to += 6 * count + 2) TILE_STORE6(to, LOADN(T, a, m, M - m))
    }
  }
}

// `count` steps of k of `columns` columns, at most 16, of w to a panel, zeros beyond.
static inline void copy_panel(const __global T *w, float8 *panel, IDX row, IDX column, IDX count, IDX columns) {
  const IDX low = TILE_MIN((IDX)8, columns);
  IDX k = 0;
  if (column == 1) {
    for (; k < count; k++, w += row) {
      panel[2 * k] = low == 8 ? LOAD8(T, w, 0) : LOADN(T, w, 0, low);
      panel[2 * k + 1] = columns > 8 ? LOADN(T, w, 8, columns - 8) : (float8)(0.0f);
    }
    return;
  }
  if (columns == TILE_PANEL) {
    for (; k + 8 <= count; k += 8) {
      for (IDX half_ = 0; half_ < 2; half_++) {
        const __global T *from = w + 8 * half_ * column + k;
        float8 d0 = LOAD8(T, from, 0), d1 = LOAD8(T, from, column), d2 = LOAD8(T, from, 2 * column);
        float8 d3 = LOAD8(T, from, 3 * column), d4 = LOAD8(T, from, 4 * column), d5 = LOAD8(T, from, 5 * column);
        float8 d6 = LOAD8(T, from, 6 * column), d7 = LOAD8(T, from, 7 * column);
        TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
        float8 *to = panel + 2 * k + half_;
        to[0] = d0, to[2] = d1, to[4] = d2, to[6] = d3, to[8] = d4, to[10] = d5, to[12] = d6, to[14] = d7;
      }
    }
  }
  for (; k < count; k++) {
    panel[2 * k] = GATHER8(T, w, k, column, low);
    panel[2 * k + 1] = columns > 8 ? GATHER8(T, w, 8 * column + k, column, columns - 8) : (float8)(0.0f);
  }
}

// The same of any number of columns, to one panel after the other.
static inline void copy_panels(const __global T *w, float8 *panels, IDX row, IDX column, IDX count, IDX columns) {
  IDX n = 0;
  if (column == 1) {
    n = columns / TILE_PANEL * TILE_PANEL;
    for (IDX k = 0; k < count; k++) {
      const __global T *from = w + k * row;
      for (IDX i = 0; i < n; i += TILE_PANEL) {
        float8 *to = panels + i / 8 * count + 2 * k;
        TILE_PREFETCH(from + 8 * row + i)
        to[0] = LOAD8(T, from, i);
        to[1] = LOAD8(T, from, i + 8);
      }
    }
  }
  for (; n < columns; n += TILE_PANEL)
    copy_panel(w + n * column, panels + n / 8 * count, row, column, count, TILE_MIN((IDX)TILE_PANEL, columns - n));
}

// `count` steps of k of one tile: six rows by 16 columns, or for the last columns 12 by 8, 8 by 8 where a is in place.
// t_: what earlier steps gave, unless `first`; what all gave so far, unless `last`. a0, a1: groups of six rows, or both
// a itself.
static inline void tile_item(IDX m, IDX row_end, IDX n, IDX columns, const A_SPACE float *a0_, const A_SPACE float *a1_,
                             IDX a_row, const TILE_SPACE float *b, IDX count, int first, int last, float8 *t_,
                             PRODUCT_C_ARGS __global T *y, IDX y_block, IDX N, float alpha EXTRA_ARGS) {
  float8 start_low = 0.0f, start_high = 0.0f;
  if (first) start_low = PRODUCT_START(n, columns), start_high = PRODUCT_START(n + 8, columns - 8);
  if (columns > 8) {
    TILE_ROWS6(START16)
#if A_FORM == 2
    const __global float *from = a0_ + m * a_row;
    TILE_ROWS6(ROW_AT)
    TILE_MULTIPLY(16, TILE_ROWS6, b, count)
#else
    TILE_MULTIPLY6(TILE_STEP6_16, b, count)
#endif
    if (!first) { TILE_ROWS6(JOIN) }
    if (last && columns == TILE_PANEL && m + 6 <= row_end) {
      IDX i = y_block + m * N + n;
      TILE_ROWS6(LEAVE16)
      return;
    }
    TILE_ROWS6(KEEP)
  } else {
#if A_FORM == 2
    TILE_ROWS8(ZERO_ROWS8)
    const __global float *from = a0_ + m * a_row;
    TILE_ROWS8(ROW_AT)
    TILE_MULTIPLY(8, TILE_ROWS8, b, count)
    if (!first) { TILE_ROWS8(JOIN8) }
    TILE_ROWS8(KEEP8)
#else
    TILE_ROWS6(START8)
    TILE_MULTIPLY6(TILE_STEP6_8, b, count)
    if (!first) { TILE_ROWS6(JOIN) }
    TILE_ROWS6(KEEP)
#endif
  }
  if (!last) return;
  const IDX rows = TILE_MIN((IDX)(columns > 8 ? 6 : NARROW_ROWS), row_end - m);
  for (IDX r = 0; r < rows; r++) {
    const IDX i = y_block + (m + r) * N + n;
    if (columns >= 8) {
      EMIT8(y, i, PRODUCT_FULL(m + r, n, t_[r]));
    } else {
      EMITN(y, i, columns, PRODUCT_PART(m + r, n, columns, t_[r]));
    }
    if (columns == TILE_PANEL) {
      EMIT8(y, i + 8, PRODUCT_FULL(m + r, n + 8, t_[6 + r]));
    } else if (columns > 8) {
      EMITN(y, i + 8, columns - 8, PRODUCT_PART(m + r, n + 8, columns - 8, t_[6 + r]));
    }
  }
}

static inline TILE_OUTLINE void gemm_item(IDX item0, IDX item1, IDX item2, const __global A_TYPE *a,
                                          const __global W_TYPE *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N, IDX K,
                                          IDX a_row, IDX a_column, IDX w_row, IDX w_column, IDX rows_per_item,
                                          IDX panels_per_item, int batch_rank, dims_t batch, dims_t a_step,
                                          dims_t w_step, float alpha EXTRA_ARGS) {
  const IDX row_begin = item1 * rows_per_item, row_end = TILE_MIN(M, row_begin + rows_per_item);
  const IDX n_begin = item0 * panels_per_item * TILE_PANEL;
  const IDX n_end = TILE_MIN(N, n_begin + panels_per_item * TILE_PANEL);
  PRODUCT_FIND_MATRIX(a, w)
  float8 totals[12 * ROOM_TILES];
#if A_FORM == 0
  float8 rows_[ROOM_ROWS * TILE_RUN / 8 + 8];
#endif
#if !W_PACKED
  float8 panels_[2 * TILE_RUN * ROOM_PANELS];
#endif
  for (IDX k = 0; k < K; k += TILE_RUN) {
    const IDX count = TILE_MIN((IDX)TILE_RUN, K - k);
#if A_FORM == 0
    const float *rows = (const float *)rows_;
    const IDX group = 6 * count + 2;
    copy_rows(a + k * a_column, (float *)rows_, a_row, a_column, count, row_begin, row_end, M);
#elif A_FORM == 1
    const __global float *rows = a + row_begin * K + 6 * k;
    const IDX group = 6 * K;
#else
    const __global float *rows = a + k;
    const IDX group = 0;
#endif
    float8 *t_ = totals;
#if A_FORM == 1
    // A group of rows stays in the first cache while the panels, which are few, pass by.
    copy_panels(w + k * w_row + n_begin * w_column, panels_, w_row, w_column, count, n_end - n_begin);
    for (IDX m = row_begin; m < row_end; m += 6) {
      for (IDX n = n_begin; n < n_end; n += TILE_PANEL) {
        const IDX columns = TILE_MIN((IDX)TILE_PANEL, N - n);
        const float *b = (const float *)(panels_ + (n - n_begin) / 8 * count);
#else
    for (IDX n = n_begin; n < n_end; n += TILE_PANEL) {
      const IDX columns = TILE_MIN((IDX)TILE_PANEL, N - n);
#if W_PACKED
      const __global float *b = w + n * K + k * TILE_PANEL;
#else
      const IDX at = (n - n_begin) % (ROOM_PANELS * TILE_PANEL);
      if (at == 0)
        copy_panels(w + k * w_row + n * w_column, panels_, w_row, w_column, count,
                    TILE_MIN((IDX)(ROOM_PANELS * TILE_PANEL), n_end - n));
      const float *b = (const float *)(panels_ + at / 8 * count);
#endif
      for (IDX m = row_begin; m < row_end; m += columns > 8 ? 6 : NARROW_STEP) {
#endif
        const A_SPACE float *a0 = rows + (m - row_begin) / 6 * group;
        const A_SPACE float *a1 = m + 6 < row_end ? a0 + group : a0;
        // Packed groups are taken two at a time by tiles of 8 columns.
        if (columns > 8 || (m - row_begin) % NARROW_ROWS == 0) {
          tile_item(m, row_end, n, columns, a0, a1, a_row, b, count, k == 0, k + count == K, t_, PRODUCT_C_PASS y,
                    item2 * M * N, N, alpha EXTRA_PASS);
        }
        t_ += K > TILE_RUN ? 12 : 0;
      }
    }
  }
}

kernel void gemm(const __global A_TYPE *a, const __global W_TYPE *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N, IDX K,
                 IDX a_row, IDX a_column, IDX w_row, IDX w_column, IDX rows_per_item, IDX panels_per_item,
                 int batch_rank, dims_t batch, dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  gemm_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, N, K, a_row, a_column,
            w_row, w_column, rows_per_item, panels_per_item, batch_rank, batch, a_step, w_step, alpha EXTRA_PASS);
}
