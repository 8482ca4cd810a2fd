// Winograd convolution F(4x4, 3x3) or F(2x2, 3x3), stride 1, one group: each 6 x 6 (4 x 4) patch of the input becomes
// as many numbers a channel, each of which is multiplied by a matrix of its own, and the 36 (16) results of a channel
// become 4 x 4 (2 x 2) pixels: a quarter (4 / 9) of the multiplications of the direct way (A. Lavin, S. Gray, "Fast
// algorithms for convolutional neural networks", 2015; points 0, 1, -1, 2, -2, of which F(2x2, 3x3) takes the first
// three). The error of F(4x4, 3x3) is about ten times that of the direct way, that of F(2x2, 3x3) hardly larger.
//
// The input patch of a tile may hold values that are not finite, or so large that a transform overflows where the sum
// itself would not; then the whole tile is computed directly, so that they reach the outputs they should, and no other.

#define TILE_SPACE __global

// Rows and columns of a tile's results: 4 or 2.
#ifndef RESULTS
#define RESULTS 4
#endif
// Storage type of x, bias and y.
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// 1: x and y have channels before rows and columns (nchw), else channels last.
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
#define EXTRA_PASS
#endif

#if HAS_BIAS
#define BIAS_ARGS const __global T *bias,
#define BIAS_PASS bias,
#define BIAS(at, n) ((n) >= 8 ? LOAD8(T, bias, at) : LOADN(T, bias, at, n))
#else
#define BIAS_ARGS
#define BIAS_PASS
#define BIAS(at, n) ((float8)(0.0f))
#endif

// Channels whose patches are transformed together: few enough for the first cache, enough for runs of memory.
#define CHUNK 64

// The tile and its patch. Macros that end in OF take the macro that gives a numbered value.
#if RESULTS == 4
#define SIDE 6
#define EACH_RESULT(F) F(0) F(1) F(2) F(3)
#define EACH_POINT(F) F(0) F(1) F(2) F(3) F(4) F(5)
#else
#define SIDE 4
#define EACH_RESULT(F) F(0) F(1)
#define EACH_POINT(F) F(0) F(1) F(2) F(3)
#endif
#define POINTS (SIDE * SIDE)
// Tiles side by side that are eight columns of results.
#define MOST_TAKEN (PLANAR ? 8 / RESULTS : 1)

// One column of the input transform, and one of the output transform.
#if RESULTS == 4
#define TO_POINTS(OUT_OF, IN_OF) \
  { \
    const float8 d0_ = IN_OF(0), d1_ = IN_OF(1), d2_ = IN_OF(2), d3_ = IN_OF(3), d4_ = IN_OF(4), d5_ = IN_OF(5); \
    const float8 e0_ = d4_ - 4.0f * d2_, e1_ = d3_ - 4.0f * d1_, e2_ = d4_ - d2_, e3_ = 2.0f * (d3_ - d1_); \
    OUT_OF(0) = 4.0f * d0_ - 5.0f * d2_ + d4_; \
    OUT_OF(1) = e0_ + e1_; \
    OUT_OF(2) = e0_ - e1_; \
    OUT_OF(3) = e2_ + e3_; \
    OUT_OF(4) = e2_ - e3_; \
    OUT_OF(5) = 4.0f * d1_ - 5.0f * d3_ + d5_; \
  }
#define FROM_POINTS(OUT_OF, IN_OF) \
  { \
    const float8 m1_ = IN_OF(1), m2_ = IN_OF(2), m3_ = IN_OF(3), m4_ = IN_OF(4); \
    const float8 e0_ = m1_ + m2_, e1_ = m1_ - m2_, e2_ = m3_ + m4_, e3_ = m3_ - m4_; \
    OUT_OF(0) = IN_OF(0) + e0_ + e2_; \
    OUT_OF(1) = e1_ + 2.0f * e3_; \
    OUT_OF(2) = e0_ + 4.0f * e2_; \
    OUT_OF(3) = e1_ + 8.0f * e3_ + IN_OF(5); \
  }
