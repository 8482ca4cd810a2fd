// y[b, m, n] = alpha * sum over k of a[b, m, k] * w[b, k, n] + beta * c[m, n], accumulated in float32.
//
// One work-item computes `groups_per_item` groups of rows by `panels_per_item` panels of 16 columns. Groups have six
// rows, the last one or two four where fewer rows stay without work so: `sixes` is how many have six. What is read
// again and again lies in the order of use: groups as [k][6], panels as [k][16]. Strides of a power of two would put
// all rows of a tile into the same few places of the first cache. An operand that does not come in that order is
// copied into memory of the work-item's own, STEPS steps of k at a time; what those steps gave waits in `totals`. See
// tile.h for the register tiles.

// Storage type of y, c and operands that do not come packed.
#ifndef T
#define T float
#endif
// 1: a comes as [group of rows][k][6] in float32 (pack_rows of pack.cl). Else element (m, k) lies at
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
// Most tiles of a work-item where k exceeds STEPS, most rows whose steps fit where a is copied, and panels that are
// copied at a time: as in tiles/matrix.py. Where both are copied, few steps of more panels: memory is read in longer
// runs, and is asked for the next steps while these are multiplied. Else so many steps that sums in registers are as
// long as they may be.
#define ROOM_TILES 128
#define ROOM_ROWS 60
#if A_FORM == 0 && !W_PACKED
#define STEPS 128
#define ROOM_PANELS 8
#define COPY_AHEAD STEPS
#else
#define STEPS TILE_RUN
#define ROOM_PANELS 4
#define COPY_AHEAD 8
#endif
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
// First row of group g.
#define GROUP_AT(g) (4 * (g) + 2 * TILE_MIN((IDX)(g), sixes))
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
#define ROW_AT(r) const __global float *a##r = from; from = from + (r + 1 < rows ? a_row : 0);
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

// Groups first .. end - 1 of a, `count` steps of k, to [k][6] each, which lie 6 * count + 2 apart; rows beyond the last
// are anything.
static inline void copy_rows(const __global T *a, float *target, IDX row, IDX column, IDX count, IDX first, IDX end,
                             IDX sixes, IDX M) {
  if (column == 1) {
    for (IDX g = first; g < end; g++, target += 6 * count + 2) {
      const IDX m = GROUP_AT(g), rows = M - m;
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
      for (IDX g = first; g < end; g++, to += 6 * count + 2) {
        const IDX m = GROUP_AT(g);
        TILE_STORE6(to, m + 8 <= M ? LOAD8(T, a, m) : LOADN(T, a, m, M - m))
      }
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
        TILE_PREFETCH(from + COPY_AHEAD * row + i)
        to[0] = LOAD8(T, from, i);
        to[1] = LOAD8(T, from, i + 8);
      }
    }
  }
  for (; n < columns; n += TILE_PANEL)
    copy_panel(w + n * column, panels + n / 8 * count, row, column, count, TILE_MIN((IDX)TILE_PANEL, columns - n));
}

// Rows m .. m + rows - 1 of eight columns from n on, of which there are `columns`.
static inline void leave(IDX m, IDX rows, IDX n, IDX columns, const float8 *v_, PRODUCT_C_ARGS __global T *y,
                         IDX y_block, IDX N, float alpha EXTRA_ARGS) {
  for (IDX r = 0; r < rows; r++) {
    const IDX i = y_block + (m + r) * N + n;
    if (columns >= 8) {
      EMIT8(y, i, PRODUCT_FULL(m + r, n, v_[r]));
    } else {
      EMITN(y, i, columns, PRODUCT_PART(m + r, n, columns, v_[r]));
    }
  }
}

// `count` steps of k of a tile of 16 columns and one group of rows, a0.
// t_: what earlier steps gave, unless `first`; what all gave so far, unless `last`.
static inline void wide_tile(IDX m, IDX rows, IDX n, IDX columns, const A_SPACE float *a0_, IDX a_row,
                             const TILE_SPACE float *b, IDX count, int first, int last, float8 *t_,
                             PRODUCT_C_ARGS __global T *y, IDX y_block, IDX N, float alpha EXTRA_ARGS) {
  const int full = columns == TILE_PANEL;
  float8 start_low = 0.0f, start_high = 0.0f;
  if (first) start_low = PRODUCT_START(n, columns), start_high = PRODUCT_START(n + 8, columns - 8);
#if A_FORM == 2
  const __global float *from = a0_;
#else
  const A_SPACE float *a1_ = a0_;
#endif
  if (rows > 4) {
    TILE_ROWS6(START16)
#if A_FORM == 2
    TILE_ROWS6(ROW_AT)
    TILE_MULTIPLY(16, TILE_ROWS6, b, count)
#else
    TILE_MULTIPLY6(TILE_STEP6_16, b, count)
#endif
    if (!first) { TILE_ROWS6(JOIN) }
    if (last && full && rows == 6) {
      IDX i = y_block + m * N + n;
      TILE_ROWS6(LEAVE16)
      return;
    }
    TILE_ROWS6(KEEP)
  } else {
    TILE_ROWS4(START16)
#if A_FORM == 2
    TILE_ROWS4(ROW_AT)
    TILE_MULTIPLY(16, TILE_ROWS4, b, count)
#else
    TILE_MULTIPLY6(TILE_STEP4_16, b, count)
#endif
    if (!first) { TILE_ROWS4(JOIN) }
    if (last && full && rows == 4) {
      IDX i = y_block + m * N + n;
      TILE_ROWS4(LEAVE16)
      return;
    }
    TILE_ROWS4(KEEP)
  }
  if (!last) return;
  leave(m, rows, n, 8, t_, PRODUCT_C_PASS y, y_block, N, alpha EXTRA_PASS);
  leave(m, rows, n + 8, columns - 8, t_ + 6, PRODUCT_C_PASS y, y_block, N, alpha EXTRA_PASS);
}

