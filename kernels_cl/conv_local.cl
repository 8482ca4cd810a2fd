// conv2d and conv_transpose2d on GPUs as an implicit product: pixels x (taps, input channels) x output channels of one group and image,
// accumulated in float32. Both layouts, every filter layout by strides; local_tiles.h says how a group works.

#ifndef T
#define T float
#endif
#ifndef LOCAL_RM
#define LOCAL_RM 4
#define LOCAL_RN 4
#define LOCAL_TK 16
#define LOCAL_GX 16
#define LOCAL_GY 16
#endif
// 1: channels are contiguous in the images (nhwc), 0: columns are (nchw). The contiguous one runs along x of a group.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1
#endif
// 1: transposed convolution, as a gather over the taps that reach a pixel.
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
// 1: y is float, [part, result], without bias: products of a few tiles are cut along their depth (split_sum.cl).
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef EMIT
#define EMIT(y, i, v) STORE(T, y, i, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif

#if HAS_BIAS
#define BIAS_ARGUMENT const __global T *bias,
#define BIASED(o) + LOAD(T, bias, o)
#else
#define BIAS_ARGUMENT
#define BIASED(o)
#endif

// Pixels are the columns of the product where columns are contiguous, its rows else.
#if CHANNELS_LAST
#define TILE_P LOCAL_TM
#define TILE_O LOCAL_TN
#else
#define TILE_P LOCAL_TN
#define TILE_O LOCAL_TM
#endif

// in, out: height, width, then element strides of image, channel, row and column.
// taps: height, width, input and output channels of a group, groups. window: strides, dilations, padding before.
// filter: element strides of group, output channel, input channel, row and column. total: elements of y.
// Groups: (tile across, tile down, image x group x part of `k_each` of the depth).
kernel LOCAL_GROUP void conv_local(const __global T *x, const __global T *w, BIAS_ARGUMENT RESULT_OR_PART,
                                   dims_t in, dims_t out,
                                   dims_t taps, dims_t window, dims_t filter, IDX total, IDX parts,
                                   IDX k_each EXTRA_ARGS) {
  LOCAL_MEMORY(as, bs)
  const int lx = get_local_id(0), ly = get_local_id(1), id = ly * LOCAL_GX + lx;
  const IDX both = (IDX)get_group_id(2) / parts, part = (IDX)get_group_id(2) - both * parts;
  const IDX image = both / taps.d[4], group = both - image * taps.d[4];
  const IDX pixels = out.d[0] * out.d[1], inputs = taps.d[2], outputs = taps.d[3];
  const IDX K = taps.d[0] * taps.d[1] * inputs, k_begin = part * k_each;
  const IDX k_end = k_begin + k_each < K ? k_begin + k_each : K;
  const IDX p0 = (IDX)get_group_id(CHANNELS_LAST ? 1 : 0) * TILE_P, o0 = (IDX)get_group_id(CHANNELS_LAST ? 0 : 1) * TILE_O;
  x += image * in.d[2] + group * inputs * in.d[3];
  w += group * filter.d[0];
  float acc[LOCAL_RM][LOCAL_RN];
  LOCAL_CLEAR(acc)
  for (IDX k0 = k_begin; k0 < k_end; k0 += LOCAL_TK) {
    for (int t = id; t < TILE_P * LOCAL_TK; t += LOCAL_THREADS) {
      const int k = CHANNELS_LAST ? t % LOCAL_TK : t / TILE_P, i = CHANNELS_LAST ? t / LOCAL_TK : t % TILE_P;
      const IDX p = p0 + i, tap = (k0 + k) / inputs, channel = (k0 + k) - tap * inputs;
      const IDX kr = tap / taps.d[1], kc = tap - kr * taps.d[1];
#if TRANSPOSED
      const IDX reach = p / out.d[1] + window.d[4] - kr * window.d[2], row = reach / window.d[0];
      const IDX reach_w = p % out.d[1] + window.d[5] - kc * window.d[3], column = reach_w / window.d[1];
      const bool met = row * window.d[0] == reach && column * window.d[1] == reach_w;
#else
      const IDX row = p / out.d[1] * window.d[0] + kr * window.d[2] - window.d[4];
      const IDX column = p % out.d[1] * window.d[1] + kc * window.d[3] - window.d[5];
      const bool met = true;
#endif
      const bool inside =
          p < pixels && k0 + k < k_end && met && row >= 0 && row < in.d[0] && column >= 0 && column < in.d[1];
      const float v = inside ? LOAD(T, x, channel * in.d[3] + row * in.d[4] + column * in.d[5]) : 0.0f;
      if (CHANNELS_LAST) as[k][i] = v; else bs[k][i] = v;
    }
    for (int t = id; t < TILE_O * LOCAL_TK; t += LOCAL_THREADS) {
      const int k = t / TILE_O, j = t % TILE_O;
      const IDX tap = (k0 + k) / inputs, channel = (k0 + k) - tap * inputs;
      const IDX kr = tap / taps.d[1], kc = tap - kr * taps.d[1];
      const bool inside = o0 + j < outputs && k0 + k < k_end;
      const IDX at = (o0 + j) * filter.d[1] + channel * filter.d[2] + kr * filter.d[3] + kc * filter.d[4];
      const float v = inside ? LOAD(T, w, at) : 0.0f;
      if (CHANNELS_LAST) bs[k][j] = v; else as[k][j] = v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    LOCAL_MULTIPLY(as, bs, acc, lx, ly)
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int r = 0; r < LOCAL_RM; r++) {
    for (int c = 0; c < LOCAL_RN; c++) {
      const int down = ly + r * LOCAL_GY, across = lx + c * LOCAL_GX;
      const IDX p = p0 + (CHANNELS_LAST ? down : across), o = o0 + (CHANNELS_LAST ? across : down);
      if (p < pixels && o < outputs) {
        const IDX channel = group * outputs + o;
        const IDX i = image * out.d[2] + channel * out.d[3] + p / out.d[1] * out.d[4] + p % out.d[1] * out.d[5];
#if SPLIT
        y[part * total + i] = acc[r][c];
#else
        EMIT(y, i, (acc[r][c] BIASED(channel)));
#endif
      }
    }
  }
}
