// Convolution of few input channels: y[pixel, o] = bias[o] + sum over taps and channels of x[pixel's tap, c] * w[k, o].
// A work-item first copies the rows that it reads, with zeros around the image, so that no tap asks where it is;
// numbered k, they lie `offsets[k]` beyond a pixel's first one. The filter is packed (pack.cl: pack_filter) in panels
// of 16 output channels. Register tiles of tile.h: six neighbouring pixels by 16 channels; results have channels last.

#define TILE_SPACE __global

// Storage type of x, bias and y.
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// Floats of the copy, and the most taps times channels.
#ifndef ROOM
#define ROOM 8192
#endif
#ifndef DEPTH
#define DEPTH 256
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
#define BIAS(at, n) ((n) >= 8 ? LOAD8(T, bias, at) : (n) > 0 ? LOADN(T, bias, at, n) : (float8)(0.0f))
#else
#define BIAS_ARGS
#define BIAS_PASS
#define BIAS(at, n) ((float8)(0.0f))
#endif

// The r-th pixel of a tile.
#define PIXEL(r) const float *a##r = at_pixel + r * pixel_step;
#define START16(r) float8 p##r = bias_low, q##r = bias_high;
#define START8(r) float8 p##r = bias_low;
#define FMA16(r) { const float x_ = a##r[from]; p##r = p##r + x_ * b0; q##r = q##r + x_ * b1; }
#define FMA8(r) p##r = p##r + a##r[from] * b0;
#define STEP16(i) \
  { \
    const IDX from = offsets[k + i]; \
    const float8 b0 = TILE_B(b, 16 * (k + i)), b1 = TILE_B(b, 16 * (k + i) + 8); \
    TILE_ROWS6(FMA16) \
  }
#define STEP8(i) \
  { \
    const IDX from = offsets[k + i]; \
    const float8 b0 = TILE_B(b, 16 * (k + i)); \
    TILE_ROWS6(FMA8) \
  }
#define TAPS(STEP) \
  { \
    IDX k = 0; \
    for (; k + 4 <= depth; k += 4) { STEP(0) STEP(1) STEP(2) STEP(3) } \
    for (; k < depth; k++) STEP(0) \
  }
#define KEEP16(r) t[2 * r] = p##r; t[2 * r + 1] = q##r;
#define KEEP8(r) t[2 * r] = p##r;
#define LEAVE16(r) EMIT8(y, to + r * outputs, p##r); EMIT8(y, to + r * outputs + 8, q##r);
// A run of a row; the copy is in no other's way.
static inline void copy_run(const __global T *from, float *to, IDX count) {
  IDX i = 0;
  for (; i + 8 <= count; i += 8) *(float8_u *)(to + i) = LOAD8(T, from, i);
  for (; i < count; i++) to[i] = LOAD(T, from, i);
}

