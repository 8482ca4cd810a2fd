// Products of few rows: bound by the memory that the matrix comes from, so it is read once, in order.
// y, c, alpha, beta, EMIT8 and EMITN as in gemm.cl.

#define TILE_SPACE __global

// Storage type of y, c and, unless packed, of the operands.
#ifndef T
#define T float
#endif
// Storage type of packed panels.
#ifndef W
#define W float
#endif
// Sums that one work-item of gemv_columns has room for: rows times columns, a multiple of 8.
#ifndef COLUMNS
#define COLUMNS 2048
#endif
#ifndef HAS_C
#define HAS_C 0
#endif
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

// Of gemv_columns: rows from k on of w, factors of a, and products of eight columns.
#define COLUMNS_ROWS8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define COLUMNS_ROW(r) \
  const float x##r = LOAD(T, x, r); \
  const __global T *b##r = from + r * N;
#define COLUMNS_FULL(r) x##r * LOAD8(T, b##r, 8 * v)
#define COLUMNS_REST(r) x##r * LOADN(T, b##r, 8 * full, rest)
#define COLUMNS_SUM8(F) (((F(0) + F(1)) + (F(2) + F(3))) + ((F(4) + F(5)) + (F(6) + F(7))))

// y[m, n] = sum over k of a[m, k] * w[k, n]; a is float32 rows, w packed in panels (gemm.cl). Each panel is read from
// memory for the first row and from the cache for the others.
static inline TILE_OUTLINE void gemv_panels_item(IDX item0, IDX item1, IDX item2, const __global float *a,
                                                 const __global W *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                                                 IDX K, IDX lda, IDX panels_per_item, int batch_rank, dims_t batch,
                                                 dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  const IDX end = TILE_MIN((N + TILE_PANEL - 1) / TILE_PANEL, (IDX)(item0 + 1) * panels_per_item);
  PRODUCT_FIND_MATRIX(a, w)
  const IDX y_block = item2 * M * N;
  for (IDX panel = item0 * panels_per_item; panel < end; panel++) {
    const IDX n = panel * TILE_PANEL, columns = TILE_MIN((IDX)TILE_PANEL, N - n);
    for (IDX m = 0; m < M; m++) {
      // Four sums a column, as one alone would wait for itself, each of a quarter of the panel: cores read several
      // streams of memory faster than one.
      const __global float *x0 = a + m * lda, *x1 = x0 + K / 4, *x2 = x1 + K / 4, *x3 = x2 + K / 4;
      const __global W *b0 = w + panel * K * TILE_PANEL, *b1 = b0 + K / 4 * TILE_PANEL;
      const __global W *b2 = b1 + K / 4 * TILE_PANEL, *b3 = b2 + K / 4 * TILE_PANEL;
      float8 low = PRODUCT_START(n, columns), high = PRODUCT_START(n + 8, columns - 8);
      for (IDX k = 0; k < K / 4;) {
        float8 p0 = 0.0f, q0 = 0.0f, p1 = 0.0f, q1 = 0.0f, p2 = 0.0f, q2 = 0.0f, p3 = 0.0f, q3 = 0.0f;
        const IDX stop = TILE_MIN(K / 4, k + TILE_RUN);
        for (; k < stop; k++) {
          p0 = p0 + x0[k] * ALOAD8(W, b0, k * TILE_PANEL);
          q0 = q0 + x0[k] * ALOAD8(W, b0, k * TILE_PANEL + 8);
          p1 = p1 + x1[k] * ALOAD8(W, b1, k * TILE_PANEL);
          q1 = q1 + x1[k] * ALOAD8(W, b1, k * TILE_PANEL + 8);
          p2 = p2 + x2[k] * ALOAD8(W, b2, k * TILE_PANEL);
          q2 = q2 + x2[k] * ALOAD8(W, b2, k * TILE_PANEL + 8);
          p3 = p3 + x3[k] * ALOAD8(W, b3, k * TILE_PANEL);
          q3 = q3 + x3[k] * ALOAD8(W, b3, k * TILE_PANEL + 8);
        }
        low = low + ((p0 + p1) + (p2 + p3));
        high = high + ((q0 + q1) + (q2 + q3));
      }
      for (IDX k = K / 4; k < K / 4 + K % 4; k++) {
        low = low + x3[k] * ALOAD8(W, b3, k * TILE_PANEL);
        high = high + x3[k] * ALOAD8(W, b3, k * TILE_PANEL + 8);
      }
      const IDX i = y_block + m * N + n;
      if (columns == TILE_PANEL) {
        EMIT8(y, i, PRODUCT_FULL(m, n, low));
        EMIT8(y, i + 8, PRODUCT_FULL(m, n + 8, high));
      } else {
        EMITN(y, i, TILE_MIN((IDX)8, columns), PRODUCT_PART(m, n, TILE_MIN((IDX)8, columns), low));
        if (columns > 8) EMITN(y, i + 8, columns - 8, PRODUCT_PART(m, n + 8, columns - 8, high));
      }
    }
  }
}

