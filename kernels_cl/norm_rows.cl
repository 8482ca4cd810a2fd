// Layer and instance normalization where the innermost dimension is reduced: (x - mean) / sqrt(variance + eps) * scale
// + bias, mean and variance of each group of elements. Scale and bias are float.
//
// shape, strides of x: kept dimensions d[0..3], reduced dimensions d[4..7], outermost first, ones in front; d[7] lies
// contiguously. sizes: reduced elements, groups, channels (group modulo channels is the channel), reduced elements a
// chunk, chunks, groups a work-item. CENTRED 0: the mean counts as 0.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef STAGE
#define STAGE 0              // 0: everything at once; few or long groups are cut into chunks: sums of chunks (1),
#endif                       // their combination (2), application (3)
#ifndef SCALE
#define SCALE 0              // scale is indexed 1 by channel, 2 by reduced element; 0: none
#endif
#ifndef BIAS
#define BIAS 0               // the same for bias
#endif
#ifndef ROWS
#define ROWS 1               // groups that are normalized side by side, sharing the loads of scale and bias: 1 or 4
#endif
#ifndef CENTRED
#define CENTRED 1
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EXTRA_PASS
#define EXTRA_PASS
#endif
#ifndef EMIT
#ifdef PAST  // T is float and the result is too large for the caches
#define EMIT8(p, i, v) STORE8_PAST(p, i, v)
#else
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#endif
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

static inline float sum_lanes(float8 v) {
  const float4 four = v.lo + v.hi;
  const float2 two = four.lo + four.hi;
  return two.x + two.y;
}

// Sums of x - shift and of its square over reduced elements i0..i1-1, in blocks so that long sums stay exact.
static inline void sums_of(const __global T *x, IDX base, IDX i0, IDX i1, dims_t shape, dims_t strides, float shift,
                           float *sum, float *squares) {
  float8 total = 0, total_squares = 0;
  FOR_RUNS(base, i0, i1) {
    const __global T *p = x + at;
    for (IDX j = 0; j < run; j += 2048) {
      const IDX end = run - j < 2048 ? run : j + 2048;
      float8 s0 = 0, s1 = 0, s2 = 0, s3 = 0, q0 = 0, q1 = 0, q2 = 0, q3 = 0;
#define TAKE(n, o)                                       \
  {                                                      \
    const float8 d = LOAD8(T, p, k + o) - shift;         \
    s##n += d, q##n += d * d;                            \
  }
      IDX k = j;
      for (; k + 32 <= end; k += 32) {
        TAKE(0, 0)
        TAKE(1, 8)
        TAKE(2, 16)
        TAKE(3, 24)
      }
      for (; k + 8 <= end; k += 8) TAKE(0, 0)
      if (k < end) {
        const int8 there = (int8)(0, 1, 2, 3, 4, 5, 6, 7) < (int8)(end - k);
        const float8 d = SEL8((float8)(0), LOADN(T, p, k, end - k) - shift, there);
        s1 += d, q1 += d * d;
      }
      total += (s0 + s1) + (s2 + s3);
      total_squares += (q0 + q1) + (q2 + q3);
    }
  }
  *sum = sum_lanes(total);
  *squares = sum_lanes(total_squares);
}

// Of reduced elements i0..i1-1: a guess of the mean (that of the first few), how far the mean is from it, and the sum
// of squared deviations from the mean; one pass. Where the guess was so bad that squares cancel, a second one.
static inline void statistics(const __global T *x, IDX base, IDX i0, IDX i1, dims_t shape, dims_t strides, float *guess,
                              float *distance, float *deviations) {
  float sum, squares;
#if !CENTRED
  sums_of(x, base, i0, i1, shape, strides, 0, &sum, deviations);
  *guess = *distance = 0;
#else
  FOR_RUNS(base, i0, i0 + 1) {
    const IDX few = i1 - i0 < shape.d[7] - i0 % shape.d[7] ? i1 - i0 : shape.d[7] - i0 % shape.d[7];
    *guess = few >= 8 ? sum_lanes(LOAD8(T, x, at) * 0.125f) : LOAD(T, x, at);
  }
  sums_of(x, base, i0, i1, shape, strides, *guess, &sum, &squares);
  *distance = sum / (float)(i1 - i0);
  *deviations = squares - sum * *distance;
  if (!(sum * *distance <= *deviations)) {
    *guess += *distance;
    sums_of(x, base, i0, i1, shape, strides, *guess, &sum, &squares);
    *distance = sum / (float)(i1 - i0);
    *deviations = squares - sum * *distance;
  }
#endif
}

