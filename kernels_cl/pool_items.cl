// Pooling on GPUs: a work-item for each output element, neighbours in memory side by side.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef MODE
#define MODE 0               // 0: maximum, 1: mean, 2: root of the sum of squares
#endif
#ifndef PLANAR
#define PLANAR 1             // 1: columns are contiguous, 0: channels are
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(T, p, i, v)
#endif

#if MODE == 0
#define OUTSIDE T_LOWEST(T)
// NaN, once seen, stays.
#define TAKE(a, v) ((v) > (a) || (v) != (v) ? (v) : (a))
#define JOIN(a, b) TAKE(a, b)
#define FINISH(a) (a)
#elif MODE == 1
#define OUTSIDE 0
#define TAKE(a, v) ((a) + (v))
#define JOIN(a, b) ((a) + (b))
#define FINISH(a) ((a) / (float)count)
#else
#define OUTSIDE 0
#define TAKE(a, v) ((a) + (v) * (v))
#define JOIN(a, b) ((a) + (b))
#define FINISH(a) sqrt(a)
#endif

// in, out: height, width, then element strides of image, channel, row and column. window: rows, columns, strides,
// dilations, padding before. n: elements of y, `channels` of them a pixel.
kernel void pool_items(const __global T *x, __global T *y, dims_t in, dims_t out, dims_t window, IDX channels,
                       IDX n EXTRA_ARGS) {
  const IDX i = get_global_id(0);
  if (i >= n) return;
#if PLANAR
  const IDX line = i / out.d[1], ow = i - line * out.d[1], plane = line / out.d[0], oh = line - plane * out.d[0];
  const IDX image = plane / channels, c = plane - image * channels;
#else
  const IDX pixel = i / channels, c = i - pixel * channels, line = pixel / out.d[1], ow = pixel - line * out.d[1];
  const IDX image = line / out.d[0], oh = line - image * out.d[0];
#endif
  const IDX top = oh * window.d[2] - window.d[6], left = ow * window.d[3] - window.d[7];
  const __global T *from = x + image * in.d[2] + c * in.d[3];
  CTYPE(T) sum = OUTSIDE;
  int count = 0;
  for (IDX kh = 0; kh < window.d[0]; kh++) {
    const IDX row = top + kh * window.d[4];
    if (row < 0 || row >= in.d[0]) continue;
    CTYPE(T) part = OUTSIDE;
    for (IDX kw = 0; kw < window.d[1]; kw++) {
      const IDX column = left + kw * window.d[5];
      if (column < 0 || column >= in.d[1]) continue;
      const CTYPE(T) v = LOAD(T, from, row * in.d[4] + column * in.d[5]);
      part = TAKE(part, v);
      count++;
    }
    sum = JOIN(sum, part);
  }
  EMIT(y, i, FINISH(sum));
}
