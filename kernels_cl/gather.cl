// Gather: runs of a tensor that indices point at. Every index is clamped into its dimension.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#ifdef PAST  // the result is too large for the caches
#define COPY MOVE_PAST
#else
#define COPY MOVE
#endif
#ifndef I
#define I int  // type of the indices: int, uint or long
#endif

// Row r of the result is `run` elements from base(r) on: pitch * (r / per_batch) plus, for each of the `depth`
// coordinates at indices[(r % per_batch) * depth], clamped to its limit, coordinate times stride.
// Work-item: `columns` elements of `rows_each` rows.
kernel void gather_rows(const __global E *x, const __global I *indices, __global E *y, IDX run, IDX columns, IDX rows,
                        IDX rows_each, IDX per_batch, IDX pitch, int depth, dims_t limits, dims_t strides) {
  const IDX c = (IDX)get_global_id(0) * columns;
  IDX row = (IDX)get_global_id(1) * rows_each;
  if (c >= run || row >= rows) return;
  const IDX n = c + columns < run ? columns : run - c;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  IDX batch = row / per_batch;
  IDX q = row - batch * per_batch;
  for (; row < end; row++) {
    IDX from = batch * pitch + c;
    DIMS_DOWN(k, depth - 1, 0) from += clamp_index(indices[q * depth + k], limits.d[k]) * strides.d[k];
    if (run == 1) y[row] = x[from];
    else COPY(E, y + row * run + c, x + from, n);
    if (++q == per_batch) {
      q = 0;
      batch++;
    }
  }
}

// Element [p, m, s] of the result is element [p, indices[p, m, s], s] of x, whose middle dimension is `extent`.
// Work-item: `columns` of the last dimension (`inner`) in `rows_each` of the (p, m) rows, `middle` of them for one p.
kernel void gather_elements(const __global E *x, const __global I *indices, __global E *y, IDX inner, IDX columns,
                            IDX rows, IDX rows_each, IDX middle, IDX extent) {
  const IDX c0 = (IDX)get_global_id(0) * columns;
  IDX row = (IDX)get_global_id(1) * rows_each;
  if (c0 >= inner || row >= rows) return;
  const IDX c1 = c0 + columns < inner ? c0 + columns : inner;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  IDX p = row / middle;
  IDX m = row - p * middle;
  for (; row < end; row++) {
    const __global E *plane = x + p * extent * inner;
    for (IDX c = c0; c < c1; c++) y[row * inner + c] = plane[clamp_index(indices[row * inner + c], extent) * inner + c];
    if (++m == middle) {
      m = 0;
      p++;
    }
  }
}
