// Direct convolution of channels-first images where a group has few output channels (depthwise, one-channel results):
// one work-item computes a row of one channel, eight neighbouring pixels at a time. Input and filter are float.
// Preceded by window8.cl with T = float; OUT is the storage type of bias and output.

#ifndef OUT
#define OUT float
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0         // 1: transposed convolution, as a gather over the taps that reach a pixel
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0           // 1: a bias argument follows the filter
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(OUT, p, i, v)
#define EMIT8(p, i, v) STORE8(OUT, p, i, v)
#define EMITN(p, i, n, v) STOREN(OUT, p, i, n, v)
#endif
#if HAS_BIAS
#define BIAS_ARG const __global OUT *bias,
#else
#define BIAS_ARG
#endif

// in, out, taps, window as in conv_direct.cl; filter: strides of group, output channel in its group, input channel,
// row, column; total: elements of x. Work-items: (row, channel, image).
kernel void conv_planar(const __global float *x, const __global float *w, BIAS_ARG __global OUT *y, dims_t in,
                        dims_t out, dims_t taps, dims_t window, dims_t filter, IDX total EXTRA_ARGS) {
  const IDX oh = get_global_id(0), oc = get_global_id(1), n = get_global_id(2);
  if (oh >= out.d[0]) return;
  const IDX g = oc / taps.d[3], o = oc - g * taps.d[3], H = in.d[0], W = in.d[1], OW = out.d[1];
#if TRANSPOSED
  const IDX apart = window.d[1], step = 1;
#else
  const IDX apart = 1, step = window.d[1];
#endif
  const __global float *wo = w + g * filter.d[0] + o * filter.d[1];
  const IDX plane = n * in.d[2] + g * taps.d[2] * in.d[3];
#if HAS_BIAS
  const float start = LOAD(OUT, bias, oc);
#else
  const float start = 0;
#endif
  const IDX tiles = (OW + 8 * apart - 1) / (8 * apart) * apart;
  for (IDX tile = 0; tile < tiles; tile++) {
    const IDX ow = tile / apart * 8 * apart + tile % apart;
    if (ow >= OW) continue;
    float8 sum = start;
    for (IDX kh = 0; kh < taps.d[0]; kh++) {
#if TRANSPOSED
      const IDX reach_h = oh + window.d[4] - kh * window.d[2];
      const IDX ih = reach_h / window.d[0];
      if (ih * window.d[0] != reach_h) continue;
#else
      const IDX ih = oh * window.d[0] - window.d[4] + kh * window.d[2];
#endif
      if (ih < 0 || ih >= H) continue;
      for (IDX kw = 0; kw < taps.d[1]; kw++) {
#if TRANSPOSED
        const IDX reach_w = ow + window.d[5] - kw * window.d[3];
        const IDX iw = reach_w / window.d[1];
        if (iw * window.d[1] != reach_w) continue;
#else
        const IDX iw = ow * window.d[1] - window.d[5] + kw * window.d[3];
#endif
        const __global float *f = wo + kh * filter.d[3] + kw * filter.d[4];
        IDX row = plane + ih * in.d[4];
        for (IDX ic = 0; ic < taps.d[2]; ic++, row += in.d[3], f += filter.d[2])
          sum += window8(x, row, iw, step, W, total, 0) * f[0];
      }
    }
    const IDX at = n * out.d[2] + oc * out.d[3] + oh * out.d[4] + ow;
    const IDX left = (OW - ow + apart - 1) / apart;
    if (apart != 1) {
      EMIT_APART(y, at, apart, left < 8 ? left : 8, sum)
    } else if (left >= 8) {
      EMIT8(y, at, sum);
    } else {
      EMITN(y, at, left, sum);
    }
  }
}
