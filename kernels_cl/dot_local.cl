// Products with few rows (or, swapped, few columns) on GPUs, bound by reading the large operand: y[b, r, c] = alpha * sum
// over k of a[b, r, k] * w[b, k, c] + beta * c[r, c], accumulated in float32. A line (groups.h) is one column of w and
// ROWS rows of a; deep products with few results are cut along k, and split_sum.cl finishes them.

#ifndef T
#define T float  // storage type of the operands and of the result
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef ROWS
#define ROWS 1   // rows of a line
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef HAS_C
#define HAS_C 0
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(y, i, v) STORE(T, y, i, v)
#endif
#define BLOCK 8  // loads in flight at a time, and products added before they meet the sum

// strides: of a (row, k), w (k, column) and y (row, column), in elements. lines: matrices x blocks of rows x N.
kernel GROUP_OF void dot_local(const __global T *a, const __global T *w, ADDEND_ARGS RESULT_OR_PART,
                               IDX M, IDX N, IDX n,
                               dims_t strides, int batch_rank, dims_t batch, dims_t a_step, dims_t w_step, float alpha,
                               IDX lines, IDX chunk, int depth, int along EXTRA_ARGS) {
  __local float shared[GROUP];
  WHERE_IN_GROUP
  ITS_SHARE
  const IDX blocks = (M + ROWS - 1) / ROWS, above = line / N, column = line - above * N, matrix = above / blocks;
  const IDX row = (above - matrix * blocks) * ROWS;
  IDX rest = line < lines ? matrix : 0, a_at = 0, w_at = column * strides.d[3];
  DIMS_DOWN(k, batch_rank - 1, 0) {
    const IDX over = rest / batch.d[k], at = rest - over * batch.d[k];
    a_at += at * a_step.d[k];
    w_at += at * w_step.d[k];
    rest = over;
  }
  float sums[ROWS];
  IDX rows[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    sums[r] = 0.0f;
    rows[r] = a_at + (row + r < M ? row + r : M - 1) * strides.d[0];
  }
  for (IDX i = begin; i < end; i += BLOCK * depth) {
    float block[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) block[r] = 0.0f;
#pragma unroll
    for (int j = 0; j < BLOCK; j++) {
      const IDX k = i + j * depth;
      if (k < end) {
        const float v = LOAD(T, w, w_at + k * strides.d[2]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) block[r] += LOAD(T, a, rows[r] + k * strides.d[1]) * v;
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) sums[r] += block[r];
  }
  for (int r = 0; r < ROWS; r++) {
    JOIN_LINE(total, shared, sums[r], ADD_OTHER)
    if (d == 0 && line < lines && row + r < M) {
      const IDX at = matrix * M * N + (row + r) * strides.d[4] + column * strides.d[5];
#if SPLIT
      y[part * (lines / (blocks * N)) * M * N + at] = total;
#else
      EMIT(y, at, (alpha * total ADDEND(row + r, column)));
#endif
    }
  }
}
