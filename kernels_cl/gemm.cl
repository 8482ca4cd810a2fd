// y[b, m, n] = alpha * sum over k of a[b, m, k] * w[b, k, n] + beta * c[m, n], accumulated in float32.
//
// a is float32 with k contiguous (`lda` floats from row to row); w is packed (pack.cl) in panels of 16 columns,
// [panel][k][16], zeros beyond the last column. One work-item computes `rows_per_item` rows of `panels_per_item`
// panels, so that a block of a's rows stays in the second-level cache while panels pass by, and each panel is read
// once per block. See tile.h for the register tiles.

#define TILE_SPACE __global

// Storage type of y and c.
#ifndef T
#define T float
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

#define ROW_POINTER(r) const __global float *a##r = a + TILE_MIN(m + r, row_end - 1) * lda + k;
#define FULL_ROW_POINTER(r) const __global float *a##r = a + (m + r) * lda;
#define START16(r) float8 p##r = start_low, q##r = start_high;
#define TOTAL16(r) t_[2 * r] = start_low; t_[2 * r + 1] = start_high;
#define TOTAL8(r) t_[r] = start_low;
#define LEAVE16(r) \
  EMIT8(y, i, PRODUCT_FULL(m + r, n, p##r)); \
  EMIT8(y, i + 8, PRODUCT_FULL(m + r, n + 8, q##r)); \
  i += N;

static inline TILE_OUTLINE void gemm_panels_item(IDX item0, IDX item1, IDX item2, const __global float *a,
                                                 const __global float *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                                                 IDX K, IDX lda, IDX rows_per_item, IDX panels_per_item,
                                                 int batch_rank, dims_t batch, dims_t a_step, dims_t w_step,
                                                 float alpha EXTRA_ARGS) {
  const IDX row_begin = item1 * rows_per_item;
  const IDX row_end = TILE_MIN(M, row_begin + rows_per_item);
  const IDX panel_end = TILE_MIN((N + TILE_PANEL - 1) / TILE_PANEL, (IDX)(item0 + 1) * panels_per_item);
  PRODUCT_FIND_MATRIX(a, w)
  const IDX y_block = item2 * M * N;
  for (IDX panel = item0 * panels_per_item; panel < panel_end; panel++) {
    const __global float *b = w + panel * K * TILE_PANEL;
    const IDX n = panel * TILE_PANEL, columns = TILE_MIN((IDX)TILE_PANEL, N - n);
    const float8 start_low = PRODUCT_START(n, columns), start_high = PRODUCT_START(n + 8, columns - 8);
    IDX m = row_begin;
    // Whole tiles with a short k, where each instruction about the results counts.
    if (columns == TILE_PANEL && K <= TILE_RUN) {
      for (; m + 6 <= row_end; m += 6) {
        TILE_ROWS6(START16)
        TILE_ROWS6(FULL_ROW_POINTER)
        TILE_MULTIPLY(16, TILE_ROWS6, b, K)
        IDX i = y_block + m * N + n;
        TILE_ROWS6(LEAVE16)
      }
    }
    if (columns > 8) {
      for (; m < row_end; m += 6) {
        float8 t_[12];
        TILE_ROWS6(TOTAL16)
        for (IDX k = 0; k < K; k += TILE_RUN) {
          TILE_ROWS6(TILE_ZERO16)
          TILE_ROWS6(ROW_POINTER)
          TILE_MULTIPLY(16, TILE_ROWS6, b + k * TILE_PANEL, TILE_MIN((IDX)TILE_RUN, K - k))
          TILE_ROWS6(TILE_ADD16)
        }
        const IDX rows = TILE_MIN((IDX)6, row_end - m);
        IDX i = y_block + m * N + n;
        for (IDX r = 0; r < rows; r++, i += N) {
          EMIT8(y, i, PRODUCT_FULL(m + r, n, t_[2 * r]));
          if (columns == TILE_PANEL) {
            EMIT8(y, i + 8, PRODUCT_FULL(m + r, n + 8, t_[2 * r + 1]));
          } else {
            EMITN(y, i + 8, columns - 8, PRODUCT_PART(m + r, n + 8, columns - 8, t_[2 * r + 1]));
          }
        }
      }
    } else {
      for (; m < row_end; m += 8) {
        float8 t_[8];
        TILE_ROWS8(TOTAL8)
        for (IDX k = 0; k < K; k += TILE_RUN) {
          TILE_ROWS8(TILE_ZERO8)
          TILE_ROWS8(ROW_POINTER)
          TILE_MULTIPLY(8, TILE_ROWS8, b + k * TILE_PANEL, TILE_MIN((IDX)TILE_RUN, K - k))
          TILE_ROWS8(TILE_ADD8)
        }
        const IDX rows = TILE_MIN((IDX)8, row_end - m);
        for (IDX r = 0; r < rows; r++) {
          const IDX i = y_block + (m + r) * N + n;
          if (columns == 8) {
            EMIT8(y, i, PRODUCT_FULL(m + r, n, t_[r]));
          } else {
            EMITN(y, i, columns, PRODUCT_PART(m + r, n, columns, t_[r]));
          }
        }
      }
    }
  }
}

kernel void gemm_panels(const __global float *a, const __global float *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                        IDX K, IDX lda, IDX rows_per_item, IDX panels_per_item, int batch_rank, dims_t batch,
                        dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  gemm_panels_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, N, K, lda,
                   rows_per_item, panels_per_item, batch_rank, batch, a_step, w_step, alpha EXTRA_PASS);
}
