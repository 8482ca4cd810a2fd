// Factor of batch normalization per channel: scale / sqrt(variance + eps).

#ifndef T
#define T float              // storage type of variance and scale
#endif
#ifndef HAS_SCALE
#define HAS_SCALE 1          // 1: a scale argument follows the variance
#endif

#if HAS_SCALE
#define SCALE_ARG const __global T *scale,
#define NUMERATOR LOAD(T, scale, c)
#else
#define SCALE_ARG
#define NUMERATOR 1.0f
#endif

kernel void batch_norm_factor(const __global T *variance, SCALE_ARG __global float *factor, float eps, IDX channels) {
  const IDX c = get_global_id(0);
  if (c < channels) factor[c] = NUMERATOR / sqrt(LOAD(T, variance, c) + eps);
}
