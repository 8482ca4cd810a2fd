// A convolution filter in the order in which conv_direct.cl reads it: float, [group][block of 8 output channels]
// [row][column][input channel][8], missing channels zero.

#ifndef T
#define T float              // storage type of the filter
#endif

// strides: of group, output channel in its group, input channel, row, column. taps: rows, columns, input channels a
// group, output channels a group. Work-items: (tap and input channel, group and block).
kernel void conv_pack(const __global T *filter, __global float *panels, dims_t strides, dims_t taps) {
  const IDX depth = taps.d[0] * taps.d[1] * taps.d[2], blocks = (taps.d[3] + 7) / 8;
  const IDX k = get_global_id(0), panel = get_global_id(1);
  if (k >= depth) return;
  const IDX g = panel / blocks, o = (panel - g * blocks) * 8;
  const IDX ic = k % taps.d[2], tap = k / taps.d[2];
  const IDX at = g * strides.d[0] + o * strides.d[1] + ic * strides.d[2] + tap / taps.d[1] * strides.d[3] +
                 tap % taps.d[1] * strides.d[4];
  const IDX left = taps.d[3] - o;
  ASTORE8(float, panels, (panel * depth + k) * 8, GATHER8(T, filter, at, strides.d[1], left < 8 ? left : 8));
}
