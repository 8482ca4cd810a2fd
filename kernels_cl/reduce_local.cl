// Reductions of one dimension of [outer, n, inner] on GPUs: groups.h says how a work-group shares lines. Macros of the
// operator as in reduce.cl, for single elements.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef A
#define A float  // type in which values are joined; integers are unsigned so that they wrap
#endif
#ifndef Y
#define Y float  // storage type of the result
#endif
#ifndef MAP1
#define MAP1(v) (v)
#endif
#ifndef JOIN1
#define JOIN1(a, b) ((a) + (b))
#define FIRST 0
#define COMPENSATED  // sums of floats keep what rounding loses
#endif
#ifndef FINISH1
#define FINISH1(v) (v)
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef TAKE1
#define TAKE_ARGS
#define TAKE_PASS
#define TAKE1(p, i) MAP1(LOAD(X, p, i))
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(Y, p, i, v)
#endif

#define BLOCK 8  // loads in flight at a time; their values are joined before they meet the sum
#define SA CTYPE(A)

#ifdef COMPENSATED
#define KEEP(s, c, v) TWO_SUM(SA, s, c, v)
#define TOTAL(s, c) TWO_SUM_TOTAL(s, c)
#else
#define KEEP(s, c, v) (s) = JOIN1(s, v);
#define TOTAL(s, c) (s)
#endif

kernel GROUP_OF void reduce_local(const __global X *x, __global Y *y, IDX n, IDX inner, IDX lines, IDX chunk, int depth,
                                  int along, IDX count TAKE_ARGS EXTRA_ARGS) {
  __local SA shared[GROUP];
  WHERE_IN_GROUP
  LINE_IN_MEMORY
  ITS_SHARE
  SA s = FIRST, lost = 0;
  for (IDX i = begin; i < end; i += BLOCK * depth) {
    SA block = FIRST;
#pragma unroll
    for (int j = 0; j < BLOCK; j++) {
      const IDX at = i + j * depth;
      if (at < end) block = JOIN1(block, TAKE1(x, base + at * inner));
    }
    KEEP(s, lost, block)
  }
  shared[id] = TOTAL(s, lost);
  TREE(shared[id] = JOIN1(shared[id], shared[other]);)
  if (d == 0 && line < lines) EMIT(y, result + part * inner, CONVERT1(Y, FINISH1(shared[id])));
}
