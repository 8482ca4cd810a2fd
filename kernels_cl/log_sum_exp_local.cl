// log(sum(exp(x))) over one dimension of [outer, n, inner] on GPUs, relative to the largest element so far so that
// nothing overflows; groups.h says how a work-group shares lines. The results of parts go through the kernel again.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef Y
#define Y float  // storage type of the result
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(Y, p, i, v)
#endif
#define BLOCK 4  // elements between two looks at the largest one

// NaN is larger than everything, so that it becomes the result.
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
// Differences from an infinite largest element must not be NaN: there may be others, or the result is infinite anyway.
#define SHIFT(m) ((m) - (m) == 0 ? (m) : 0.0f)

kernel GROUP_OF void log_sum_exp_local(const __global X *x, __global Y *y, IDX n, IDX inner, IDX lines, IDX chunk,
                                       int depth, int along EXTRA_ARGS) {
  __local float largest[GROUP], sums[GROUP];
  WHERE_IN_GROUP
  LINE_IN_MEMORY
  ITS_SHARE
  float m = -INFINITY, sum = 0.0f;
  for (IDX i = begin; i < end; i += BLOCK * depth) {
    float v[BLOCK], now = m;
#pragma unroll
    for (int j = 0; j < BLOCK; j++) {
      const IDX at = i + j * depth;
      v[j] = at < end ? LOAD(X, x, base + at * inner) : -INFINITY;
      now = LARGER(now, v[j]);
    }
    const float shift = SHIFT(now);
    sum *= exp(m - shift);
#pragma unroll
    for (int j = 0; j < BLOCK; j++) sum += exp(v[j] - shift);
    m = now;
  }
  largest[id] = m;
  sums[id] = sum;
  TREE(
    const float a = largest[id];
    const float b = largest[other];
    const float both = LARGER(a, b);
    const float shift = SHIFT(both);
    sums[id] = sums[id] * exp(a - shift) + sums[other] * exp(b - shift);
    largest[id] = both;
  )
  m = largest[id];
  if (d == 0 && line < lines) EMIT(y, result + part * inner, (m - m == 0 ? m + log(sums[id]) : m));
}
