// conv2d and conv_transpose2d on GPUs where a product would leave work-group tiles empty (depthwise, few channels): a
// work-item for each output element, neighbours in memory side by side, accumulated in float32.

#ifndef T
#define T float
#endif
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1      // 1: channels are contiguous in the images, 0: columns are
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0         // 1: transposed convolution, as a gather over the taps that reach a pixel
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#endif
#if HAS_BIAS
#define BIAS_ARGUMENT const __global T *bias,
#define START LOAD(T, bias, channel)
#else
#define BIAS_ARGUMENT
#define START 0.0f
#endif

// in, out: height, width, then element strides of image, channel, row and column. taps: height, width, input and output
// channels of a group, groups. window: strides, dilations, padding before. filter: element strides of group, output
// channel, input channel, row and column. n: elements of y.
kernel void conv_items(const __global T *x, const __global T *w, BIAS_ARGUMENT __global T *y, dims_t in, dims_t out,
                       dims_t taps, dims_t window, dims_t filter, IDX n EXTRA_ARGS) {
  const IDX i = get_global_id(0), channels = taps.d[3] * taps.d[4];
  if (i >= n) return;
#if CHANNELS_LAST
  const IDX pixel = i / channels, channel = i - pixel * channels, line = pixel / out.d[1], ow = pixel - line * out.d[1];
  const IDX image = line / out.d[0], oh = line - image * out.d[0];
#else
  const IDX line = i / out.d[1], ow = i - line * out.d[1], plane = line / out.d[0], oh = line - plane * out.d[0];
  const IDX image = plane / channels, channel = plane - image * channels;
#endif
  const IDX group = channel / taps.d[3], o = channel - group * taps.d[3];
  x += image * in.d[2] + group * taps.d[2] * in.d[3];
  w += group * filter.d[0] + o * filter.d[1];
  float sum = START;
  for (IDX kh = 0; kh < taps.d[0]; kh++) {
#if TRANSPOSED
    const IDX reach = oh + window.d[4] - kh * window.d[2], row = reach / window.d[0];
    if (row * window.d[0] != reach) continue;
#else
    const IDX row = oh * window.d[0] - window.d[4] + kh * window.d[2];
#endif
    if (row < 0 || row >= in.d[0]) continue;
    for (IDX kw = 0; kw < taps.d[1]; kw++) {
#if TRANSPOSED
      const IDX reach_w = ow + window.d[5] - kw * window.d[3], column = reach_w / window.d[1];
      if (column * window.d[1] != reach_w) continue;
#else
      const IDX column = ow * window.d[1] - window.d[5] + kw * window.d[3];
#endif
      if (column < 0 || column >= in.d[1]) continue;
      const __global T *from = x + row * in.d[4] + column * in.d[5], *tap = w + kh * filter.d[3] + kw * filter.d[4];
      float part = 0.0f;
      for (IDX c = 0; c < taps.d[2]; c++) part += LOAD(T, from, c * in.d[3]) * LOAD(T, tap, c * filter.d[2]);
      sum += part;
    }
  }
  EMIT(y, i, sum);
}
