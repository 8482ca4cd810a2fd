// Layer and instance normalization where the innermost dimension is kept: (x - mean) / sqrt(variance + eps) * scale
// + bias, mean and variance of each group of elements, a group being a column. Scale and bias are float. A work-item
// walks row by row over neighbouring columns, so that memory is read as it lies.
//
// shape, strides of x: kept dimensions d[0..3], reduced dimensions d[4..7], outermost first, ones in front; d[3] lies
// contiguously. sizes: reduced elements, elements of x, columns rounded up to 8, reduced elements a chunk, chunks,
// columns a work-item (a multiple of 8 up to 8 VECTORS). CENTRED 0: the mean counts as 0.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef STAGE
#define STAGE 0              // 0: everything at once; few or long groups are cut into chunks: sums of chunks (1),
#endif                       // their combination (2), application (3)
#ifndef SCALE
#define SCALE 0              // scale is indexed 1 by column, 2 by reduced element; 0: none
#endif
#ifndef BIAS
#define BIAS 0               // the same for bias
#endif
#ifndef VECTORS
#define VECTORS 64           // of eight columns, at most, a work-item
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

// A line of each of the next four rows, whose places the hardware does not foresee.
#define FETCH_ROWS(p, step) \
  {                         \
    FETCH(p);               \
    FETCH((p) + (step));     \
    FETCH((p) + 2 * (step)); \
    FETCH((p) + 3 * (step)); \
  }

#define COLUMNS shape.d[3]
#define TOTAL sizes.d[1]
#define PITCH sizes.d[2]

// Columns from `column` on, in `full` whole vectors and `lanes` columns more, of outer index `outer`.
#define BLOCK                                                                                                       \
  const IDX column = block * sizes.d[5];                                                                            \
  const IDX base = norm_offset(outer, shape, strides, 0, 2) + column;                                               \
  const int columns = COLUMNS - column < sizes.d[5] ? COLUMNS - column : sizes.d[5], full = columns / 8;              \
  const int lanes = columns % 8, count = full + (lanes > 0);
// The last vector of a row: of its columns only those that there are matter.
#define GET_LAST(at) ((at) + 8 <= TOTAL ? LOAD8(T, x, at) : LOADN(T, x, at, lanes))

// Adds d and d * d, d = x - guess, to distance[v] and deviations[v]: of one row, or of four, pairwise.
#define TAKE1(v, x0)                            \
  {                                             \
    const float8 d = (x0) - guess[v];           \
    distance[v] += d, deviations[v] += d * d;   \
  }
#define TAKE4(v, x0, x1, x2, x3)                                                                        \
  {                                                                                                     \
    const float8 d0 = (x0) - guess[v], d1 = (x1) - guess[v], d2 = (x2) - guess[v], d3 = (x3) - guess[v]; \
    distance[v] += (d0 + d1) + (d2 + d3);                                                               \
    deviations[v] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);                                         \
  }

// Of reduced elements i0..i1-1: a guess of the mean (the first element), how far the mean is from it, and the sum of
// squared deviations from the mean; one pass. Where a guess was so bad that squares cancel, a second one.
static inline void statistics(const __global T *x, IDX base, int full, int lanes, IDX i0, IDX i1, dims_t shape,
                              dims_t strides, dims_t sizes, float8 *guess, float8 *distance, float8 *deviations) {
  const int count = full + (lanes > 0);
#if !CENTRED
  for (int v = 0; v < count; v++) guess[v] = 0;
#else
  FOR_RUNS(base, i0, i0 + 1) {
    for (int v = 0; v < full; v++) guess[v] = LOAD8(T, x, at + v * 8);
    if (lanes) guess[full] = GET_LAST(at + full * 8);
  }
#endif
  for (int again = 0; again < 2; again++) {
    for (int v = 0; v < count; v++) distance[v] = 0, deviations[v] = 0;
    FOR_RUNS(base, i0, i1) {
      const IDX step = strides.d[7];
      for (IDX k = 0; k < run; k += 4) {
        const IDX left = run - k, row = at + k * step;
        const __global T *p = x + row;
        if (left >= 4) {
          for (int v = 0; v < full; v++) {
            if (v % 2 == 0) FETCH_ROWS(p + 4 * step + v * 8, step)
            TAKE4(v, LOAD8(T, p, v * 8), LOAD8(T, p, step + v * 8), LOAD8(T, p, 2 * step + v * 8),
                  LOAD8(T, p, 3 * step + v * 8))
          }
        } else {
          for (int r = 0; r < left; r++)
            for (int v = 0; v < full; v++) TAKE1(v, LOAD8(T, p, r * step + v * 8))
        }
        if (lanes)
          for (int r = 0; r < 4 && r < left; r++) TAKE1(full, GET_LAST(row + r * step + full * 8))
      }
    }
#if !CENTRED
    for (int v = 0; v < count; v++) distance[v] = 0;
    return;
#endif
    int8 bad = 0;
    for (int v = 0; v < count; v++) {
      const float8 sum = distance[v];
      distance[v] = sum / (float)(i1 - i0);
      deviations[v] -= sum * distance[v];
      bad |= ~(sum * distance[v] <= 8.0f * deviations[v]);
    }
    if (as_ulong(convert_char8(bad)) == 0 || again) return;
    for (int v = 0; v < count; v++) guess[v] += distance[v];
  }
}

