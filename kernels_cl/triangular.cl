// One triangle of each matrix, zeros elsewhere.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif

// Work-item: `columns` of the `width` columns in `rows_each` rows; matrices have `height` rows. With `upper`, columns
// from row + diagonal on are kept, else those up to it.
kernel void triangular(const __global E *x, __global E *y, IDX width, IDX columns, IDX rows, IDX rows_each, IDX height,
                       int upper, IDX diagonal) {
  const IDX c0 = (IDX)get_global_id(0) * columns;
  IDX row = (IDX)get_global_id(1) * rows_each;
  if (c0 >= width || row >= rows) return;
  const IDX c1 = c0 + columns < width ? c0 + columns : width;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  for (; row < end; row++) {
    const IDX edge = row % height + diagonal;
    IDX low = upper ? edge : 0;
    IDX high = upper ? width : edge + 1;
    low = low < c0 ? c0 : low > c1 ? c1 : low;
    high = high < low ? low : high > c1 ? c1 : high;
    const IDX at = row * width;
    FILL(E, y + at + c0, (E)0, low - c0);
    MOVE(E, y + at + low, x + at + low, high - low);
    FILL(E, y + at + high, (E)0, c1 - high);
  }
}
