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
#ifndef EXTRA_PASS
#define EXTRA_PASS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

#if MODE == 0
#define OUTSIDE T_LOWEST(T)
// NaN, once seen, stays.
#define TAKE(a, v) a = SEL8(a, v, (v > a) | (v != v))
#define JOIN(a, b) TAKE(a, b)
#define FINISH(a, count) (a)
#elif MODE == 1
#define OUTSIDE 0
#define TAKE(a, v) a += v
#define JOIN(a, b) a += b
#define FINISH(a, count) ((a) / (count))
#else
#define OUTSIDE 0
#define TAKE(a, v) a += (v) * (v)
#define JOIN(a, b) a += b
#define FINISH(a, count) sqrt(a)
#endif

// `total` joined with the window's taps kh0..kh1-1, kw0..kw1-1, each given by GET; row by row, so that long sums stay
// exact.
#define FOR_TAPS(total, GET)                        \
  for (IDX kh = kh0; kh < kh1; kh++) {              \
    VEC part = (VEC)(OUTSIDE);                         \
    for (IDX kw = kw0; kw < kw1; kw++) {            \
      const VEC v = GET(kh, kw);                    \
      TAKE(part, v);                                \
    }                                               \
    JOIN(total, part);                              \
  }

// Taps first..last-1 of `taps`, `dilation` apart from `start` on, that lie in 0..extent-1.
static inline IDX first_tap(IDX start, IDX dilation) { return start < 0 ? (-start + dilation - 1) / dilation : 0; }
static inline IDX last_tap(IDX start, IDX dilation, IDX taps, IDX extent) {
  if (start + (taps - 1) * dilation < extent) return taps;
  return start < extent ? (extent - start + dilation - 1) / dilation : 0;
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

// Channels first: a work-item computes rows of one plane, eight neighbouring pixels at a time. Geometry:
//   image   height, width, output height, output width, batch * channels, elements of x, output rows a work-item
//   window  rows, columns, stride h, w, dilation h, w, padding top, left
static inline OUTLINE void pool_planar_item(IDX item, IDX plane, const __global T *x, __global T *y, dims_t image,
                                            dims_t window EXTRA_ARGS) {
  const IDX H = image.d[0], W = image.d[1], OH = image.d[2], OW = image.d[3], first = item * image.d[6];
  const IDX end = first + image.d[6] < OH ? first + image.d[6] : OH;
  if (plane >= image.d[4]) return;
  const IDX step = window.d[3], dilation = window.d[5];
  for (IDX oh = first; oh < end; oh++) {
    const IDX top = oh * window.d[2] - window.d[6];
    const IDX kh0 = first_tap(top, window.d[4]), kh1 = last_tap(top, window.d[4], window.d[0], H);
    for (IDX ow = 0; ow < OW; ow += 8) {
      const IDX column = ow * step - window.d[7], corner = (plane * H + top) * W;
      const int inside = column >= 0 && column + (window.d[1] - 1) * dilation + 7 * step < W;
      VEC sum = (VEC)(OUTSIDE);
#define AT(kh, kw) (corner + (kh) * window.d[4] * W + column + (kw) * dilation)
#define NEXT_TO_EACH_OTHER(kh, kw) LOAD8(T, x, AT(kh, kw))
#define EVERY_OTHER(kh, kw) (VEC)(LOAD8(T, x, AT(kh, kw)).even, LOAD8(T, x, AT(kh, kw) + 7).odd)
#define ANY_COLUMNS(kh, kw) \
  window8(x, corner + (kh) * window.d[4] * W, column + (kw) * dilation, step, W, image.d[5], OUTSIDE)
      IDX kw0 = 0, kw1 = window.d[1];
      if (inside && step == 1) {
        FOR_TAPS(sum, NEXT_TO_EACH_OTHER)
      } else if (inside && step == 2) {
        FOR_TAPS(sum, EVERY_OTHER)
      } else {
        kw0 = first_tap(column + 7 * step, dilation), kw1 = last_tap(column, dilation, kw1, W);
        FOR_TAPS(sum, ANY_COLUMNS)
      }
#if MODE == 1
      const float rows = kh1 > kh0 ? kh1 - kh0 : 0;
      const float8 columns =
          inside ? (float8)(window.d[1]) : column_counts(column, step, dilation, window.d[1], W);
      const float8 count = rows * columns;
#endif
      const IDX at = (plane * OH + oh) * OW + ow;
      if (ow + 8 <= OW) {
        EMIT8(y, at, FINISH(sum, count));
      } else {
        EMITN(y, at, OW - ow, FINISH(sum, count));
      }
    }
  }
}

// Work-items: (run of output rows, plane).
kernel void pool_planar(const __global T *x, __global T *y, dims_t image, dims_t window EXTRA_ARGS) {
  pool_planar_item(get_global_id(0), get_global_id(1), x, y, image, window EXTRA_PASS);
}
#else
// Channels last: a work-item computes some pixels of a row, eight channels at a time. Geometry as above, with
//   image   height, width, output height, output width, batch, channels, pixels a work-item
static inline OUTLINE void pool_channels_item(IDX item, IDX line, const __global T *x, __global T *y, dims_t image,
                                              dims_t window EXTRA_ARGS) {
  const IDX H = image.d[0], W = image.d[1], OH = image.d[2], OW = image.d[3], C = image.d[5];
  const IDX n = line / OH, oh = line - n * OH, first = item * image.d[6];
  const IDX end = first + image.d[6] < OW ? first + image.d[6] : OW;
  if (n >= image.d[4]) return;
  const IDX top = oh * window.d[2] - window.d[6];
  const IDX kh0 = first_tap(top, window.d[4]), kh1 = last_tap(top, window.d[4], window.d[0], H);
  for (IDX ow = first; ow < end; ow++) {
    const IDX left = ow * window.d[3] - window.d[7];
    const IDX kw0 = first_tap(left, window.d[5]), kw1 = last_tap(left, window.d[5], window.d[1], W);
    const IDX corner = ((n * H + top) * W + left) * C, to = (line * OW + ow) * C;
    const IDX down = window.d[4] * W * C, right = window.d[5] * C;
#if MODE == 1
    const float count = kh1 > kh0 && kw1 > kw0 ? (float)(kh1 - kh0) * (float)(kw1 - kw0) : 0.0f;
#endif
    IDX c = 0;
    // Four vectors a tap while there are as many.
    for (; c + 32 <= C; c += 32) {
      VEC s0 = (VEC)(OUTSIDE), s1 = (VEC)(OUTSIDE), s2 = (VEC)(OUTSIDE), s3 = (VEC)(OUTSIDE);
      for (IDX kh = kh0; kh < kh1; kh++) {
        VEC p0 = (VEC)(OUTSIDE), p1 = (VEC)(OUTSIDE), p2 = (VEC)(OUTSIDE), p3 = (VEC)(OUTSIDE);
        const __global T *at = x + corner + kh * down + kw0 * right + c;
        for (IDX kw = kw0; kw < kw1; kw++, at += right) {
#define TAKE_AT(k) { const VEC v = LOAD8(T, at, 8 * k); TAKE(p##k, v); }
          TAKE_AT(0) TAKE_AT(1) TAKE_AT(2) TAKE_AT(3)
#undef TAKE_AT
        }
        JOIN(s0, p0);
        JOIN(s1, p1);
        JOIN(s2, p2);
        JOIN(s3, p3);
      }
      EMIT8(y, to + c, FINISH(s0, count));
      EMIT8(y, to + c + 8, FINISH(s1, count));
      EMIT8(y, to + c + 16, FINISH(s2, count));
      EMIT8(y, to + c + 24, FINISH(s3, count));
    }
    for (; c + 8 <= C; c += 8) {
      VEC sum = (VEC)(OUTSIDE);
#define ALL_LANES(kh, kw) LOAD8(T, x, corner + (kh) * down + (kw) * right + c)
      FOR_TAPS(sum, ALL_LANES)
      EMIT8(y, to + c, FINISH(sum, count));
    }
    if (c < C) {
      VEC sum = (VEC)(OUTSIDE);
#define SOME_LANES(kh, kw) LOADN(T, x, corner + (kh) * down + (kw) * right + c, C - c)
      FOR_TAPS(sum, SOME_LANES)
      EMITN(y, to + c, C - c, FINISH(sum, count));
    }
  }
}

// Work-items: (run of output columns, image and output row).
kernel void pool_channels(const __global T *x, __global T *y, dims_t image, dims_t window EXTRA_ARGS) {
  pool_channels_item(get_global_id(0), get_global_id(1), x, y, image, window EXTRA_PASS);
}
#endif