// Normalizes reduced elements i0..i1-1.
static inline void apply(const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, IDX base, IDX column,
                         int full, int lanes, IDX i0, IDX i1, dims_t shape, dims_t strides, dims_t sizes,
                         const float8 *guess, const float8 *distance, float8 *factor EXTRA_ARGS) {
#if SCALE == 1
  for (int v = 0; v < full; v++) factor[v] *= LOAD8(float, scale, column + v * 8);
  if (lanes) factor[full] *= LOADN(float, scale, column + full * 8, lanes);
#endif
#if BIAS == 1
  float8 shift[VECTORS];
  for (int v = 0; v < full; v++) shift[v] = LOAD8(float, bias, column + v * 8);
  if (lanes) shift[full] = LOADN(float, bias, column + full * 8, lanes);
#endif
#if SCALE == 2
#define SCALED(v, k) (v) * scale[k]
#else
#define SCALED(v, k) (v)
#endif
#if BIAS == 1
#define SHIFTED(v, k, n) (v) + shift[n]
#elif BIAS == 2
#define SHIFTED(v, k, n) (v) + bias[k]
#else
#define SHIFTED(v, k, n) (v)
#endif
#define NORMAL(x, k, n) (SHIFTED(SCALED((((x) - guess[n]) - distance[n]) * factor[n], k), k, n))
  FOR_RUNS(base, i0, i1) {
    const IDX step = strides.d[7];
    for (IDX k = 0; k < run; k += 2) {
      const IDX row = at + k * step;
      const int both = k + 1 < run;
      for (int v = 0; v < full; v++) {
        if (v % 2 == 0 && k % 4 == 0) FETCH_ROWS(x + row + 4 * step + v * 8, step)
        const float8 first = NORMAL(LOAD8(T, x, row + v * 8), i + k, v);
        EMIT8(y, row + v * 8, first);
        if (both) {
          const float8 second = NORMAL(LOAD8(T, x, row + step + v * 8), i + k + 1, v);
          EMIT8(y, row + step + v * 8, second);
        }
      }
      if (lanes)
        for (int r = 0; r <= both; r++) {
          const IDX last = row + r * step + full * 8;
          const float8 value = NORMAL(GET_LAST(last), i + k + r, full);
          EMITN(y, last, lanes, value);
        }
    }
  }
}

#define CHUNK                                                \
  const IDX i0 = chunk * sizes.d[3];                         \
  const IDX i1 = i0 + sizes.d[3] < sizes.d[0] ? i0 + sizes.d[3] : sizes.d[0];

#if STAGE == 0
#define ARGS                                                                                                        \
  const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, dims_t shape, dims_t strides, dims_t sizes, float eps
static inline OUTLINE void norm_columns_item(IDX block, IDX outer, ARGS EXTRA_ARGS) {
  BLOCK
  if (columns <= 0) return;
  const IDX n = sizes.d[0];
  float8 guess[VECTORS], distance[VECTORS], factor[VECTORS];
  statistics(x, base, full, lanes, 0, n, shape, strides, sizes, guess, distance, factor);
  for (int v = 0; v < count; v++) factor[v] = 1.0f / sqrt(factor[v] / (float)n + eps);
  apply(x, NORM_SCALE_PASS NORM_BIAS_PASS y, base, column, full, lanes, 0, n, shape, strides, sizes, guess, distance,
        factor EXTRA_PASS);
}