// The same of the last columns, at most eight: of two groups of rows, a0 and a1, the second of which may have no rows;
// or where a is in place of eight rows from m on.
static inline void narrow_tile(IDX m, IDX rows, IDX m1, IDX rows1, IDX n, IDX columns, const A_SPACE float *a0_,
                               const A_SPACE float *a1_, IDX a_row, const TILE_SPACE float *b, IDX count, int first,
                               int last, float8 *t_, PRODUCT_C_ARGS __global T *y, IDX y_block, IDX N,
                               float alpha EXTRA_ARGS) {
  float8 start_low = 0.0f;
  if (first) start_low = PRODUCT_START(n, columns);
#if A_FORM == 2
  const __global float *from = a0_;
  TILE_ROWS8(ZERO_ROWS8)
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
  if (!last) return;
  leave(m, rows, n, columns, t_, PRODUCT_C_PASS y, y_block, N, alpha EXTRA_PASS);
#if A_FORM != 2
  leave(m1, rows1, n, columns, t_ + 6, PRODUCT_C_PASS y, y_block, N, alpha EXTRA_PASS);
#endif
}

static inline TILE_OUTLINE void gemm_item(IDX item0, IDX item1, IDX item2, const __global A_TYPE *a,
                                          const __global W_TYPE *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N, IDX K,
                                          IDX a_row, IDX a_column, IDX w_row, IDX w_column, IDX sixes,
                                          IDX groups_per_item, IDX panels_per_item, int batch_rank, dims_t batch,
                                          dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  const IDX groups = sixes + (M - TILE_MIN(M, 6 * sixes) + 3) / 4, g_begin = item1 * groups_per_item;
  const IDX g_end = TILE_MIN(groups, g_begin + groups_per_item);
  const IDX n_begin = item0 * panels_per_item * TILE_PANEL;
  const IDX n_end = TILE_MIN(N, n_begin + panels_per_item * TILE_PANEL);
  const IDX y_block = item2 * M * N;
  PRODUCT_FIND_MATRIX(a, w)
  float8 totals[12 * ROOM_TILES];
#if A_FORM == 0
  float8 rows_[ROOM_ROWS * STEPS / 8 + 8];
#endif
#if !W_PACKED
  float8 panels_[2 * STEPS * ROOM_PANELS];
#endif
  for (IDX k = 0; k < K; k += STEPS) {
    const IDX count = TILE_MIN((IDX)STEPS, K - k);
    const int first = k == 0, last = k + count == K;
#if A_FORM == 0
    const float *rows = (const float *)rows_;
    const IDX group = 6 * count + 2;
    copy_rows(a + k * a_column, (float *)rows_, a_row, a_column, count, g_begin, g_end, sixes, M);
#elif A_FORM == 1
    const __global float *rows = a + g_begin * 6 * K + 6 * k;
    const IDX group = 6 * K;
#endif
    float8 *t_ = totals;
#if A_FORM == 1
    // A group of rows stays in the first cache while the panels, which are few, pass by.
    copy_panels(w + k * w_row + n_begin * w_column, panels_, w_row, w_column, count, n_end - n_begin);
    for (IDX g = g_begin; g < g_end; g++) {
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
#if A_FORM == 2
      if (columns <= 8) {
        const IDX m_end = TILE_MIN(M, GROUP_AT(g_end));
        for (IDX m = GROUP_AT(g_begin); m < m_end; m += 8) {
          narrow_tile(m, TILE_MIN((IDX)8, m_end - m), 0, 0, n, columns, a + m * a_row + k, a, a_row, b, count, first,
                      last, t_, PRODUCT_C_PASS y, y_block, N, alpha EXTRA_PASS);
          t_ += K > STEPS ? 12 : 0;
        }
        continue;
      }
#endif
      for (IDX g = g_begin; g < g_end; g++) {
#endif
        const IDX m = GROUP_AT(g), m1 = GROUP_AT(g + 1);
#if A_FORM == 2
        const __global float *a0 = a + m * a_row + k;
#else
        const A_SPACE float *a0 = rows + (g - g_begin) * group;
#endif
        if (columns > 8) {
          wide_tile(m, TILE_MIN(M, m1) - m, n, columns, a0, a_row, b, count, first, last, t_, PRODUCT_C_PASS y, y_block,
                    N, alpha EXTRA_PASS);
        }
#if A_FORM != 2
        if (columns <= 8 && (g - g_begin) % 2 == 0) {
          const int two = g + 1 < g_end;
          narrow_tile(m, TILE_MIN(M, m1) - m, m1, two ? TILE_MIN(M, GROUP_AT(g + 2)) - m1 : 0, n, columns, a0,
                      two ? a0 + group : a0, a_row, b, count, first, last, t_, PRODUCT_C_PASS y, y_block, N,
                      alpha EXTRA_PASS);
        }
#endif
        t_ += K > STEPS ? 12 : 0;
      }
    }
  }
}

kernel void gemm(const __global A_TYPE *a, const __global W_TYPE *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N, IDX K,
                 IDX a_row, IDX a_column, IDX w_row, IDX w_column, IDX sixes, IDX groups_per_item, IDX panels_per_item,
                 int batch_rank, dims_t batch, dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  gemm_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, N, K, a_row, a_column,
            w_row, w_column, sixes, groups_per_item, panels_per_item, batch_rank, batch, a_step, w_step,
            alpha EXTRA_PASS);
}
