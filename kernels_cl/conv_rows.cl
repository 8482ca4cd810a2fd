// Convolution as a product whose rows are read where they lie: y[pixel, o] = bias[o] + sum over taps and channels of
// x[pixel's tap, c] * w[tap, c, o], the input float32, the filter packed (pack.cl: pack_filter) in panels of 16 output
// channels. Register tiles of tile.h: six pixels by 16 channels.
//
// One launch computes an output grid: pixel (i, j) of it is output (first + i * step), and its tap (u, v) is input
// (origin + i * stride + u * dilation). So it serves strides and dilations of either sign, and each phase of a
// transposed convolution. A tap outside the image meets zeros, which are multiplied as the specification's formula
// does. Pixels of all images count through, images outermost.

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
// 0: rows are read where they lie, in an input with channels last. 1: for few channels, where a pixel's row would be
// many short runs, the rows of a tile are first copied together, for all panels of output channels; the input may
// then have any layout.
#ifndef PATCHES
#define PATCHES 0
#endif
// With PATCHES, the longest row.
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

// The r-th pixel of a tile: the input row and column of its first tap, and where that lies. NEXT_TO: it is r pixels
// right of the first one. PIXEL: anywhere, then the next pixel; those beyond the last repeat it.
#define DECLARE(r) IDX h##r, v##r, o##r;
#define NEXT_TO(r) h##r = top, v##r = left + r * stride.d[1], o##r = corner + r * stride.d[1] * in.d[6];
#define PIXEL(r) \
  h##r = origin.d[0] + i * stride.d[0], v##r = origin.d[1] + j * stride.d[1]; \
  o##r = image * in.d[3] + h##r * in.d[5] + v##r * in.d[6]; \
  columns_inside = columns_inside && v##r >= 0 && v##r + taps.d[1] <= in.d[1]; \
  if (pixel + r + 1 < pixel_end && ++j == grid.d[1]) { \
    j = 0; \
    if (++i == grid.d[0]) { i = 0; image++; } \
  }

// Where the row of a tile's pixel begins; AHEAD where six neighbours and all their taps lie in the image.
#define DECLARE_ROW(r) const __global float *a##r;
#define AHEAD(r) a##r = x + o##r + offset;
#define POINT(r) \
  a##r = (ulong)(h##r + up) < (ulong)in.d[0] && (ulong)(v##r + across) < (ulong)in.d[1] \
                                   ? x + o##r + offset : zeros;
#define COPIED(r) const float *a##r = rows + r * DEPTH;

