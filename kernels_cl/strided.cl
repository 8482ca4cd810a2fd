// An affine view of a packed tensor, written packed: element [i, j, ...] is source[offset + i * s0 + j * s1 + ...].

#ifndef E
#define E uint  // unsigned integer of one element's size
#endif
#define E8 CAT2(E, 8)

#ifdef PAST  // the target is too large for the caches
#define COPY MOVE_PAST
#define SPREAD FILL_PAST
#define PUT(p, i, v) PUT_PAST(E8, (p) + (i), v)
#else
#define COPY MOVE
#define SPREAD FILL
#define PUT(p, i, v) PUT_EIGHT(E, p, i, v)
#endif

// n elements `step` apart from x on, to consecutive ones from y on.
static inline void gather_run(__global E *y, const __global E *x, IDX step, IDX n) {
  IDX i = 0;
#ifdef PAST
  for (; i < n && !ON_LINE(y + i); i++) y[i] = x[i * step];
#endif
  if (step == -1) {
    for (; i + 8 <= n; i += 8) PUT(y, i, EIGHT_OF(E, x, -i - 7).s76543210);
  } else {
    for (; i + 8 <= n; i += 8) {
      const __global E *p = x + i * step;
      const E8 v = (E8)(p[0], p[step], p[2 * step], p[3 * step], p[4 * step], p[5 * step], p[6 * step], p[7 * step]);
      PUT(y, i, v);
    }
  }
  for (; i < n; i++) y[i] = x[i * step];
}

