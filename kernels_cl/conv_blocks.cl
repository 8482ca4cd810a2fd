// Transposed convolution whose windows tile the output: taps as far apart as they are many, no padding. Each input
// pixel becomes a block of taps x outputs, so that the whole is one matrix product, whose columns (tap, output
// channel) are scattered where the results leave. Channels last; x float32, w packed (pack_blocks) in panels of 16
// columns. Register tiles of tile.h that stay in one row of the input.

#define TILE_SPACE __global

// Storage type of bias and result.
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// 1: one output channel and two taps in a row, which leave interleaved, eight pixels of the result at a time.
#ifndef PAIRS
#define PAIRS 0
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
#define BIAS(o) LOAD(T, bias, o)
#else
#define BIAS_ARGS
#define BIAS_PASS
#define BIAS(o) 0.0f
#endif

#define ROW_POINTER(r) const __global float *a##r = from + TILE_MIN(j + r, in.d[1] - 1) * in.d[2];
#define START8(r) float8 p##r = start_low;
#define START16(r) float8 p##r = start_low, q##r = start_high;
#define KEEP16(r) *(float8_u *)(t + 16 * r) = p##r; *(float8_u *)(t + 16 * r + 8) = q##r;
#define EACH8(v) {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7}

// in: height, width, channels, images. taps: rows, columns, output channels. A work-item: `rows_per_item` rows of the
// input, counted through all images, with all panels for each, so that the results of a row are still in the cache
// when other columns join them.
static inline TILE_OUTLINE void conv_blocks_item(IDX item0, const __global float *x, const __global float *w,
                                                 BIAS_ARGS __global T *y, dims_t in, dims_t taps,
                                                 IDX rows_per_item EXTRA_ARGS) {
  const IDX outputs = taps.d[2], columns = taps.d[0] * taps.d[1] * outputs, pitch = in.d[1] * taps.d[1] * outputs;
  const IDX panels = (columns + TILE_PANEL - 1) / TILE_PANEL;
  const IDX row_begin = item0 * rows_per_item, row_end = TILE_MIN(in.d[0] * in.d[3], row_begin + rows_per_item);
  for (IDX pass = row_begin * panels; pass < row_end * panels; pass++) {
    const IDX row = pass / panels, n = (pass - row * panels) * TILE_PANEL;
    const IDX count = TILE_MIN((IDX)TILE_PANEL, columns - n);
    const __global float *from = x + row * in.d[1] * in.d[2], *b = w + n * in.d[2];
    float start[16];
    for (IDX k = 0; k < 16; k++) start[k] = k < count ? BIAS((n + k) % outputs) : 0.0f;
    const float8 start_low = *(const float8_u *)start, start_high = *(const float8_u *)(start + 8);
#if PAIRS
    for (IDX j = 0; j < in.d[1]; j += 8) {
      TILE_ROWS8(START8)
      TILE_ROWS8(ROW_POINTER)
      TILE_MULTIPLY(8, TILE_ROWS8, b, in.d[2])
      TILE_TRANSPOSE(p0, p1, p2, p3, p4, p5, p6, p7)
      const float8 s[8] = {p0, p1, p2, p3, p4, p5, p6, p7};
      const IDX pixels = TILE_MIN((IDX)8, in.d[1] - j);
      for (IDX u = 0; u < taps.d[0]; u++) {
        const float8 e = s[2 * u], f = s[2 * u + 1];
        const float8 low = (float8)(e.s0, f.s0, e.s1, f.s1, e.s2, f.s2, e.s3, f.s3);
        const float8 high = (float8)(e.s4, f.s4, e.s5, f.s5, e.s6, f.s6, e.s7, f.s7);
        const IDX to = (row * taps.d[0] + u) * pitch + 2 * j;
        if (pixels == 8) {
          EMIT8(y, to, low);
          EMIT8(y, to + 8, high);
        } else {
          EMITN(y, to, TILE_MIN((IDX)8, 2 * pixels), low);
          if (pixels > 4) EMITN(y, to + 8, 2 * pixels - 8, high);
        }
      }
    }
#else
    // Pieces of at most eight columns that belong to one tap: where each begins, and where its results go.
    IDX piece_begin[TILE_PANEL + 1], piece_to[TILE_PANEL], piece_count = 0;
    for (IDX k = 0; k < count; piece_count++) {
      const IDX tap = (n + k) / outputs, o = n + k - tap * outputs, up = tap / taps.d[1], across = tap - up * taps.d[1];
      piece_begin[piece_count] = k;
      piece_to[piece_count] = (row * taps.d[0] + up) * pitch + across * outputs + o;
      k += TILE_MIN((IDX)8, TILE_MIN(count - k, outputs - o));
      piece_begin[piece_count + 1] = k;
    }
    const IDX pixel_step = taps.d[1] * outputs;
    for (IDX j = 0; j < in.d[1]; j += 6) {
      // Eight floats beyond the last row may be read with a piece, none is used.
      float t[6 * 16 + 8];
      TILE_ROWS6(START16)
      TILE_ROWS6(ROW_POINTER)
      TILE_MULTIPLY(16, TILE_ROWS6, b, in.d[2])
      TILE_ROWS6(KEEP16)
      const IDX pixels = TILE_MIN((IDX)6, in.d[1] - j);
      for (IDX i = 0; i < piece_count; i++) {
        const float *from_t = t + piece_begin[i];
        const IDX piece = piece_begin[i + 1] - piece_begin[i];
        IDX to = piece_to[i] + j * pixel_step;
        if (piece == 8) {
          for (IDX r = 0; r < pixels; r++, to += pixel_step) EMIT8(y, to, *(const float8_u *)(from_t + 16 * r));
        } else {
          for (IDX r = 0; r < pixels; r++, to += pixel_step) EMITN(y, to, piece, *(const float8_u *)(from_t + 16 * r));
        }
      }
    }
#endif
  }
}

kernel void conv_blocks(const __global float *x, const __global float *w, BIAS_ARGS __global T *y, dims_t in,
                        dims_t taps, IDX rows_per_item EXTRA_ARGS) {
  conv_blocks_item(get_global_id(0), x, w, BIAS_PASS y, in, taps, rows_per_item EXTRA_PASS);
}