#define UNROLLED(r) _Pragma("unroll") for (int r = 0; r < ROWS; r++)

// Normalizes reduced elements i0..i1-1 of groups that begin at `base`. All loads of a round come before its stores: a
// store and the next load that lie a multiple of 4096 bytes apart would be taken for the same by many processors.
static inline void apply(const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, const IDX *base, IDX i0,
                         IDX i1, dims_t shape, dims_t strides, const float *guess, const float *distance,
                         const float *factor, const float *shift EXTRA_ARGS) {
#if SCALE == 2
#define SCALED(v) (v) * s
#define GET_SCALE(GET) const float8 s = GET(scale, i + k);
#else
#define SCALED(v) (v)
#define GET_SCALE(GET)
#endif
#if BIAS == 1
#define SHIFTED(v) (v) + shift[r]
#define GET_BIAS(GET)
#elif BIAS == 2
#define SHIFTED(v) (v) + b
#define GET_BIAS(GET) const float8 b = GET(bias, i + k);
#else
#define SHIFTED(v) (v)
#define GET_BIAS(GET)
#endif
#define NORMAL(x) (SHIFTED(SCALED((((x) - guess[r]) - distance[r]) * factor[r])))
#define ALL(p, i) LOAD8(float, p, i)
#define SOME(p, i) LOADN(float, p, i, run - k)
  FOR_RUNS(0, i0, i1) {
    IDX k = 0;
    for (; k + 8 <= run; k += 8) {
      UNROLLED(r) FETCH(x + base[r] + ROWS * (i1 - i0) + at + k);  // the next groups, while these are computed
      GET_SCALE(ALL)
      GET_BIAS(ALL)
      float8 v[ROWS];
      UNROLLED(r) v[r] = NORMAL(LOAD8(T, x, base[r] + at + k));
      UNROLLED(r) EMIT8(y, base[r] + at + k, v[r]);
    }
    if (k < run) {
      GET_SCALE(SOME)
      GET_BIAS(SOME)
      for (int r = 0; r < ROWS; r++) {
        const float8 v = NORMAL(LOADN(T, x, base[r] + at + k, run - k));
        EMITN(y, base[r] + at + k, run - k, v);
      }
    }
  }
}

// What its channel adds to factor and shift of row r, group `g`.
#if SCALE == 1
#define CHANNEL_SCALE(r, g) factor[r] *= scale[(g) % sizes.d[2]];
#else
#define CHANNEL_SCALE(r, g)
#endif
#if BIAS == 1
#define CHANNEL_BIAS(r, g) shift[r] = bias[(g) % sizes.d[2]];
#else
#define CHANNEL_BIAS(r, g)
#endif

#define CHUNK                                                                             \
  if (chunk >= sizes.d[4]) return;                                                        \
  const IDX base = norm_offset(group, shape, strides, 0, 3), i0 = chunk * sizes.d[3];     \
  const IDX i1 = i0 + sizes.d[3] < sizes.d[0] ? i0 + sizes.d[3] : sizes.d[0];

#if STAGE == 0
#define ARGS                                                                                                        \
  const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, dims_t shape, dims_t strides, dims_t sizes, float eps
