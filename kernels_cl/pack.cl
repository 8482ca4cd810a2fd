// Packing into the layouts that the CPU kernels of tile.h read, from storage type S.

// Storage type of the source.
#ifndef S
#define S float
#endif
// Storage type of packed matrices: float, or half where reading them is what takes the time.
#ifndef D
#define D float
#endif

// [matrix][k][n] to panels [matrix][n / 16][k][16]; columns beyond the last are zero. A work-item takes four panels, so
// that more of a row than one line of memory is read at once.
static inline OUTLINE void pack_columns_item(IDX item0, IDX item1, IDX item2, const __global S *source,
                                             __global D *target, IDX K, IDX N, IDX k_per_item) {
  const IDX panels = (N + TILE_PANEL - 1) / TILE_PANEL, first = item0 * 4;
  const IDX end = panels < first + 4 ? panels : first + 4;
  const IDX k_end = K < (item1 + 1) * k_per_item ? K : (item1 + 1) * k_per_item;
  for (IDX k = item1 * k_per_item; k < k_end; k++) {
    const __global S *from = source + (item2 * K + k) * N;
    __global D *to = target + (item2 * panels * K + k) * TILE_PANEL;
    for (IDX panel = first; panel < end; panel++) {
      const IDX n = panel * TILE_PANEL, count = N - n;
      float8 low, high = 0.0f;
      TILE_PREFETCH(from + 8 * N + n)
      if (count >= TILE_PANEL) {
        low = LOAD8(S, from, n);
        high = LOAD8(S, from, n + 8);
      } else if (count > 8) {
        low = LOAD8(S, from, n);
        high = LOADN(S, from, n + 8, count - 8);
      } else {
        low = count == 8 ? LOAD8(S, from, n) : LOADN(S, from, n, count);
      }
      ASTORE8(D, to, panel * K * TILE_PANEL, low);
      ASTORE8(D, to, panel * K * TILE_PANEL + 8, high);
    }
  }
}

kernel void pack_columns(const __global S *source, __global D *target, IDX K, IDX N, IDX k_per_item) {
  pack_columns_item(get_global_id(0), get_global_id(1), get_global_id(2), source, target, K, N, k_per_item);
}

// Transposes [matrix][i][j] so that i becomes contiguous: element (i, j) goes to
//   (i / width) * block + j * pitch + i % width        (width a multiple of 8)
// within its matrix of `target_size` elements. With width 16 these are the panels of a transposed operand, with a
// width above `I` a transposed matrix. With `pad`, lanes from I to the next multiple of 8 are written as zeros.
static inline OUTLINE void pack_transposed_item(IDX item0, IDX item1, IDX item2, const __global S *source,
                                                __global D *target, IDX I, IDX J, IDX width, IDX block, IDX pitch,
                                                IDX target_size, int pad, IDX j_per_item) {
  const IDX i = item0 * 8, count = I - i < 8 ? I - i : 8;
  const __global S *from = source + item2 * I * J + i * J;
  __global D *to = target + item2 * target_size + (i / width) * block + i % width;
  const IDX j_end = J < (item1 + 1) * j_per_item ? J : (item1 + 1) * j_per_item;
  IDX j = item1 * j_per_item;
  if (count == 8) {
    for (; j + 8 <= j_end; j += 8) {
      float8 d0 = LOAD8(S, from, j), d1 = LOAD8(S, from, J + j), d2 = LOAD8(S, from, 2 * J + j);
      float8 d3 = LOAD8(S, from, 3 * J + j), d4 = LOAD8(S, from, 4 * J + j), d5 = LOAD8(S, from, 5 * J + j);
      float8 d6 = LOAD8(S, from, 6 * J + j), d7 = LOAD8(S, from, 7 * J + j);
      TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
      __global D *t = to + j * pitch;
      STORE8(D, t, 0, d0);
      STORE8(D, t, pitch, d1);
      STORE8(D, t, 2 * pitch, d2);
      STORE8(D, t, 3 * pitch, d3);
      STORE8(D, t, 4 * pitch, d4);
      STORE8(D, t, 5 * pitch, d5);
      STORE8(D, t, 6 * pitch, d6);
      STORE8(D, t, 7 * pitch, d7);
    }
  }
  for (; j < j_end; j++) {
    const float8 v = count > 0 ? GATHER8(S, from, j, J, count) : (float8)(0.0f);
    if (pad || count == 8) {
      STORE8(D, to, j * pitch, v);
    } else {
      STOREN(D, to, j * pitch, count, v);
    }
  }
}

kernel void pack_transposed(const __global S *source, __global D *target, IDX I, IDX J, IDX width, IDX block, IDX pitch,
                            IDX target_size, int pad, IDX j_per_item) {
  pack_transposed_item(get_global_id(0), get_global_id(1), get_global_id(2), source, target, I, J, width, block, pitch,
                       target_size, pad, j_per_item);
}

// [matrix][m][k], elements `row` and `column` apart, to groups of rows [matrix][group][k][6]: `sixes` groups of six,
// then groups of four (gemm.cl). Rows beyond a group's own are anything, those beyond the last zeros.
kernel void pack_rows(const __global S *source, __global float *target, IDX M, IDX K, IDX row, IDX column, IDX sixes) {
  const IDX group = get_global_id(0), matrix = get_global_id(1), m = 4 * group + 2 * (group < sixes ? group : sixes);
  const __global S *from = source + matrix * M * K + m * row;
  __global float *to = target + (matrix * get_global_size(0) + group) * 6 * K;
  for (IDX k = 0; k < K; k++, to += 6)
    for (IDX r = 0; r < 6; r++) to[r] = m + r < M ? LOAD(S, from, r * row + k * column) : 0.0f;
}

