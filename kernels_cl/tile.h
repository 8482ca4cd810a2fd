// Register tiles of the CPU kernels: named float8 accumulators, 6 rows by 16 columns or 8 rows by 8, fed by row
// pointers a0, a1, ... (k contiguous) and a pointer b to a packed panel, 16 columns per k, 64-byte aligned.
//
// Why it looks like this: one work-item per tile, no local memory, no barriers; aligned vectors by dereference;
// x * b + c contracted by -cl-mad-enable. On PoCL this runs at the multiply-add peak, vloadN and fma() do not.
// Twelve accumulators hide the latency of the multiply-adds and leave four of sixteen registers for the operands.

#define TILE_ROWS4(F) F(0) F(1) F(2) F(3)
#define TILE_ROWS6(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define TILE_ROWS8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

// TILE_SPACE, which a kernel may define, is the panel's address space.
#define TILE_B(b, i) (*(const TILE_SPACE float8 *)((b) + (i)))

// A tile outlasts the reordering window of a core, so panels that come from memory are asked for ahead of their use.
// Translators to SPIR-V abort the process on the prefetch intrinsic (rusticl).
#if defined(__has_builtin) && !defined(__SPIR__) && !defined(__SPIR64__) && !defined(__SPIRV__)
#if __has_builtin(__builtin_prefetch)
#define TILE_PREFETCH(p) __builtin_prefetch(p);
#define TILE_PREFETCH_TO_WRITE(p) __builtin_prefetch(p, 1);
#endif
#endif
#ifndef TILE_PREFETCH
#define TILE_PREFETCH(p) ;
#define TILE_PREFETCH_TO_WRITE(p) ;
#endif
#define TILE_AHEAD 1024  // floats

// 6 x 16
#define TILE_ZERO16(r) float8 p##r = 0.0f, q##r = 0.0f;
#define TILE_FMA16(r, k) { const float x_ = a##r[k]; p##r = p##r + x_ * b0_; q##r = q##r + x_ * b1_; }
#define TILE_ROW16_0(r) TILE_FMA16(r, k_)
#define TILE_ROW16_1(r) TILE_FMA16(r, k_ + 1)
#define TILE_ROW16_2(r) TILE_FMA16(r, k_ + 2)
#define TILE_ROW16_3(r) TILE_FMA16(r, k_ + 3)
#define TILE_STEP16(i, ROWS, ROW) \
  { \
    const float8 b0_ = TILE_B(b_, 16 * (i)), b1_ = TILE_B(b_, 16 * (i) + 8); \
    TILE_PREFETCH(b_ + 16 * (i) + TILE_AHEAD) \
    ROWS(ROW) \
  }
#define TILE_ADD16(r) t_[2 * r] = t_[2 * r] + p##r; t_[2 * r + 1] = t_[2 * r + 1] + q##r;

// 8 x 8: the left half of a panel, for the last columns.
#define TILE_ZERO8(r) float8 p##r = 0.0f;
#define TILE_FMA8(r, k) p##r = p##r + a##r[k] * b0_;
#define TILE_ROW8_0(r) TILE_FMA8(r, k_)
#define TILE_ROW8_1(r) TILE_FMA8(r, k_ + 1)
#define TILE_ROW8_2(r) TILE_FMA8(r, k_ + 2)
#define TILE_ROW8_3(r) TILE_FMA8(r, k_ + 3)
#define TILE_STEP8(i, ROWS, ROW) { const float8 b0_ = TILE_B(b_, 16 * (i)); ROWS(ROW) }
#define TILE_ADD8(r) t_[r] = t_[r] + p##r;

