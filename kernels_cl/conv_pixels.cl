// Convolution whose lanes are neighbouring pixels: for channels first, and for groups too small to fill lanes with
// channels. A work-item copies the input rows it needs, channels first and with zeros for the padding, then computes
// register tiles of 4 output channels by 24 pixels, whatever the number of channels in a group.
//
// Output (first + i * step) of phase `first` reads, for each of its taps, the input at base + i * stride + a distance
// from 0 on: one phase for a convolution, step phases for a transposed one. The copy keeps rows, and columns, of equal
// remainder by the stride together, so that a tap of eight neighbouring results always is eight neighbouring floats;
// rows follow each other without a gap, so that a tile may run through several. What its lanes beyond a row hold is
// left out at the end.

// Storage type of x, bias and y; w is float32, [phase][group][inputs copied together][block of 4 outputs][input]
// [tap][4].
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// 1: channels last, else before rows and columns.
#ifndef LAST
#define LAST 0
#endif
// Floats of the copy and of the results.
#ifndef ROOM
#define ROOM 16384
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

#define WIDE 24  // pixels of a tile
#define BEYOND 32  // floats that a tile reads after the copy
#define PLACE8(p, i) (*(float8_u *)((p) + (i)))
#define EACH4(F) F(0) F(1) F(2) F(3)
#define EACH8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define DECLARE(r) float8 p##r = 0.0f, q##r = 0.0f, s##r = 0.0f;
#define ADD(r) { const float w_ = b[r]; p##r = p##r + w_ * x0; q##r = q##r + w_ * x1; s##r = s##r + w_ * x2; }
#define KEEP(r) \
  if (r < count) { \
    float *to = t + r * pitch; \
    PLACE8(to, 0) = PLACE8(to, 0) + p##r; \
    PLACE8(to, 8) = PLACE8(to, 8) + q##r; \
    PLACE8(to, 16) = PLACE8(to, 16) + s##r; \
  }

// Adds `steps` terms to `count` (of 4) rows of 24 results, `pitch` apart; term k reads 24 floats at copy + at[k].
static inline void add_tile(const float *copy, const IDX *at, IDX steps, const __global float *b, float *t, IDX pitch,
                            IDX count) {
  EACH4(DECLARE)
  for (IDX k = 0; k < steps; k++, b += 4) {
    const float *from = copy + at[k];
    const float8 x0 = PLACE8(from, 0), x1 = PLACE8(from, 8), x2 = PLACE8(from, 16);
    EACH4(ADD)
  }
  EACH4(KEEP)
}

#define LOAD_PIXEL(k) float8 d##k = LOAD8(T, from, k * far);
#define PLACE_PIXEL(k) PLACE8(to, k * plane) = d##k;

// Copies columns [begin, end) of one remainder, `apart` pixels from each other: of `count` channels if these are last,
// else of one.
#if LAST
static inline void copy_columns(const __global T *row, float *to_row, IDX begin, IDX end, IDX apart, IDX first,
                                IDX channels, IDX count, IDX plane) {
  const IDX far = apart * channels, whole = end - begin < 8 ? 0 : count / 8 * 8;
  for (IDX j = begin; j < end && whole > 0; j += 8) {
    j = TILE_MIN(j, end - 8);
    for (IDX c = 0; c < whole; c += 8) {
      const __global T *from = row + (first + j * apart) * channels + c;
      float *to = to_row + c * plane + j;
      EACH8(LOAD_PIXEL)
      TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
      EACH8(PLACE_PIXEL)
    }
  }
  for (IDX j = begin; j < end; j++)
    for (IDX c = whole; c < count; c++) to_row[c * plane + j] = LOAD(T, row, (first + j * apart) * channels + c);
}
#else
static inline void copy_columns(const __global T *row, float *to_row, IDX begin, IDX end, IDX apart, IDX first) {
  // The last vector begins before the end of the one before it rather than leave a rest. With two pixels apart one
  // pixel beyond a vector's last is read, so it has to be in the image.
  IDX j = begin;
  const IDX last = end - (apart == 1 ? 8 : 9);
#define NEXT (j < last && j + 8 > last ? last : j + 8)
  if (apart == 1) {
    for (; j <= last; j = NEXT) PLACE8(to_row, j) = LOAD8(T, row, first + j);
  } else if (apart == 2) {
    for (; j <= last; j = NEXT) {
      const float8 low = LOAD8(T, row, first + 2 * j), high = LOAD8(T, row, first + 2 * j + 8);
      PLACE8(to_row, j) = (float8)(low.even, high.even);
    }
  }
  for (; j < end; j++) to_row[j] = LOAD(T, row, first + j * apart);
}
#endif

