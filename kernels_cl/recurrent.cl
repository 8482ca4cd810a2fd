// Steps of GRU and LSTM. What the input contributes is computed for all steps before ("pre"); a step adds what the
// hidden state contributes, panel by panel of eight hidden units, and applies the gates. State is float, its rows padded
// to whole blocks of eight units.

#ifndef T
#define T float              // storage type of initial states and results
#endif
#ifndef LSTM
#define LSTM 0               // 1: LSTM, gates i f g o; 0: GRU, gates z r n
#endif
#ifndef STAGE
#define STAGE 1              // 0: kernel recurrent_start; 1: recurrent_all, all steps; 2: recurrent_step, one step
#endif
#ifndef ROWS
#define ROWS 1               // batch rows of a work-item: 1 or 2
#endif
#ifndef RESET_AFTER
#define RESET_AFTER 1        // GRU: the reset gate applies 1: to the recurrent product, 0: to the state before it
#endif
#ifndef HAS_HIDDEN
#define HAS_HIDDEN 0         // recurrent_start: an initial hidden state is given
#endif
#ifndef HAS_CELL
#define HAS_CELL 0           // recurrent_start: an initial cell state is given
#endif

// sizes: steps, directions, batch, hidden units, blocks of units, directions that run backward (bits).
#define STEPS sizes.d[0]
#define DIRECTIONS sizes.d[1]
#define BATCH sizes.d[2]
#define HIDDEN sizes.d[3]
#define UNITS (sizes.d[4] * 8)
// options: activation of the gates z r or i f o, of n or g, of the new cell state; whether `extra` and `sequence` are
// more than stand-ins.
#define HAS_EXTRA options.d[3]
#define HAS_SEQUENCE options.d[4]

#if STAGE == 0
#if HAS_HIDDEN
#define HIDDEN_ARG const __global T *hidden,
#else
#define HIDDEN_ARG
#endif
#if HAS_CELL
#define CELL_ARG const __global T *cell,
#else
#define CELL_ARG
#endif
#if LSTM
#define CELLS_ARG __global float *cells,
#else
#define CELLS_ARG
#endif
#define INITIAL(p) (left >= 8 ? LOAD8(T, p, from) : LOADN(T, p, from, left))

// Padded copies of the initial states, zeros where none is given. Work-items: (block, direction and row).
kernel void recurrent_start(HIDDEN_ARG CELL_ARG __global float *state, CELLS_ARG dims_t sizes) {
  const IDX unit = (IDX)get_global_id(0) * 8, row = get_global_id(1), left = HIDDEN - unit;
  if (left <= 0 || row >= DIRECTIONS * BATCH) return;
  const IDX from = row * HIDDEN + unit, to = row * UNITS + unit;
  float8 h = 0;
#if HAS_HIDDEN
  h = INITIAL(hidden);
#endif
  ASTORE8(float, state, to, h);
#if LSTM
  float8 c = 0;
#if HAS_CELL
  c = INITIAL(cell);
#endif
  ASTORE8(float, cells, to, c);
#endif
}
#else

static inline float8 activate(IDX function, float8 x) {
  if (function == 0) return wn_sigmoid8(x);
  if (function == 1) return wn_tanh8(x);
  return SEL8(x, (float8)(0), x < (float8)(0));
}
#define ACT0(x) activate(options.d[0], x)
#define ACT1(x) activate(options.d[1], x)
#define ACT2(x) activate(options.d[2], x)

#if LSTM
#define GATES 4              // in pre
#define PRODUCTS 4           // gates whose products with the state are taken together
#elif RESET_AFTER
#define GATES 3
#define PRODUCTS 3
#else
#define GATES 3
#define PRODUCTS 2           // z and r; n follows when the state is reset
#endif
#if LSTM
#define CELL_ARGS __global float *cells,
#define CELL_PASS cells,
#define LAST_CELL_ARG __global T *last_cell,
#define LAST_CELL_PASS last_cell,
#else
#define CELL_ARGS
#define CELL_PASS
#define LAST_CELL_ARG
#define LAST_CELL_PASS
#endif
#if LSTM || RESET_AFTER
#define RESET_ARGS
#define RESET_PASS
#else
#define RESET_ARGS const __global float *new_panels, __global float *update, __global float *reset,
#define RESET_PASS new_panels, update, reset,
#endif
// Partial sums that are independent of each other hide the latency of the multiply-adds.
#define PARTS (ROWS == 1 ? 2 : 1)
#define BLOCK 256
#define UNROLLED(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

