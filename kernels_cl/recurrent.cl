// Steps of GRU and LSTM. What the input contributes is computed for all steps before ("pre"); a step adds what the
// hidden state contributes, panel by panel of eight hidden units, and applies the gates. State is float, its rows
// padded to whole blocks of eight units.

#ifndef T
#define T float              // storage type of initial states and results
#endif
#ifndef LSTM
#define LSTM 0               // 1: LSTM, gates i f g o; 0: GRU, gates z r n
#endif
#ifndef STAGE
#define STAGE 1              // 0: kernel recurrent_start; 1: recurrent_all, all steps; 2: recurrent_step, one step;
#endif                       // 3: recurrent_group, all steps by a work-group
#ifndef LANES
#define LANES 8              // hidden units a work-item computes at once: 8, or 1 on GPUs
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

#if LANES == 8
#define VEC float8
#define GET(p, i) ALOAD8(float, p, i)
#define SET(p, i, v) ASTORE8(float, p, i, v)
#define SIGMOID wn_sigmoid8
#define TANH wn_tanh8
#define RELU(x) SEL8(x, (float8)(0), x < (float8)(0))
#else
#define VEC float
#define GET(p, i) (p)[i]
#define SET(p, i, v) (p)[i] = v
#define SIGMOID wn_sigmoid1
#define TANH wn_tanh1
#define RELU(x) (x < 0 ? 0 : x)
#endif

static inline VEC activate(IDX function, VEC x) {
  if (function == 0) return SIGMOID(x);
  if (function == 1) return TANH(x);
  return RELU(x);
}
#define ACT0(x) activate(options.d[0], x)
#define ACT1(x) activate(options.d[1], x)
#define ACT2(x) activate(options.d[2], x)

#if LSTM
#define GATES 4              // in pre
#define CELL_ARGS __global float *cells,
#define CELL_PASS cells,
#define LAST_CELL_ARG __global T *last_cell,
#define LAST_CELL_PASS last_cell,
#else
#define GATES 3
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
static inline void add_products(VEC *sums, const __global float *w, const __global float *h, IDX pitch, IDX n,
                                const int gates) {
  for (IDX k0 = 0; k0 < n; k0 += BLOCK) {
    const IDX end = n - k0 < BLOCK ? n : k0 + BLOCK;
    VEC part[PARTS * 4 * ROWS];
    UNROLLED(i, PARTS * gates * ROWS) part[i] = 0;
    IDX k = k0;
    for (; k + PARTS <= end; k += PARTS) {
      UNROLLED(p, PARTS) {
        UNROLLED(g, gates) {
          const VEC f = GET(w, ((k + p) * gates + g) * 8);
          UNROLLED(r, ROWS) part[(p * gates + g) * ROWS + r] += h[r * pitch + k + p] * f;
        }
      }
    }
    if (k < end) {
      UNROLLED(g, gates) {
        const VEC f = GET(w, (k * gates + g) * 8);
        UNROLLED(r, ROWS) part[g * ROWS + r] += h[r * pitch + k] * f;
      }
    }
    UNROLLED(i, gates * ROWS) sums[i] += PARTS == 2 ? part[i] + part[i + (PARTS - 1) * gates * ROWS] : part[i];
  }
}

static inline void put(__global T *p, IDX at, IDX left, VEC v) {
#if LANES == 1
  STORE(T, p, at, v);
#else
  if (left >= 8) {
    STORE8(T, p, at, v);
  } else {
    STOREN(T, p, at, left, v);
  }
#endif
}

// pre, panels, new_panels: see recurrent_pack.cl. extra: bias of gate n's recurrent product (GRU that resets after it),
// or peephole weights of gates i f o (LSTM), packed likewise. state: two copies of [direction][row][unit], read from
// one and written to the other by turns; update, reset: one copy each. last, last_cell, sequence: results.
#define ARGS                                                                                                    \
  const __global float *pre, const __global float *panels, const __global float *extra, RESET_ARGS               \
      __global float *state, CELL_ARGS __global T *last, LAST_CELL_ARG __global T *sequence, dims_t sizes,       \
      dims_t options