#else
#define TO_POINTS(OUT_OF, IN_OF) \
  { \
    const float8 d0_ = IN_OF(0), d1_ = IN_OF(1), d2_ = IN_OF(2), d3_ = IN_OF(3); \
    OUT_OF(0) = d0_ - d2_; \
    OUT_OF(1) = d1_ + d2_; \
    OUT_OF(2) = d2_ - d1_; \
    OUT_OF(3) = d3_ - d1_; \
  }
#define FROM_POINTS(OUT_OF, IN_OF) \
  { \
    const float8 m1_ = IN_OF(1), m2_ = IN_OF(2); \
    OUT_OF(0) = IN_OF(0) + m1_ + m2_; \
    OUT_OF(1) = m1_ - m2_ + IN_OF(3); \
  }
#endif

// Second half of the input transform: t holds POINTS vectors for each of `groups` groups of eight channels.
#define ACROSS(j) d[j * (CHUNK / 8) + g]
#define POINT(j) o##j
#define DECLARE_POINT(j) float8 o##j;
#define STORE_POINT(j) ASTORE8(float, o, j * v_step + 8 * g, o##j);
static inline void patch_to_points(const float8 *t, __global float *v, IDX v_step, IDX groups) {
  for (IDX i = 0; i < SIDE; i++) {
    const float8 *d = t + i * SIDE * (CHUNK / 8);
    __global float *o = v + i * SIDE * v_step;
    for (IDX g = 0; g < groups; g++) {
      EACH_POINT(DECLARE_POINT)
      TO_POINTS(POINT, ACROSS)
      EACH_POINT(STORE_POINT)
    }
  }
}

// Row i of the points of patch column j.
#define DOWN(i) t[((i) * SIDE + j) * (CHUNK / 8) + g]

#if PLANAR
// Columns column, column + step, ... of one row of one channel in the first SIDE lanes, zeros outside the image; touches
// no memory outside the `total` elements of x.
static inline float8 row_of_patch(const __global T *x, IDX row_start, IDX column, IDX step, IDX width, IDX total) {
  const IDX at = row_start + column;
  if (step == 1) {
    const IDX first = column < 0 ? -column : 0, last = TILE_MIN((IDX)8, width - column);
    // The next tiles' columns.
    TILE_PREFETCH(x + at + 16)
    if (first == 0 && last == 8) return LOAD8(T, x, at);
    if (at >= 0 && at + 8 <= total) {
      const int8 lane = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
      return SEL8((float8)(0.0f), LOAD8(T, x, at), (lane >= (int8)((int)first)) & (lane < (int8)((int)last)));
    }
  }
  float each[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (IDX l = 0; l < SIDE; l++)
    if (column + l * step >= 0 && column + l * step < width) each[l] = LOAD(T, x, at + l * step);
  return (float8)(each[0], each[1], each[2], each[3], each[4], each[5], each[6], each[7]);
}

// Patches of channels c .. c + 8 * groups - 1, transformed along their columns. `in` is height, width, channels,
// images, `dilation` what lies between the pixels of a patch.
static inline void read_patch(const __global T *x, float8 *t, dims_t in, dims_t dilation, IDX image, IDX row,
                              IDX column, IDX c, IDX groups) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], plane = H * W, total = plane * C * in.d[3];
  for (IDX g = 0; g < groups; g++) {
    float8 d[POINTS];
    for (IDX i = 0; i < SIDE; i++) {
      const IDX h = row + i * dilation.d[0];
      float8 r0 = 0.0f, r1 = 0.0f, r2 = 0.0f, r3 = 0.0f, r4 = 0.0f, r5 = 0.0f, r6 = 0.0f, r7 = 0.0f;
      if (h >= 0 && h < H) {
        const IDX first = c + 8 * g, at = ((image * C + first) * H + h) * W;
#define CHANNEL(k) if (first + k < C) r##k = row_of_patch(x, at + k * plane, column, dilation.d[1], W, total);
        CHANNEL(0) CHANNEL(1) CHANNEL(2) CHANNEL(3) CHANNEL(4) CHANNEL(5) CHANNEL(6) CHANNEL(7)
#undef CHANNEL
      }
      TILE_TRANSPOSE(r0, r1, r2, r3, r4, r5, r6, r7)
#define KEEP(k) d[SIDE * i + k] = r##k;
      EACH_POINT(KEEP)
#undef KEEP
    }
#define KEPT(i) d[SIDE * i + j]
    for (IDX j = 0; j < SIDE; j++) TO_POINTS(DOWN, KEPT)
#undef KEPT
  }
}
#else
// As above.
static inline void read_patch(const __global T *x, float8 *t, dims_t in, dims_t dilation, IDX image, IDX row,
                              IDX column, IDX c, IDX groups) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], pitch = dilation.d[0] * W * C;
  const IDX top = row < 0 ? (-row + dilation.d[0] - 1) / dilation.d[0] : 0;
  const IDX bottom = row >= H ? 0 : TILE_MIN((IDX)SIDE, (H - 1 - row) / dilation.d[0] + 1);
  for (IDX j = 0; j < SIDE; j++) {
    const IDX w = column + j * dilation.d[1];
    const __global T *at = x + ((image * H + row) * W + w) * C + c;
    for (IDX g = 0; g < groups; g++) {
#define EMPTY(i) float8 d##i = 0.0f;
      EACH_POINT(EMPTY)
      const IDX left = C - c - 8 * g;
      if (w >= 0 && w < W) {
        if (bottom - top == SIDE && left >= 8) {
#define ROW(i) d##i = LOAD8(T, at, i * pitch + 8 * g);
          EACH_POINT(ROW)
#undef ROW
        } else {
#define ROW(i) \
  if (i >= top && i < bottom) \
    d##i = left >= 8 ? LOAD8(T, at, i * pitch + 8 * g) : LOADN(T, at, i * pitch + 8 * g, left);
          EACH_POINT(ROW)
#undef ROW
        }
      }
#define ROW(i) d##i
      TO_POINTS(DOWN, ROW)
#undef ROW
#undef EMPTY
    }
  }
}
#endif

