// An affine view of a packed tensor whose last dimension is not the contiguous one of the source, written packed, on GPUs:
// tiles are turned in local memory.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef TILE
#define TILE 32
#endif

// Dimension i (`down_size`) is contiguous in the source, j (`across_size`) in the target: a group turns TILE x TILE
// elements in local memory, so that both sides are walked along their neighbours. One more column than needed keeps the
// turned accesses in different banks. Group: (tile of j, tile of i, index of the other dimensions), j fastest.
kernel GROUP_OF void copy_local(
    const __global E *source, IDX offset, IDX across, __global E *target, IDX down, IDX down_size, IDX across_size,
    int rank, dims_t shape, dims_t source_strides, dims_t target_strides) {
  __local E tile[TILE][TILE + 1];
  const int id = get_local_id(0);
  const IDX tiles_across = (across_size + TILE - 1) / TILE, tiles_down = (down_size + TILE - 1) / TILE;
  const IDX number = get_group_id(0), above = number / tiles_across;
  IDX rest = above / tiles_down;
  const IDX j0 = (number - above * tiles_across) * TILE, i0 = (above - rest * tiles_down) * TILE;
  const __global E *x = source + offset;
  __global E *y = target;
  DIMS_DOWN(k, rank - 1, 0) {
    const IDX c = rest % shape.d[k];
    rest /= shape.d[k];
    x += c * source_strides.d[k];
    y += c * target_strides.d[k];
  }
  for (int t = id; t < TILE * TILE; t += GROUP) {
    const int i = t % TILE, j = t / TILE;
    if (i0 + i < down_size && j0 + j < across_size) tile[j][i] = x[(i0 + i) + (j0 + j) * across];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int t = id; t < TILE * TILE; t += GROUP) {
    const int j = t % TILE, i = t / TILE;
    if (i0 + i < down_size && j0 + j < across_size) y[(i0 + i) * down + (j0 + j)] = tile[j][i];
  }
}