// Adds rows x panel over k = 0 .. count-1 to the accumulators; W is 16 or 8, ROWS the list of rows.
// Four steps at a time, so that the row loads are plain displacements.
#define TILE_MULTIPLY(W, ROWS, b, count) \
  { \
    const TILE_SPACE float *b_ = (b); \
    const IDX count_ = (count); \
    IDX k_ = 0; \
    for (; k_ + 4 <= count_; k_ += 4, b_ += 64) { \
      TILE_STEP##W(0, ROWS, TILE_ROW##W##_0) \
      TILE_STEP##W(1, ROWS, TILE_ROW##W##_1) \
      TILE_STEP##W(2, ROWS, TILE_ROW##W##_2) \
      TILE_STEP##W(3, ROWS, TILE_ROW##W##_3) \
    } \
    for (; k_ < count_; k_++, b_ += 16) { TILE_STEP##W(0, ROWS, TILE_ROW##W##_0) } \
  }

// Six rows, or four, packed as [k][6], a0_ a group of them, with 16 columns of a panel; or two groups, a0_ and a1_,
// with the left half of a panel. Each row's sums are in p and q: columns 0-7 and 8-15, or the rows of a0_ and a1_.
#define TILE_FMA6_16(r) { const float x_ = a0_[6 * i_ + r]; p##r = p##r + x_ * b0_; q##r = q##r + x_ * b1_; }
#define TILE_FMA6_8(r) p##r = p##r + a0_[6 * i_ + r] * b0_; q##r = q##r + a1_[6 * i_ + r] * b0_;
#define TILE_STEP6_16(i) \
  { \
    const IDX i_ = i; \
    const float8 b0_ = TILE_B(b_, 16 * i_), b1_ = TILE_B(b_, 16 * i_ + 8); \
    TILE_PREFETCH(b_ + 16 * i_ + TILE_AHEAD) \
    TILE_ROWS6(TILE_FMA6_16) \
  }
#define TILE_STEP4_16(i) \
  { \
    const IDX i_ = i; \
    const float8 b0_ = TILE_B(b_, 16 * i_), b1_ = TILE_B(b_, 16 * i_ + 8); \
    TILE_PREFETCH(b_ + 16 * i_ + TILE_AHEAD) \
    TILE_ROWS4(TILE_FMA6_16) \
  }
#define TILE_STEP6_8(i) { const IDX i_ = i; const float8 b0_ = TILE_B(b_, 16 * i_); TILE_ROWS6(TILE_FMA6_8) }
#define TILE_MULTIPLY6(STEP, b, count) \
  { \
    const TILE_SPACE float *b_ = (b); \
    IDX left_ = (count); \
    for (; left_ >= 4; left_ -= 4, a0_ += 24, a1_ += 24, b_ += 64) { STEP(0) STEP(1) STEP(2) STEP(3) } \
    for (; left_ > 0; left_--, a0_ += 6, a1_ += 6, b_ += 16) { STEP(0) } \
  }

// PoCL compiles three copies of a kernel. A body in a function of its own is compiled once: half the time. min() and
// max() are calls there, which force the accumulators out of their registers.
#define TILE_OUTLINE __attribute__((noinline))
#define TILE_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TILE_MAX(a, b) ((a) > (b) ? (a) : (b))

// Columns in one packed panel.
#define TILE_PANEL 16

// Terms summed in a register before the sum joins the total: rounding errors grow with the length of a sum.
#define TILE_RUN 512

// Transposes the eight float8 variables d0 .. d7 in registers: afterwards lane j of di is the former lane i of dj.
#define TILE_LOW(x, y) (float8)(x.s0, y.s0, x.s1, y.s1, x.s4, y.s4, x.s5, y.s5)
#define TILE_HIGH(x, y) (float8)(x.s2, y.s2, x.s3, y.s3, x.s6, y.s6, x.s7, y.s7)
#define TILE_EVEN(x, y) (float8)(x.s01, y.s01, x.s45, y.s45)
#define TILE_ODD(x, y) (float8)(x.s23, y.s23, x.s67, y.s67)
#define TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7) \
  { \
    const float8 e0_ = TILE_LOW(d0, d1), e1_ = TILE_HIGH(d0, d1); \
    const float8 e2_ = TILE_LOW(d2, d3), e3_ = TILE_HIGH(d2, d3); \
    const float8 e4_ = TILE_LOW(d4, d5), e5_ = TILE_HIGH(d4, d5); \
    const float8 e6_ = TILE_LOW(d6, d7), e7_ = TILE_HIGH(d6, d7); \
    const float8 f0_ = TILE_EVEN(e0_, e2_), f1_ = TILE_ODD(e0_, e2_); \
    const float8 f2_ = TILE_EVEN(e1_, e3_), f3_ = TILE_ODD(e1_, e3_); \
    const float8 f4_ = TILE_EVEN(e4_, e6_), f5_ = TILE_ODD(e4_, e6_); \
    const float8 f6_ = TILE_EVEN(e5_, e7_), f7_ = TILE_ODD(e5_, e7_); \
    d0 = (float8)(f0_.lo, f4_.lo); d1 = (float8)(f1_.lo, f5_.lo); \
    d2 = (float8)(f2_.lo, f6_.lo); d3 = (float8)(f3_.lo, f7_.lo); \
    d4 = (float8)(f0_.hi, f4_.hi); d5 = (float8)(f1_.hi, f5_.hi); \
    d6 = (float8)(f2_.hi, f6_.hi); d7 = (float8)(f3_.hi, f7_.hi); \
  }

// Eight steps of k of six rows, d0 .. d5, to [k][6] at p, which has room for two more: of the eight floats that a store
// writes the next overwrites two.
#define TILE_STORE6(p, v) *(float8_u *)(p) = v;
#define TILE_STORE_ROWS6(p, d0, d1, d2, d3, d4, d5) \
  { \
    float8 d6 = d0, d7 = d0; \
    TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7) \
    TILE_STORE6(p, d0) TILE_STORE6((p) + 6, d1) TILE_STORE6((p) + 12, d2) TILE_STORE6((p) + 18, d3) \
    TILE_STORE6((p) + 24, d4) TILE_STORE6((p) + 30, d5) TILE_STORE6((p) + 36, d6) TILE_STORE6((p) + 42, d7) \
  }