#define START16(r) t_[2 * r] = bias_low; t_[2 * r + 1] = bias_high;
#define START8(r) t_[r] = bias_low;
#define RESET16(r) p##r = 0.0f, q##r = 0.0f;
#define RESET8(r) p##r = 0.0f;
#define TOTAL16(r) p##r = p##r + t_[2 * r]; q##r = q##r + t_[2 * r + 1];
#define TOTAL8(r) p##r = p##r + t_[r];
#define SAVE16(r) t_[2 * r] = p##r; t_[2 * r + 1] = q##r;
#define SAVE8(r) t_[r] = p##r;
#define LEAVE16(r) \
  EMIT8(y, at, p##r); \
  EMIT8(y, at + 8, q##r); \
  at += out.d[2];

// Adds all taps to the registers; what summed up to TILE_RUN terms moves to t_. A row of taps whose columns all lie in
// the image, side by side, is one run of k.
#if PATCHES
#define ALL_TAPS(W) \
  TILE_ROWS6(COPIED) \
  TILE_ROWS6(TILE_ZERO##W) \
  TILE_MULTIPLY(W, TILE_ROWS6, b, depth)
#else
#define ALL_TAPS(W) \
  TILE_ROWS6(TILE_ZERO##W) \
  TILE_ROWS6(DECLARE_ROW) \
  IDX summed = 0; \
  for (IDX u = 0; u < taps.d[0]; u++) { \
    const IDX up = u * dilation.d[0], runs = merge ? 1 : taps.d[1], run = merge ? taps.d[1] * channels : channels; \
    for (IDX v = 0; v < runs; v++) { \
      const IDX across = v * dilation.d[1], offset = up * in.d[5] + across * in.d[6]; \
      if (inside) { \
        TILE_ROWS6(AHEAD) \
      } else { \
        TILE_ROWS6(POINT) \
      } \
      if (summed + run > TILE_RUN) { \
        TILE_ROWS6(TILE_ADD##W) \
        TILE_ROWS6(RESET##W) \
        summed = 0; \
      } \
      TILE_MULTIPLY(W, TILE_ROWS6, b, run) \
      b += run * TILE_PANEL; \
      summed += run; \
    } \
  }
#endif

#if PATCHES
// Copies the row of one pixel: for each channel that is a plane of its own (one if channels are last) and each row of
// taps a run of `run` floats, zeros outside the image. Reads and writes eight at a time beyond a run's end, where the
// next run follows, but nothing beyond the `total` floats of x.
static inline void copy_row(const __global float *x, float *to, IDX at, IDX h, IDX v, const dims_t *in,
                            const dims_t *taps, const dims_t *dilation, IDX planes, IDX pixel, bool inside, IDX total) {
  const IDX run = taps->d[1] * pixel;
  for (IDX c = 0; c < planes; c++) {
    for (IDX u = 0; u < taps->d[0]; u++, to += run) {
      const IDX row = h + u * dilation->d[0], from = at + c * in->d[4] + u * dilation->d[0] * in->d[5];
      const bool row_inside = row >= 0 && row < in->d[0];
      if (inside && row_inside && from + (run + 7) / 8 * 8 <= total) {
        for (IDX k = 0; k < run; k += 8) *(float8_u *)(to + k) = LOAD8(float, x, from + k);
        continue;
      }
      for (IDX t = 0; t < taps->d[1]; t++) {
        const IDX column = v + t * dilation->d[1];
        const bool here = row_inside && column >= 0 && column < in->d[1];
        for (IDX k = 0; k < pixel; k++)
          to[t * pixel + k] = here ? x[from + t * dilation->d[1] * in->d[6] + k] : 0.0f;
      }
    }
  }
}
#define COPY(r) \
  copy_row(x, rows + r * DEPTH, o##r, h##r, v##r, &in, &taps, &dilation, planes, in.d[6] == 1 ? 1 : channels, \
           columns_inside, in.d[3] * grid.d[2]);
// The same for six neighbours whose taps all lie in the image.
#define COPY_EIGHT(r) *(float8_u *)(to + r * DEPTH + k) = LOAD8(float, x, from + k + r * stride.d[1] * in.d[6]);
#define COPY_ALL \
  for (IDX c = 0; c < planes; c++) { \
    for (IDX u = 0; u < taps.d[0]; u++, to += run) { \
      const IDX from = corner + c * in.d[4] + u * dilation.d[0] * in.d[5]; \
      for (IDX k = 0; k < run; k += 8) { TILE_ROWS6(COPY_EIGHT) } \
    } \
  }
#endif

// in: height, width, channels, and elements of an image, a plane, a row, a pixel. out: height, width, channels,
// elements of an image. grid: rows, columns, images. first, step: from grid to output. origin, stride, dilation: from
// grid and tap to input. taps: rows, columns. channels, outputs: of one group; group = get_global_id(2).
static inline TILE_OUTLINE void conv_rows_item(IDX item0, IDX item1, IDX item2, const __global float *x,
                                               const __global float *w, const __global float *zeros,
                                               BIAS_ARGS __global T *y, dims_t in, dims_t out, dims_t grid,
                                               dims_t first, dims_t step, dims_t origin, dims_t stride,
                                               dims_t dilation, dims_t taps, IDX channels, IDX outputs,
                                               IDX pixels_per_item, IDX panels_per_item EXTRA_ARGS) {
  const IDX pixels = grid.d[0] * grid.d[1] * grid.d[2], group = item2;
  const IDX pixel_begin = item1 * pixels_per_item, pixel_end = TILE_MIN(pixels, pixel_begin + pixels_per_item);
  const IDX panels = (outputs + TILE_PANEL - 1) / TILE_PANEL;
  const IDX panel_begin = item0 * panels_per_item, panel_end = TILE_MIN(panels, panel_begin + panels_per_item);
  const IDX depth = taps.d[0] * taps.d[1] * channels;
  const bool flat = grid.d[0] == out.d[0] && grid.d[1] == out.d[1];
#if PATCHES
  const IDX planes = in.d[6] == 1 ? channels : 1;
  float rows[6 * DEPTH + 8];
#endif
  x += group * channels * in.d[4];
  for (IDX pixel = pixel_begin; pixel < pixel_end; pixel += 6) {
    IDX j = pixel % grid.d[1], i = pixel / grid.d[1] % grid.d[0], image = pixel / (grid.d[1] * grid.d[0]);
    const IDX j_first = j, i_first = i, image_first = image;
    const IDX top = origin.d[0] + i * stride.d[0], left = origin.d[1] + j * stride.d[1];
    const IDX corner = image * in.d[3] + top * in.d[5] + left * in.d[6];
    const bool in_line = j + 6 <= grid.d[1] && pixel + 6 <= pixel_end;
    bool columns_inside = dilation.d[1] == 1;
    TILE_ROWS6(DECLARE)
    if (in_line) {
      TILE_ROWS6(NEXT_TO)
      columns_inside = columns_inside && left >= 0 && v5 + taps.d[1] <= in.d[1];
    } else {
      TILE_ROWS6(PIXEL)
    }
#if PATCHES
    const IDX run = taps.d[1] * (in.d[6] == 1 ? 1 : channels), bottom = top + (taps.d[0] - 1) * dilation.d[0];
    const IDX last = o5 + (planes - 1) * in.d[4] + (bottom - top) * in.d[5] + (run + 7) / 8 * 8;
    if (in_line && columns_inside && TILE_MIN(top, bottom) >= 0 && TILE_MAX(top, bottom) < in.d[0] &&
        last <= in.d[3] * grid.d[2]) {
      float *to = rows;
      COPY_ALL
    } else {
      TILE_ROWS6(COPY)
    }
#else
    const bool merge = columns_inside && channels == in.d[2];
    const IDX bottom = top + (taps.d[0] - 1) * dilation.d[0], reach = (taps.d[1] - 1) * dilation.d[1];
    const bool inside = in_line && TILE_MIN(top, bottom) >= 0 && TILE_MAX(top, bottom) < in.d[0] &&
                        TILE_MIN(left, left + reach) >= 0 && TILE_MAX(v5, v5 + reach) < in.d[1];
#endif
    const IDX rows_left = TILE_MIN((IDX)6, pixel_end - pixel);
    for (IDX panel = panel_begin; panel < panel_end; panel++) {
      const IDX o = panel * TILE_PANEL, count = TILE_MIN((IDX)TILE_PANEL, outputs - o), o_all = group * outputs + o;
      const float8 bias_low = BIAS(o_all, count), bias_high = BIAS(o_all + 8, count - 8);
      const __global float *b = w + (group * panels + panel) * depth * TILE_PANEL;
      float8 t_[12];
      if (count > 8) {
        TILE_ROWS6(START16)
        ALL_TAPS(16)
        TILE_ROWS6(TOTAL16)
        if (!PLANAR && flat && rows_left == 6 && count == TILE_PANEL) {
          IDX at = pixel * out.d[2] + o_all;
          TILE_ROWS6(LEAVE16)
          continue;
        }
        TILE_ROWS6(SAVE16)
      } else {
        TILE_ROWS6(START8)
        ALL_TAPS(8)
        TILE_ROWS6(TOTAL8)
        TILE_ROWS6(SAVE8)
      }
      const IDX halves = count > 8 ? 2 : 1;
#if PLANAR
      // Eight channels at a time, turned to runs of pixels where the pixels lie side by side.
      const IDX plane = out.d[0] * out.d[1], per_image = grid.d[0] * grid.d[1];
      const bool run = flat && pixel + rows_left <= (image_first + 1) * per_image;
      // Two pixels too many, which the next tile of this work-item overwrites.
      const bool whole = pixel + 8 <= pixel_end && pixel + 8 <= (image_first + 1) * per_image;
      for (IDX half_ = 0; half_ < halves; half_++) {
        float8 s[8];
        for (IDX r = 0; r < 8; r++) s[r] = r < 6 ? t_[r * halves + half_] : (float8)(0.0f);
        TILE_TRANSPOSE(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
        const IDX lanes = TILE_MIN((IDX)8, count - 8 * half_);
        for (IDX lane = 0; lane < lanes; lane++) {
          const IDX channel = o_all + 8 * half_ + lane;
          if (run) {
            const IDX at = (image_first * out.d[2] + channel) * plane + pixel - image_first * per_image;
            if (whole) {
              EMIT8(y, at, s[lane]);
            } else {
              EMITN(y, at, rows_left, s[lane]);
            }
          } else {
            const float each[8] = {s[lane].s0, s[lane].s1, s[lane].s2, s[lane].s3,
                                   s[lane].s4, s[lane].s5, s[lane].s6, s[lane].s7};
            for (IDX r = 0; r < rows_left; r++) {
              const IDX p = pixel + r, pj = p % grid.d[1], pi = p / grid.d[1] % grid.d[0], pn = p / per_image;
              const IDX row = first.d[0] + pi * step.d[0], column = first.d[1] + pj * step.d[1];
              EMITN(y, (pn * out.d[2] + channel) * plane + row * out.d[1] + column, 1, (float8)(each[r]));
            }
          }
        }
      }
#else
      j = j_first, i = i_first, image = image_first;
      for (IDX r = 0; r < rows_left; r++) {
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

kernel void conv_rows(const __global float *x, const __global float *w, const __global float *zeros,
                      BIAS_ARGS __global T *y, dims_t in, dims_t out, dims_t grid, dims_t first, dims_t step,
                      dims_t origin, dims_t stride, dims_t dilation, dims_t taps, IDX channels, IDX outputs,
                      IDX pixels_per_item, IDX panels_per_item EXTRA_ARGS) {
  conv_rows_item(get_global_id(0), get_global_id(1), get_global_id(2), x, w, zeros, BIAS_PASS y, in, out, grid, first,
                 step, origin, stride, dilation, taps, channels, outputs, pixels_per_item,
                 panels_per_item EXTRA_PASS);
}