// tiles x channels (rows `depth` apart) times one matrix's panel: m[tile * 16 ..]. Sums of RUN terms at a time: the
// transforms magnify their rounding errors.
#define RUN 64
#define ROW_POINTER(r) const __global float *a##r = v + (tile + r) * depth;
#define NEXT_RUN(r) a##r += RUN;
#define NOTHING16(r) t_[2 * r] = 0.0f; t_[2 * r + 1] = 0.0f;
#define NOTHING8(r) t_[r] = 0.0f;
#define RESET16(r) p##r = 0.0f, q##r = 0.0f;
#define RESET8(r) p##r = 0.0f;
#define TOTAL16(r) p##r = p##r + t_[2 * r]; q##r = q##r + t_[2 * r + 1];
#define TOTAL8(r) p##r = p##r + t_[r];
#define LEAVE16(r) ASTORE8(float, m, (tile + r) * TILE_PANEL, p##r); ASTORE8(float, m, (tile + r) * TILE_PANEL + 8, q##r);
#define LEAVE8(r) ASTORE8(float, m, (tile + r) * TILE_PANEL, p##r);
#define ALL_RUNS(W, ROWS) \
  { \
    ROWS(ROW_POINTER) \
    ROWS(TILE_ZERO##W) \
    float8 t_[12]; \
    if (channels > RUN) { ROWS(NOTHING##W) } \
    for (IDX k = 0; k < channels; k += RUN) { \
      if (k > 0) { \
        ROWS(TILE_ADD##W) \
        ROWS(RESET##W) \
        ROWS(NEXT_RUN) \
      } \
      TILE_MULTIPLY(W, ROWS, u + k * TILE_PANEL, TILE_MIN((IDX)RUN, channels - k)) \
    } \
    if (channels > RUN) { ROWS(TOTAL##W) } \
    ROWS(LEAVE##W) \
  }
static inline void multiply_panel(const __global float *v, const __global float *u, __global float *m, IDX tiles,
                                  IDX channels, IDX depth, IDX columns) {
  if (columns > 8) {
    for (IDX tile = 0; tile < tiles; tile += 6) ALL_RUNS(16, TILE_ROWS6)
  } else {
    for (IDX tile = 0; tile < tiles; tile += 8) ALL_RUNS(8, TILE_ROWS8)
  }
}

// One output pixel of eight channels the direct way; w is the filter that was transformed.
static inline float8 direct_pixel(const __global T *x, const __global float *w, dims_t in, dims_t dilation, IDX image,
                                  IDX row, IDX column) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2];
  float8 sum = 0.0f;
  for (IDX i = 0; i < 3; i++) {
    for (IDX j = 0; j < 3; j++) {
      const IDX h = row + i * dilation.d[0], v = column + j * dilation.d[1];
      const bool inside = h >= 0 && h < H && v >= 0 && v < W;
      for (IDX c = 0; c < C; c++) {
        const IDX at = PLANAR ? ((image * C + c) * H + h) * W + v : ((image * H + h) * W + v) * C + c;
        const float value = inside ? LOAD(T, x, at) : 0.0f;
        sum = sum + value * TILE_B(w, ((i * 3 + j) * C + c) * TILE_PANEL);
      }
    }
  }
  return sum;
}

// The results of a tile for eight channels, `pitch` vectors from row to row of s; false if one is not finite.
#define FROM_MEMORY(i) x##i
#define LOAD_POINT(i) const float8 x##i = ALOAD8(float, m, (i * SIDE + j) * m_step);
#define KEPT_RESULT(i) t[i][j]
#define FROM_COLUMNS(j) t[i][j]
#define RESULT(j) s[i * pitch + j]
#define CHECK(j) sum = sum + s[i * pitch + j];
static inline bool points_to_results(const __global float *m, IDX m_step, float8 *s, IDX pitch) {
  float8 t[RESULTS][SIDE], check = 0.0f;
  for (IDX j = 0; j < SIDE; j++) {
    EACH_POINT(LOAD_POINT)
    FROM_POINTS(KEPT_RESULT, FROM_MEMORY)
  }
  for (IDX i = 0; i < RESULTS; i++) {
    float8 sum = 0.0f;
    FROM_POINTS(RESULT, FROM_COLUMNS)
    EACH_RESULT(CHECK)
    check = check + 0.0f * sum;
  }
  // Zero unless something is not finite.
  const float4 half_ = check.lo + check.hi;
  return (half_.s0 + half_.s1) + (half_.s2 + half_.s3) == 0.0f;
}

// A block's tile: its image, first output row and column; tiles of one remainder lie together.
#define FIND_TILE \
  const IDX at = tile_begin + tile, tc = at % tile_columns, tr = at / tile_columns % tile_rows; \
  const IDX image = at / (tile_columns * tile_rows); \
  const IDX row = tr / tiles_down + tr % tiles_down * RESULTS * down; \
  const IDX column = tc / tiles_across + tc % tiles_across * RESULTS * apart;

// Asks for the memory of a tile's results, scattered as it is, well before they are there.
static inline void fetch_results(const __global T *y, dims_t out, IDX image, IDX row, IDX column, IDX down, IDX apart,
                                 IDX o, IDX count) {
  const IDX OH = out.d[0], OW = out.d[1], OC = out.d[2];
  for (IDX i = 0; i < RESULTS; i++) {
#if PLANAR
    const __global T *to = y + ((image * OC + o) * OH + row + i * down) * OW + column;
    for (IDX l = 0; l < count; l++) TILE_PREFETCH_TO_WRITE(to + l * OH * OW)
#else
    const __global T *to = y + ((image * OH + row + i * down) * OW + column) * OC + o;
    for (IDX j = 0; j < RESULTS; j++) {
      TILE_PREFETCH_TO_WRITE(to + j * apart * OC)
      TILE_PREFETCH_TO_WRITE(to + j * apart * OC + count - 1)
    }
#endif
  }
}

// `stages` bits: 1 input transform, 2 products, 4 output transform. All three in one launch, for blocks of tiles that
// stay in the second cache, each work-item taking every `get_global_size(0)`-th block in scratch memory of its own;
// or one launch each, spread over blocks (dimension 0), panels of output channels (1; input: parts of the block) and
// matrices (2; output: parts of the block), where there are few tiles or many channels.
// A block's scratch: POINTS matrices of `block_tiles` tiles (a multiple of 24) by `depth` channels (a multiple of 8),
// then for each panel, or for one at a time if `panel_step` is 0, POINTS of block_tiles x 16.
// in: height, width, channels, images. out: the same. window: rows and columns between the taps, rows above, columns
// to the left. With gaps between the taps, the pixels of equal remainder by the gap make images of their own.
// u: the transformed filter, [panel][POINTS][channel][16]; w: the filter, [panel][3][3][channel][16].
static inline TILE_OUTLINE void winograd_item(IDX item0, IDX item1, IDX item2, IDX items0, IDX items1, IDX items2,
                                              const __global T *x, const __global float *u, const __global float *w,
                                              BIAS_ARGS __global T *y, __global float *scratch, dims_t in, dims_t out,
                                              dims_t window, IDX block_tiles, IDX blocks, IDX depth, IDX scratch_step,
                                              IDX panel_step, int stages EXTRA_ARGS) {
  const IDX C = in.d[2], OH = out.d[0], OW = out.d[1], OC = out.d[2], down = window.d[0], apart = window.d[1];
  // Tiles of one remainder, and of all.
  const IDX tiles_down = ((OH + down - 1) / down + RESULTS - 1) / RESULTS;
  const IDX tiles_across = ((OW + apart - 1) / apart + RESULTS - 1) / RESULTS;
  const IDX tile_rows = tiles_down * down, tile_columns = tiles_across * apart;
  const IDX tiles = tile_rows * tile_columns * in.d[3];
  const IDX panels = (OC + TILE_PANEL - 1) / TILE_PANEL;
  const IDX v_step = block_tiles * depth, m_step = block_tiles * TILE_PANEL;
  const IDX one = item1, ones = items1, two = item2, twos = items2;
  for (IDX block = item0; block < blocks; block += items0) {
    const IDX tile_begin = block * block_tiles, count = TILE_MIN(block_tiles, tiles - tile_begin);
    __global float *v = scratch + (stages == 7 ? (IDX)item0 : block) * scratch_step;
    if (stages & 1) {
      const IDX each = (count + ones - 1) / ones;
      for (IDX tile = one * each; tile < TILE_MIN(count, (one + 1) * each); tile++) {
        FIND_TILE
        for (IDX c = 0; c < depth; c += CHUNK) {
          float8 t[POINTS * (CHUNK / 8)];
          const IDX groups = TILE_MIN((IDX)CHUNK, depth - c) / 8;
          read_patch(x, t, in, window, image, row - window.d[2], column - window.d[3], c, groups);
          patch_to_points(t, v + tile * depth + c, v_step, groups);
        }
      }
    }
    const IDX panel_begin = stages == 7 ? 0 : one, panel_end = stages & 6 ? panels : 0, skip = stages == 7 ? 1 : ones;
    for (IDX panel = panel_begin; panel < panel_end; panel += skip) {
      const IDX columns = TILE_MIN((IDX)TILE_PANEL, OC - panel * TILE_PANEL);
      __global float *m = v + POINTS * v_step + panel * panel_step;
      if (stages & 2) {
        const IDX step = stages == 7 ? 1 : twos;
        for (IDX e = stages == 7 ? 0 : two; e < POINTS; e += step) {
          multiply_panel(v + e * v_step, u + (panel * POINTS + e) * C * TILE_PANEL, m + e * m_step, count, C, depth,
                         columns);
          if (stages != 7) continue;
          const IDX from = (count * e + POINTS - 1) / POINTS, to = (count * (e + 1) + POINTS - 1) / POINTS;
          for (IDX tile = from; tile < to; tile++) {
            FIND_TILE
            fetch_results(y, out, image, row, column, down, apart, panel * TILE_PANEL, columns);
          }
        }
      }
      if (!(stages & 4)) continue;
      const IDX parts = stages == 7 ? 1 : twos, part = stages == 7 ? 0 : two, each = (count + parts - 1) / parts;
      const IDX tile_end = TILE_MIN(count, (part + 1) * each);
      IDX taken = 1;
      for (IDX tile = part * each; tile < tile_end; tile += taken) {
        FIND_TILE
        const IDX rows = TILE_MIN((IDX)RESULTS, (OH - row + down - 1) / down);
#if PLANAR
        // Planar results leave as runs of eight pixels: tiles side by side.
        taken = apart == 1 ? TILE_MIN((IDX)MOST_TAKEN, TILE_MIN(tile_end - tile, tile_columns - tc)) : 1;
#endif
        const IDX across = TILE_MIN(RESULTS * taken, (OW - column + apart - 1) / apart);
        for (IDX c = 0; c < columns; c += 8) {
          const IDX o = panel * TILE_PANEL + c, lanes = TILE_MIN((IDX)8, columns - c);
          const float8 shift = BIAS(o, lanes);
          float8 s[RESULTS * RESULTS * MOST_TAKEN];
          for (IDX k = 0; k < taken; k++) {
            float8 *to = s + RESULTS * k;
            if (!points_to_results(m + (tile + k) * TILE_PANEL + c, m_step, to, RESULTS * MOST_TAKEN)) {
              for (IDX i = 0; i < RESULTS; i++) {
                for (IDX j = 0; j < RESULTS; j++)
                  to[i * RESULTS * MOST_TAKEN + j] = direct_pixel(
                      x, w + panel * 9 * C * TILE_PANEL + c, in, window, image, row + i * down - window.d[2],
                      column + (RESULTS * k + j) * apart - window.d[3]);
              }
            }
          }
#if PLANAR
          for (IDX i = 0; i < rows; i++) {
            const float8 *p = s + 8 * i;
            float8 r[8];
            for (IDX j = 0; j < 8; j++) r[j] = j < across ? p[j] + shift : (float8)(0.0f);
            TILE_TRANSPOSE(r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7])
            for (IDX l = 0; l < lanes; l++) {
              const IDX to = ((image * OC + o + l) * OH + row + i * down) * OW + column;
              if (across == 8) {
                EMIT8(y, to, r[l]);
              } else if (apart == 1) {
                EMITN(y, to, across, r[l]);
              } else {
                const float each[4] = {r[l].s0, r[l].s1, r[l].s2, r[l].s3};
                for (IDX j = 0; j < across; j++) EMITN(y, to + j * apart, 1, (float8)(each[j]));
              }
            }
          }
#else
          IDX to = ((image * OH + row) * OW + column) * OC + o;
          for (IDX i = 0; i < rows; i++, to += down * OW * OC) {
            const IDX step = apart * OC;
            if (across == RESULTS && lanes == 8) {
#define LEAVE(j) EMIT8(y, to + j * step, s[RESULTS * i + j] + shift);
              EACH_RESULT(LEAVE)
#undef LEAVE
            } else {
              for (IDX j = 0; j < across; j++) EMITN(y, to + j * step, lanes, s[RESULTS * i + j] + shift);
            }
          }
#endif
        }
      }
    }
  }
}

kernel void winograd(const __global T *x, const __global float *u, const __global float *w, BIAS_ARGS __global T *y,
                     __global float *scratch, dims_t in, dims_t out, dims_t window, IDX block_tiles, IDX blocks,
                     IDX depth, IDX scratch_step, IDX panel_step, int stages EXTRA_ARGS) {
  winograd_item(get_global_id(0), get_global_id(1), get_global_id(2), get_global_size(0), get_global_size(1),
                get_global_size(2), x, u, w, BIAS_PASS y, scratch, in, out, window, block_tiles, blocks, depth,
                scratch_step, panel_step, stages EXTRA_PASS);
}
