// A chain of element-wise operators in one kernel on GPUs: neighbouring work-items do neighbouring elements, `each` of
// them apart by a work-group, so that memory is read and written in whole transactions whatever the alignment. Macros
// that the compiler writes:
//   ARGUMENTS    parameters: a pointer per input (and offset and strides where it is walked), scalars
//   CHAIN1       statements that compute `result` from the loaded variables
//   OUT          storage type of the output
//   LOADS        declare and fill the variables; OFFSETS and LOCATE find an offset per walked input

#ifndef POS
#define POS uint  // type of indices within the output: 32-bit divisions are much faster
#endif

// rank, shape: dimensions over which inputs are walked; 0 where all inputs lie like the output or are one element.
kernel void elementwise_items(ARGUMENTS __global OUT *y, IDX n, int each, int rank, dims_t shape) {
  IDX i = (IDX)get_group_id(0) * get_local_size(0) * each + get_local_id(0);
  for (int k = 0; k < each && i < n; k++, i += get_local_size(0)) {
    POS rest = (POS)i;
    OFFSETS
    DIMS_DOWN(d, rank - 1, 0) {
      const POS extent = (POS)shape.d[d], above = d > 0 ? rest / extent : 0;
      const IDX at = rest - above * extent;
      rest = above;
      LOCATE
    }
    CTYPE(OUT) result;
    LOADS
    CHAIN1
    STORE(OUT, y, i, result);
  }
}
