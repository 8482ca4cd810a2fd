// Pooling over windows of images. Preceded by window8.cl.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef MODE
#define MODE 0               // 0: maximum, 1: mean, 2: root of the sum of squares
#endif
#ifndef PLANAR
#define PLANAR 1             // 1: kernel pool_planar, channels first; 0: kernel pool_channels, channels last
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

#if MODE == 0
#define WINDOW_FILL T_LOWEST(T)
// NaN, once seen, stays.
#define TAKE(a, v) a = SEL8(a, v, (v > a) | (v != v))
#define JOIN(a, b) TAKE(a, b)
#define FINISH(a, count) (a)
#elif MODE == 1
#define WINDOW_FILL 0
#define TAKE(a, v) a += v
#define JOIN(a, b) a += b
#define FINISH(a, count) ((a) / (count))
#else
#define WINDOW_FILL 0
#define TAKE(a, v) a += (v) * (v)
#define JOIN(a, b) a += b
#define FINISH(a, count) sqrt(a)
#endif

// Taps first..last-1 of `taps`, `dilation` apart from `start` on, that lie in 0..extent-1.
static inline IDX first_tap(IDX start, IDX dilation) { return start < 0 ? (-start + dilation - 1) / dilation : 0; }
static inline IDX last_tap(IDX start, IDX dilation, IDX taps, IDX extent) {
  const IDX inside = start < extent ? (extent - start + dilation - 1) / dilation : 0;
  return inside < taps ? inside : taps;
}

#if PLANAR
// Columns of the window that are real, for each of the 8 pixels.
static inline float8 column_counts(IDX column, IDX step, IDX dilation, IDX taps, IDX width) {
  float count[8];
  for (int l = 0; l < 8; l++) {
    const IDX start = column + l * step;
    const IDX real = last_tap(start, dilation, taps, width) - first_tap(start, dilation);
    count[l] = real > 0 ? real : 0;
  }
  return (float8)(count[0], count[1], count[2], count[3], count[4], count[5], count[6], count[7]);
}

// Channels first: a work-item computes one row, eight neighbouring pixels at a time. Geometry:
//   image   height, width, output height, output width, batch * channels, elements of x
//   window  rows, columns, stride h, w, dilation h, w, padding top, left
// Work-items: (output row, plane).
kernel void pool_planar(const __global T *x, __global T *y, dims_t image, dims_t window EXTRA_ARGS) {
  const IDX oh = get_global_id(0), plane = get_global_id(1);
  if (oh >= image.d[2] || plane >= image.d[4]) return;
  const IDX H = image.d[0], W = image.d[1], OW = image.d[3], total = image.d[5];
  const IDX step = window.d[3], dilation = window.d[5];
  const IDX top = oh * window.d[2] - window.d[6];
  const IDX kh0 = first_tap(top, window.d[4]), kh1 = last_tap(top, window.d[4], window.d[0], H);
  for (IDX ow = 0; ow < OW; ow += 8) {
    const IDX column = ow * step - window.d[7];
    const IDX kw0 = first_tap(column + 7 * step, dilation), kw1 = last_tap(column, dilation, window.d[1], W);
    VEC sum = (VEC)(WINDOW_FILL);
    for (IDX kh = kh0; kh < kh1; kh++) {
      const IDX row = (plane * H + top + kh * window.d[4]) * W;
      VEC part = (VEC)(WINDOW_FILL);
      for (IDX kw = kw0; kw < kw1; kw++) {
        const VEC v = window8(x, row, column + kw * dilation, step, W, total, WINDOW_FILL);
        TAKE(part, v);
      }
      JOIN(sum, part);
    }
#if MODE == 1
    const float rows = kh1 > kh0 ? kh1 - kh0 : 0;
    const int inside = column >= 0 && column + (window.d[1] - 1) * dilation + 7 * step < W;
    const float8 count = rows * (inside ? (float8)(window.d[1]) : column_counts(column, step, dilation, window.d[1], W));
#endif
    const IDX at = (plane * image.d[2] + oh) * OW + ow;
    if (ow + 8 <= OW) {
      EMIT8(y, at, FINISH(sum, count));
    } else {
      EMITN(y, at, OW - ow, FINISH(sum, count));
    }
  }
}

#else
// Channels last: a work-item computes eight channels of one pixel. Geometry as above, with
//   image   height, width, output height, output width, batch, channels
// Work-items: (output column and block of channels, image and output row).
kernel void pool_channels(const __global T *x, __global T *y, dims_t image, dims_t window EXTRA_ARGS) {
  const IDX H = image.d[0], W = image.d[1], OH = image.d[2], OW = image.d[3], C = image.d[5];
  const IDX blocks = (C + 7) / 8;
  const IDX ow = (IDX)get_global_id(0) / blocks, c = ((IDX)get_global_id(0) - ow * blocks) * 8;
  const IDX n = (IDX)get_global_id(1) / OH, oh = (IDX)get_global_id(1) - n * OH;
  if (ow >= OW || n >= image.d[4]) return;
  const IDX lanes = C - c < 8 ? C - c : 8;
  const IDX top = oh * window.d[2] - window.d[6], left = ow * window.d[3] - window.d[7];
  const IDX kh0 = first_tap(top, window.d[4]), kh1 = last_tap(top, window.d[4], window.d[0], H);
  const IDX kw0 = first_tap(left, window.d[5]), kw1 = last_tap(left, window.d[5], window.d[1], W);
  VEC sum = (VEC)(WINDOW_FILL);
  for (IDX kh = kh0; kh < kh1; kh++) {
    IDX at = ((n * H + top + kh * window.d[4]) * W + left + kw0 * window.d[5]) * C + c;
    VEC part = (VEC)(WINDOW_FILL);
    for (IDX kw = kw0; kw < kw1; kw++, at += window.d[5] * C) {
      VEC v;
      if (lanes == 8) v = LOAD8(T, x, at);
      else v = LOADN(T, x, at, lanes);
      TAKE(part, v);
    }
    JOIN(sum, part);
  }
#if MODE == 1
  const float count = kh1 > kh0 && kw1 > kw0 ? (float)(kh1 - kh0) * (float)(kw1 - kw0) : 0.0f;
#endif
  const IDX at = ((n * OH + oh) * OW + ow) * C + c;
  if (lanes == 8) {
    EMIT8(y, at, FINISH(sum, count));
  } else {
    EMITN(y, at, lanes, FINISH(sum, count));
  }
}
#endif
