// Index of the largest or smallest element of one dimension of [outer, n, inner] on GPUs: the first of equal ones, never
// that of a NaN while there is a number. groups.h says how a work-group shares lines.

#ifndef X
#define X float  // storage type of the input
#endif
#ifndef Y
#define Y int  // type of the result; long for the parts of a split dimension
#endif
#ifndef BETTER1
#define BETTER1(v, best) (!((v) <= (best)) && (v) == (v))  // a number against NaN too
#define WORST NAN
#endif
#ifndef GROUP
#define GROUP 256
#endif
#define BLOCK 4  // loads in flight at a time
#define SX CTYPE(X)

kernel GROUP_OF void arg_local(const __global X *x, __global Y *y, IDX n, IDX inner, IDX lines, IDX chunk, int depth,
                               int along) {
  __local SX values[GROUP];
  __local IDX places[GROUP];  // n: none
  WHERE_IN_GROUP
  LINE_IN_MEMORY
  ITS_SHARE
  SX best = WORST;
  IDX place = n;
  for (IDX i = begin; i < end; i += BLOCK * depth) {
    SX v[BLOCK];
#pragma unroll
    for (int j = 0; j < BLOCK; j++) v[j] = i + j * depth < end ? LOAD(X, x, base + (i + j * depth) * inner) : best;
#pragma unroll
    for (int j = 0; j < BLOCK; j++) {
      const IDX at = i + j * depth;
      const bool better = at < end && (place == n || BETTER1(v[j], best));
      best = better ? v[j] : best;
      place = better ? at : place;
    }
  }
  values[id] = best;
  places[id] = place;
  TREE(
    const SX a = values[id];
    const SX b = values[other];
    const IDX p = places[id];
    const IDX q = places[other];
    if (q < n && (p == n || BETTER1(b, a) || (!BETTER1(a, b) && q < p))) {
      values[id] = b;
      places[id] = q;
    }
  )
  if (d == 0 && line < lines) y[result + part * inner] = (Y)places[id];
}
