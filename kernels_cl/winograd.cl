// Winograd convolution F(4x4, 3x3), stride 1, one group: each 6 x 6 patch of the input becomes 36 numbers
// a channel, each of which is multiplied by a matrix of its own, and 36 results a channel become 4 x 4 pixels: a
// quarter of the multiplications of the direct way (A. Lavin, S. Gray, "Fast algorithms for convolutional neural
// networks", 2015; points 0, 1, -1, 2, -2). The error is about ten times that of the direct way.
//
// The input patch of a tile may hold values that are not finite, or so large that a transform overflows where the sum
// itself would not; then the whole tile is computed directly, so that they reach the outputs they should, and no other.

#define TILE_SPACE __global

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

// One column of the input transform, and one of the output transform.
#define TO_POINTS(o0, o1, o2, o3, o4, o5, d0, d1, d2, d3, d4, d5) \
  { \
    const float8 e0_ = d4 - 4.0f * d2, e1_ = d3 - 4.0f * d1, e2_ = d4 - d2, e3_ = 2.0f * (d3 - d1); \
    o0 = 4.0f * d0 - 5.0f * d2 + d4; \
    o1 = e0_ + e1_; \
    o2 = e0_ - e1_; \
    o3 = e2_ + e3_; \
    o4 = e2_ - e3_; \
    o5 = 4.0f * d1 - 5.0f * d3 + d5; \
  }
#define FROM_POINTS(o0, o1, o2, o3, m0, m1, m2, m3, m4, m5) \
  { \
    const float8 e0_ = m1 + m2, e1_ = m1 - m2, e2_ = m3 + m4, e3_ = m3 - m4; \
    o0 = m0 + e0_ + e2_; \
    o1 = e1_ + 2.0f * e3_; \
    o2 = e0_ + 4.0f * e2_; \
    o3 = e1_ + 8.0f * e3_ + m5; \
  }

// Second half of the input transform: t holds 36 vectors for each of `groups` groups of eight channels.
static inline void patch_to_points(const float8 *t, __global float *v, IDX v_step, IDX groups) {
  for (IDX i = 0; i < 6; i++) {
    const float8 *d = t + i * 6 * (CHUNK / 8);
    __global float *o = v + i * 6 * v_step;
    for (IDX g = 0; g < groups; g++) {
      float8 o0, o1, o2, o3, o4, o5;
      TO_POINTS(o0, o1, o2, o3, o4, o5, d[g], d[CHUNK / 8 + g], d[2 * (CHUNK / 8) + g], d[3 * (CHUNK / 8) + g],
                d[4 * (CHUNK / 8) + g], d[5 * (CHUNK / 8) + g])
      ASTORE8(float, o, 8 * g, o0);
      ASTORE8(float, o, v_step + 8 * g, o1);
      ASTORE8(float, o, 2 * v_step + 8 * g, o2);
      ASTORE8(float, o, 3 * v_step + 8 * g, o3);
      ASTORE8(float, o, 4 * v_step + 8 * g, o4);
      ASTORE8(float, o, 5 * v_step + 8 * g, o5);
    }
  }
}

#define AT(i, j) t[((i) * 6 + (j)) * (CHUNK / 8) + g]

#if PLANAR
// Columns column, column + step, ... of one row of one channel in the first six lanes, zeros outside the image; touches
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
  for (IDX l = 0; l < 6; l++)
    if (column + l * step >= 0 && column + l * step < width) each[l] = LOAD(T, x, at + l * step);
  return (float8)(each[0], each[1], each[2], each[3], each[4], each[5], each[6], each[7]);
}