// sums[g * ROWS + r] += panel of gate g times state row r; `gates` panels lie side by side.
static inline void add_products(float8 *sums, const __global float *w, const __global float *h, IDX pitch, IDX n,
                                const int gates) {
  for (IDX k0 = 0; k0 < n; k0 += BLOCK) {
    const IDX end = n - k0 < BLOCK ? n : k0 + BLOCK;
    float8 part[PARTS * 4 * ROWS];
    UNROLLED(i, PARTS * gates * ROWS) part[i] = 0;
    IDX k = k0;
    for (; k + PARTS <= end; k += PARTS) {
      UNROLLED(p, PARTS) {
        UNROLLED(g, gates) {
          const float8 f = ALOAD8(float, w, ((k + p) * gates + g) * 8);
          UNROLLED(r, ROWS) part[(p * gates + g) * ROWS + r] += h[r * pitch + k + p] * f;
        }
      }
    }
    if (k < end) {
      UNROLLED(g, gates) {
        const float8 f = ALOAD8(float, w, (k * gates + g) * 8);
        UNROLLED(r, ROWS) part[g * ROWS + r] += h[r * pitch + k] * f;
      }
    }
    UNROLLED(i, gates * ROWS) sums[i] += PARTS == 2 ? part[i] + part[i + (PARTS - 1) * gates * ROWS] : part[i];
  }
}

static inline void put(__global T *p, IDX at, IDX left, float8 v) {
  if (left >= 8) {
    STORE8(T, p, at, v);
  } else {
    STOREN(T, p, at, left, v);
  }
}

// pre, panels, new_panels: see recurrent_pack.cl. extra: bias of gate n's recurrent product (GRU that resets after it), or
// peephole weights of gates i f o (LSTM), packed likewise. state: two copies of [direction][row][unit], read from one and
// written to the other by turns; update, reset: one copy each. last, last_cell, sequence: results.
#define ARGS                                                                                                    \
  const __global float *pre, const __global float *panels, const __global float *extra, RESET_ARGS               \
      __global float *state, CELL_ARGS __global T *last, LAST_CELL_ARG __global T *sequence, dims_t sizes, dims_t options
#define PASS pre, panels, extra, RESET_PASS state, CELL_PASS last, LAST_CELL_PASS sequence, sizes, options

#define WHERE                                                                                                     \
  const IDX rows = DIRECTIONS * BATCH, unit = block * 8;                                                          \
  const int whole = row + ROWS <= BATCH;                                                                          \
  const IDX pitch = whole ? UNITS : 0;                                                                            \
  const IDX time = (sizes.d[5] >> direction) & 1 ? STEPS - 1 - step : step;                                       \
  const __global float *old = state + (step & 1) * rows * UNITS + (direction * BATCH + row) * UNITS;              \
  const __global float *given = pre + ((time * BATCH + row) * DIRECTIONS + direction) * GATES * UNITS + block * GATES * 8; \
  const IDX given_pitch = whole ? DIRECTIONS * GATES * UNITS : 0;

// Stores row r's new state.
static inline void store_state(float8 h, IDX step, IDX time, IDX direction, IDX row, IDX unit, __global float *state,
                               __global T *last, __global T *sequence, dims_t sizes, dims_t options) {
  const IDX rows = DIRECTIONS * BATCH, at = direction * BATCH + row;
  ASTORE8(float, state, ((~step & 1) * rows + at) * UNITS + unit, h);
  if (step == STEPS - 1) put(last, at * HIDDEN + unit, HIDDEN - unit, h);
  if (HAS_SEQUENCE) put(sequence, (time * rows + at) * HIDDEN + unit, HIDDEN - unit, h);
}
#define STORE_STATE(h, r) \
  if (r == 0 || whole) store_state(h, step, time, direction, row + r, unit, state, last, sequence, sizes, options);

