// Depthwise convolution, channels before rows and columns: y[n, c, h, w] = bias[c] + sum over taps of x * w[c, tap].
// Lanes are eight neighbouring pixels of a row. A work-item first copies the rows it needs, with zeros for the
// padding, so that no tap has to ask where it is.

// Storage type of x, bias and y; w is float32, [channel][tap].
#ifndef T
#define T float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// Floats of the copy.
#ifndef ROOM
#define ROOM 4096
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
#define BIAS(c) ((float8)(LOAD(T, bias, c)))
#else
#define BIAS_ARGS
#define BIAS_PASS
#define BIAS(c) ((float8)(0.0f))
#endif

// Longest window, in taps.
#define MOST_TAPS 64

#define EACH8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
// The next eight neighbouring results: where they are in the copy, and among the work-item's results.
#define PLACE(k) \
  const float *p##k = from; \
  float *to##k = to; \
  if (++vector < vectors) { \
    column += 8, from += 8, to += 8; \
    if (column >= OW) { \
      from += row_step - column, to += OW - column; \
      column = 0; \
    } \
  }
#define START(k) float8 s##k = shift;
#define ADD(k) s##k = s##k + *(const float8_u *)(p##k + offset) * weight;
#define KEEP(k) *(float8_u *)to##k = s##k;

// One row of the input, column q - left at phase (q % step), place q / step; the rest of `to` is zero already. The last
// vector begins before the end of the one before it rather than leave a rest.
static inline void copy_row(const __global T *from, float *to, IDX count, IDX left, IDX step, IDX phase_pitch) {
  IDX i = 0;
  if (step == 1) {
    const IDX last = count - 8;
    for (; i <= last; i = i < last && i + 8 > last ? last : i + 8)
      *(float8_u *)(to + left + i) = LOAD8(T, from, i);
    for (; i < count; i++) to[left + i] = LOAD(T, from, i);
    return;
  }
  if (step == 2) {
    if (left % 2 != 0 && count > 0) {
      to[phase_pitch + left / 2] = LOAD(T, from, 0);
      i = 1;
    }
    const IDX last = count - 16 - (left + count) % 2;
    for (; i <= last; i = i < last && i + 16 > last ? last : i + 16) {
      const float8 low = LOAD8(T, from, i), high = LOAD8(T, from, i + 8);
      float *at = to + (left + i) / 2;
      *(float8_u *)at = (float8)(low.even, high.even);
      *(float8_u *)(at + phase_pitch) = (float8)(low.odd, high.odd);
    }
  }
  IDX place = (left + i) / step, phase = left + i - place * step;
  for (; i < count; i++) {
    to[phase * phase_pitch + place] = LOAD(T, from, i);
    if (++phase == step) phase = 0, place++;
  }
}

// in, out: height, width, channels. taps: height, width. window: strides, dilations, pads at the top and left.
// The copy keeps columns of equal remainder by the stride together, `phase_pitch` floats for each remainder, so that
// eight neighbouring results always meet eight neighbouring floats.
static inline TILE_OUTLINE void depthwise_planar_item(IDX item0, IDX item1, IDX item2, const __global T *x,
                                                      const __global float *w, BIAS_ARGS __global T *y, dims_t in,
                                                      dims_t out, dims_t taps, dims_t window, IDX phase_pitch,
                                                      IDX rows_per_item, IDX channels_per_item EXTRA_ARGS) {
  const IDX H = in.d[0], W = in.d[1], OH = out.d[0], OW = out.d[1], tap_count = taps.d[0] * taps.d[1];
  const IDX row_begin = item0 * rows_per_item, row_end = TILE_MIN(OH, row_begin + rows_per_item);
  const IDX top = row_begin * window.d[0] - window.d[4], left = window.d[5], step = window.d[1];
  const IDX rows = (row_end - row_begin - 1) * window.d[0] + (taps.d[0] - 1) * window.d[2] + 1;
  const IDX pitch = phase_pitch * step, row_step = window.d[0] * pitch;
  const IDX results = (row_end - row_begin) * OW, vectors = (row_end - row_begin) * ((OW + 7) / 8);
  const IDX c_begin = item1 * channels_per_item, c_end = TILE_MIN(in.d[2], c_begin + channels_per_item);
  // Columns beyond the last tap's reach are not copied.
  const IDX columns = TILE_MAX((IDX)0, TILE_MIN(W, pitch - left));
  IDX offsets[MOST_TAPS];
  for (IDX k = 0; k < tap_count; k++) {
    const IDX across = k % taps.d[1] * window.d[3];
    offsets[k] = k / taps.d[1] * window.d[2] * pitch + across % step * phase_pitch + across / step;
  }
  // What a row's last vector holds beyond the row is overwritten by the next row.
  float copy[ROOM + 8], kept[ROOM + 8];
  for (IDX i = 0; i < rows * pitch; i += 8) *(float8_u *)(copy + i) = 0.0f;
  for (IDX c = c_begin; c < c_end; c++) {
    const IDX plane = item2 * in.d[2] + c;
    // The padding stays zero from one channel to the next.
    for (IDX r = TILE_MAX((IDX)0, -top); r < TILE_MIN(rows, H - top); r++)
      copy_row(x + (plane * H + top + r) * W, copy + r * pitch, columns, left, step, phase_pitch);
    const __global float *weights = w + c * tap_count;
    const float8 shift = BIAS(c);
    const float *from = copy;
    float *to = kept;
    IDX column = 0;
    for (IDX vector = 0; vector < vectors;) {
      EACH8(PLACE)
      EACH8(START)
      for (IDX k = 0; k < tap_count; k++) {
        const IDX offset = offsets[k];
        const float weight = weights[k];
        EACH8(ADD)
      }
      EACH8(KEEP)
    }
    const IDX y_at = (plane * OH + row_begin) * OW;
    for (IDX i = 0; i < results; i += 8) {
      if (i + 8 <= results) {
        EMIT8(y, y_at + i, *(const float8_u *)(kept + i));
      } else {
        EMITN(y, y_at + i, results - i, *(const float8_u *)(kept + i));
      }
    }
  }
}

kernel void depthwise_planar(const __global T *x, const __global float *w, BIAS_ARGS __global T *y, dims_t in,
                             dims_t out, dims_t taps, dims_t window, IDX phase_pitch, IDX rows_per_item,
                             IDX channels_per_item EXTRA_ARGS) {
  depthwise_planar_item(get_global_id(0), get_global_id(1), get_global_id(2), x, w, BIAS_PASS y, in, out, taps,
                        window, phase_pitch, rows_per_item, channels_per_item EXTRA_PASS);
}
