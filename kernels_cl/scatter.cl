// Scatter into a copy of the input; of several updates for one place the last in row-major order wins.
//
// Update q = [p, m, s] (extents outer, middle, inner) is a run of `run` elements for the slot
// p * pitch + s + sum of coordinate * stride over its `depth` coordinates, each clamped to its limit; slots are runs.

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#ifndef I
#define I int  // type of the indices: int, uint or long
#endif
#define ADDRESS const __global I *indices, IDX middle, IDX inner, IDX pitch, int depth, dims_t limits, dims_t strides
#define SLOT_ARGUMENTS indices, pitch, depth, &limits, &strides

static inline IDX slot_of(IDX q, IDX p, IDX s, const __global I *indices, IDX pitch, int depth, const dims_t *limits,
                          const dims_t *strides) {
  IDX slot = p * pitch + s;
  DIMS_DOWN(k, depth - 1, 0) slot += clamp_index(indices[q * depth + k], limits->d[k]) * strides->d[k];
  return slot;
}

// Work-item: `each` elements of the copy. Nothing to do where the result took over the input's memory.
kernel void scatter_copy(const __global E *x, __global E *y, IDX n, IDX each) {
  const IDX i = (IDX)get_global_id(0) * each;
  if (i >= n || x == y) return;
  MOVE(E, y + i, x + i, i + each < n ? each : n - i);
}

// All updates in order. Work-item: one p and, so that no two meet in one place, `columns` of its columns: of the
// inner dimension, or of the runs where that is 1.
kernel void scatter_ordered(const __global E *updates, __global E *y, IDX run, IDX columns, ADDRESS) {
  const IDX c0 = (IDX)get_global_id(0) * columns;
  const IDX p = get_global_id(1);
  const IDX width = inner * run;
  if (c0 >= width) return;
  const IDX c1 = c0 + columns < width ? c0 + columns : width;
  for (IDX m = 0; m < middle; m++) {
    if (run == 1) {
      for (IDX s = c0; s < c1; s++) {
        const IDX q = (p * middle + m) * inner + s;
        y[slot_of(q, p, s, SLOT_ARGUMENTS)] = updates[q];
      }
    } else {
      const IDX q = p * middle + m;
      MOVE(E, y + slot_of(q, p, 0, SLOT_ARGUMENTS) * run + c0, updates + q * run + c0, c1 - c0);
    }
  }
}

// Where columns are too few to keep a device busy: each slot's last update is found first.
kernel void scatter_reset(__global int *winner, IDX n, IDX each) {
  const IDX begin = (IDX)get_global_id(0) * each;
  const IDX end = begin + each < n ? begin + each : n;
  for (IDX i = begin; i < end; i++) winner[i] = -1;
}

kernel void scatter_claim(__global int *winner, IDX n, IDX each, ADDRESS) {
  const IDX begin = (IDX)get_global_id(0) * each;
  const IDX end = begin + each < n ? begin + each : n;
  for (IDX q = begin; q < end; q++)
    atomic_max(winner + slot_of(q, q / (middle * inner), q % inner, SLOT_ARGUMENTS), (int)q);
}

kernel void scatter_won(const __global int *winner, const __global E *updates, __global E *y, IDX n, IDX each, IDX run,
                        ADDRESS) {
  const IDX begin = (IDX)get_global_id(0) * each;
  const IDX end = begin + each < n ? begin + each : n;
  for (IDX q = begin; q < end; q++) {
    const IDX slot = slot_of(q, q / (middle * inner), q % inner, SLOT_ARGUMENTS);
    if (winner[slot] == (int)q) MOVE(E, y + slot * run, updates + q * run, run);
  }
}
