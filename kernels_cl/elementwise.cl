// A chain of element-wise operators in one kernel, eight elements at a time. The compiler writes the macros:
//   ARGUMENTS    parameters: a pointer per input (and offset and strides where it is walked), scalars; PASS their names
//   CHAIN8       statements that compute `result` from the loaded variables
//   OUT          storage type of the output
//   LOAD_...     declare and fill the variables; OFFSETS, LOCATE, STEP, RETURN keep an offset per walked input
// A work-item does a run of elements on CPUs, one vector on GPUs.

#ifdef LINEAR
#ifndef STRIPS
#define STRIPS  // most of a long chain, in stages
#endif
// Inputs that all lie like the output, or are one element: no index arithmetic.
static inline OUTLINE void elementwise_linear_item(IDX item0, ARGUMENTS __global OUT *y, IDX n, IDX block) {
  IDX i = item0 * block;
  const IDX end = i + block < n ? i + block : n;
  VTYPE(OUT) result;
  if (i >= end) return;
  LOAD_ONCE
  STRIPS
  for (; i + 8 <= end; i += 8) {
    LOAD_FULL
    CHAIN8
    STORE8(OUT, y, i, result);
  }
  if (i < end) {
    const IDX count = end - i;
    LOAD_TAIL
    CHAIN8
    STOREN(OUT, y, i, count, result);
  }
}

kernel void elementwise_linear(ARGUMENTS __global OUT *y, IDX n, IDX block) {
  elementwise_linear_item(get_global_id(0), PASS y, n, block);
}
#endif

#ifdef ROWS
// Broadcast or strided inputs, or a result that is part of a concat: rows of `inner` elements. A work-item does
// `columns` elements of `height` rows.
#ifndef ROW
#define ROW (row * inner)  // where a row of the result begins
#endif
static inline OUTLINE void elementwise_rows_item(IDX item0, IDX item1, ARGUMENTS __global OUT *y, IDX inner, IDX rows,
                                                 IDX columns, IDX height, int rank, dims_t shape) {
  const IDX begin = item0 * columns;
  const IDX end = begin + columns < inner ? begin + columns : inner;
  IDX row = item1 * height;
  const IDX last = row + height < rows ? row + height : rows;
  if (begin >= end || row >= last) return;
  const IDX count = end - begin;
  // A row that is no multiple of eight ends with a vector that overlaps the one before. It is computed first and
  // stored last, since output and input may be one memory.
  const IDX start = count >= 8 && (count & 7) ? -8 : 0;
  VTYPE(OUT) result, ragged = (VTYPE(OUT))(0);
  IDX at[8];
  IDX rest = row;
  OFFSETS
  DIMS_DOWN(d, rank - 1, 0) {
    const IDX above = rest / shape.d[d];
    at[d] = rest - above * shape.d[d];
    rest = above;
    LOCATE
  }
  for (;;) {
    __global OUT *z = y + ROW;
    LOAD_ONCE
    for (IDX v = start; v + 8 <= count; v += 8) {
      const IDX i = v < 0 ? end - 8 : begin + v;
      LOAD_FULL
      CHAIN8
      if (v < 0) ragged = result;
      else STORE8(OUT, z, i, result);
    }
    if (start) STORE8(OUT, z, end - 8, ragged);
    if (count < 8) {
      const IDX i = begin;
      LOAD_TAIL
      CHAIN8
      STOREN(OUT, z, i, count, result);
    }
    if (++row == last) return;
    bool carry = true;
    DIMS_DOWN(d, rank - 1, 0) {
      if (!carry) DIMS_DONE;
      STEP
      carry = ++at[d] == shape.d[d];
      if (carry) {
        at[d] = 0;
        RETURN
      }
    }
  }
}

kernel void elementwise_rows(ARGUMENTS __global OUT *y, IDX inner, IDX rows, IDX columns, IDX height, int rank,
                             dims_t shape) {
  elementwise_rows_item(get_global_id(0), get_global_id(1), PASS y, inner, rows, columns, height, rank, shape);
}
#endif

#ifdef LANEWISE
// Rows shorter than a vector: the inputs that don't lie like the output are gathered lane by lane.
static inline OUTLINE void elementwise_lanewise_item(IDX item0, ARGUMENTS __global OUT *y, IDX n, IDX block, int rank,
                                                     dims_t shape) {
  IDX i = item0 * block;
  const IDX end = i + block < n ? i + block : n;
  if (i >= end) return;
  VTYPE(OUT) result;
  IDX at[8];
  IDX rest = i;
  OFFSETS
  DIMS_DOWN(d, rank - 1, 0) {
    const IDX above = rest / shape.d[d];
    at[d] = rest - above * shape.d[d];
    rest = above;
    LOCATE
  }
  for (; i < end; i += 8) {
    const IDX count = end - i < 8 ? end - i : 8;
    LANE_ARRAYS
    for (IDX j = 0; j < count; j++) {
      LOAD_LANE
      bool carry = true;
      DIMS_DOWN(d, rank - 1, 0) {
        if (!carry) DIMS_DONE;
        STEP
        carry = ++at[d] == shape.d[d];
        if (carry) {
          at[d] = 0;
          RETURN
        }
      }
    }
    if (count == 8) {
      LOAD_FULL
      CHAIN8
      STORE8(OUT, y, i, result);
    } else {
      LOAD_TAIL
      CHAIN8
      STOREN(OUT, y, i, count, result);
    }
  }
}

kernel void elementwise_lanewise(ARGUMENTS __global OUT *y, IDX n, IDX block, int rank, dims_t shape) {
  elementwise_lanewise_item(get_global_id(0), PASS y, n, block, rank, shape);
}
#endif

#ifdef PERIODIC
// Two dimensions, rows shorter than a vector: the pattern of lanes repeats after eight rows, so that the offsets of its
// at most 56 elements are computed once.
static inline OUTLINE void elementwise_periodic_item(IDX item0, ARGUMENTS __global OUT *y, IDX n, IDX block,
                                                     IDX inner) {
  const IDX begin = item0 * block;
  const IDX end = begin + block < n ? begin + block : n;
  if (begin >= end) return;
  const IDX period = 8 * inner, row = begin / inner;
  VTYPE(OUT) result;
  OFFSETS
  for (IDX j = 0; j < period; j++) {
    const IDX above = j / inner, c = j - above * inner;
    LOCATE
  }
  for (IDX group = begin; group < end; group += period) {
    for (IDX v = 0; v < period && group + v < end; v += 8) {
      const IDX i = group + v;
      if (i + 8 <= end) {
        LOAD_FULL
        CHAIN8
        STORE8(OUT, y, i, result);
      } else {
        const IDX count = end - i;
        LANE_ARRAYS
        for (IDX j = 0; j < count; j++) {
          LOAD_LANE
        }
        LOAD_TAIL
        CHAIN8
        STOREN(OUT, y, i, count, result);
      }
    }
    STEP
  }
}

kernel void elementwise_periodic(ARGUMENTS __global OUT *y, IDX n, IDX block, IDX inner) {
  elementwise_periodic_item(get_global_id(0), PASS y, n, block, inner);
}
#endif
