// Layer and instance normalization on GPUs: (x - mean) / sqrt(variance + eps) * scale + bias, mean and variance of each
// line of elements; groups.h says how a work-group shares lines. Scale and bias are float. Short lines stay in registers
// from the first pass to the last.
//
// shape, strides of x: kept dimensions d[0..3], reduced dimensions d[4..7], outermost first, ones in front.
// sizes: reduced elements, lines, channels (line modulo channels is the channel).

#ifndef T
#define T float  // storage type of input and output
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef STAGE
#define STAGE 0  // 0: whole lines; lines that groups share: statistics of each part (1), the result (2)
#endif
#ifndef SCALE
#define SCALE 0  // scale is indexed 1 by channel, 2 by reduced element; 0: none
#endif
#ifndef BIAS
#define BIAS 0   // the same for bias
#endif
#ifndef CENTRED
#define CENTRED 1  // 0: the mean counts as 0 (root-mean-square normalization)
#endif
#ifndef ALONE
#define ALONE 1  // all reduced elements lie strides.d[7] apart
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#endif
#define KEPT 8   // elements of a work-item in registers

#define EACH_KEPT _Pragma("unroll") for (int j = 0; j < KEPT; j++)
#define FOR_TILES for (IDX i = begin; i < end; i += KEPT * depth)
#define INSIDE (i + j * depth < end)
// Reduced element number i.
#if ALONE
#define AT(i) (base + (i) * strides.d[7])
#else
#define AT(i) (base + scattered_offset(i, shape, strides))
#endif
#define LOAD_TILE EACH_KEPT v[j] = INSIDE ? LOAD(T, x, AT(i + j * depth)) - guess : 0.0f;

static inline OUTLINE IDX scattered_offset(IDX i, dims_t shape, dims_t strides) {
  return norm_offset(i, shape, strides, 4, 7);
}

#if STAGE == 1
#define OPERANDS const __global T *x, __global float *found,
#elif STAGE == 2
#define OPERANDS const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG const __global float *found, __global T *y,
#else
#define OPERANDS const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y,
#endif
#define PART_OF(k) (3 * (line * parts + (k)))

// found: of each part of each line a guess of the mean, how far the mean is from it, and the sum of squared deviations.
kernel GROUP_OF void norm_local(OPERANDS dims_t shape, dims_t strides, dims_t sizes, float eps, IDX chunk, int depth,
                                int along EXTRA_ARGS) {
  __local float shared[GROUP];
  const IDX n = sizes.d[0], lines = sizes.d[1];
  WHERE_IN_GROUP
  ITS_SHARE
  const IDX base = norm_offset(line < lines ? line : 0, shape, strides, 0, 3);
  const bool once = chunk <= KEPT * depth;
  float v[KEPT];
#if STAGE == 2
  // Parts are joined relative to the guess of the first one: means that are far from zero stay exact.
  const IDX pieces = line < lines ? parts : 0;
  const float guess = line < lines ? found[PART_OF(0)] : 0.0f;
  float shares = 0.0f, squares = 0.0f;
  for (IDX k = d; k < pieces; k += depth) {
    const float count = k + 1 < parts ? chunk : n - k * chunk;
    shares += ((found[PART_OF(k)] - guess) + found[PART_OF(k) + 1]) * (count / (float)n);
  }
  JOIN_LINE(distance, shared, shares, ADD_OTHER)
  for (IDX k = d; k < pieces; k += depth) {
    const float count = k + 1 < parts ? chunk : n - k * chunk;
    const float apart = ((found[PART_OF(k)] - guess) + found[PART_OF(k) + 1]) - distance;
    squares += found[PART_OF(k) + 2] + apart * apart * count;
  }
  JOIN_LINE(deviations, shared, squares, ADD_OTHER)
  FOR_TILES { LOAD_TILE }
#else
  const IDX some = first < n ? first : 0;
  const float guess = CENTRED && line < lines ? LOAD(T, x, AT(some)) : 0.0f, count = stop - first;
  float sum = 0.0f, squares = 0.0f, rest = 0.0f;
  FOR_TILES {
    LOAD_TILE
    float block = 0.0f;
    EACH_KEPT block += v[j];
    sum += block;
  }
  JOIN_LINE(total, shared, sum, ADD_OTHER)
  const float near = CENTRED ? total / count : 0.0f;
  FOR_TILES {
    if (!once) { LOAD_TILE }
    float block = 0.0f, left = 0.0f;
    EACH_KEPT {
      const float e = INSIDE ? v[j] - near : 0.0f;
      block += e * e;
      left += e;
    }
    squares += block;
    rest += left;
  }
  JOIN_LINE(missed, shared, rest, ADD_OTHER)
  JOIN_LINE(total_squares, shared, squares, ADD_OTHER)
  const float off = CENTRED ? missed / count : 0.0f;
  const float distance = near + off, deviations = CENTRED ? total_squares - missed * off : total_squares;
#endif
#if STAGE == 1
  if (d == 0 && line < lines) {
    found[PART_OF(part)] = guess;
    found[PART_OF(part) + 1] = distance;
    found[PART_OF(part) + 2] = deviations;
  }
#else
  float factor = 1.0f / sqrt(deviations / (float)n + eps);
#if SCALE == 1
  factor *= scale[line % sizes.d[2]];
#endif
#if BIAS == 1
  const float shift = bias[line % sizes.d[2]];
#endif
  FOR_TILES {
    if (!once) { LOAD_TILE }
    EACH_KEPT {
      const IDX element = i + j * depth;
      if (element < end) {
        float normal = (v[j] - distance) * factor;
#if SCALE == 2
        normal *= scale[element];
#endif
#if BIAS == 1
        normal += shift;
#elif BIAS == 2
        normal += bias[element];
#endif
        EMIT(y, AT(element), normal);
      }
    }
  }
#endif
}
