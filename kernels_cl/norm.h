// What norm_rows.cl and norm_columns.cl share.

// Offset of linear index i over dimensions first..last.
static inline IDX norm_offset(IDX i, dims_t shape, dims_t strides, int first, int last) {
  IDX at = 0;
  DIMS_DOWN(d, last, first + 1) {
    if (shape.d[d] == 1) continue;
    const IDX above = i / shape.d[d];
    at += (i - above * shape.d[d]) * strides.d[d];
    i = above;
  }
  return at + i * strides.d[first];
}

// For every run of reduced elements i0..i1-1 that lie strides.d[7] apart: `run` of them from element `at` on, the first
// one being number i.
#define FOR_RUNS(base, i0, i1)                                                                            \
  for (IDX i = i0, run, at; i < i1; i += run)                                                             \
    if (run = shape.d[7] < i1 ? shape.d[7] - i % shape.d[7] : i1 - i, run = run < i1 - i ? run : i1 - i,  \
        at = base + (shape.d[7] < i1 ? norm_offset(i / shape.d[7], shape, strides, 4, 6) +                \
                                           i % shape.d[7] * strides.d[7]                                  \
                                     : i * strides.d[7]),                                                 \
        1)

#define NORM_SCALE_ARG CAT2(NORM_SCALE_ARG_, SCALE)
#define NORM_SCALE_ARG_0
#define NORM_SCALE_ARG_1 const __global float *scale,
#define NORM_SCALE_ARG_2 const __global float *scale,
#define NORM_SCALE_PASS CAT2(NORM_SCALE_PASS_, SCALE)
#define NORM_SCALE_PASS_0
#define NORM_SCALE_PASS_1 scale,
#define NORM_SCALE_PASS_2 scale,
#define NORM_BIAS_ARG CAT2(NORM_BIAS_ARG_, BIAS)
#define NORM_BIAS_ARG_0
#define NORM_BIAS_ARG_1 const __global float *bias,
#define NORM_BIAS_ARG_2 const __global float *bias,
#define NORM_BIAS_PASS CAT2(NORM_BIAS_PASS_, BIAS)
#define NORM_BIAS_PASS_0
#define NORM_BIAS_PASS_1 bias,
#define NORM_BIAS_PASS_2 bias,
