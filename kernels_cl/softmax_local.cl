// Softmax along one dimension of [outer, n, inner] on GPUs; groups.h says how a work-group shares lines. Short lines stay
// in registers from the first pass to the last. LOGARITHM as in softmax.cl.

#ifndef X
#define X float  // storage type
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef STAGE
#define STAGE 0  // 0: whole lines; long lines that groups share: largest element and sum of each part (1), the result (2)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(p, i, v) STORE(X, p, i, v)
#endif
#define KEPT 8  // elements of a work-item in registers

#define EACH_KEPT _Pragma("unroll") for (int j = 0; j < KEPT; j++)
#define FOR_TILES for (IDX i = begin; i < end; i += KEPT * depth)
#define LOAD_TILE EACH_KEPT v[j] = i + j * depth < end ? LOAD(X, x, base + (i + j * depth) * inner) : -INFINITY;
#define RELOAD_TILE if (!once) { LOAD_TILE }

#if STAGE == 1
#define FOUND_ARG __global float *found,
#define RESULT_ARG
#elif STAGE == 2
#define FOUND_ARG const __global float *found,
#define RESULT_ARG __global X *y,
#else
#define FOUND_ARG
#define RESULT_ARG __global X *y,
#endif

// found: the largest element of each part of each line, and the sum of exponentials relative to it. NaN never becomes the
// largest element; it comes back through the exponential.
kernel GROUP_OF void softmax_local(const __global X *x, FOUND_ARG RESULT_ARG IDX n, IDX inner, IDX lines, IDX chunk,
                                   int depth, int along EXTRA_ARGS) {
  __local float shared[GROUP];
  WHERE_IN_GROUP
  LINE_IN_MEMORY
  ITS_SHARE
  const bool once = chunk <= KEPT * depth;
  float v[KEPT], m = -INFINITY, sum = 0.0f;
#if STAGE == 2
  const IDX pairs = line < lines ? parts : 0;
  for (IDX p = d; p < pairs; p += depth) {
    const float other = found[2 * (line * parts + p)];
    m = other > m ? other : m;
  }
  JOIN_LINE(top, shared, m, TAKE_LARGER)
  for (IDX p = d; p < pairs; p += depth) {
    const IDX at = 2 * (line * parts + p);
    sum += found[at + 1] * exp(found[at] - top);
  }
  FOR_TILES { LOAD_TILE EACH_KEPT v[j] = exp(v[j] - top); }
#else
  FOR_TILES {
    LOAD_TILE
    EACH_KEPT m = v[j] > m ? v[j] : m;
  }
  JOIN_LINE(largest, shared, m, TAKE_LARGER)
#if STAGE == 1
  const float top = largest == -INFINITY ? 0.0f : largest;  // other parts may have larger ones
#else
  const float top = largest;
#endif
  FOR_TILES {
    RELOAD_TILE
    float some = 0.0f;
    EACH_KEPT {
      v[j] = exp(v[j] - top);
      some += i + j * depth < end ? v[j] : 0.0f;
    }
    sum += some;
  }
#endif
  JOIN_LINE(total, shared, sum, ADD_OTHER)
#if STAGE == 1
  if (d == 0 && line < lines) {
    found[2 * (line * parts + part)] = largest;
    found[2 * (line * parts + part) + 1] = total;
  }
#else
#ifdef LOGARITHM
#define RESULT(j, at) ((LOAD(X, x, at) - top) - scale)
  const float scale = log(total);
#else
#define RESULT(j, at) (v[j] * scale)
  const float scale = 1.0f / total;
#endif
  FOR_TILES {
    if (!once) {
      LOAD_TILE
      EACH_KEPT v[j] = exp(v[j] - top);
    }
    EACH_KEPT {
      const IDX at = base + (i + j * depth) * inner;
      if (i + j * depth < end) EMIT(y, at, RESULT(j, at));
    }
  }
#endif
}
