// Layer and instance normalization: mean and variance of each group of elements, then (x - mean) / sqrt(variance + eps)
// * scale + bias. The tensor is seen as kept and reduced dimensions; scale and bias are float.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef COLUMNS
#define COLUMNS 0            // 0: the innermost dimension is reduced, a work-item has one group and walks along it;
#endif                       // 1: it is kept, a work-item has the groups of eight neighbouring columns
#ifndef STAGE
#define STAGE 0              // 0: everything at once; few or long groups are cut into chunks: sums of chunks (1),
#endif                       // their combination (2), application (3)
#ifndef SCALE
#define SCALE 0              // scale is indexed 1 by channel (a kept dimension), 2 by reduced element; 0: none
#endif
#ifndef BIAS
#define BIAS 0               // the same for bias
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif
#ifndef EMIT
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

#if COLUMNS
#define STAT float8          // a statistic of each lane's group
#define GET_STAT(p, i) ALOAD8(float, p, (i) * 8)
#define PUT_STAT(p, i, v) ASTORE8(float, p, (i) * 8, v)
#else
#define STAT float
#define GET_STAT(p, i) (p)[i]
#define PUT_STAT(p, i, v) (p)[i] = v
#endif
#if SCALE
#define SCALE_ARG const __global float *scale,
#define SCALE_PASS scale,
#else
#define SCALE_ARG
#define SCALE_PASS
#endif
#if BIAS
#define BIAS_ARG const __global float *bias,
#define BIAS_PASS bias,
#else
#define BIAS_ARG
#define BIAS_PASS
#endif

// Offset of linear index i over dimensions first..last.
static inline IDX offset_of(IDX i, dims_t shape, dims_t strides, int first, int last) {
  IDX at = 0;
  for (int d = last; d > first; d--) {
    if (shape.d[d] == 1) continue;
    const IDX above = i / shape.d[d];
    at += (i - above * shape.d[d]) * strides.d[d];
    i = above;
  }
  return at + i * strides.d[first];
}

// For every run of reduced elements i0..i1-1 that lie `strides.d[7]` apart: `run` of them from element `at` on, the
// first one being number i.
#define FOR_RUNS(base)                                                                        \
  for (IDX i = i0, run, at; i < i1; i += run)                                                 \
    if (run = shape.d[7] - i % shape.d[7], run = run < i1 - i ? run : i1 - i,                 \
        at = base + offset_of(i / shape.d[7], shape, strides, 4, 6) + i % shape.d[7] * strides.d[7], 1)

// Sums of blocks are added with compensation, so that long sums stay as exact as short ones.
#define COMPENSATED(total, lost, part) \
  {                                    \
    const float8 p_ = (part) - lost;   \
    const float8 t_ = total + p_;      \
    lost = (t_ - total) - p_;          \
    total = t_;                        \
  }

// Sum over reduced elements i0..i1-1 of x, or of (x - mean)^2 when `squares`.
#if COLUMNS
#define COLUMN(at) ((at) + 8 <= limit ? LOAD8(T, x, at) : LOADN(T, x, at, lanes))
static inline float8 sum_of(const __global T *x, IDX base, IDX i0, IDX i1, dims_t shape, dims_t strides, IDX lanes,
                            IDX limit, float8 mean, int squares) {
  float8 total = 0, lost = 0;
  FOR_RUNS(base) {
    for (IDX j = 0; j < run; j += 64) {
      const IDX end = run - j < 64 ? run : j + 64;
      float8 part = 0;
      for (IDX k = j; k < end; k++) {
        const float8 v = COLUMN(at + k * strides.d[7]) - mean;
        part += squares ? v * v : v;
      }
      COMPENSATED(total, lost, part)
    }
  }
  return total;
}
#else
#define TERM(v) (squares ? ((v) - mean) * ((v) - mean) : (v))
static inline float sum_of(const __global T *x, IDX base, IDX i0, IDX i1, dims_t shape, dims_t strides, IDX lanes,
                           IDX limit, float mean, int squares) {
  float8 total = 0, lost = 0;
  FOR_RUNS(base) {
    for (IDX j = 0; j < run; j += 2048) {
      const IDX end = run - j < 2048 ? run : j + 2048;
      float8 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      IDX k = j;
      for (; k + 32 <= end; k += 32) {
        const float8 v0 = LOAD8(T, x, at + k), v1 = LOAD8(T, x, at + k + 8);
        const float8 v2 = LOAD8(T, x, at + k + 16), v3 = LOAD8(T, x, at + k + 24);
        s0 += TERM(v0), s1 += TERM(v1), s2 += TERM(v2), s3 += TERM(v3);
      }
      for (; k + 8 <= end; k += 8) {
        const float8 v0 = LOAD8(T, x, at + k);
        s0 += TERM(v0);
      }
      if (k < end) {
        const float8 v0 = LOADN(T, x, at + k, end - k);
        s1 += SEL8((float8)(0), TERM(v0), (int8)(0, 1, 2, 3, 4, 5, 6, 7) < (int8)(end - k));
      }
      COMPENSATED(total, lost, (s0 + s1) + (s2 + s3))
    }
  }
  const float4 four = total.lo + total.hi;
  const float2 two = four.lo + four.hi;
  return two.x + two.y;
}
#endif

