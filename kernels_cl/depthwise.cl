// Depthwise convolution, channels last: y[n, h, w, c] = bias[c] + sum over taps of x[n, .., .., c] * w[tap, c].
// Bound by loads, one for each multiply-add: lanes are channels, and each weight serves eight pixels of a row.
// Rows and columns of padding are left out.

// Storage type of bias and y; x is float32, w packed float32, [tap][channel], `w_pitch` floats from tap to tap.
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// As in gemm.cl.
#ifndef EMIT8
#define EMIT8(y, i, v) STORE8(T, y, i, v)
#endif
#ifndef EMITN
#define EMITN(y, i, n, v) STOREN(T, y, i, n, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif

#if HAS_BIAS
#define BIAS_ARGS const __global T *bias,
#define BIAS_PASS bias,
#define BIAS(c, n) ((n) >= 8 ? LOAD8(T, bias, c) : LOADN(T, bias, c, n))
#else
#define BIAS_ARGS
#define BIAS_PASS
#define BIAS(c, n) ((float8)(0.0f))
#endif

#define EACH4(F) F(0) F(1) F(2) F(3)
#define EACH8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define START(k) float8 s##k = shift;
#define ADD_PIXEL(k) s##k = s##k + LOAD8(float, at, k * pixel_step) * weight;
// The same with the numbers of a common window known: a pixel that several taps meet is then loaded once.
#define ADD_KNOWN(k, j) s##k = s##k + LOAD8(float, at, (k * STEP + j) * C) * weight;
#define COLUMN(j) \
  { \
    const float8 weight = LOAD8(float, weights, j * w_pitch); \
    ADD_KNOWN(0, j) ADD_KNOWN(1, j) ADD_KNOWN(2, j) ADD_KNOWN(3, j) \
    ADD_KNOWN(4, j) ADD_KNOWN(5, j) ADD_KNOWN(6, j) ADD_KNOWN(7, j) \
  }
#define KNOWN_TAPS(COLUMNS) \
  for (IDX i = row_first; i < row_last; i++) { \
    const __global float *at = x + origin + i * window.d[2] * W * C + c; \
    const __global float *weights = w + i * taps.d[1] * w_pitch + c; \
    COLUMNS \
  }
#define START_GROUP(k) float8 s##k = BIAS(c + 8 * k, 8);
#define ADD_GROUP(k) s##k = s##k + LOAD8(float, at, 8 * k) * LOAD8(float, weights, 8 * k);
#define KEEP(k) s[k] = s##k;
#define TAPS(first, last, BODY) \
  for (IDX i = row_first; i < row_last; i++) { \
    for (IDX j = first; j < last; j++) { \
      const __global float *at = x + origin + (i * window.d[2] * W + j * window.d[3]) * C + c; \
      const __global float *weights = w + (i * taps.d[1] + j) * w_pitch + c; \
      BODY \
    } \
  }

