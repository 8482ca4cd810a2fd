// Blocks of eight vectors of eight lanes, named v0..v7, and stores that the lanes share.

#define INTERLEAVE_LO(a, b) ((float8)((a).s0, (b).s0, (a).s1, (b).s1, (a).s2, (b).s2, (a).s3, (b).s3))
#define INTERLEAVE_HI(a, b) ((float8)((a).s4, (b).s4, (a).s5, (b).s5, (a).s6, (b).s6, (a).s7, (b).s7))

// Lane l of vector k becomes lane k of vector l: three rounds of perfect shuffles.
#define TRANSPOSE8_ROUND(v)                                                                     \
  {                                                                                             \
    const float8 t0 = INTERLEAVE_LO(v##0, v##4), t1 = INTERLEAVE_HI(v##0, v##4);                \
    const float8 t2 = INTERLEAVE_LO(v##1, v##5), t3 = INTERLEAVE_HI(v##1, v##5);                \
    const float8 t4 = INTERLEAVE_LO(v##2, v##6), t5 = INTERLEAVE_HI(v##2, v##6);                \
    const float8 t6 = INTERLEAVE_LO(v##3, v##7), t7 = INTERLEAVE_HI(v##3, v##7);                \
    v##0 = t0, v##1 = t1, v##2 = t2, v##3 = t3, v##4 = t4, v##5 = t5, v##6 = t6, v##7 = t7;     \
  }
#define TRANSPOSE8(v) TRANSPOSE8_ROUND(v) TRANSPOSE8_ROUND(v) TRANSPOSE8_ROUND(v)

// The first n lanes through EMIT, s elements apart.
#define EMIT_APART(p, i, s, n, v)                                                               \
  {                                                                                             \
    const float lane_[8] = {(v).s0, (v).s1, (v).s2, (v).s3, (v).s4, (v).s5, (v).s6, (v).s7};    \
    for (int k_ = 0; k_ < (n); k_++) EMIT(p, (i) + k_ * (s), lane_[k_]);                        \
  }