// 6 x 6 patches of channels c .. c + 8 * groups - 1, transformed along their columns. `in` is height, width, channels,
// images, `dilation` what lies between the pixels of a patch.
static inline void read_patch(const __global T *x, float8 *t, dims_t in, dims_t dilation, IDX image, IDX row,
                              IDX column, IDX c, IDX groups) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], plane = H * W, total = plane * C * in.d[3];
  for (IDX g = 0; g < groups; g++) {
    float8 d[36];
    for (IDX i = 0; i < 6; i++) {
      const IDX h = row + i * dilation.d[0];
      float8 r0 = 0.0f, r1 = 0.0f, r2 = 0.0f, r3 = 0.0f, r4 = 0.0f, r5 = 0.0f, r6 = 0.0f, r7 = 0.0f;
      if (h >= 0 && h < H) {
        const IDX first = c + 8 * g, at = ((image * C + first) * H + h) * W;
#define CHANNEL(k) if (first + k < C) r##k = row_of_patch(x, at + k * plane, column, dilation.d[1], W, total);
        CHANNEL(0) CHANNEL(1) CHANNEL(2) CHANNEL(3) CHANNEL(4) CHANNEL(5) CHANNEL(6) CHANNEL(7)
#undef CHANNEL
      }
      TILE_TRANSPOSE(r0, r1, r2, r3, r4, r5, r6, r7)
      d[6 * i] = r0, d[6 * i + 1] = r1, d[6 * i + 2] = r2, d[6 * i + 3] = r3, d[6 * i + 4] = r4, d[6 * i + 5] = r5;
    }
    for (IDX j = 0; j < 6; j++)
      TO_POINTS(AT(0, j), AT(1, j), AT(2, j), AT(3, j), AT(4, j), AT(5, j), d[j], d[6 + j], d[12 + j], d[18 + j],
                d[24 + j], d[30 + j])
  }
}
#else
// As above.
static inline void read_patch(const __global T *x, float8 *t, dims_t in, dims_t dilation, IDX image, IDX row,
                              IDX column, IDX c, IDX groups) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], pitch = dilation.d[0] * W * C;
  const IDX top = row < 0 ? (-row + dilation.d[0] - 1) / dilation.d[0] : 0;
  const IDX bottom = row >= H ? 0 : TILE_MIN((IDX)6, (H - 1 - row) / dilation.d[0] + 1);
  for (IDX j = 0; j < 6; j++) {
    const IDX w = column + j * dilation.d[1];
    const __global T *at = x + ((image * H + row) * W + w) * C + c;
    for (IDX g = 0; g < groups; g++) {
      float8 d0 = 0.0f, d1 = 0.0f, d2 = 0.0f, d3 = 0.0f, d4 = 0.0f, d5 = 0.0f;
      const IDX left = C - c - 8 * g;
      if (w >= 0 && w < W) {
        if (bottom - top == 6 && left >= 8) {
          d0 = LOAD8(T, at, 8 * g);
          d1 = LOAD8(T, at, pitch + 8 * g);
          d2 = LOAD8(T, at, 2 * pitch + 8 * g);
          d3 = LOAD8(T, at, 3 * pitch + 8 * g);
          d4 = LOAD8(T, at, 4 * pitch + 8 * g);
          d5 = LOAD8(T, at, 5 * pitch + 8 * g);
        } else {
#define ROW(i) \
  if (i >= top && i < bottom) \
    d##i = left >= 8 ? LOAD8(T, at, i * pitch + 8 * g) : LOADN(T, at, i * pitch + 8 * g, left);
          ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5)
#undef ROW
        }
      }
      TO_POINTS(AT(0, j), AT(1, j), AT(2, j), AT(3, j), AT(4, j), AT(5, j), d0, d1, d2, d3, d4, d5)
    }
  }
}
#endif