// A convolution filter with any strides (elements) to panels of output channels, [group][panel][row][column][input
// channel][16], with zeros beyond a group's last output channel. `height`, `width`: taps; `row_step` etc. pick every
// s-th tap beginning with an offset that the caller put in `first` (transposed convolution takes the taps of one
// phase, in reverse).
static inline OUTLINE void pack_filter_item(IDX item0, IDX item1, const __global S *source, __global float *target,
                                            IDX outputs, IDX inputs, IDX height, IDX width, IDX first, IDX group_step,
                                            IDX output_step, IDX input_step, IDX row_step, IDX column_step) {
  const IDX panel = item0, group = item1, o = panel * TILE_PANEL;
  const IDX count = outputs - o < TILE_PANEL ? outputs - o : TILE_PANEL;
  const __global S *from = source + first + group * group_step + o * output_step;
  const IDX panels = (outputs + TILE_PANEL - 1) / TILE_PANEL;
  __global float *to = target + (group * panels + panel) * height * width * inputs * TILE_PANEL;
  for (IDX y = 0; y < height; y++) {
    for (IDX x = 0; x < width; x++) {
      for (IDX i = 0; i < inputs; i++, to += TILE_PANEL) {
        const IDX at = y * row_step + x * column_step + i * input_step;
        float8 high = 0.0f;
        if (count > 8) high = GATHER8(S, from, at + 8 * output_step, output_step, count - 8);
        ASTORE8(float, to, 0, GATHER8(S, from, at, output_step, count < 8 ? count : 8));
        ASTORE8(float, to, 8, high);
      }
    }
  }
}

kernel void pack_filter(const __global S *source, __global float *target, IDX outputs, IDX inputs, IDX height,
                        IDX width, IDX first, IDX group_step, IDX output_step, IDX input_step, IDX row_step,
                        IDX column_step) {
  pack_filter_item(get_global_id(0), get_global_id(1), source, target, outputs, inputs, height, width, first,
                   group_step, output_step, input_step, row_step, column_step);
}

// A convolution filter with any strides for conv_pixels.cl: [phase][group][`together` inputs][block of 4 outputs]
// [input][tap][4], zeros beyond a group's last output. table: for each phase the number of its first tap, and the end; what conv_pixels.cl
// knows of each tap; then where each tap lies in the source.
kernel void pack_pixels(const __global S *source, __global float *target, const __global IDX *table, IDX phases,
                        IDX groups, IDX outputs, IDX inputs, IDX together, IDX group_step, IDX output_step,
                        IDX input_step) {
  const IDX i = get_global_id(0), block = get_global_id(1), g = get_global_id(2), blocks = (outputs + 3) / 4;
  const __global S *from = source + g * group_step + block * 4 * output_step + i * input_step;
  const __global IDX *tap = table + phases + 1 + table[phases];
  const IDX count = min((IDX)4, outputs - block * 4);
  for (IDX p = 0; p < phases; p++) {
    const IDX first = table[p], taps = table[p + 1] - first;
    const IDX done = i / together * together, depth = min(together, inputs - done);
    const IDX before = (first * groups + g * taps) * inputs + done * taps;
    __global float *to = target + (before * blocks + (block * depth + i - done) * taps) * 4;
    for (IDX k = 0; k < taps; k++)
      for (IDX o = 0; o < 4; o++) to[k * 4 + o] = o < count ? LOAD(S, from, tap[first + k] + o * output_step) : 0.0f;
  }
}

// A filter whose columns are (row, column, output channel), in panels of 16 columns: [panel][input channel][16].
// `taps` is rows, columns, output channels; `step` the strides of row, column, output channel and input channel.
kernel void pack_blocks(const __global S *source, __global float *target, IDX inputs, dims_t taps, dims_t step) {
  const IDX i = get_global_id(0), panel = get_global_id(1);
  for (IDX k = 0; k < TILE_PANEL; k++) {
    const IDX n = panel * TILE_PANEL + k, o = n % taps.d[2], column = n / taps.d[2] % taps.d[1];
    const IDX row = n / (taps.d[2] * taps.d[1]);
    float v = 0.0f;
    if (row < taps.d[0])
      v = LOAD(S, source, row * step.d[0] + column * step.d[1] + o * step.d[2] + i * step.d[3]);
    target[(panel * inputs + i) * TILE_PANEL + k] = v;
  }
}

// A depthwise filter with any strides: channel c's tap t goes to c * channel_pitch + t * tap_pitch.
kernel void pack_taps(const __global S *source, __global float *target, IDX channels, IDX height, IDX width,
                      IDX channel_step, IDX row_step, IDX column_step, IDX channel_pitch, IDX tap_pitch) {
  const IDX c = get_global_id(0);
  if (c >= channels) return;
  for (IDX t = 0; t < height * width; t++)
    target[c * channel_pitch + t * tap_pitch] =
        LOAD(S, source, c * channel_step + t / width * row_step + t % width * column_step);
}
