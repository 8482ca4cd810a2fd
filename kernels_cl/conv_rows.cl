// Convolution as a product whose rows are read where they lie: y[pixel, o] = bias[o] + sum over taps and channels of
// x[pixel's tap, c] * w[tap, c, o], the input float32 with channels last, the filter packed (pack.cl: pack_filter) in
// panels of 16 output channels. Register tiles of tile.h: six pixels by 16 channels, or eight by 8.
//
// One launch computes an output grid: pixel (i, j) of it is output (first + i * step), and its tap (u, v) is input
// (origin + i * stride + u * dilation). So it serves strides and dilations of either sign, and each phase of a
// transposed convolution. A tap outside the image points to zeros, which are multiplied as the specification's
// formula does. Pixels of all images count through, images outermost.

#define TILE_SPACE __global

// Storage type of bias and result.
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// 1: the result has channels before rows and columns (nchw).
#ifndef PLANAR
#define PLANAR 0
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
#endif

#if HAS_BIAS
#define BIAS_ARGS const __global T *bias,
#define BIAS(at, n) ((n) >= 8 ? LOAD8(T, bias, at) : LOADN(T, bias, at, max((IDX)0, (IDX)(n))))
#else
#define BIAS_ARGS
#define BIAS(at, n) ((float8)(0.0f))
#endif

#define START16(r) t_[2 * r] = bias_low; t_[2 * r + 1] = bias_high;
#define START8(r) t_[r] = bias_low;
#define RESET16(r) p##r = 0.0f, q##r = 0.0f;
#define RESET8(r) p##r = 0.0f;

// The r-th pixel of a tile: its image's offset, and the input row and column of its first tap; then the next pixel.
// Pixels beyond the last repeat it.
#define PIXEL(r) \
  const IDX h##r = origin.d[0] + i * stride.d[0], v##r = origin.d[1] + j * stride.d[1]; \
  const IDX o##r = image * in.d[3] + (h##r * in.d[1] + v##r) * in.d[2]; \
  columns_inside = columns_inside && v##r >= 0 && v##r + taps.d[1] <= in.d[1]; \
  if (pixel + r + 1 < pixel_end && ++j == grid.d[1]) { \
    j = 0; \
    if (++i == grid.d[0]) { i = 0; image++; } \
  }
#define POINT(r) \
  const __global float *a##r = (ulong)(h##r + up) < (ulong)in.d[0] && (ulong)(v##r + across) < (ulong)in.d[1] \
                                   ? x + o##r + offset : zeros;

