// Put before a template: eight columns of a window's row, with what lies outside the image filled in.

#define VEC VTYPE(T)
#define LANES MTYPE(T)

// Lane l is p[row + column + l * step] where that column lies in 0..width-1, else `fill`. Loads may touch other rows of
// the tensor (`total` elements), never what lies outside it.
static inline VEC window8(const __global T *p, IDX row, IDX column, IDX step, IDX width, IDX total, CTYPE(T) fill) {
  const IDX at = row + column;
  if (column >= 0 && column + 7 * step < width) {
    if (step == 1) return LOAD8(T, p, at);
    if (step == 2) return (VEC)(LOAD8(T, p, at).even, LOAD8(T, p, at + 7).odd);
    return GATHER8(T, p, at, step, 8);
  }
  const IDX before = column < 0 ? (-column + step - 1) / step : 0;
  const IDX after = column < width ? (width - column + step - 1) / step : 0;
  const int first = before < 8 ? before : 8, last = after < 8 ? after : 8;
  if (first >= last) return (VEC)(fill);
  if (step <= 2 && at >= 0 && at + 7 * step + 1 <= total) {
    VEC v = LOAD8(T, p, at);
    if (step == 2) v = (VEC)(v.even, LOAD8(T, p, at + 7).odd);
    const LANES lane = (LANES)(0, 1, 2, 3, 4, 5, 6, 7);
    v = SEL8((VEC)(fill), v, (lane >= (LANES)(first)) & (lane < (LANES)(last)));
    return v;
  }
  CTYPE(T) lane[8] = {fill, fill, fill, fill, fill, fill, fill, fill};
  for (int l = first; l < last; l++) lane[l] = LOAD(T, p, at + l * step);
  return (VEC)(lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7]);
}