kernel void gemv_panels(const __global float *a, const __global W *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                        IDX K, IDX lda, IDX panels_per_item, int batch_rank, dims_t batch, dims_t a_step, dims_t w_step,
                        float alpha EXTRA_ARGS) {
  gemv_panels_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, N, K, lda,
                   panels_per_item, batch_rank, batch, a_step, w_step, alpha EXTRA_PASS);
}

// y[m, r] = sum over k of x[m, k] * rows[r, k], both with k contiguous: dot products, eight rows at a time.
// R rows, M vectors; the result's element (m, r) lies at m * R + r, and c is added at m * c_row + r * c_column.
static inline TILE_OUTLINE void gemv_dots_item(IDX item0, IDX item1, IDX item2, const __global T *a,
                                               const __global T *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX R, IDX K,
                                               IDX groups_per_item, int batch_rank, dims_t batch, dims_t a_step,
                                               dims_t w_step, float alpha EXTRA_ARGS) {
  const IDX end = TILE_MIN(R, (IDX)(item0 + 1) * groups_per_item * 8);
  PRODUCT_FIND_MATRIX(a, w)
  const IDX y_block = item2 * M * R;
  for (IDX r = item0 * groups_per_item * 8; r < end; r += 8) {
    const IDX count = TILE_MIN((IDX)8, R - r);
    // Rows beyond the last repeat it.
    const __global T *w0 = w + r * K, *w1 = w + TILE_MIN(r + 1, R - 1) * K, *w2 = w + TILE_MIN(r + 2, R - 1) * K;
    const __global T *w3 = w + TILE_MIN(r + 3, R - 1) * K, *w4 = w + TILE_MIN(r + 4, R - 1) * K;
    const __global T *w5 = w + TILE_MIN(r + 5, R - 1) * K, *w6 = w + TILE_MIN(r + 6, R - 1) * K;
    const __global T *w7 = w + TILE_MIN(r + 7, R - 1) * K;
    for (IDX m = 0; m < M; m++) {
      const __global T *x = a + m * K;
      float8 d0 = 0.0f, d1 = 0.0f, d2 = 0.0f, d3 = 0.0f, d4 = 0.0f, d5 = 0.0f, d6 = 0.0f, d7 = 0.0f;
      IDX k = 0;
      for (; k + 8 <= K; k += 8) {
        const float8 v = LOAD8(T, x, k);
        d0 = d0 + v * LOAD8(T, w0, k);
        d1 = d1 + v * LOAD8(T, w1, k);
        d2 = d2 + v * LOAD8(T, w2, k);
        d3 = d3 + v * LOAD8(T, w3, k);
        d4 = d4 + v * LOAD8(T, w4, k);
        d5 = d5 + v * LOAD8(T, w5, k);
        d6 = d6 + v * LOAD8(T, w6, k);
        d7 = d7 + v * LOAD8(T, w7, k);
      }
      TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
      float8 sum = PRODUCT_START(r, count) + ((d0 + d1) + (d2 + d3)) + ((d4 + d5) + (d6 + d7));
      for (; k < K; k++) {
        const float8 column = (float8)(LOAD(T, w0, k), LOAD(T, w1, k), LOAD(T, w2, k), LOAD(T, w3, k),
                                       LOAD(T, w4, k), LOAD(T, w5, k), LOAD(T, w6, k), LOAD(T, w7, k));
        sum = sum + (float)LOAD(T, x, k) * column;
      }
      const IDX i = y_block + m * R + r;
      if (count == 8) {
        EMIT8(y, i, PRODUCT_FULL(m, r, sum));
      } else {
        EMITN(y, i, count, PRODUCT_PART(m, r, count, sum));
      }
    }
  }
}