// Work-items: (block of columns, 1, outer).
kernel void norm_columns(ARGS EXTRA_ARGS) {
  norm_columns_item(get_global_id(0), get_global_id(2), x, NORM_SCALE_PASS NORM_BIAS_PASS y, shape, strides, sizes,
                    eps EXTRA_PASS);
}
#elif STAGE == 1
static inline OUTLINE void norm_columns_chunk(IDX block, IDX chunk, IDX outer, const __global T *x,
                                              __global float *parts, dims_t shape, dims_t strides, dims_t sizes) {
  BLOCK
  CHUNK
  if (columns <= 0) return;
  float8 guess[VECTORS], distance[VECTORS], deviations[VECTORS];
  statistics(x, base, full, lanes, i0, i1, shape, strides, sizes, guess, distance, deviations);
  __global float *to = parts + (outer * sizes.d[4] + chunk) * 2 * PITCH + column;
  for (int v = 0; v < count; v++) {
    ASTORE8(float, to, v * 8, guess[v] + distance[v]);
    ASTORE8(float, to, PITCH + v * 8, deviations[v]);
  }
}

// parts: [outer][chunk][mean, sum of squared deviations][column]. Work-items: (block of columns, chunk, outer).
kernel void norm_columns_chunks(const __global T *x, __global float *parts, dims_t shape, dims_t strides,
                                dims_t sizes) {
  norm_columns_chunk(get_global_id(0), get_global_id(1), get_global_id(2), x, parts, shape, strides, sizes);
}
#elif STAGE == 2
// stats: [outer][mean, its rounding error, 1 / sqrt(variance + eps)][column]. Work-items: (eight columns, outer).
kernel void norm_columns_combine(const __global float *parts, __global float *stats, dims_t sizes, float eps) {
  const IDX column = (IDX)get_global_id(0) * 8, outer = get_global_id(1), last = sizes.d[4] - 1;
  if (column >= PITCH) return;
  const float n = sizes.d[0], whole = sizes.d[3], rest = sizes.d[0] - last * sizes.d[3];
  const __global float *from = parts + outer * sizes.d[4] * 2 * PITCH + column;
  float8 mean = 0, lost = 0, deviations = 0;
  for (IDX chunk = 0; chunk <= last; chunk++) {
    const float8 share = ALOAD8(float, from, chunk * 2 * PITCH) * ((chunk < last ? whole : rest) / n) - lost;
    const float8 next = mean + share;
    lost = (next - mean) - share;
    mean = next;
  }
  for (IDX chunk = 0; chunk <= last; chunk++) {
    const float8 distance = ALOAD8(float, from, chunk * 2 * PITCH) - mean;
    deviations += ALOAD8(float, from, chunk * 2 * PITCH + PITCH) + distance * distance * (chunk < last ? whole : rest);
  }
  __global float *to = stats + outer * 3 * PITCH + column;
  ASTORE8(float, to, 0, mean);
  ASTORE8(float, to, PITCH, -lost);
  ASTORE8(float, to, 2 * PITCH, 1.0f / sqrt(deviations / n + eps));
}
#else
#define ARGS                                                                                                   \
  const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, const __global float *stats, dims_t shape,   \
      dims_t strides, dims_t sizes
static inline OUTLINE void norm_columns_apply_item(IDX block, IDX chunk, IDX outer, ARGS EXTRA_ARGS) {
  BLOCK
  CHUNK
  if (columns <= 0) return;
  const __global float *from = stats + outer * 3 * PITCH + column;
  float8 guess[VECTORS], distance[VECTORS], factor[VECTORS];
  for (int v = 0; v < count; v++) {
    guess[v] = ALOAD8(float, from, v * 8);
    distance[v] = ALOAD8(float, from, PITCH + v * 8);
    factor[v] = ALOAD8(float, from, 2 * PITCH + v * 8);
  }
  apply(x, NORM_SCALE_PASS NORM_BIAS_PASS y, base, column, full, lanes, i0, i1, shape, strides, sizes, guess, distance,
        factor EXTRA_PASS);
}

// Work-items: (block of columns, chunk, outer).
kernel void norm_columns_apply(ARGS EXTRA_ARGS) {
  norm_columns_apply_item(get_global_id(0), get_global_id(1), get_global_id(2), x, NORM_SCALE_PASS NORM_BIAS_PASS y,
                          stats, shape, strides, sizes EXTRA_PASS);
}
#endif