#define PASS pre, panels, extra, RESET_PASS state, CELL_PASS last, LAST_CELL_PASS sequence, sizes, options

#define WHERE                                                                                                     \
  const IDX rows = DIRECTIONS * BATCH, block = unit / 8 * 8, lane = unit % 8;                                     \
  const int whole = row + ROWS <= BATCH;                                                                          \
  const IDX pitch = whole ? UNITS : 0;                                                                            \
  const IDX time = (sizes.d[5] >> direction) & 1 ? STEPS - 1 - step : step;                                       \
  const __global float *old = state + (step & 1) * rows * UNITS + (direction * BATCH + row) * UNITS;              \
  const __global float *given =                                                                                   \
      pre + (((time * BATCH + row) * DIRECTIONS + direction) * UNITS + block) * GATES + lane;                     \
  const IDX given_pitch = whole ? DIRECTIONS * GATES * UNITS : 0;

// Stores row r's new state.
static inline void store_state(VEC h, IDX step, IDX time, IDX direction, IDX row, IDX unit, __global float *state,
                               __global T *last, __global T *sequence, dims_t sizes, dims_t options) {
  const IDX rows = DIRECTIONS * BATCH, at = direction * BATCH + row;
  SET(state, ((~step & 1) * rows + at) * UNITS + unit, h);
  if (step == STEPS - 1) put(last, at * HIDDEN + unit, HIDDEN - unit, h);
  if (HAS_SEQUENCE) put(sequence, (time * rows + at) * HIDDEN + unit, HIDDEN - unit, h);
}
#define STORE_STATE(h, r) \
  if (r == 0 || whole) store_state(h, step, time, direction, row + r, unit, state, last, sequence, sizes, options);

#if LSTM
static inline void update_units(IDX step, IDX direction, IDX row, IDX unit, ARGS) {
  WHERE
  VEC sums[4 * ROWS];
  UNROLLED(i, 4 * ROWS) sums[i] = GET(given, i % ROWS * given_pitch + i / ROWS * 8);
  add_products(sums, panels + (direction * UNITS + block) * HIDDEN * 4 + lane, old, pitch, HIDDEN, 4);
  UNROLLED(r, ROWS) {
    const IDX at = direction * BATCH + row + (whole ? r : 0);
    const VEC c = GET(cells, at * UNITS + unit);
    VEC i = sums[r], f = sums[ROWS + r], g = sums[2 * ROWS + r], o = sums[3 * ROWS + r];
    if (HAS_EXTRA) {
      const __global float *peephole = extra + (direction * UNITS + block) * 3 + lane;
      i += GET(peephole, 0) * c;
      f += GET(peephole, 8) * c;
      o += GET(peephole, 16) * c;
    }
    const VEC cell = ACT0(f) * c + ACT0(i) * ACT1(g);
    if (r == 0 || whole) SET(cells, at * UNITS + unit, cell);
    if ((r == 0 || whole) && step == STEPS - 1) put(last_cell, at * HIDDEN + unit, HIDDEN - unit, cell);
    STORE_STATE(ACT0(o) * ACT2(cell), r)
  }
}
#elif RESET_AFTER
static inline void update_units(IDX step, IDX direction, IDX row, IDX unit, ARGS) {
  WHERE
  VEC sums[3 * ROWS];
  UNROLLED(i, 2 * ROWS) sums[i] = GET(given, i % ROWS * given_pitch + i / ROWS * 8);
  UNROLLED(r, ROWS) sums[2 * ROWS + r] = HAS_EXTRA ? GET(extra, direction * UNITS + unit) : (VEC)(0);
  add_products(sums, panels + (direction * UNITS + block) * HIDDEN * 3 + lane, old, pitch, HIDDEN, 3);
  UNROLLED(r, ROWS) {
    const VEC z = ACT0(sums[r]);
    const VEC reset = ACT0(sums[ROWS + r]) * sums[2 * ROWS + r];
    const VEC total = GET(given, r * given_pitch + 16) + reset;
    const VEC n = ACT1(total);
    STORE_STATE(z * GET(old, r * pitch + unit) + (1.0f - z) * n, r)
  }
}
#else
// First z and the reset state of all blocks, then n from the reset state.
static inline void reset_units(IDX step, IDX direction, IDX row, IDX unit, ARGS) {
  WHERE
  VEC sums[2 * ROWS];
  UNROLLED(i, 2 * ROWS) sums[i] = GET(given, i % ROWS * given_pitch + i / ROWS * 8);
  add_products(sums, panels + (direction * UNITS + block) * HIDDEN * 2 + lane, old, pitch, HIDDEN, 2);
  UNROLLED(r, ROWS) {
    const IDX at = (direction * BATCH + row) * UNITS + r * pitch + unit;
    SET(update, at, ACT0(sums[r]));
    SET(reset, at, ACT0(sums[ROWS + r]) * GET(old, r * pitch + unit));
  }
}
static inline void update_units(IDX step, IDX direction, IDX row, IDX unit, ARGS) {
  WHERE
  VEC sums[ROWS];
  UNROLLED(r, ROWS) sums[r] = GET(given, r * given_pitch + 16);
  const IDX at = (direction * BATCH + row) * UNITS;
  add_products(sums, new_panels + (direction * UNITS + block) * HIDDEN + lane, reset + at, pitch, HIDDEN, 1);
  UNROLLED(r, ROWS) {
    const VEC z = GET(update, at + r * pitch + unit);
    STORE_STATE(z * GET(old, r * pitch + unit) + (1.0f - z) * ACT1(sums[r]), r)
  }
}
#endif

