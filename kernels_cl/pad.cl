// Pad: rows of the last dimension, each from the row of the input that its other coordinates lead to.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#ifdef PAST  // the result is too large for the caches
#define COPY MOVE_PAST
#define SPREAD FILL_PAST
#else
#define COPY MOVE
#define SPREAD FILL
#endif
#define CONSTANT 0
#define EDGE 1
#define REFLECTION 2

// Coordinate of the input for a padded one, both counted from the input's first element; -1 is the constant.
static inline IDX padded_source(IDX i, IDX n, int mode) {
  if (i >= 0 && i < n) return i;
  if (mode == CONSTANT) return -1;
  if (mode == EDGE) return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

// Elements c0 .. c1 - 1 of a padded row, where the input's row begins at column `begin`.
static inline void pad_row(__global E *y, const __global E *x, IDX c0, IDX c1, IDX begin, IDX n, int mode, E value) {
  IDX c = c0;
  const IDX left = begin < c1 ? begin : c1;
  if (mode == REFLECTION) {
    for (; c < left; c++) y[c] = x[begin - c];
  } else if (c < left) {
    SPREAD(E, y + c, mode == CONSTANT ? value : x[0], left - c);
    c = left;
  }
  const IDX middle = begin + n < c1 ? begin + n : c1;
  if (c < middle) {
    COPY(E, y + c, x + c - begin, middle - c);
    c = middle;
  }
  if (mode == REFLECTION) {
    for (; c < c1; c++) y[c] = x[2 * (n - 1) - (c - begin)];
  } else if (c < c1) {
    SPREAD(E, y + c, mode == CONSTANT ? value : x[n - 1], c1 - c);
  }
}

// Work-item: `columns` elements of the last dimension (n in the input, `inner` in the result, `begin` of padding
// before) in `rows_each` rows; shapes and paddings are of the other dimensions.
kernel void pad_rows(const __global E *source, __global E *target, IDX n, IDX begin, IDX inner, IDX columns, IDX rows,
                     IDX rows_each, int rank, dims_t shape, dims_t source_shape, dims_t begins, int mode, E value) {
  const IDX c0 = (IDX)get_global_id(0) * columns;
  IDX row = (IDX)get_global_id(1) * rows_each;
  if (c0 >= inner || row >= rows) return;
  const IDX c1 = c0 + columns < inner ? c0 + columns : inner;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  for (; row < end; row++) {
    IDX rest = row, from = 0, step = n;
    int outside = 0;
    DIMS_DOWN(k, rank - 1, 0) {
      const IDX above = rest / shape.d[k];
      const IDX i = padded_source(rest - above * shape.d[k] - begins.d[k], source_shape.d[k], mode);
      rest = above;
      outside |= i < 0;
      from += i * step;
      step *= source_shape.d[k];
    }
    __global E *y = target + row * inner;
    if (outside) SPREAD(E, y + c0, value, c1 - c0);
    else pad_row(y, source + from, c0, c1, begin, n, mode, value);
  }
}