// tiles x channels (rows `depth` apart) times one matrix's panel: m[tile * 16 ..].
#define ROW_POINTER(r) const __global float *a##r = v + (tile + r) * depth;
static inline void multiply_panel(const __global float *v, const __global float *u, __global float *m, IDX tiles,
                                  IDX channels, IDX depth, IDX columns) {
  if (columns > 8) {
    for (IDX tile = 0; tile < tiles; tile += 6) {
      TILE_ROWS6(ROW_POINTER)
      TILE_ROWS6(TILE_ZERO16)
      TILE_MULTIPLY(16, TILE_ROWS6, u, channels)
#define KEEP(r) ASTORE8(float, m, (tile + r) * TILE_PANEL, p##r); ASTORE8(float, m, (tile + r) * TILE_PANEL + 8, q##r);
      TILE_ROWS6(KEEP)
#undef KEEP
    }
  } else {
    for (IDX tile = 0; tile < tiles; tile += 8) {
      TILE_ROWS8(ROW_POINTER)
      TILE_ROWS8(TILE_ZERO8)
      TILE_MULTIPLY(8, TILE_ROWS8, u, channels)
#define KEEP(r) ASTORE8(float, m, (tile + r) * TILE_PANEL, p##r);
      TILE_ROWS8(KEEP)
#undef KEEP
    }
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

// The 4 x 4 results of eight channels, `pitch` vectors from row to row of s; false if one is not finite.
#define POINT_COLUMN(j) \
  float8 t0##j, t1##j, t2##j, t3##j; \
  FROM_POINTS(t0##j, t1##j, t2##j, t3##j, ALOAD8(float, m, j * m_step), ALOAD8(float, m, (6 + j) * m_step), \
              ALOAD8(float, m, (12 + j) * m_step), ALOAD8(float, m, (18 + j) * m_step), \
              ALOAD8(float, m, (24 + j) * m_step), ALOAD8(float, m, (30 + j) * m_step))
#define RESULT_ROW(i) \
  { \
    float8 o0, o1, o2, o3; \
    FROM_POINTS(o0, o1, o2, o3, t##i##0, t##i##1, t##i##2, t##i##3, t##i##4, t##i##5) \
    check = check + 0.0f * ((o0 + o1) + (o2 + o3)); \
    s[i * pitch] = o0, s[i * pitch + 1] = o1, s[i * pitch + 2] = o2, s[i * pitch + 3] = o3; \
  }
static inline bool points_to_results(const __global float *m, IDX m_step, float8 *s, IDX pitch) {
  float8 check = 0.0f;
  POINT_COLUMN(0) POINT_COLUMN(1) POINT_COLUMN(2) POINT_COLUMN(3) POINT_COLUMN(4) POINT_COLUMN(5)
  RESULT_ROW(0) RESULT_ROW(1) RESULT_ROW(2) RESULT_ROW(3)
  // Zero unless something is not finite.
  const float4 half_ = check.lo + check.hi;
  return (half_.s0 + half_.s1) + (half_.s2 + half_.s3) == 0.0f;
}

#define MOST_TAKEN (PLANAR ? 2 : 1)

// A block's tile: its image, first output row and column; tiles of one remainder lie together.
#define FIND_TILE \
  const IDX at = tile_begin + tile, tc = at % tile_columns, tr = at / tile_columns % tile_rows; \
  const IDX image = at / (tile_columns * tile_rows); \
  const IDX row = tr / tiles_down + tr % tiles_down * 4 * down; \
  const IDX column = tc / tiles_across + tc % tiles_across * 4 * apart;

// Asks for the memory of a tile's results, scattered as it is, well before they are there.
static inline void fetch_results(const __global T *y, dims_t out, IDX image, IDX row, IDX column, IDX down, IDX apart,
                                 IDX o, IDX count) {
  const IDX OH = out.d[0], OW = out.d[1], OC = out.d[2];
  for (IDX i = 0; i < 4; i++) {
#if PLANAR
    const __global T *to = y + ((image * OC + o) * OH + row + i * down) * OW + column;
    for (IDX l = 0; l < count; l++) TILE_PREFETCH_TO_WRITE(to + l * OH * OW)
#else
    const __global T *to = y + ((image * OH + row + i * down) * OW + column) * OC + o;
    for (IDX j = 0; j < 4; j++) {
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
// A block's scratch: 36 matrices of `block_tiles` tiles (a multiple of 24) by `depth` channels (a multiple of 8), then
// for each panel, or for one at a time if `panel_step` is 0, 36 of block_tiles x 16.
// in: height, width, channels, images. out: the same. window: rows and columns between the taps, rows above, columns
// to the left. With gaps between the taps, the pixels of equal remainder by the gap make images of their own.
// u: the transformed filter, [panel][36][channel][16]; w: the filter, [panel][3][3][channel][16].
static inline TILE_OUTLINE void winograd_item(IDX item0, IDX item1, IDX item2, IDX items0, IDX items1, IDX items2,
                                              const __global T *x, const __global float *u, const __global float *w,
                                              BIAS_ARGS __global T *y, __global float *scratch, dims_t in, dims_t out,
                                              dims_t window, IDX block_tiles, IDX blocks, IDX depth, IDX scratch_step,
                                              IDX panel_step, int stages EXTRA_ARGS) {
  const IDX C = in.d[2], OH = out.d[0], OW = out.d[1], OC = out.d[2], down = window.d[0], apart = window.d[1];
  // Tiles of one remainder, and of all.
  const IDX tiles_down = ((OH + down - 1) / down + 3) / 4, tiles_across = ((OW + apart - 1) / apart + 3) / 4;
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
          float8 t[36 * (CHUNK / 8)];
          const IDX groups = TILE_MIN((IDX)CHUNK, depth - c) / 8;
          read_patch(x, t, in, window, image, row - window.d[2], column - window.d[3], c, groups);
          patch_to_points(t, v + tile * depth + c, v_step, groups);
        }
      }
    }
    const IDX panel_begin = stages == 7 ? 0 : one, panel_end = stages & 6 ? panels : 0, skip = stages == 7 ? 1 : ones;
    for (IDX panel = panel_begin; panel < panel_end; panel += skip) {
      const IDX columns = TILE_MIN((IDX)TILE_PANEL, OC - panel * TILE_PANEL);
      __global float *m = v + 36 * v_step + panel * panel_step;
      if (stages & 2) {
        const IDX step = stages == 7 ? 1 : twos;
        for (IDX e = stages == 7 ? 0 : two; e < 36; e += step) {
          multiply_panel(v + e * v_step, u + (panel * 36 + e) * C * TILE_PANEL, m + e * m_step, count, C, depth,
                         columns);
          if (stages != 7) continue;
          for (IDX tile = (count * e + 35) / 36; tile < (count * (e + 1) + 35) / 36; tile++) {
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
        const IDX rows = TILE_MIN((IDX)4, (OH - row + down - 1) / down);
#if PLANAR
        // Planar results leave as runs of eight pixels: two tiles side by side.
        taken = apart == 1 && tile + 1 < tile_end && tc + 1 < tile_columns ? 2 : 1;
#endif
        const IDX across = TILE_MIN(4 * taken, (OW - column + apart - 1) / apart);
        for (IDX c = 0; c < columns; c += 8) {
          const IDX o = panel * TILE_PANEL + c, lanes = TILE_MIN((IDX)8, columns - c);
          const float8 shift = BIAS(o, lanes);
          float8 s[16 * MOST_TAKEN];
          for (IDX k = 0; k < taken; k++) {
            if (!points_to_results(m + (tile + k) * TILE_PANEL + c, m_step, s + 4 * k, 4 * MOST_TAKEN)) {
              for (IDX i = 0; i < 16; i++)
                s[i / 4 * 4 * MOST_TAKEN + 4 * k + i % 4] = direct_pixel(
                    x, w + panel * 9 * C * TILE_PANEL + c, in, window, image, row + i / 4 * down - window.d[2],
                    column + (4 * k + i % 4) * apart - window.d[3]);
            }
          }
#if PLANAR
          for (IDX i = 0; i < rows; i++) {
            const float8 *p = s + 8 * i;
            float8 r0 = p[0] + shift, r1 = p[1] + shift, r2 = p[2] + shift, r3 = p[3] + shift;
            float8 r4 = 0.0f, r5 = 0.0f, r6 = 0.0f, r7 = 0.0f;
            if (taken == 2) r4 = p[4] + shift, r5 = p[5] + shift, r6 = p[6] + shift, r7 = p[7] + shift;
            TILE_TRANSPOSE(r0, r1, r2, r3, r4, r5, r6, r7)
            const float8 r[8] = {r0, r1, r2, r3, r4, r5, r6, r7};
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
            if (across == 4 && lanes == 8) {
              EMIT8(y, to, s[4 * i] + shift);
              EMIT8(y, to + step, s[4 * i + 1] + shift);
              EMIT8(y, to + 2 * step, s[4 * i + 2] + shift);
              EMIT8(y, to + 3 * step, s[4 * i + 3] + shift);
            } else {
              for (IDX j = 0; j < across; j++) EMITN(y, to + j * step, lanes, s[4 * i + j] + shift);
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