// in, out: height, width, channels. taps: height, width. window: strides, dilations, pads at the top and left.
// A work-item computes `rows_per_item` rows of `channels_per_item` channels (a multiple of 8) of one image.
static inline TILE_OUTLINE void depthwise_item(IDX item0, IDX item1, IDX item2, const __global float *x,
                                               const __global float *w, BIAS_ARGS __global T *y, dims_t in,
                                               dims_t out, dims_t taps, dims_t window, IDX w_pitch,
                                               IDX channels_per_item, IDX rows_per_item EXTRA_ARGS) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], OH = out.d[0], OW = out.d[1], image = item2;
  const IDX c_begin = item0 * channels_per_item, c_end = TILE_MIN(C, c_begin + channels_per_item);
  const IDX row_begin = item1 * rows_per_item, row_end = TILE_MIN(OH, row_begin + rows_per_item);
  const IDX pixel_step = window.d[1] * C, left = window.d[5], reach = (taps.d[1] - 1) * window.d[3];
  // Columns whose taps all lie in the image.
  const IDX inner_begin = (left + window.d[1] - 1) / window.d[1];
  const IDX inner_end = W - 1 - reach + left < 0 ? 0 : TILE_MIN(OW, (W - 1 - reach + left) / window.d[1] + 1);
  for (IDX row = row_begin; row < row_end; row++) {
    const IDX top = row * window.d[0] - window.d[4], dilation = window.d[2];
    const IDX row_first = top < 0 ? TILE_MIN(taps.d[0], (-top + dilation - 1) / dilation) : 0;
    const IDX row_last = top >= H ? 0 : TILE_MIN(taps.d[0], (H - 1 - top) / dilation + 1);
    IDX pixels = 1;
    for (IDX column = 0; column < OW; column += pixels) {
      const IDX inner = column >= inner_begin ? inner_end - column : 0;
      pixels = inner >= 8 ? 8 : inner >= 4 ? 4 : 1;
      const IDX first_column = column * window.d[1] - left;
      const IDX origin = ((image * H + top) * W + first_column) * C;
      const IDX y_at = ((image * OH + row) * OW + column) * C;
      // One pixel: only its columns of taps that lie in the image.
      const IDX from = first_column < 0 ? TILE_MIN(taps.d[1], (-first_column + window.d[3] - 1) / window.d[3]) : 0;
      const IDX to = first_column >= W ? 0 : TILE_MIN(taps.d[1], (W - 1 - first_column) / window.d[3] + 1);
      IDX c_step = 8;
      for (IDX c = c_begin; c < c_end; c += c_step) {
        float8 s[8];
        IDX step = C, count = pixels;
        const IDX lanes = TILE_MIN((IDX)8, c_end - c);
        c_step = 8;
        if (lanes < 8) {
          for (IDX k = 0; k < pixels; k++) {
            float8 sum = BIAS(c, lanes);
            TAPS(from, to, sum = sum + LOADN(float, at, k * pixel_step, lanes) * LOADN(float, weights, 0, lanes);)
            EMITN(y, y_at + c + k * C, lanes, sum);
          }
          continue;
        }
        if (pixels == 8) {
          const float8 shift = BIAS(c, 8);
          EACH8(START)
          if (window.d[3] == 1 && taps.d[1] == 3 && window.d[1] == 1) {
#define STEP 1
            KNOWN_TAPS(COLUMN(0) COLUMN(1) COLUMN(2))
          } else if (window.d[3] == 1 && taps.d[1] == 5 && window.d[1] == 1) {
            KNOWN_TAPS(COLUMN(0) COLUMN(1) COLUMN(2) COLUMN(3) COLUMN(4))
#undef STEP
#define STEP 2
          } else if (window.d[3] == 1 && taps.d[1] == 3 && window.d[1] == 2) {
            KNOWN_TAPS(COLUMN(0) COLUMN(1) COLUMN(2))
          } else if (window.d[3] == 1 && taps.d[1] == 5 && window.d[1] == 2) {
            KNOWN_TAPS(COLUMN(0) COLUMN(1) COLUMN(2) COLUMN(3) COLUMN(4))
#undef STEP
          } else TAPS(0, taps.d[1], const float8 weight = LOAD8(float, weights, 0); EACH8(ADD_PIXEL))
          IDX to = y_at + c;
#define LEAVE(k) EMIT8(y, to, s##k); to += C;
          EACH8(LEAVE)
#undef LEAVE
          continue;
        } else if (pixels == 4) {
          const float8 shift = BIAS(c, 8);
          EACH4(START)
          TAPS(0, taps.d[1], const float8 weight = LOAD8(float, weights, 0); EACH4(ADD_PIXEL))
          EACH4(KEEP)
        } else if (c + 32 <= c_end) {
          step = 8, count = 4, c_step = 32;
          EACH4(START_GROUP)
          TAPS(from, to, EACH4(ADD_GROUP))
          EACH4(KEEP)
        } else {
          const float8 shift = BIAS(c, 8);
          START(0)
          TAPS(from, to, ADD_GROUP(0))
          KEEP(0)
        }
        for (IDX k = 0; k < count; k++) EMIT8(y, y_at + c + k * step, s[k]);
      }
    }
  }
}

kernel void depthwise(const __global float *x, const __global float *w, BIAS_ARGS __global T *y, dims_t in, dims_t out,
                      dims_t taps, dims_t window, IDX w_pitch, IDX channels_per_item, IDX rows_per_item EXTRA_ARGS) {
  depthwise_item(get_global_id(0), get_global_id(1), get_global_id(2), x, w, BIAS_PASS y, in, out, taps, window,
                 w_pitch, channels_per_item, rows_per_item EXTRA_PASS);
}
