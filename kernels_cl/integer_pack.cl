// Packs int16 matrices or filters in panels of 16 columns for integer_rows.cl: [matrix][panel][tap][pair of k][16][2],
// zeros beyond the last k and column.

// size: tap rows, tap columns, k, columns; step: the source's element steps along them, and from matrix to matrix.
// Work-items: (panel, tap, matrix).
kernel void integer_pack(const __global short *source, __global short *target, dims_t size, dims_t step) {
  const IDX panel = get_global_id(0), tap = get_global_id(1), matrix = get_global_id(2);
  const IDX taps = size.d[0] * size.d[1], K = size.d[2], n = panel * TILE_PANEL;
  const IDX panels = (size.d[3] + TILE_PANEL - 1) / TILE_PANEL, pairs = (K + 1) / 2;
  if (panel >= panels || tap >= taps) return;
  const IDX columns = TILE_MIN((IDX)TILE_PANEL, size.d[3] - n);
  const __global short *from = source + matrix * step.d[4] + tap / size.d[1] * step.d[0] +
                               tap % size.d[1] * step.d[1] + n * step.d[3];
  __global short *to = target + ((matrix * panels + panel) * taps + tap) * pairs * 2 * TILE_PANEL;
  IDX k = 0;
  if (columns == TILE_PANEL && step.d[3] == 1) {
    for (; k + 2 <= K; k += 2) {
      const __global short *even = from + k * step.d[2], *odd = even + step.d[2];
      for (IDX c = 0; c < TILE_PANEL; c += 8) {
        const short8 x = LOAD8(short, even, c), y = LOAD8(short, odd, c);
        *(__global short16 *)(to + k * TILE_PANEL + 2 * c) =
            (short16)(x.s0, y.s0, x.s1, y.s1, x.s2, y.s2, x.s3, y.s3, x.s4, y.s4, x.s5, y.s5, x.s6, y.s6, x.s7, y.s7);
      }
    }
  }
  for (; k < 2 * pairs; k++) {
    __global short *lanes = to + k / 2 * 2 * TILE_PANEL + k % 2;
    for (IDX c = 0; c < TILE_PANEL; c++) {
      lanes[2 * c] = k < K && c < columns ? from[k * step.d[2] + c * step.d[3]] : (short)0;
    }
  }
}