// Adds all taps to t_. A row of taps whose columns all lie in the image, side by side, is one run of k.
#define ALL_TAPS(W, ROWS) \
  IDX summed = 0; \
  ROWS(TILE_ZERO##W) \
  ROWS(START##W) \
  for (IDX u = 0; u < taps.d[0]; u++) { \
    const IDX up = u * dilation.d[0], runs = merge ? 1 : taps.d[1], run = merge ? taps.d[1] * channels : channels; \
    for (IDX v = 0; v < runs; v++) { \
      const IDX across = v * dilation.d[1], offset = (up * in.d[1] + across) * in.d[2]; \
      ROWS(POINT) \
      TILE_MULTIPLY(W, ROWS, b, run) \
      b += run * TILE_PANEL; \
      summed += run; \
      if (summed >= TILE_RUN) { \
        ROWS(TILE_ADD##W) \
        ROWS(RESET##W) \
        summed = 0; \
      } \
    } \
  } \
  ROWS(TILE_ADD##W)

// in: height, width, channels, elements of an image. out: the same. grid: rows, columns, images. first, step: from
// grid to output. origin, stride, dilation: from grid and tap to input. taps: rows, columns. channels, outputs: of one
// group; group = get_global_id(2).
kernel void conv_rows(const __global float *x, const __global float *w, const __global float *zeros,
                      BIAS_ARGS __global T *y, dims_t in, dims_t out, dims_t grid, dims_t first, dims_t step,
                      dims_t origin, dims_t stride, dims_t dilation, dims_t taps, IDX channels, IDX outputs,
                      IDX pixels_per_item, IDX panels_per_item EXTRA_ARGS) {
  const IDX pixels = grid.d[0] * grid.d[1] * grid.d[2], group = get_global_id(2);
  const IDX pixel_begin = get_global_id(1) * pixels_per_item, pixel_end = min(pixels, pixel_begin + pixels_per_item);
  const IDX panels = (outputs + TILE_PANEL - 1) / TILE_PANEL;
  const IDX panel_end = min(panels, (IDX)(get_global_id(0) + 1) * panels_per_item);
  const IDX panel_size = taps.d[0] * taps.d[1] * channels * TILE_PANEL;
  x += group * channels;
  for (IDX panel = get_global_id(0) * panels_per_item; panel < panel_end; panel++) {
    const IDX o = panel * TILE_PANEL, count = min((IDX)TILE_PANEL, outputs - o), o_all = group * outputs + o;
    const float8 bias_low = BIAS(o_all, count), bias_high = BIAS(o_all + 8, count - 8);
    IDX rows = 6;
    for (IDX pixel = pixel_begin; pixel < pixel_end; pixel += rows) {
      IDX j = pixel % grid.d[1], i = pixel / grid.d[1] % grid.d[0], image = pixel / (grid.d[1] * grid.d[0]);
      const IDX j_first = j, i_first = i, image_first = image;
      const __global float *b = w + (group * panels + panel) * panel_size;
      bool columns_inside = dilation.d[1] == 1 && channels == in.d[2];
      float8 t_[12];
      if (count > 8) {
        TILE_ROWS6(PIXEL)
        const bool merge = columns_inside;
        ALL_TAPS(16, TILE_ROWS6)
      } else {
        rows = 8;
        TILE_ROWS8(PIXEL)
        const bool merge = columns_inside;
        ALL_TAPS(8, TILE_ROWS8)
      }
      rows = min(rows, pixel_end - pixel);
      const IDX halves = count > 8 ? 2 : 1;
      j = j_first, i = i_first, image = image_first;
#if PLANAR
      // Eight channels at a time, turned to runs of pixels where the pixels lie side by side.
      const IDX plane = out.d[0] * out.d[1], per_image = grid.d[0] * grid.d[1];
      const bool run = step.d[0] == 1 && step.d[1] == 1 && pixel + rows <= (image + 1) * per_image;
      for (IDX half_ = 0; half_ < halves; half_++) {
        float8 s[8];
        for (IDX r = 0; r < 8; r++) s[r] = r < rows ? t_[r * halves + half_] : (float8)(0.0f);
        TILE_TRANSPOSE(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
        const IDX lanes = min((IDX)8, count - 8 * half_);
        for (IDX lane = 0; lane < lanes; lane++) {
          const IDX channel = o_all + 8 * half_ + lane;
          if (run) {
            const IDX at = (image * out.d[2] + channel) * plane + pixel - image * per_image;
            if (rows == 8) {
              EMIT8(y, at, s[lane]);
            } else {
              EMITN(y, at, rows, s[lane]);
            }
          } else {
            const float each[8] = {s[lane].s0, s[lane].s1, s[lane].s2, s[lane].s3,
                                   s[lane].s4, s[lane].s5, s[lane].s6, s[lane].s7};
            for (IDX r = 0; r < rows; r++) {
              const IDX p = pixel + r, pj = p % grid.d[1], pi = p / grid.d[1] % grid.d[0], pn = p / per_image;
              const IDX row = first.d[0] + pi * step.d[0], column = first.d[1] + pj * step.d[1];
              EMITN(y, (pn * out.d[2] + channel) * plane + row * out.d[1] + column, 1, (float8)(each[r]));
            }
          }
        }
      }
#else
      for (IDX r = 0; r < rows; r++) {
        const IDX row = first.d[0] + i * step.d[0], column = first.d[1] + j * step.d[1];
        const IDX at = image * out.d[3] + (row * out.d[1] + column) * out.d[2] + o_all;
        for (IDX half_ = 0; half_ < halves; half_++) {
          const IDX lanes = count - 8 * half_;
          if (lanes >= 8) {
            EMIT8(y, at + 8 * half_, t_[r * halves + half_]);
          } else {
            EMITN(y, at + 8 * half_, lanes, t_[r * halves + half_]);
          }
        }
        if (++j == grid.d[1]) {
          j = 0;
          if (++i == grid.d[0]) i = 0, image++;
        }
      }
#endif
    }
  }
}
