// Concat and split: each row of `whole` is the rows of up to eight pieces side by side. `first` is where the first
// piece begins in a row of `pitch` elements, `starts` and `sizes` say where each lies after that, `width` is their
// sum. Work-item: `columns` elements of the `width`, in `rows_each` rows.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#ifdef PAST  // the result is too large for the caches
#define COPY MOVE_PAST
#else
#define COPY MOVE
#endif
#ifndef PIECE
#define PIECE const __global E *  // pointer to a piece; without const to take it out of the whole
#define WHOLE __global E *
#define JOIN
#endif

static inline OUTLINE void piece_rows(PIECE piece, WHOLE whole, IDX start, IDX size, IDX c0, IDX c1, IDX row, IDX end,
                                      IDX pitch) {
  const IDX low = c0 > start ? c0 : start;
  const IDX high = c1 < start + size ? c1 : start + size;
  if (low >= high) return;
  for (; row < end; row++) {
#ifdef JOIN
    COPY(E, whole + row * pitch + low, piece + row * size + low - start, high - low);
#else
    COPY(E, piece + row * size + low - start, whole + row * pitch + low, high - low);
#endif
  }
}

kernel void pieces(WHOLE whole, PIECE p0, PIECE p1, PIECE p2, PIECE p3, PIECE p4, PIECE p5, PIECE p6, PIECE p7,
                   dims_t starts, dims_t sizes, IDX first, IDX width, IDX pitch, IDX rows, IDX columns,
                   IDX rows_each) {
  const IDX c0 = (IDX)get_global_id(0) * columns;
  const IDX row = (IDX)get_global_id(1) * rows_each;
  if (c0 >= width || row >= rows) return;
  const IDX c1 = c0 + columns < width ? c0 + columns : width;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  whole += first;
#define ONE(k) piece_rows(p##k, whole, starts.d[k], sizes.d[k], c0, c1, row, end, pitch);
  ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7)
#undef ONE
}