kernel void gemv_dots(const __global T *a, const __global T *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX R, IDX K,
                      IDX groups_per_item, int batch_rank, dims_t batch, dims_t a_step, dims_t w_step,
                      float alpha EXTRA_ARGS) {
  gemv_dots_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, R, K,
                 groups_per_item, batch_rank, batch, a_step, w_step, alpha EXTRA_PASS);
}

// y[m, n] = sum over k of x[m, k] * w[k, n] with w as it is, n contiguous. A work-item takes so many columns that it
// reads memory in long runs, eight rows of w at a time; the sums of its M rows (M * columns_per_item <= COLUMNS) stay
// in the caches while w streams by, once.
static inline TILE_OUTLINE void gemv_columns_item(IDX item0, IDX item1, IDX item2, const __global T *a,
                                                  const __global T *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                                                  IDX K, IDX columns_per_item, int batch_rank, dims_t batch,
                                                  dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  const IDX n0 = item0 * columns_per_item, columns = TILE_MIN(columns_per_item, N - n0);
  const IDX full = columns / 8, rest = columns - full * 8, pitch = columns_per_item / 8;
  PRODUCT_FIND_MATRIX(a, w)
  const __global T *from = w + n0;
  // Column `columns` - `rest` and on: one vector a row.
  float8 sums[COLUMNS / 8], part[COLUMNS / 8];
  const IDX vectors = full + (rest > 0);
  for (IDX m = 0; m < M; m++)
    for (IDX v = 0; v < vectors; v++) sums[m * pitch + v] = PRODUCT_START(n0 + 8 * v, columns - 8 * v);
  for (IDX k = 0; k < K;) {
    const IDX stop = TILE_MIN(K, k + TILE_RUN);
    for (IDX v = 0; v < M * pitch; v++) part[v] = 0.0f;
    for (; k + 8 <= stop; k += 8, from += 8 * N) {
      for (IDX m = 0; m < M; m++) {
        const __global T *x = a + m * K + k;
        float8 *to = part + m * pitch;
        COLUMNS_ROWS8(COLUMNS_ROW)
        for (IDX v = 0; v < full; v++) to[v] = to[v] + COLUMNS_SUM8(COLUMNS_FULL);
        if (rest > 0) to[full] = to[full] + COLUMNS_SUM8(COLUMNS_REST);
      }
    }
    for (; k < stop; k++, from += N) {
      for (IDX m = 0; m < M; m++) {
        const float x0 = LOAD(T, a, m * K + k);
        const __global T *b0 = from;
        float8 *to = part + m * pitch;
        for (IDX v = 0; v < full; v++) to[v] = to[v] + COLUMNS_FULL(0);
        if (rest > 0) to[full] = to[full] + COLUMNS_REST(0);
      }
    }
    for (IDX v = 0; v < M * pitch; v++) sums[v] = sums[v] + part[v];
  }
  for (IDX m = 0; m < M; m++) {
    const IDX i = (item2 * M + m) * N + n0;
    const float8 *sum = sums + m * pitch;
    for (IDX v = 0; v < full; v++) EMIT8(y, i + 8 * v, PRODUCT_FULL(m, n0 + 8 * v, sum[v]));
    if (rest > 0) EMITN(y, i + 8 * full, rest, PRODUCT_PART(m, n0 + 8 * full, rest, sum[full]));
  }
}

kernel void gemv_columns(const __global T *a, const __global T *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N, IDX K,
                         IDX columns_per_item, int batch_rank, dims_t batch, dims_t a_step, dims_t w_step,
                         float alpha EXTRA_ARGS) {
  gemv_columns_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, N, K,
                    columns_per_item, batch_rank, batch, a_step, w_step, alpha EXTRA_PASS);
}