// Eight pixels of eight channels, and how the first `pixels` of them leave.
#define RESULT(k) float8 d##k = PLACE8(from, k * t_pitch);
#define LEAVE(k) \
  if (k < pixels) EMIT8(y, y_at, d##k); \
  y_at += across * O;

// in, out: height, width, channels. grid: rows and columns of a phase, phases down and across (the output's steps).
// window: strides down and across, base, the remainders down and across that are copied, and bits that tell which of
// these have taps.
// place: floats from row to row, rows, floats from remainder to remainder and from channel to channel, of the copy.
// group: inputs, outputs, groups and outputs of a work-item, inputs that are copied together, rows of a work-item.
// table: for each phase the number of its first tap, and the end; then the place of each tap in the copy.
static inline TILE_OUTLINE void conv_pixels_item(IDX item0, IDX item1, IDX item2, const __global T *x,
                                                 const __global float *w, const __global IDX *table,
                                                 BIAS_ARGS __global T *y, dims_t in, dims_t out, dims_t grid,
                                                 dims_t window, dims_t place, dims_t group EXTRA_ARGS) {
  const IDX H = in.d[0], W = in.d[1], C = in.d[2], OW = out.d[1], O = out.d[2];
  const IDX inputs = group.d[0], outputs = group.d[1], pitch = place.d[0], plane = place.d[3];
  const IDX blocks = (outputs + 3) / 4, splits = (outputs + group.d[3] - 1) / group.d[3];
  const IDX g_begin = item1 / splits * group.d[2], g_end = TILE_MIN(C / inputs, g_begin + group.d[2]);
  const IDX o_begin = item1 % splits * group.d[3], o_end = TILE_MIN(outputs, o_begin + group.d[3]);
  const IDX o_count = o_end - o_begin, wanted = (g_end - g_begin) * o_count, o_first = g_begin * outputs + o_begin;
  const IDX row_begin = item0 * group.d[5], rows = TILE_MIN(grid.d[0], row_begin + group.d[5]) - row_begin;
  const IDX tiles = (rows * pitch + WIDE - 1) / WIDE, t_pitch = tiles * WIDE, phases = grid.d[2] * grid.d[3];
  const IDX apart = window.d[1], chunk = TILE_MIN(group.d[4], (g_end - g_begin) * inputs);
  float copy[ROOM + BEYOND], t[ROOM + BEYOND];
  IDX at[TILE_RUN];
  for (IDX i = 0; i < chunk * plane + BEYOND; i += 8) PLACE8(copy, i) = 0.0f;
  for (IDX p = 0; p < phases; p++)
    for (IDX c = 0; c < wanted; c++) {
      const float start = BIAS(o_first + c);
      for (IDX i = 0; i < t_pitch; i += 8) PLACE8(t, (p * wanted + c) * t_pitch + i) = start;
    }
  for (IDX done = 0; done < inputs; done += chunk) {
    const IDX c_first = g_begin * inputs + done;
    const IDX count = g_end - g_begin > 1 ? chunk : TILE_MIN(chunk, inputs - done);
    const IDX depth = TILE_MIN(count, inputs);
    for (IDX r = 0; r < window.d[0] * (rows + place.d[1] - 1); r++) {
      const IDX over = r % window.d[0], h = row_begin * window.d[0] + r + window.d[2];
      if (over >= window.d[4] || h < 0 || h >= H || !(window.d[6] >> over & 1)) continue;
      for (IDX v = 0; v < window.d[5]; v++) {
        if (!(window.d[7] >> v & 1)) continue;
        const IDX first = v + window.d[3];
        const IDX begin = first < 0 ? (-first + apart - 1) / apart : 0;
        const IDX end = TILE_MIN(pitch, (W - 1 - first + apart) / apart);
        float *to = copy + (over * window.d[5] + v) * place.d[2] + r / window.d[0] * pitch;
#if LAST
        copy_columns(x + (item2 * H + h) * W * C + c_first, to, begin, end, apart, first, C, count, plane);
#else
        for (IDX c = 0; c < count; c++)
          copy_columns(x + ((item2 * C + c_first + c) * H + h) * W, to + c * plane, begin, end, apart, first);
#endif
      }
    }
    for (IDX p = 0; p < phases; p++) {
      const IDX tap_begin = table[p], taps = table[p + 1] - tap_begin;
      const __global IDX *tap = table + phases + 1 + tap_begin;
      for (IDX i = 0; i < depth; i++)
        for (IDX k = 0; k < taps; k++) at[i * taps + k] = i * plane + tap[k];
      for (IDX g = g_begin; g < g_end; g++) {
        const IDX before = tap_begin * C + (g * inputs + done) * taps;
        const __global float *b = w + (before * blocks + o_begin / 4 * depth * taps) * 4;
        for (IDX o = o_begin; o < o_end; o += 4, b += depth * taps * 4) {
          float *to = t + (p * wanted + (g - g_begin) * o_count + o - o_begin) * t_pitch;
          for (IDX tile = 0; tile < tiles; tile++)
            add_tile(copy + (g - g_begin) * inputs * plane + tile * WIDE, at, depth * taps, b, to + tile * WIDE,
                     t_pitch, o_end - o);
        }
      }
    }
  }
  const IDX down = grid.d[2], across = grid.d[3], row_first = row_begin * down;
  const IDX leaving = TILE_MIN(out.d[0] - row_first, rows * down), phase = wanted * t_pitch;
#if LAST
  for (IDX row = 0; row < leaving; row++) {
    const float *t_row = t + row % down * across * phase + row / down * pitch;
    for (IDX v = 0; v < across; v++, t_row += phase) {
      for (IDX j = 0; v + j * across < OW; j += 8) {
        const IDX pixels = TILE_MIN((IDX)8, (OW - v - j * across + across - 1) / across);
        const IDX pixel = (item2 * out.d[0] + row_first + row) * OW + v + j * across;
        IDX c = 0;
        for (; c + 8 <= wanted; c += 8) {
          const float *from = t_row + c * t_pitch + j;
          IDX y_at = pixel * O + o_first + c;
          EACH8(RESULT)
          TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
          EACH8(LEAVE)
        }
        for (IDX k = 0; k < pixels && c < wanted; k++) {
          float each[8] = {0, 0, 0, 0, 0, 0, 0, 0};
          for (IDX i = 0; i < wanted - c; i++) each[i] = t_row[(c + i) * t_pitch + j + k];
          EMITN(y, (pixel + k * across) * O + o_first + c, wanted - c, PLACE8(each, 0));
        }
      }
    }
  }
#else
  // The rows of a channel without what lies between them, in the memory of the copy; what a row's last vector holds
  // beyond the row is overwritten by the next row.
  for (IDX c = 0; c < wanted; c++) {
    for (IDX row = 0; row < leaving; row++) {
      const float *from = t + row % down * across * phase + c * t_pitch + row / down * pitch;
      for (IDX j = 0; j < OW; j += 8) {
        float8 v = PLACE8(from, j / across);
        if (across == 2) {
          const float8 odd = PLACE8(from + phase, j / 2);
          v = (float8)(v.s0, odd.s0, v.s1, odd.s1, v.s2, odd.s2, v.s3, odd.s3);
        } else if (across > 2) {
          float each[8];
          for (IDX k = 0; k < 8; k++) each[k] = from[(j + k) % across * phase + (j + k) / across];
          v = PLACE8(each, 0);
        }
        PLACE8(copy, row * OW + j) = v;
      }
    }
    const IDX y_at = ((item2 * O + o_first + c) * out.d[0] + row_first) * OW, results = leaving * OW;
    for (IDX i = 0; i < results; i += 8) {
      if (i + 8 <= results) {
        EMIT8(y, y_at + i, PLACE8(copy, i));
      } else {
        EMITN(y, y_at + i, results - i, PLACE8(copy, i));
      }
    }
  }
#endif
}

kernel void conv_pixels(const __global T *x, const __global float *w, const __global IDX *table,
                        BIAS_ARGS __global T *y, dims_t in, dims_t out, dims_t grid, dims_t window, dims_t place,
                        dims_t group EXTRA_ARGS) {
  conv_pixels_item(get_global_id(0), get_global_id(1), get_global_id(2), x, w, table, BIAS_PASS y, in, out, grid,
                   window, place, group EXTRA_PASS);
}
