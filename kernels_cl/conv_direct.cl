// Direct convolution and transposed convolution for any layout, group, stride, dilation and padding. One work-item
// computes 8 pixels of a row times 8 channels in registers. Input is float (float16 is widened before); the filter
// is packed as float by conv_pack.cl: [group][block of 8 output channels][row][column][input channel][8].

#ifndef T
#define T float              // storage type of bias and output
#endif
#ifndef DEPTHWISE
#define DEPTHWISE 0          // 1: one channel a group, the 8 lanes are groups; x and y channels last
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
#define EMIT(p, i, v) STORE(T, p, i, v)
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

#if HAS_BIAS
#define BIAS_ARG const __global T *bias,
#else
#define BIAS_ARG
#endif
#define BLOCK 256
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)

// Geometry, in d[0..7]:
//   in     height, width, then strides of batch, channel, row, column in elements
//   out    height, width, then the same strides
//   taps   filter height and width, input channels a group, output channels a group, groups
//   window stride h, w, dilation h, w, padding top, left
kernel void conv_direct(const __global float *x, const __global float *w, BIAS_ARG __global T *y, dims_t in,
                        dims_t out, dims_t taps, dims_t window EXTRA_ARGS) {
  const IDX H = in.d[0], W = in.d[1], OH = out.d[0], OW = out.d[1];
  const IDX ICG = taps.d[2], OCG = taps.d[3];
#if TRANSPOSED
  // The 8 pixels lie a stride apart, so that the same taps reach all of them from 8 neighbouring inputs.
  const IDX apart = window.d[1], x_apart = in.d[5], x_step = 1;
#else
  const IDX apart = 1, x_apart = window.d[1] * in.d[5], x_step = window.d[1];
#endif
  const IDX tiles = (OW + 8 * apart - 1) / (8 * apart) * apart;
  const IDX oh = (IDX)get_global_id(0) / tiles, tile = (IDX)get_global_id(0) - oh * tiles;
  const IDX ow = tile / apart * 8 * apart + tile % apart;
  const IDX n = get_global_id(2);
  if (oh >= OH || ow >= OW) return;
#if DEPTHWISE
  const IDX oc = (IDX)get_global_id(1) * 8, left = taps.d[4] - oc, x_channel = oc;
  const __global float *panel = w + oc * taps.d[0] * taps.d[1];
#else
  const IDX blocks = (OCG + 7) / 8;
  const IDX g = (IDX)get_global_id(1) / blocks, block = (IDX)get_global_id(1) - g * blocks;
  const IDX oc = g * OCG + block * 8, left = OCG - block * 8, x_channel = g * ICG;
  const __global float *panel = w + (IDX)get_global_id(1) * taps.d[0] * taps.d[1] * ICG * 8;
#endif
  const IDX lanes = left < 8 ? left : 8;
  const __global float *xn = x + n * in.d[2] + x_channel * in.d[3];
#if HAS_BIAS
  const float8 start = lanes == 8 ? LOAD8(T, bias, oc) : LOADN(T, bias, oc, lanes);
#else
  const float8 start = 0;
#endif
  // Sums of some BLOCK products, then sums of these: rounding errors of long sums stay small.
#define START(p) float8 a##p = 0, s##p = start;
#define COLLECT(p) s##p += a##p, a##p = 0;
  EACH(START)
  IDX summed = 0;
  for (IDX kh = 0; kh < taps.d[0]; kh++) {
#if TRANSPOSED
    const IDX reach_h = oh + window.d[4] - kh * window.d[2];
    const IDX ih = reach_h / window.d[0];
    if (ih * window.d[0] != reach_h || ih < 0 || ih >= H) continue;
#else
    const IDX ih = oh * window.d[0] - window.d[4] + kh * window.d[2];
#endif
    const int row_inside = ih >= 0 && ih < H;
    for (IDX kw = 0; kw < taps.d[1]; kw++) {
#if TRANSPOSED
      const IDX reach_w = ow + window.d[5] - kw * window.d[3];
      const IDX iw = reach_w / window.d[1];
      if (iw * window.d[1] != reach_w) continue;
#else
      const IDX iw = ow * window.d[1] - window.d[5] + kw * window.d[3];
#endif
      const __global float *tap = panel + (kh * taps.d[1] + kw) * ICG * 8;
      const IDX at = ih * in.d[4] + iw * in.d[5];
      const int inside = row_inside && iw >= 0 && iw + 7 * x_step < W;
      // At a border, what lies outside the image is zero (and still meets the filter, which may be infinite).
#define INSIDE(p_) const int in##p_ = row_inside && iw + p_ * x_step >= 0 && iw + p_ * x_step < W;
      EACH(INSIDE)
      const __global float *p = xn + at;
#if DEPTHWISE
      const float8 f = ALOAD8(float, tap, 0);
      if (inside && lanes == 8) {
#define WIDE(p_) a##p_ += LOAD8(float, p, p_ * x_apart) * f;
        EACH(WIDE)
      } else {
#define EDGE(p_)                                                                                       \
  a##p_ += (!in##p_ ? (float8)(0) : lanes == 8 ? LOAD8(float, p, p_ * x_apart)                          \
                                               : LOADN(float, p, p_ * x_apart, lanes)) * f;
        EACH(EDGE)
      }
      if (++summed == BLOCK) {
        EACH(COLLECT)
        summed = 0;
      }
#else
      for (IDX ic = 0; ic < ICG;) {
        const IDX end = ICG - ic < BLOCK - summed ? ICG : ic + BLOCK - summed;
        summed += end - ic;
        if (inside) {
          for (; ic < end; ic++, p += in.d[3]) {
            const float8 f = ALOAD8(float, tap, ic * 8);
#define INNER(p_) a##p_ += p[p_ * x_apart] * f;
            EACH(INNER)
          }
        } else {
          for (; ic < end; ic++, p += in.d[3]) {
            const float8 f = ALOAD8(float, tap, ic * 8);
#define EDGE(p_) a##p_ += (in##p_ ? p[p_ * x_apart] : 0.0f) * f;
            EACH(EDGE)
          }
        }
        if (summed == BLOCK) {
          EACH(COLLECT)
          summed = 0;
        }
      }
#endif
    }
  }
  EACH(COLLECT)
  const IDX at = n * out.d[2] + oc * out.d[3] + oh * out.d[4] + ow * out.d[5];
  const IDX pixels_left = (OW - ow + apart - 1) / apart, pixels = pixels_left < 8 ? pixels_left : 8;
  if (out.d[3] == 1) {
    const IDX step = apart * out.d[5];
    if (lanes == 8) {
#define CHANNELS(p_) if (p_ < pixels) EMIT8(y, at + p_ * step, s##p_);
      EACH(CHANNELS)
    } else {
#define SOME_CHANNELS(p_) if (p_ < pixels) EMITN(y, at + p_ * step, lanes, s##p_);
      EACH(SOME_CHANNELS)
    }
    return;
  }
  TRANSPOSE8(s)
  if (apart == 1 && pixels == 8) {
#define ROWS(p_) if (p_ < lanes) EMIT8(y, at + p_ * out.d[3], s##p_);
    EACH(ROWS)
  } else if (apart == 1) {
#define SOME_PIXELS(p_) if (p_ < lanes) EMITN(y, at + p_ * out.d[3], pixels, s##p_);
    EACH(SOME_PIXELS)
  } else {
#define SCATTER(p_) if (p_ < lanes) EMIT_APART(y, at + p_ * out.d[3], apart, pixels, s##p_)
    EACH(SCATTER)
  }
}
