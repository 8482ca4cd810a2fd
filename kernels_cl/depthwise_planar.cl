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
#endif

#if HAS_BIAS
#define BIAS_ARGS const __global T *bias,
#define BIAS(c) ((float8)(LOAD(T, bias, c)))
#else
#define BIAS_ARGS
#define BIAS(c) ((float8)(0.0f))
#endif

#define AT8(i) (*(const float8_u *)(copy + (i)))

// Eight pixels `step` columns apart.
static inline float8 spread(const float *copy, IDX i, IDX step) {
  if (step == 1) return AT8(i);
  if (step == 2) return (float8)(AT8(i).even, AT8(i + 7).odd);
  return (float8)(copy[i], copy[i + step], copy[i + 2 * step], copy[i + 3 * step], copy[i + 4 * step],
                  copy[i + 5 * step], copy[i + 6 * step], copy[i + 7 * step]);
}

// in, out: height, width, channels. taps: height, width. window: strides, dilations, pads at the top and left.
// `pitch` floats from row to row of the copy: enough for the last vector of a row of results.
kernel void depthwise_planar(const __global T *x, const __global float *w, BIAS_ARGS __global T *y, dims_t in,
                             dims_t out, dims_t taps, dims_t window, IDX pitch, IDX rows_per_item EXTRA_ARGS) {
  const IDX H = in.d[0], W = in.d[1], OH = out.d[0], OW = out.d[1], c = get_global_id(1);
  const IDX plane = get_global_id(2) * in.d[2] + c;
  const IDX row_begin = get_global_id(0) * rows_per_item, row_end = min(OH, row_begin + rows_per_item);
  const IDX top = row_begin * window.d[0] - window.d[4], left = window.d[5], step = window.d[1];
  const IDX rows = (row_end - row_begin - 1) * window.d[0] + (taps.d[0] - 1) * window.d[2] + 1;
  float copy[ROOM + 16];
  for (IDX r = 0; r < rows; r++) {
    float *to = copy + r * pitch;
    const IDX h = top + r, count = h >= 0 && h < H ? max((IDX)0, min(W, pitch - left)) : 0;
    const IDX before = count > 0 ? left : pitch;
    for (IDX i = 0; i < before; i++) to[i] = 0.0f;
    const __global T *from = x + (plane * H + h) * W;
    IDX i = 0;
    for (; i + 8 <= count; i += 8) *(float8_u *)(to + left + i) = LOAD8(T, from, i);
    for (; i < count; i++) to[left + i] = LOAD(T, from, i);
    for (i = before + count; i < pitch; i++) to[i] = 0.0f;
  }
  const __global float *weights = w + c * taps.d[0] * taps.d[1];
  const float8 shift = BIAS(c);
  for (IDX row = row_begin; row < row_end; row++) {
    for (IDX column = 0; column < OW; column += 8) {
      const IDX origin = (row - row_begin) * window.d[0] * pitch + column * step;
      float8 sum = shift;
      for (IDX i = 0; i < taps.d[0]; i++) {
        const IDX at = origin + i * window.d[2] * pitch;
        const __global float *v = weights + i * taps.d[1];
        IDX j = 0;
        if (window.d[3] == 1) {
          for (; j + 3 <= taps.d[1]; j += 3) {
            const float8 first = spread(copy, at + j, step) * v[j] + spread(copy, at + j + 1, step) * v[j + 1];
            sum = sum + first + spread(copy, at + j + 2, step) * v[j + 2];
          }
        }
        for (; j < taps.d[1]; j++) sum = sum + spread(copy, at + j * window.d[3], step) * v[j];
      }
      const IDX to = (plane * OH + row) * OW + column;
      if (column + 8 <= OW) {
        EMIT8(y, to, sum);
      } else {
        EMITN(y, to, OW - column, sum);
      }
    }
  }
}
