// alpha * A B + beta * C for stacks of matrices, without packing: one work-item computes ROWS rows times 16 columns in
// registers. A is float with any strides; the columns of B are contiguous.

#ifndef T
#define T float              // storage type of C and the result
#endif
#ifndef TB
#define TB float             // storage type of B
#endif
#ifndef ROWS
#define ROWS 6               // rows a work-item: 6 or 1
#endif
#ifndef ADD_C
#define ADD_C 0              // 1: C with contiguous columns, 2: C with one column for all
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

#if ROWS == 6
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5)
#else
#define EACH(M) M(0)
#endif
#define BLOCK 256
#if ADD_C
#define C_ARGS const __global T *c, IDX c_row, float beta,
#else
#define C_ARGS
#endif

// The first n of eight elements; the others whatever follows them in the tensor (`total` elements), or zero.
static inline float8 some_columns(const __global TB *b, IDX at, IDX n, IDX total) {
  return at + 8 <= total ? LOAD8(TB, b, at) : LOADN(TB, b, at, n);
}

// size: M, N, K, elements of B. strides: of A's row and column, B's row, the result's row.
// batch, a_batch, b_batch: extents of the leading dimensions, and the strides of A and B along them (0: broadcast).
// Work-items: (block of ROWS rows, block of 16 columns, matrix).
kernel void gemm_direct(const __global float *a, const __global TB *b, C_ARGS __global T *y, float alpha, dims_t size,
                        dims_t strides, int rank, dims_t batch, dims_t a_batch, dims_t b_batch EXTRA_ARGS) {
  const IDX M = size.d[0], N = size.d[1], K = size.d[2];
  const IDX m = (IDX)get_global_id(0) * ROWS, n = (IDX)get_global_id(1) * 16, matrix = get_global_id(2);
  if (m >= M || n >= N) return;
  IDX rest = matrix, a_at = 0, b_at = n;
  DIMS_DOWN(d, rank - 1, 0) {
    const IDX above = rest / batch.d[d], i = rest - above * batch.d[d];
    a_at += i * a_batch.d[d];
    b_at += i * b_batch.d[d];
    rest = above;
  }
  const IDX left = N - n, first = left < 8 ? left : 8, second = left < 16 ? left - 8 : 8;
  const IDX b_second = second > 0 ? 8 : 0;
#define START(r)                                                                   \
  const __global float *a##r = a + a_at + (m + r < M ? m + r : M - 1) * strides.d[0]; \
  float8 x##r = 0, y##r = 0;
  EACH(START)
#define STEP(r)                                     \
  {                                                 \
    const float s = a##r[k * strides.d[1]];         \
    p##r += s * b0, q##r += s * b1;                 \
  }
  // Sums of at most BLOCK products, then sums of these: rounding errors of long sums stay small.
  for (IDX k0 = 0; k0 < K; k0 += BLOCK) {
    const IDX end = K - k0 < BLOCK ? K : k0 + BLOCK;
#define CLEAR(r) float8 p##r = 0, q##r = 0;
    EACH(CLEAR)
    if (second == 8) {
      for (IDX k = k0; k < end; k++, b_at += strides.d[2]) {
        const float8 b0 = LOAD8(TB, b, b_at), b1 = LOAD8(TB, b, b_at + 8);
        EACH(STEP)
      }
    } else {
      for (IDX k = k0; k < end; k++, b_at += strides.d[2]) {
        const float8 b0 = some_columns(b, b_at, first, size.d[3]);
        const float8 b1 = some_columns(b, b_at + b_second, second > 0 ? second : first, size.d[3]);
        EACH(STEP)
      }
    }
#define COLLECT(r) x##r += p##r, y##r += q##r;
    EACH(COLLECT)
  }
  const IDX at = (matrix * M + m) * strides.d[3] + n;
#if ADD_C == 1
#define PLUS_C(r, v, o, count) \
  v += beta * ((count) == 8 ? LOAD8(T, c, (m + r) * c_row + n + o) : LOADN(T, c, (m + r) * c_row + n + o, count));
#elif ADD_C == 2
#define PLUS_C(r, v, o, count) v += beta * LOAD(T, c, (m + r) * c_row);
#else
#define PLUS_C(r, v, o, count)
#endif
#define PUT(r, v, o, count)                             \
  if ((count) > 0) {                                    \
    v *= alpha;                                         \
    PLUS_C(r, v, o, count)                              \
    if ((count) == 8) {                                 \
      EMIT8(y, at + r * strides.d[3] + o, v);           \
    } else {                                            \
      EMITN(y, at + r * strides.d[3] + o, count, v);    \
    }                                                   \
  }
#define FINISH(r)              \
  if (m + r < M) {             \
    PUT(r, x##r, 0, first)     \
    PUT(r, y##r, 8, second)    \
  }
  EACH(FINISH)
}