static inline OUTLINE void norm_rows_item(IDX item, ARGS EXTRA_ARGS) {
  const IDX first = item * sizes.d[5], n = sizes.d[0];
  const IDX end = first + sizes.d[5] < sizes.d[1] ? first + sizes.d[5] : sizes.d[1];
  for (IDX group = first; group < end; group += ROWS) {
    IDX base[ROWS];
    float guess[ROWS], distance[ROWS], factor[ROWS], shift[ROWS];
    for (int r = 0; r < ROWS; r++) {
      // Rows that are missing at the end are the last one again.
      const IDX g = group + r < end ? group + r : end - 1;
      base[r] = norm_offset(g, shape, strides, 0, 3);
      float deviations;
      statistics(x, base[r], 0, n, shape, strides, &guess[r], &distance[r], &deviations);
      factor[r] = 1.0f / sqrt(deviations / (float)n + eps);
      CHANNEL_SCALE(r, g)
      CHANNEL_BIAS(r, g)
    }
    apply(x, NORM_SCALE_PASS NORM_BIAS_PASS y, base, 0, n, shape, strides, guess, distance, factor, shift
          EXTRA_PASS);
  }
}

// Work-items: runs of sizes.d[5] groups.
kernel void norm_rows(ARGS EXTRA_ARGS) {
  norm_rows_item(get_global_id(0), x, NORM_SCALE_PASS NORM_BIAS_PASS y, shape, strides, sizes, eps EXTRA_PASS);
}
#elif STAGE == 1
static inline OUTLINE void norm_rows_chunk(IDX chunk, IDX group, const __global T *x, __global float *parts,
                                           dims_t shape, dims_t strides, dims_t sizes) {
  CHUNK
  float guess, distance, deviations;
  statistics(x, base, i0, i1, shape, strides, &guess, &distance, &deviations);
  const IDX part = (group * sizes.d[4] + chunk) * 2;
  parts[part] = guess + distance;
  parts[part + 1] = deviations;
}

// parts: mean and sum of squared deviations of each chunk. Work-items: (chunk, group).
kernel void norm_rows_chunks(const __global T *x, __global float *parts, dims_t shape, dims_t strides, dims_t sizes) {
  norm_rows_chunk(get_global_id(0), get_global_id(1), x, parts, shape, strides, sizes);
}
#elif STAGE == 2
// stats: mean, its rounding error, and 1 / sqrt(variance + eps) of each group. Work-items: groups.
kernel void norm_rows_combine(const __global float *parts, __global float *stats, dims_t sizes, float eps) {
  const IDX group = get_global_id(0), last = sizes.d[4] - 1;
  if (group >= sizes.d[1]) return;
  const float n = sizes.d[0], count = sizes.d[3], last_count = sizes.d[0] - last * sizes.d[3];
  const __global float *from = parts + group * sizes.d[4] * 2;
  float mean = 0, lost = 0, deviations = 0;
  for (IDX chunk = 0; chunk <= last; chunk++) {
    const float share = from[chunk * 2] * ((chunk < last ? count : last_count) / n) - lost, next = mean + share;
    lost = (next - mean) - share;
    mean = next;
  }
  for (IDX chunk = 0; chunk <= last; chunk++) {
    const float distance = from[chunk * 2] - mean;
    deviations += from[chunk * 2 + 1] + distance * distance * (chunk < last ? count : last_count);
  }
  stats[group * 3] = mean;
  stats[group * 3 + 1] = -lost;
  stats[group * 3 + 2] = 1.0f / sqrt(deviations / n + eps);
}
#else
#define ARGS                                                                                                   \
  const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, const __global float *stats, dims_t shape,   \
      dims_t strides, dims_t sizes
static inline OUTLINE void norm_rows_apply_item(IDX chunk, IDX group, ARGS EXTRA_ARGS) {
  CHUNK
  const float guess = stats[group * 3], distance = stats[group * 3 + 1];
  float factor[1] = {stats[group * 3 + 2]}, shift[1];
  CHANNEL_SCALE(0, group)
  CHANNEL_BIAS(0, group)
  apply(x, NORM_SCALE_PASS NORM_BIAS_PASS y, &base, i0, i1, shape, strides, &guess, &distance, factor, shift
        EXTRA_PASS);
}

// Work-items: (chunk, group).
kernel void norm_rows_apply(ARGS EXTRA_ARGS) {
  norm_rows_apply_item(get_global_id(0), get_global_id(1), x, NORM_SCALE_PASS NORM_BIAS_PASS y, stats, shape, strides,
                       sizes EXTRA_PASS);
}
#endif
