// Running sums along one dimension of [outer, n, inner] on GPUs, inclusive or exclusive, from the low or the high end. A
// line goes through local memory tile by tile: each work-item adds up SPAN neighbours, the work-items' sums are scanned,
// and the sum of all tiles before is added. groups.h says how a work-group shares lines; where groups share a line,
// totals[outer, part, inner] are the sums of its parts.

#ifndef X
#define X float  // storage type
#endif
#ifndef A
#define A float  // type of sums; integers are unsigned so that they wrap
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(X, p, i, v)
#endif
#define SPAN 4
#define SA CTYPE(A)
#ifdef INTEGER
#define KEEP(s, c, v) (s) += (v);
#define TOTAL(s, c) (s)
#else
#define KEEP(s, c, v) TWO_SUM(SA, s, c, v)
#define TOTAL(s, c) TWO_SUM_TOTAL(s, c)
#endif

kernel GROUP_OF void scan_local(const __global X *x, __global X *y, const __global A *totals, IDX n, IDX inner, IDX lines,
                                IDX chunk, int depth, int along, int exclusive, int reversed EXTRA_ARGS) {
  __local SA tile[GROUP * SPAN];
  __local SA sums[GROUP];
  WHERE_IN_GROUP
  LINE_IN_MEMORY
  const int width = depth * SPAN;                       // of a tile, along the line
  const int start = along ? id / depth * width : id % columns;  // of this line's tile
  const IDX first = part * chunk, length = first + chunk < n ? chunk : n - first;
  SA s = 0, c = 0;
  if (line < lines) {
    const IDX stop = reversed ? parts : part;
    for (IDX p = reversed ? part + 1 : 0; p < stop; p++) KEEP(s, c, totals[result + p * inner])
  }
  for (IDX t = 0; t < length; t += width) {
    for (int k = 0; k < SPAN; k++) {
      const int e = k * depth + d;
      const IDX i = t + e, at = first + (reversed ? length - 1 - i : i);
      tile[start + e * across] = line < lines && i < length ? (SA)LOAD(X, x, base + at * inner) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SA own[SPAN], sum = 0;
    for (int k = 0; k < SPAN; k++) {
      own[k] = tile[start + (d * SPAN + k) * across];
      sum += own[k];
    }
    sums[id] = sum;
    for (int step = 1; step < depth; step *= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      const SA more = d >= step ? sums[id - step * across] : 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (d >= step) sums[id] += more;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SA before = d > 0 ? sums[id - across] : 0;
    const SA whole = sums[id + (depth - 1 - d) * across], carry = TOTAL(s, c);
    for (int k = 0; k < SPAN; k++) {
      const SA now = before + own[k];
      tile[start + (d * SPAN + k) * across] = carry + (exclusive ? before : now);
      before = now;
    }
    KEEP(s, c, whole)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < SPAN; k++) {
      const int e = k * depth + d;
      const IDX i = t + e, at = first + (reversed ? length - 1 - i : i);
      if (line < lines && i < length) EMIT(y, base + at * inner, CONVERT1(X, tile[start + e * across]));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