// Normalize reduced elements i0..i1-1.
static inline void apply(const __global T *x, SCALE_ARG BIAS_ARG __global T *y, IDX base, IDX i0, IDX i1, dims_t shape,
                         dims_t strides, IDX lanes, IDX limit, IDX channel, STAT mean, STAT factor EXTRA_ARGS) {
#if COLUMNS
#if SCALE == 1
  const float8 s = lanes == 8 ? LOAD8(float, scale, channel) : LOADN(float, scale, channel, lanes);
#endif
#if BIAS == 1
  const float8 b = lanes == 8 ? LOAD8(float, bias, channel) : LOADN(float, bias, channel, lanes);
#endif
  FOR_RUNS(base) {
    for (IDX k = 0; k < run; k++) {
      float8 v = (COLUMN(at + k * strides.d[7]) - mean) * factor;
#if SCALE == 1
      v *= s;
#elif SCALE == 2
      v *= scale[i + k];
#endif
#if BIAS == 1
      v += b;
#elif BIAS == 2
      v += bias[i + k];
#endif
      if (lanes == 8) {
        EMIT8(y, at + k * strides.d[7], v);
      } else {
        EMITN(y, at + k * strides.d[7], lanes, v);
      }
    }
  }
#else
#if SCALE == 1
#define SCALED(v, k, GET) v *= scale[channel];
#elif SCALE == 2
#define SCALED(v, k, GET) v *= GET(scale, i + k);
#else
#define SCALED(v, k, GET)
#endif
#if BIAS == 1
#define SHIFTED(v, k, GET) v += bias[channel];
#elif BIAS == 2
#define SHIFTED(v, k, GET) v += GET(bias, i + k);
#else
#define SHIFTED(v, k, GET)
#endif
#define ALL(p, i) LOAD8(float, p, i)
#define SOME(p, i) LOADN(float, p, i, run - k)
  FOR_RUNS(base) {
    IDX k = 0;
    for (; k + 8 <= run; k += 8) {
      float8 v = (LOAD8(T, x, at + k) - mean) * factor;
      SCALED(v, k, ALL)
      SHIFTED(v, k, ALL)
      EMIT8(y, at + k, v);
    }
    if (k < run) {
      float8 v = (LOADN(T, x, at + k, run - k) - mean) * factor;
      SCALED(v, k, SOME)
      SHIFTED(v, k, SOME)
      EMITN(y, at + k, run - k, v);
    }
  }
#endif
}

// shape, strides of x: kept dimensions d[0..3], reduced dimensions d[4..7], outermost first, ones in front; with COLUMNS
// d[3] is the innermost, else d[7]. sizes: reduced elements, groups or blocks of eight groups, channels, elements of x,
// elements a chunk, chunks. Work-items: groups (stage 0 and 2), chunks and groups (1 and 3).
#if COLUMNS
#define WHERE                                                                                   \
  const IDX blocks = (shape.d[3] + 7) / 8, outer = group / blocks, column = (group - outer * blocks) * 8; \
  const IDX lanes = shape.d[3] - column < 8 ? shape.d[3] - column : 8, channel = column;        \
  const IDX base = offset_of(outer, shape, strides, 0, 2) + column;
