// Winograd convolution F(4x4, 3x3), stride and dilation 1, one group: each 6 x 6 patch of the input becomes 36 numbers
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
// Columns column .. column + 7 of one row of one channel, zeros outside the image; touches no memory outside x.
static inline float8 row_of_patch(const __global T *x, IDX row_start, IDX column, IDX width, IDX total) {
  const IDX at = row_start + column;
  const IDX first = column < 0 ? -column : 0, last = TILE_MIN((IDX)8, width - column);
  if (first == 0 && last == 8) return LOAD8(T, x, at);
  if (at >= 0 && at + 8 <= total) {
    const int8 lane = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    return SEL8((float8)(0.0f), LOAD8(T, x, at), (lane >= (int8)((int)first)) & (lane < (int8)((int)last)));
  }
  float each[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (IDX l = first; l < last; l++) each[l] = LOAD(T, x, at + l);
  return (float8)(each[0], each[1], each[2], each[3], each[4], each[5], each[6], each[7]);
}

// 6 x 6 patches of channels c .. c + 8 * groups - 1, transformed along their columns.
static inline void read_patch(const __global T *x, float8 *t, IDX H, IDX W, IDX C, IDX image, IDX row, IDX column,
                              IDX c, IDX groups, IDX total) {
  for (IDX g = 0; g < groups; g++) {
    float8 d[36];
    for (IDX i = 0; i < 6; i++) {
      const IDX h = row + i;
      float8 r0 = 0.0f, r1 = 0.0f, r2 = 0.0f, r3 = 0.0f, r4 = 0.0f, r5 = 0.0f, r6 = 0.0f, r7 = 0.0f;
      if (h >= 0 && h < H) {
        const IDX first = c + 8 * g, at = ((image * C + first) * H + h) * W, plane = H * W;
#define CHANNEL(k) if (first + k < C) r##k = row_of_patch(x, at + k * plane, column, W, total);
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
static inline void read_patch(const __global T *x, float8 *t, IDX H, IDX W, IDX C, IDX image, IDX row, IDX column,
                              IDX c, IDX groups, IDX total) {
  const IDX top = TILE_MAX((IDX)0, -row), bottom = TILE_MIN((IDX)6, H - row), pitch = W * C;
  for (IDX j = 0; j < 6; j++) {
    const IDX w = column + j;
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

// One output pixel of eight channels the direct way; u holds the filter that was transformed, w the filter itself.
static inline float8 direct_pixel(const __global T *x, const __global float *w, IDX H, IDX W, IDX C, IDX image, IDX row,
                                  IDX column) {
  float8 sum = 0.0f;
  for (IDX i = 0; i < 3; i++) {
    for (IDX j = 0; j < 3; j++) {
      const IDX h = row + i, v = column + j;
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

// `stages` bits: 1 input transform, 2 products, 4 output transform. All three in one launch, for blocks of tiles that
// stay in the second cache, each work-item taking every `get_global_size(0)`-th block in scratch memory of its own;
// or one launch each, spread over blocks (dimension 0), panels of output channels (1; input: parts of the block) and
// matrices (2; output: parts of the block), where there are few tiles or many channels.
// A block's scratch: 36 matrices of `block_tiles` tiles (a multiple of 24) by `depth` channels (a multiple of 8), then
// for each panel, or for one at a time if `panel_step` is 0, 36 of block_tiles x 16.
// in: height, width, channels, images. out: the same. pads: rows above, columns to the left.
// u: the transformed filter, [panel][36][channel][16]; w: the filter, [panel][3][3][channel][16].
static inline TILE_OUTLINE void winograd_item(IDX item0, IDX item1, IDX item2, IDX items0, IDX items1, IDX items2,
                                              const __global T *x, const __global float *u, const __global float *w,
                                              BIAS_ARGS __global T *y, __global float *scratch, dims_t in, dims_t out,
                                              dims_t pads, IDX block_tiles, IDX blocks, IDX depth, IDX scratch_step,
                                              IDX panel_step, int stages EXTRA_ARGS) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], OH = out.d[0], OW = out.d[1], OC = out.d[2];
  const IDX tile_rows = (OH + 3) / 4, tile_columns = (OW + 3) / 4, tiles = tile_rows * tile_columns * in.d[3];
  const IDX panels = (OC + TILE_PANEL - 1) / TILE_PANEL;
  const IDX v_step = block_tiles * depth, m_step = block_tiles * TILE_PANEL;
  const IDX one = item1, ones = items1, two = item2, twos = items2;
  for (IDX block = item0; block < blocks; block += items0) {
    const IDX tile_begin = block * block_tiles, count = TILE_MIN(block_tiles, tiles - tile_begin);
    __global float *v = scratch + (stages == 7 ? (IDX)item0 : block) * scratch_step;
    if (stages & 1) {
      const IDX each = (count + ones - 1) / ones;
      for (IDX tile = one * each; tile < TILE_MIN(count, (one + 1) * each); tile++) {
        const IDX at = tile_begin + tile, tc = at % tile_columns, tr = at / tile_columns % tile_rows;
        for (IDX c = 0; c < depth; c += CHUNK) {
          float8 t[36 * (CHUNK / 8)];
          const IDX groups = TILE_MIN((IDX)CHUNK, depth - c) / 8;
          read_patch(x, t, H, W, C, at / (tile_columns * tile_rows), tr * 4 - pads.d[0], tc * 4 - pads.d[1], c, groups,
                     C * H * W * in.d[3]);
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
        for (IDX e = stages == 7 ? 0 : two; e < 36; e += step)
          multiply_panel(v + e * v_step, u + (panel * 36 + e) * C * TILE_PANEL, m + e * m_step, count, C, depth,
                         columns);
      }
      if (!(stages & 4)) continue;
      const IDX parts = stages == 7 ? 1 : twos, part = stages == 7 ? 0 : two, each = (count + parts - 1) / parts;
      const IDX tile_end = TILE_MIN(count, (part + 1) * each);
      IDX taken = 1;
      for (IDX tile = part * each; tile < tile_end; tile += taken) {
        const IDX at = tile_begin + tile, tc = at % tile_columns, tr = at / tile_columns % tile_rows;
        const IDX image = at / (tile_columns * tile_rows), row = tr * 4, column = tc * 4;
        // Planar results leave as runs of eight pixels: two tiles side by side.
        taken = PLANAR && tile + 1 < tile_end && tc + 1 < tile_columns ? 2 : 1;
        const IDX rows = TILE_MIN((IDX)4, OH - row), across = TILE_MIN(4 * taken, OW - column);
        for (IDX c = 0; c < columns; c += 8) {
          const IDX o = panel * TILE_PANEL + c, lanes = TILE_MIN((IDX)8, columns - c);
          const float8 shift = BIAS(o, lanes);
          float8 s[32];
          for (IDX k = 0; k < taken; k++) {
            const __global float *from = m + (tile + k) * TILE_PANEL + c;
            float8 t[24], check = 0.0f;
            for (IDX j = 0; j < 6; j++) {
              const __global float *f = from + j * m_step;
              FROM_POINTS(t[j], t[6 + j], t[12 + j], t[18 + j], ALOAD8(float, f, 0), ALOAD8(float, f, 6 * m_step),
                          ALOAD8(float, f, 12 * m_step), ALOAD8(float, f, 18 * m_step), ALOAD8(float, f, 24 * m_step),
                          ALOAD8(float, f, 30 * m_step))
            }
            for (IDX i = 0; i < 4; i++) {
              float8 o0, o1, o2, o3;
              FROM_POINTS(o0, o1, o2, o3, t[6 * i], t[6 * i + 1], t[6 * i + 2], t[6 * i + 3], t[6 * i + 4],
                          t[6 * i + 5])
              check = check + 0.0f * ((o0 + o1) + (o2 + o3));
              s[8 * i + 4 * k] = o0, s[8 * i + 4 * k + 1] = o1, s[8 * i + 4 * k + 2] = o2, s[8 * i + 4 * k + 3] = o3;
            }
            // Zero unless something is not finite.
            check.lo = check.lo + check.hi;
            if (!(check.s0 + check.s1 + check.s2 + check.s3 == 0.0f)) {
              for (IDX i = 0; i < 16; i++)
                s[i / 4 * 8 + 4 * k + i % 4] = direct_pixel(
                    x, w + panel * 9 * C * TILE_PANEL + c, H, W, C, image, row + i / 4 - pads.d[0],
                    column + 4 * k + i % 4 - pads.d[1]);
            }
          }
          for (IDX i = 0; i < rows; i++) {
#if PLANAR
            const float8 *p = s + 8 * i;
            float8 r0 = p[0] + shift, r1 = p[1] + shift, r2 = p[2] + shift, r3 = p[3] + shift;
            float8 r4 = 0.0f, r5 = 0.0f, r6 = 0.0f, r7 = 0.0f;
            if (taken == 2) r4 = p[4] + shift, r5 = p[5] + shift, r6 = p[6] + shift, r7 = p[7] + shift;
            TILE_TRANSPOSE(r0, r1, r2, r3, r4, r5, r6, r7)
            const float8 r[8] = {r0, r1, r2, r3, r4, r5, r6, r7};
            for (IDX l = 0; l < lanes; l++) {
              const IDX to = ((image * OC + o + l) * OH + row + i) * OW + column;
              if (across == 8) {
                EMIT8(y, to, r[l]);
              } else {
                EMITN(y, to, across, r[l]);
              }
            }
#else
            IDX to = ((image * OH + row + i) * OW + column) * OC + o;
            for (IDX j = 0; j < across; j++, to += OC) {
              if (lanes == 8) {
                EMIT8(y, to, s[8 * i + j] + shift);
              } else {
                EMITN(y, to, lanes, s[8 * i + j] + shift);
              }
            }
#endif
          }
        }
      }
    }
  }
}

kernel void winograd(const __global T *x, const __global float *u, const __global float *w, BIAS_ARGS __global T *y,
                     __global float *scratch, dims_t in, dims_t out, dims_t pads, IDX block_tiles, IDX blocks,
                     IDX depth, IDX scratch_step, IDX panel_step, int stages EXTRA_ARGS) {
  winograd_item(get_global_id(0), get_global_id(1), get_global_id(2), get_global_size(0), get_global_size(1),
                get_global_size(2), x, u, w, BIAS_PASS y, scratch, in, out, pads, block_tiles, blocks, depth,
                scratch_step, panel_step, stages EXTRA_PASS);
}