#if STAGE == 1
static inline OUTLINE void all_steps(IDX row, IDX direction, ARGS) {
  for (IDX step = 0; step < STEPS; step++) {
#if !LSTM && !RESET_AFTER
    for (IDX unit = 0; unit < HIDDEN; unit += LANES) reset_units(step, direction, row, unit, PASS);
#endif
    for (IDX unit = 0; unit < HIDDEN; unit += LANES) update_units(step, direction, row, unit, PASS);
  }
}

// Work-items: (tile of ROWS rows, direction).
kernel void recurrent_all(ARGS) { all_steps((IDX)get_global_id(0) * ROWS, get_global_id(1), PASS); }
#elif STAGE == 2
static inline OUTLINE void one_step(IDX direction, IDX row, IDX unit, ARGS, IDX step) {
  if (unit < HIDDEN) update_units(step, direction, row, unit, PASS);
}

// Work-items: (LANES units, tile of ROWS rows, direction).
kernel void recurrent_step(ARGS, IDX step) {
  one_step(get_global_id(2), (IDX)get_global_id(1) * ROWS, (IDX)get_global_id(0) * LANES, PASS, step);
}
#if !LSTM && !RESET_AFTER
static inline OUTLINE void one_reset(IDX direction, IDX row, IDX unit, ARGS, IDX step) {
  if (unit < HIDDEN) reset_units(step, direction, row, unit, PASS);
}
kernel void recurrent_reset(ARGS, IDX step) {
  one_reset(get_global_id(2), (IDX)get_global_id(1) * ROWS, (IDX)get_global_id(0) * LANES, PASS, step);
}
#endif
#else
// Work-groups: (tile of ROWS rows, direction); their work-items share the units.
kernel void recurrent_group(ARGS) {
  const IDX row = (IDX)get_group_id(0) * ROWS, direction = get_group_id(1);
  const IDX first = (IDX)get_local_id(0) * LANES, stride = (IDX)get_local_size(0) * LANES;
  for (IDX step = 0; step < STEPS; step++) {
#if !LSTM && !RESET_AFTER
    for (IDX unit = first; unit < HIDDEN; unit += stride) reset_units(step, direction, row, unit, PASS);
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
    for (IDX unit = first; unit < HIDDEN; unit += stride) update_units(step, direction, row, unit, PASS);
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}
#endif
#endif
