// An affine view of a packed tensor, written packed, on GPUs: element [i, j, ...] is source[offset + i * s0 + j * s1 +
// ...]. Neighbouring work-items write neighbouring elements, `each` of them apart by a work-group.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#ifndef POS
#define POS uint  // type of indices within the target: 32-bit divisions are much faster
#endif

kernel void copy_items(const __global E *source, IDX offset, __global E *target, IDX n, int each, int rank, dims_t shape,
                       dims_t strides) {
  IDX i = (IDX)get_group_id(0) * get_local_size(0) * each + get_local_id(0);
  for (int k = 0; k < each && i < n; k++, i += get_local_size(0)) {
    POS rest = (POS)i;
    IDX from = offset;
    DIMS_DOWN(d, rank - 1, 0) {
      const POS extent = (POS)shape.d[d], above = d > 0 ? rest / extent : 0;
      from += (IDX)(rest - above * extent) * strides.d[d];
      rest = above;
    }
    target[i] = source[from];
  }
}