#if LSTM
static inline void update_block(IDX step, IDX direction, IDX row, IDX block, ARGS) {
  WHERE
  float8 sums[4 * ROWS];
  UNROLLED(i, 4 * ROWS) sums[i] = ALOAD8(float, given, i % ROWS * given_pitch + i / ROWS * 8);
  add_products(sums, panels + (direction * UNITS + unit) * HIDDEN * 4, old, pitch, HIDDEN, 4);
  UNROLLED(r, ROWS) {
    const IDX at = direction * BATCH + row + (whole ? r : 0);
    const float8 c = ALOAD8(float, cells, at * UNITS + unit);
    float8 i = sums[r], f = sums[ROWS + r], g = sums[2 * ROWS + r], o = sums[3 * ROWS + r];
    if (HAS_EXTRA) {
      const __global float *peephole = extra + (direction * UNITS + unit) * 3;
      i += ALOAD8(float, peephole, 0) * c;
      f += ALOAD8(float, peephole, 8) * c;
      o += ALOAD8(float, peephole, 16) * c;
    }
    const float8 cell = ACT0(f) * c + ACT0(i) * ACT1(g);
    if (r == 0 || whole) ASTORE8(float, cells, at * UNITS + unit, cell);
    if ((r == 0 || whole) && step == STEPS - 1) put(last_cell, at * HIDDEN + unit, HIDDEN - unit, cell);
    STORE_STATE(ACT0(o) * ACT2(cell), r)
  }
}
#elif RESET_AFTER
static inline void update_block(IDX step, IDX direction, IDX row, IDX block, ARGS) {
  WHERE
  float8 sums[3 * ROWS];
  UNROLLED(i, 2 * ROWS) sums[i] = ALOAD8(float, given, i % ROWS * given_pitch + i / ROWS * 8);
  UNROLLED(r, ROWS) sums[2 * ROWS + r] = HAS_EXTRA ? ALOAD8(float, extra, direction * UNITS + unit) : (float8)(0);
  add_products(sums, panels + (direction * UNITS + unit) * HIDDEN * 3, old, pitch, HIDDEN, 3);
  UNROLLED(r, ROWS) {
    const float8 z = ACT0(sums[r]);
    const float8 reset = ACT0(sums[ROWS + r]) * sums[2 * ROWS + r];
    const float8 total = ALOAD8(float, given, r * given_pitch + 16) + reset;
    const float8 n = ACT1(total);
    STORE_STATE(z * ALOAD8(float, old, r * pitch + unit) + (1.0f - z) * n, r)
  }
}
#else
// First z and the reset state of all blocks, then n from the reset state.
static inline void reset_block(IDX step, IDX direction, IDX row, IDX block, ARGS) {
  WHERE
  float8 sums[2 * ROWS];
  UNROLLED(i, 2 * ROWS) sums[i] = ALOAD8(float, given, i % ROWS * given_pitch + i / ROWS * 8);
  add_products(sums, panels + (direction * UNITS + unit) * HIDDEN * 2, old, pitch, HIDDEN, 2);
  UNROLLED(r, ROWS) {
    const IDX at = (direction * BATCH + row) * UNITS + r * pitch + unit;
    ASTORE8(float, update, at, ACT0(sums[r]));
    ASTORE8(float, reset, at, ACT0(sums[ROWS + r]) * ALOAD8(float, old, r * pitch + unit));
  }
}
static inline void update_block(IDX step, IDX direction, IDX row, IDX block, ARGS) {
  WHERE
  float8 sums[ROWS];
  UNROLLED(r, ROWS) sums[r] = ALOAD8(float, given, r * given_pitch + 16);
  const IDX at = (direction * BATCH + row) * UNITS;
  add_products(sums, new_panels + (direction * UNITS + unit) * HIDDEN, reset + at, pitch, HIDDEN, 1);
  UNROLLED(r, ROWS) {
    const float8 z = ALOAD8(float, update, at + r * pitch + unit);
    STORE_STATE(z * ALOAD8(float, old, r * pitch + unit) + (1.0f - z) * ACT1(sums[r]), r)
  }
}
#endif

#if STAGE == 1
static inline OUTLINE void all_steps(IDX row, IDX direction, ARGS) {
  for (IDX step = 0; step < STEPS; step++) {
#if !LSTM && !RESET_AFTER
    for (IDX block = 0; block < sizes.d[4]; block++) reset_block(step, direction, row, block, PASS);
#endif
    for (IDX block = 0; block < sizes.d[4]; block++) update_block(step, direction, row, block, PASS);
  }
}

// Work-items: (tile of ROWS rows, direction).
kernel void recurrent_all(ARGS) { all_steps((IDX)get_global_id(0) * ROWS, get_global_id(1), PASS); }
#else
static inline OUTLINE void one_step(IDX direction, IDX row, IDX block, ARGS, IDX step) {
  update_block(step, direction, row, block, PASS);
}

// Work-items: (block, tile of ROWS rows, direction).
kernel void recurrent_step(ARGS, IDX step) {
  one_step(get_global_id(2), (IDX)get_global_id(1) * ROWS, get_global_id(0), PASS, step);
}
#if !LSTM && !RESET_AFTER
static inline OUTLINE void one_reset(IDX direction, IDX row, IDX block, ARGS, IDX step) {
  reset_block(step, direction, row, block, PASS);
}
kernel void recurrent_reset(ARGS, IDX step) {
  one_reset(get_global_id(2), (IDX)get_global_id(1) * ROWS, get_global_id(0), PASS, step);
}
#endif
#endif
#endif