// in: height, width, channels; strides of image, channel, row and column in elements, where either columns are
// neighbours, or the channels of a pixel and pixels; the first element. out: rows, columns, channels. taps: rows,
// columns. window: strides, dilations, pads at the top and left.
static inline TILE_OUTLINE void conv_few_item(IDX item0, IDX item1, IDX image, const __global T *x,
                                              const __global float *w, BIAS_ARGS __global T *y, dims_t in,
                                              dims_t out, dims_t taps, dims_t window, IDX rows_per_item,
                                              IDX columns_per_item EXTRA_ARGS) {
  const IDX row_begin = item1 * rows_per_item, rows = TILE_MIN(rows_per_item, out.d[0] - row_begin);
  const IDX column_begin = item0 * columns_per_item, columns = TILE_MIN(columns_per_item, out.d[1] - column_begin);
  const IDX outputs = out.d[2], channels = in.d[2], depth = taps.d[0] * taps.d[1] * channels;
  // Planes of the copy and floats of a pixel in one.
  const IDX planes = in.d[6] == 1 ? channels : 1, size = in.d[6] == 1 ? 1 : channels;
  // Results of a tile beyond the last column read zeros.
  const IDX height = (rows - 1) * window.d[0] + (taps.d[0] - 1) * window.d[2] + 1;
  const IDX width = ((columns + 5) / 6 * 6 - 1) * window.d[1] + (taps.d[1] - 1) * window.d[3] + 1;
  const IDX top = row_begin * window.d[0] - window.d[4];
  const IDX left = column_begin * window.d[1] - window.d[5];
  const IDX pitch = width * size;
  float copy[ROOM + 8];
  for (IDX i = 0; i < planes * height * pitch; i += 8) *(float8_u *)(copy + i) = 0.0f;
  const IDX from_column = TILE_MAX((IDX)0, left), count = (TILE_MIN(in.d[1], left + width) - from_column) * size;
  for (IDX c = 0; c < planes; c++) {
    for (IDX r = TILE_MAX((IDX)0, -top); r < TILE_MIN(height, in.d[0] - top); r++) {
      const __global T *from = x + in.d[7] + image * in.d[3] + c * in.d[4] + (top + r) * in.d[5];
      copy_run(from + from_column * in.d[6], copy + (c * height + r) * pitch + (from_column - left) * size, count);
    }
  }
  const IDX pixel_step = window.d[1] * size;
  IDX offsets[DEPTH];
  for (IDX k = 0; k < depth; k++) {
    const IDX tap = k / channels, c = k - tap * channels, u = tap / taps.d[1], v = tap - u * taps.d[1];
    const IDX inside = planes > 1 ? c * height * pitch : c;
    offsets[k] = inside + u * window.d[2] * pitch + v * window.d[3] * size;
  }
  for (IDX row = 0; row < rows; row++) {
    for (IDX column = 0; column < columns; column += 6) {
      const IDX pixels = TILE_MIN((IDX)6, columns - column);
      const IDX y_pixel = (image * out.d[0] + row_begin + row) * out.d[1] + column_begin + column;
      const float *at_pixel = copy + row * window.d[0] * pitch + column * pixel_step;
      for (IDX o = 0; o < outputs; o += TILE_PANEL) {
        const __global float *b = w + o * depth;
        const IDX lanes = TILE_MIN((IDX)TILE_PANEL, outputs - o);
        const float8 bias_low = BIAS(o, lanes), bias_high = BIAS(o + 8, lanes - 8);
        IDX to = y_pixel * outputs + o;
        float8 t[12];
        TILE_ROWS6(PIXEL)
        if (lanes > 8) {
          TILE_ROWS6(START16)
          TAPS(STEP16)
          if (pixels == 6 && lanes == TILE_PANEL) {
            TILE_ROWS6(LEAVE16)
            continue;
          }
          TILE_ROWS6(KEEP16)
        } else {
          TILE_ROWS6(START8)
          TAPS(STEP8)
          TILE_ROWS6(KEEP8)
        }
        for (IDX r = 0; r < pixels; r++, to += outputs) {
          for (IDX half_ = 0; half_ < (lanes > 8 ? 2 : 1); half_++) {
            const IDX n = lanes - 8 * half_;
            if (n >= 8) {
              EMIT8(y, to + 8 * half_, t[2 * r + half_]);
            } else {
              EMITN(y, to + 8 * half_, n, t[2 * r + half_]);
            }
          }
        }
      }
    }
  }
}

kernel void conv_few(const __global T *x, const __global float *w, BIAS_ARGS __global T *y, dims_t in, dims_t out,
                     dims_t taps, dims_t window, IDX rows_per_item, IDX columns_per_item EXTRA_ARGS) {
  conv_few_item(get_global_id(0), get_global_id(1), get_global_id(2), x, w, BIAS_PASS y, in, out, taps, window,
                rows_per_item, columns_per_item EXTRA_PASS);
}
