// As gemm.cl, with w as it is: each work-item packs the panel it needs, 16 columns, into memory of its own and uses it
// for `rows_per_item` rows. For what is multiplied once and does not come packed: no launch and no traffic to pack it.

#define TILE_SPACE __private

// Storage type of w, y and c.
#ifndef T
#define T float
#endif
// 1: w lies as [n][k].
#ifndef W_TRANSPOSED
#define W_TRANSPOSED 0
#endif
// The longest k: the panel takes 64 bytes a step of private memory.
#ifndef DEPTH
#define DEPTH 512
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

// Columns n .. n + columns - 1 of w as a panel, zeros beyond.
static inline void pack_panel(const __global T *w, float8 *panel, IDX N, IDX K, IDX n, IDX columns) {
#if W_TRANSPOSED
  IDX k = 0;
  if (columns == TILE_PANEL) {
    for (; k + 8 <= K; k += 8) {
      for (IDX half_ = 0; half_ < 2; half_++) {
        const __global T *from = w + (n + 8 * half_) * K + k;
        float8 d0 = LOAD8(T, from, 0), d1 = LOAD8(T, from, K), d2 = LOAD8(T, from, 2 * K);
        float8 d3 = LOAD8(T, from, 3 * K), d4 = LOAD8(T, from, 4 * K), d5 = LOAD8(T, from, 5 * K);
        float8 d6 = LOAD8(T, from, 6 * K), d7 = LOAD8(T, from, 7 * K);
        TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
        float8 *to = panel + 2 * k + half_;
        to[0] = d0, to[2] = d1, to[4] = d2, to[6] = d3, to[8] = d4, to[10] = d5, to[12] = d6, to[14] = d7;
      }
    }
  }
  for (; k < K; k++) {
    panel[2 * k] = GATHER8(T, w, n * K + k, K, TILE_MIN((IDX)8, columns));
    panel[2 * k + 1] = columns > 8 ? GATHER8(T, w, (n + 8) * K + k, K, columns - 8) : (float8)(0.0f);
  }
#else
  const __global T *from = w + n;
  if (columns == TILE_PANEL) {
    for (IDX k = 0; k < K; k++, from += N) {
      panel[2 * k] = LOAD8(T, from, 0);
      panel[2 * k + 1] = LOAD8(T, from, 8);
    }
  } else {
    for (IDX k = 0; k < K; k++, from += N) {
      panel[2 * k] = LOADN(T, from, 0, TILE_MIN((IDX)8, columns));
      panel[2 * k + 1] = columns > 8 ? LOADN(T, from, 8, columns - 8) : (float8)(0.0f);
    }
  }
#endif
}

static inline TILE_OUTLINE void gemm_unpacked_item(IDX item0, IDX item1, IDX item2, const __global float *a,
                                                   const __global T *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                                                   IDX K, IDX lda, IDX rows_per_item, IDX panels_per_item,
                                                   int batch_rank, dims_t batch, dims_t a_step, dims_t w_step,
                                                   float alpha EXTRA_ARGS) {
  const IDX row_begin = item1 * rows_per_item;
  const IDX row_end = TILE_MIN(M, row_begin + rows_per_item);
  PRODUCT_FIND_MATRIX(a, w)
  const IDX y_block = item2 * M * N;
  const IDX n_end = TILE_MIN(N, (IDX)(item0 + 1) * panels_per_item * TILE_PANEL);
  float8 panel[2 * DEPTH];
  const float *b = (const float *)panel;
  for (IDX n = item0 * panels_per_item * TILE_PANEL; n < n_end; n += TILE_PANEL) {
    const IDX columns = TILE_MIN((IDX)TILE_PANEL, N - n);
    pack_panel(w, panel, N, K, n, columns);
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

kernel void gemm_unpacked(const __global float *a, const __global T *w, PRODUCT_C_ARGS __global T *y, IDX M, IDX N,
                          IDX K, IDX lda, IDX rows_per_item, IDX panels_per_item, int batch_rank, dims_t batch,
                          dims_t a_step, dims_t w_step, float alpha EXTRA_ARGS) {
  gemm_unpacked_item(get_global_id(0), get_global_id(1), get_global_id(2), a, w, PRODUCT_C_PASS y, M, N, K, lda,
                     rows_per_item, panels_per_item, batch_rank, batch, a_step, w_step, alpha EXTRA_PASS);
}
