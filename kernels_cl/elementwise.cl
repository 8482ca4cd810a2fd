// A chain of element-wise operators in one kernel, eight elements per work-item. The compiler writes the macros:
//   ARGUMENTS    parameters: a pointer (and for `rows` an offset, strides and inner stride) per input, scalars
//   CHAIN8       statements that compute `result` from the loaded variables
//   OUT          storage type of the output

// Inputs that all lie like the output, or are one element: no index arithmetic.
#ifdef LINEAR
kernel void elementwise_linear(ARGUMENTS __global OUT *y, IDX n) {
  const IDX i = (IDX)get_global_id(0) * 8;
  if (i >= n) return;
  VTYPE(OUT) result;
  if (i + 8 <= n) {
    LOAD_FULL
    CHAIN8
    STORE8(OUT, y, i, result);
  } else {
    const IDX count = n - i;
    LOAD_TAIL
    CHAIN8
    STOREN(OUT, y, i, count, result);
  }
}
#else
// Broadcast or strided inputs: rows of `inner` elements, one base offset per input and row.
kernel void elementwise_rows(ARGUMENTS __global OUT *y, IDX inner, IDX rows, int rank, dims_t shape) {
  const IDX i = (IDX)get_global_id(0) * 8;
  const IDX row = get_global_id(1);
  if (i >= inner || row >= rows) return;
  VTYPE(OUT) result;
  IDX rest = row;
  OFFSETS
  DIMS_DOWN(d, rank - 1, 0) {
    const IDX above = rest / shape.d[d];
    const IDX c = rest - above * shape.d[d];
    rest = above;
    ADVANCE
  }
  if (i + 8 <= inner) {
    LOAD_FULL
    CHAIN8
    STORE8(OUT, y, row * inner + i, result);
  } else {
    const IDX count = inner - i;
    LOAD_TAIL
    CHAIN8
    STOREN(OUT, y, row * inner + i, count, result);
  }
}
#endif