#else
#define WHERE                                                      \
  const IDX lanes = 8, channel = group % sizes.d[2];               \
  const IDX base = offset_of(group, shape, strides, 0, 3);
#endif
#define CHUNK                                                                             \
  const IDX i0 = (IDX)get_global_id(0) * sizes.d[4];                                      \
  const IDX i1 = i0 + sizes.d[4] < sizes.d[0] ? i0 + sizes.d[4] : sizes.d[0];

#if STAGE == 0
kernel void norm_all(const __global T *x, SCALE_ARG BIAS_ARG __global T *y, dims_t shape, dims_t strides, dims_t sizes,
                     float eps EXTRA_ARGS) {
  const IDX group = get_global_id(0), n = sizes.d[0];
  if (group >= sizes.d[1]) return;
  WHERE
  const STAT mean = sum_of(x, base, 0, n, shape, strides, lanes, sizes.d[3], 0, 0) / (float)n;
  const STAT variance = sum_of(x, base, 0, n, shape, strides, lanes, sizes.d[3], mean, 1) / (float)n;
  const STAT factor = 1.0f / sqrt(variance + eps);
  apply(x, SCALE_PASS BIAS_PASS y, base, 0, n, shape, strides, lanes, sizes.d[3], channel, mean, factor EXTRA_PASS);
}
#elif STAGE == 1
// parts: mean and sum of squared deviations of each chunk.
kernel void norm_chunks(const __global T *x, __global float *parts, dims_t shape, dims_t strides, dims_t sizes) {
  const IDX group = get_global_id(1);
  WHERE
  CHUNK
  const STAT mean = sum_of(x, base, i0, i1, shape, strides, lanes, sizes.d[3], 0, 0) / (float)(i1 - i0);
  const IDX part = (group * sizes.d[5] + (IDX)get_global_id(0)) * 2;
  PUT_STAT(parts, part, mean);
  PUT_STAT(parts, part + 1, sum_of(x, base, i0, i1, shape, strides, lanes, sizes.d[3], mean, 1));
}
#elif STAGE == 2
// stats: mean and 1 / sqrt(variance + eps) of each group.
kernel void norm_combine(const __global float *parts, __global float *stats, dims_t sizes, float eps) {
  const IDX group = get_global_id(0);
  const IDX last = sizes.d[5] - 1;
  const float count = sizes.d[4], n = sizes.d[0], last_count = sizes.d[0] - last * sizes.d[4];
  STAT mean = 0, lost = 0, squares = 0;
  const __global float *from = parts + group * sizes.d[5] * 2 * (sizeof(STAT) / sizeof(float));
  for (IDX chunk = 0; chunk <= last; chunk++) {
    const STAT share = GET_STAT(from, chunk * 2) * ((chunk < last ? count : last_count) / n) - lost, next = mean + share;
    lost = (next - mean) - share;
    mean = next;
  }
  for (IDX chunk = 0; chunk <= last; chunk++) {
    const STAT distance = GET_STAT(from, chunk * 2) - mean;
    squares += GET_STAT(from, chunk * 2 + 1) + distance * distance * (chunk < last ? count : last_count);
  }
  PUT_STAT(stats, group * 2, mean);
  PUT_STAT(stats, group * 2 + 1, 1.0f / sqrt(squares / n + eps));
}
#else
kernel void norm_apply(const __global T *x, SCALE_ARG BIAS_ARG __global T *y, const __global float *stats, dims_t shape,
                       dims_t strides, dims_t sizes EXTRA_ARGS) {
  const IDX group = get_global_id(1);
  WHERE
  CHUNK
  apply(x, SCALE_PASS BIAS_PASS y, base, i0, i1, shape, strides, lanes, sizes.d[3], channel,
        GET_STAT(stats, group * 2), GET_STAT(stats, group * 2 + 1) EXTRA_PASS);
}
#endif
