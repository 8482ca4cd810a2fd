// An affine view of a packed tensor, written packed: element [i, j, ...] is source[offset + i * s0 + j * s1 + ...].

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#define E8 CAT2(E, 8)

// n elements `step` apart from x on, to consecutive ones from y on.
static inline void gather_run(__global E *y, const __global E *x, IDX step, IDX n) {
  IDX i = 0;
  if (step == -1) {
    for (; i + 8 <= n; i += 8) PUT_EIGHT(E, y, i, EIGHT_OF(E, x, -i - 7).s76543210);
  } else {
    for (; i + 8 <= n; i += 8) {
      const __global E *p = x + i * step;
      const E8 v = (E8)(p[0], p[step], p[2 * step], p[3 * step], p[4 * step], p[5 * step], p[6 * step], p[7 * step]);
      PUT_EIGHT(E, y, i, v);
    }
  }
  for (; i < n; i++) y[i] = x[i * step];
}

// Work-item: `columns` elements of the last dimension in `rows_each` rows; `shape` and `strides` are of the others.
kernel void strided_rows(const __global E *source, IDX offset, IDX step, __global E *target, IDX inner, IDX columns,
                         IDX rows, IDX rows_each, int rank, dims_t shape, dims_t strides) {
  const IDX c = (IDX)get_global_id(0) * columns;
  IDX row = (IDX)get_global_id(1) * rows_each;
  if (c >= inner || row >= rows) return;
  const IDX n = c + columns < inner ? columns : inner - c;
  const IDX end = row + rows_each < rows ? row + rows_each : rows;
  IDX at[8];
  const __global E *x = source + offset + c * step;
  __global E *y = target + row * inner + c;
  IDX rest = row;
  DIMS_DOWN(k, rank - 1, 0) {
    at[k] = rest % shape.d[k];
    rest /= shape.d[k];
    x += at[k] * strides.d[k];
  }
  for (; row < end; row++) {
    if (step == 1) MOVE(E, y, x, n);
    else if (step == 0) FILL(E, y, *x, n);
    else gather_run(y, x, step, n);
    y += inner;
    bool carry = true;
    DIMS_DOWN(k, rank - 1, 0) {
      if (!carry) DIMS_DONE;
      x += strides.d[k];
      carry = ++at[k] == shape.d[k];
      if (carry) {
        x -= shape.d[k] * strides.d[k];
        at[k] = 0;
      }
    }
  }
}

#define LOW2(a, b) (E8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5)
#define HIGH2(a, b) (E8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7)
#define LOW4(a, b) (E8)(a.s01, b.s01, a.s45, b.s45)
#define HIGH4(a, b) (E8)(a.s23, b.s23, a.s67, b.s67)

// y[i * down + j] = x[i + j * across] for 8 x 8 elements, in registers.
static inline void turn8(const __global E *x, IDX across, __global E *y, IDX down) {
  const E8 r0 = EIGHT_OF(E, x, 0), r1 = EIGHT_OF(E, x, across);
  const E8 r2 = EIGHT_OF(E, x, 2 * across), r3 = EIGHT_OF(E, x, 3 * across);
  const E8 r4 = EIGHT_OF(E, x, 4 * across), r5 = EIGHT_OF(E, x, 5 * across);
  const E8 r6 = EIGHT_OF(E, x, 6 * across), r7 = EIGHT_OF(E, x, 7 * across);
  const E8 a0 = LOW2(r0, r1), a1 = HIGH2(r0, r1), a2 = LOW2(r2, r3), a3 = HIGH2(r2, r3);
  const E8 a4 = LOW2(r4, r5), a5 = HIGH2(r4, r5), a6 = LOW2(r6, r7), a7 = HIGH2(r6, r7);
  const E8 b0 = LOW4(a0, a2), b1 = HIGH4(a0, a2), b2 = LOW4(a1, a3), b3 = HIGH4(a1, a3);
  const E8 b4 = LOW4(a4, a6), b5 = HIGH4(a4, a6), b6 = LOW4(a5, a7), b7 = HIGH4(a5, a7);
  PUT_EIGHT(E, y, 0, (E8)(b0.lo, b4.lo));
  PUT_EIGHT(E, y, down, (E8)(b1.lo, b5.lo));
  PUT_EIGHT(E, y, 2 * down, (E8)(b2.lo, b6.lo));
  PUT_EIGHT(E, y, 3 * down, (E8)(b3.lo, b7.lo));
  PUT_EIGHT(E, y, 4 * down, (E8)(b0.hi, b4.hi));
  PUT_EIGHT(E, y, 5 * down, (E8)(b1.hi, b5.hi));
  PUT_EIGHT(E, y, 6 * down, (E8)(b2.hi, b6.hi));
  PUT_EIGHT(E, y, 7 * down, (E8)(b3.hi, b7.hi));
}

#define TILE 16

// Dimension i (`down_size`) is contiguous in the source, j (`across_size`) in the target: they change places tile by
// tile. Work-item: `block` x `block` of them, for one index of the other dimensions.
kernel void strided_turn(const __global E *source, IDX offset, IDX across, __global E *target, IDX down,
                         IDX down_size, IDX across_size, IDX block, int rank, dims_t shape, dims_t source_strides,
                         dims_t target_strides) {
  const IDX j0 = (IDX)get_global_id(0) * block;
  const IDX i0 = (IDX)get_global_id(1) * block;
  if (j0 >= across_size || i0 >= down_size) return;
  const IDX j1 = j0 + block < across_size ? j0 + block : across_size;
  const IDX i1 = i0 + block < down_size ? i0 + block : down_size;
  const __global E *x = source + offset;
  __global E *y = target;
  IDX rest = get_global_id(2);
  DIMS_DOWN(k, rank - 1, 0) {
    const IDX c = rest % shape.d[k];
    rest /= shape.d[k];
    x += c * source_strides.d[k];
    y += c * target_strides.d[k];
  }
  for (IDX i = i0; i < i1; i += TILE) {
    for (IDX j = j0; j < j1; j += TILE) {
      if (i + TILE <= i1 && j + TILE <= j1) {
        for (int a = 0; a < TILE; a += 8)
          for (int b = 0; b < TILE; b += 8)
            turn8(x + i + a + (j + b) * across, across, y + (i + a) * down + j + b, down);
      } else {
        for (IDX a = i; a < i + TILE && a < i1; a++)
          for (IDX b = j; b < j + TILE && b < j1; b++) y[a * down + b] = x[a + b * across];
      }
    }
  }
}