// Work-item: `columns` elements of the last dimension in `rows_each` rows; `shape` and `strides` are of the others.
static inline OUTLINE void strided_rows_item(IDX item0, IDX item1, const __global E *source, IDX offset, IDX step,
                                             __global E *target, IDX inner, IDX columns, IDX rows, IDX rows_each,
                                             int rank, dims_t shape, dims_t strides) {
  const IDX c = item0 * columns;
  IDX row = item1 * rows_each;
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
    if (step == 1) COPY(E, y, x, n);
    else if (step == 0) SPREAD(E, y, *x, n);
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

kernel void strided_rows(const __global E *source, IDX offset, IDX step, __global E *target, IDX inner, IDX columns,
                         IDX rows, IDX rows_each, int rank, dims_t shape, dims_t strides) {
  strided_rows_item(get_global_id(0), get_global_id(1), source, offset, step, target, inner, columns, rows, rows_each,
                    rank, shape, strides);
}

// Rows r0 .. r7 of 8 x 8 elements, from x on and `across` apart, become the columns t0 .. t7. The pairs are those that
// vector registers of 32 bytes have an instruction for, or those of 16 bytes and less for the small elements.
#ifdef SMALL
#define LOW2(a, b) (E8)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define HIGH2(a, b) (E8)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define LOW4(a, b) (E8)(a.s01, b.s01, a.s23, b.s23)
#define HIGH4(a, b) (E8)(a.s45, b.s45, a.s67, b.s67)
#else
#define LOW2(a, b) (E8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5)
#define HIGH2(a, b) (E8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7)
#define LOW4(a, b) (E8)(a.s01, b.s01, a.s45, b.s45)
#define HIGH4(a, b) (E8)(a.s23, b.s23, a.s67, b.s67)
#endif
#define TURN8(x, across)                                                                                   \
  const E8 r0 = EIGHT_OF(E, x, 0), r1 = EIGHT_OF(E, x, across);                                            \
  const E8 r2 = EIGHT_OF(E, x, 2 * across), r3 = EIGHT_OF(E, x, 3 * across);                               \
  const E8 r4 = EIGHT_OF(E, x, 4 * across), r5 = EIGHT_OF(E, x, 5 * across);                               \
  const E8 r6 = EIGHT_OF(E, x, 6 * across), r7 = EIGHT_OF(E, x, 7 * across);                               \
  const E8 a0 = LOW2(r0, r1), a1 = HIGH2(r0, r1), a2 = LOW2(r2, r3), a3 = HIGH2(r2, r3);                   \
  const E8 a4 = LOW2(r4, r5), a5 = HIGH2(r4, r5), a6 = LOW2(r6, r7), a7 = HIGH2(r6, r7);                   \
  const E8 b0 = LOW4(a0, a2), b1 = HIGH4(a0, a2), b2 = LOW4(a1, a3), b3 = HIGH4(a1, a3);                   \
  const E8 b4 = LOW4(a4, a6), b5 = HIGH4(a4, a6), b6 = LOW4(a5, a7), b7 = HIGH4(a5, a7);                   \
  SPLIT_PAIRS
#ifdef SMALL
#define SPLIT_PAIRS                                                                                        \
  const E8 t0 = (E8)(b0.lo, b4.lo), t1 = (E8)(b0.hi, b4.hi), t2 = (E8)(b1.lo, b5.lo), t3 = (E8)(b1.hi, b5.hi); \
  const E8 t4 = (E8)(b2.lo, b6.lo), t5 = (E8)(b2.hi, b6.hi), t6 = (E8)(b3.lo, b7.lo), t7 = (E8)(b3.hi, b7.hi);
#else
#define SPLIT_PAIRS                                                                                        \
  const E8 t0 = (E8)(b0.lo, b4.lo), t1 = (E8)(b1.lo, b5.lo), t2 = (E8)(b2.lo, b6.lo), t3 = (E8)(b3.lo, b7.lo); \
  const E8 t4 = (E8)(b0.hi, b4.hi), t5 = (E8)(b1.hi, b5.hi), t6 = (E8)(b2.hi, b6.hi), t7 = (E8)(b3.hi, b7.hi);
#endif

// y[i * down + j] = x[i + j * across] for 8 x 8 elements.
static inline void turn8(const __global E *x, IDX across, __global E *y, IDX down) {
  TURN8(x, across)
  PUT_EIGHT(E, y, 0, t0);
  PUT_EIGHT(E, y, down, t1);
  PUT_EIGHT(E, y, 2 * down, t2);
  PUT_EIGHT(E, y, 3 * down, t3);
  PUT_EIGHT(E, y, 4 * down, t4);
  PUT_EIGHT(E, y, 5 * down, t5);
  PUT_EIGHT(E, y, 6 * down, t6);
  PUT_EIGHT(E, y, 7 * down, t7);
}

static inline void turn_scalars(const __global E *x, IDX across, __global E *y, IDX down, IDX i, IDX i1, IDX j,
                                IDX j1) {
  for (; i < i1; i++)
    for (IDX k = j; k < j1; k++) y[i * down + k] = x[i + k * across];
}

#ifdef PAST
#define LINE ((int)(LINE_BYTES / sizeof(E)))

// LINE x LINE elements: whole lines of the source are read one after the other, and whole lines of the target written.
static inline void turn_line(const __global E *x, IDX across, __global E *y, IDX down) {
  E8 lines[LINE * LINE / 8];
  for (int b = 0; b < LINE; b += 8) {
    for (int a = 0; a < LINE; a += 8) {
      TURN8(x + a + b * across, across)
      E8 *line = lines + (a * LINE + b) / 8;
      line[0] = t0;
      line[LINE / 8] = t1;
      line[2 * LINE / 8] = t2;
      line[3 * LINE / 8] = t3;
      line[4 * LINE / 8] = t4;
      line[5 * LINE / 8] = t5;
      line[6 * LINE / 8] = t6;
      line[7 * LINE / 8] = t7;
    }
  }
  for (int a = 0; a < LINE; a++)
    for (int b = 0; b < LINE; b += 8) PUT_PAST(E8, y + a * down + b, lines[(a * LINE + b) / 8]);
}

// Along the source's rows; lines of the target become complete at once, so that none need be read before. LINE rows are
// too many for the hardware to read ahead, so the next ones are fetched meanwhile, row by row.
static inline OUTLINE void turn_block(const __global E *x, IDX across, __global E *y, IDX down, IDX i0, IDX i1, IDX j0,
                                      IDX j1) {
  for (IDX j = j0; j < j1; j += LINE) {
    const IDX j_end = j + LINE < j1 ? j + LINE : j1;
    IDX i = i0;
    if (j + LINE <= j1) {
      const IDX lines = (i1 - i0) / LINE;
      const __global E *next = x + i0 + (j + LINE) * across;
      IDX line = 0;
      for (; ON_LINE(y) && i + LINE <= i1; i += LINE) {
        for (int k = 0; k < LINE; k++) {
          FETCH(next + line * LINE);
          line = line + 1 < lines ? line + 1 : 0;
          next += line == 0 ? across : 0;
        }
        turn_line(x + i + j * across, across, y + i * down + j, down);
      }
      for (; i + 8 <= i1; i += 8)
        for (IDX b = j; b < j_end; b += 8) turn8(x + i + b * across, across, y + i * down + b, down);
    }
    turn_scalars(x, across, y, down, i, i1, j, j_end);
  }
}
#else
#define TILE 16
static inline OUTLINE void turn_block(const __global E *x, IDX across, __global E *y, IDX down, IDX i0, IDX i1, IDX j0,
                                      IDX j1) {
  for (IDX i = i0; i < i1; i += TILE) {
    for (IDX j = j0; j < j1; j += TILE) {
      if (i + TILE <= i1 && j + TILE <= j1) {
        for (int b = 0; b < TILE; b++) FETCH(x + i + (j + TILE + b) * across);
        for (int a = 0; a < TILE; a += 8)
          for (int b = 0; b < TILE; b += 8)
            turn8(x + i + a + (j + b) * across, across, y + (i + a) * down + j + b, down);
      } else {
        turn_scalars(x, across, y, down, i, i + TILE < i1 ? i + TILE : i1, j, j + TILE < j1 ? j + TILE : j1);
      }
    }
  }
}
#endif

// Dimension i (`down_size`) is contiguous in the source, j (`across_size`) in the target: they change places tile by
// tile. Work-item: `down_block` x `across_block` of them, for one index of the other dimensions.
kernel void strided_turn(const __global E *source, IDX offset, IDX across, __global E *target, IDX down,
                         IDX down_size, IDX across_size, IDX down_block, IDX across_block, int rank, dims_t shape,
                         dims_t source_strides, dims_t target_strides) {
  const IDX j0 = (IDX)get_global_id(0) * across_block;
  const IDX i0 = (IDX)get_global_id(1) * down_block;
  if (j0 >= across_size || i0 >= down_size) return;
  const IDX j1 = j0 + across_block < across_size ? j0 + across_block : across_size;
  const IDX i1 = i0 + down_block < down_size ? i0 + down_block : down_size;
  const __global E *x = source + offset;
  __global E *y = target;
  IDX rest = get_global_id(2);
  DIMS_DOWN(k, rank - 1, 0) {
    const IDX c = rest % shape.d[k];
    rest /= shape.d[k];
    x += c * source_strides.d[k];
    y += c * target_strides.d[k];
  }
  turn_block(x, across, y, down, i0, i1, j0, j1);
}
