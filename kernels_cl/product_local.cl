// y[b, m, n] = alpha * sum over k of a[b, m, k] * w[b, k, n] + beta * c[m, n] on GPUs, accumulated in float32.
// a and w lie by row and column strides (either may be transposed); local_tiles.h says how a group works.

// Storage type of the operands and of the result.
#ifndef T
#define T float
#endif
// Results of one work-item, depth of a tile, work-items of a group.
#ifndef LOCAL_RM
#define LOCAL_RM 4
#define LOCAL_RN 4
#define LOCAL_TK 16
#define LOCAL_GX 16
#define LOCAL_GY 16
#endif
// 1: neighbouring work-items load along k (which is contiguous), 0: along m, or n.
#ifndef A_ALONG_K
#define A_ALONG_K 1
#endif
#ifndef W_ALONG_K
#define W_ALONG_K 0
#endif
// See addend.h; products of a few tiles are cut along k.
#ifndef HAS_C
#define HAS_C 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
// 1: four neighbours at a time: whole runs of four lie on boundaries of four elements.
#ifndef A_BY_FOUR
#define A_BY_FOUR 0
#define W_BY_FOUR 0
#endif
#ifndef EMIT
#define EMIT(y, i, v) STORE(T, y, i, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif

// Groups: (tile of columns, tile of rows, matrix x part of `k_each` of K).
kernel LOCAL_GROUP void product_local(const __global T *a, const __global T *w, ADDEND_ARGS RESULT_OR_PART,
                                      IDX M, IDX N, IDX K,
                                      IDX a_row, IDX a_column, IDX w_row, IDX w_column, int batch_rank, dims_t batch,
                                      dims_t a_step, dims_t w_step, float alpha, IDX parts, IDX k_each EXTRA_ARGS) {
  LOCAL_MEMORY(as, bs)
  const int lx = get_local_id(0), ly = get_local_id(1), id = ly * LOCAL_GX + lx;
  const IDX m0 = (IDX)get_group_id(1) * LOCAL_TM, n0 = (IDX)get_group_id(0) * LOCAL_TN;
  const IDX matrix = (IDX)get_group_id(2) / parts, part = (IDX)get_group_id(2) - matrix * parts;
  const IDX k_begin = part * k_each, k_end = k_begin + k_each < K ? k_begin + k_each : K;
  IDX rest = matrix;
  DIMS_DOWN(d, batch_rank - 1, 0) {
    const IDX above = rest / batch.d[d], at = rest - above * batch.d[d];
    a += at * a_step.d[d];
    w += at * w_step.d[d];
    rest = above;
  }
  float acc[LOCAL_RM][LOCAL_RN];
  LOCAL_CLEAR(acc)
  for (IDX k0 = k_begin; k0 < k_end; k0 += LOCAL_TK) {
    LOCAL_LOAD(A_BY_FOUR, A_ALONG_K, as, LOCAL_TM, a, m0, M, k0, k_end, a_row, a_column)
    LOCAL_LOAD(W_BY_FOUR, W_ALONG_K, bs, LOCAL_TN, w, n0, N, k0, k_end, w_column, w_row)
    barrier(CLK_LOCAL_MEM_FENCE);
    LOCAL_MULTIPLY(as, bs, acc, lx, ly)
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int r = 0; r < LOCAL_RM; r++) {
    const IDX m = m0 + ly + r * LOCAL_GY;
    for (int q = 0; q < LOCAL_RN; q++) {
      const IDX n = n0 + lx + q * LOCAL_GX;
      if (m >= M || n >= N) continue;
#if SPLIT
      y[(part * ((IDX)get_num_groups(2) / parts) + matrix) * M * N + m * N + n] = acc[r][q];
#else
      EMIT(y, (matrix * M + m) * N + n, (alpha * acc[r][q] ADDEND(m, n)));
#endif
    }
  }
}