// Matrix products: the result of an accumulated v at row m and column n. HAS_C is
//   0  alpha * v
//   1  alpha * v + beta * c, where c lies at m * c_row + n * c_column, c_column 0 or 1: all that broadcasts
//   2  v + c[n], a bias: alpha and beta are 1, and sums start at c
#define PRODUCT_C_ARGS CAT2(PRODUCT_C_ARGS_, HAS_C)
#define PRODUCT_C_ARGS_0
#define PRODUCT_C_ARGS_1 const __global T *c, IDX c_row, IDX c_column, float beta,
#define PRODUCT_C_ARGS_2 PRODUCT_C_ARGS_1
#define PRODUCT_C_PASS CAT2(PRODUCT_C_PASS_, HAS_C)
#define PRODUCT_C_PASS_0
#define PRODUCT_C_PASS_1 c, c_row, c_column, beta,
#define PRODUCT_C_PASS_2 PRODUCT_C_PASS_1
#define PRODUCT_START(n, count) CAT2(PRODUCT_START_, HAS_C)(n, count)
#define PRODUCT_START_0(n, count) ((float8)(0.0f))
#define PRODUCT_START_1(n, count) ((float8)(0.0f))
#define PRODUCT_START_2(n, count) \
  ((count) >= 8 ? LOAD8(T, c, n) : (count) > 0 ? LOADN(T, c, n, count) : (float8)(0.0f))
#define PRODUCT_FULL(m, n, v) CAT2(PRODUCT_FULL_, HAS_C)(m, n, v)
#define PRODUCT_FULL_0(m, n, v) (alpha * (v))
#define PRODUCT_FULL_1(m, n, v) \
  (alpha * (v) + beta * (c_column ? LOAD8(T, c, (m) * c_row + (n)) : (float8)(LOAD(T, c, (m) * c_row))))
#define PRODUCT_FULL_2(m, n, v) (v)
#define PRODUCT_PART(m, n, count, v) CAT2(PRODUCT_PART_, HAS_C)(m, n, count, v)
#define PRODUCT_PART_0(m, n, count, v) (alpha * (v))
#define PRODUCT_PART_1(m, n, count, v) \
  (alpha * (v) + beta * (c_column ? LOADN(T, c, (m) * c_row + (n), count) : (float8)(LOAD(T, c, (m) * c_row))))
#define PRODUCT_PART_2(m, n, count, v) (v)

// Moves a and w to the matrices of batch entry `item2`; steps in elements, 0 where an operand repeats, behind which
// comes where the first matrix begins.
#define PRODUCT_FIND_MATRIX(a, w) \
  { \
    IDX rest_ = item2; \
    a += a_step.d[7]; \
    w += w_step.d[7]; \
    DIMS_DOWN(d_, batch_rank - 1, 0) { \
      const IDX above_ = rest_ / batch.d[d_], at_ = rest_ - above_ * batch.d[d_]; \
      a += at_ * a_step.d[d_]; \
      w += at_ * w_step.d[d_]; \
      rest_ = above_; \
    } \
  }
