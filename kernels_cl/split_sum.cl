// Finishes products that were cut along their depth: y[i] = alpha * sum over parts of partial[part, i] + beta * c, on
// GPUs. c is addressed by row i / columns % rows and column i % columns of its own strides.

#ifndef T
#define T float  // storage type of c and of the result
#endif
#ifndef HAS_C
#define HAS_C 0
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT(y, i, v) STORE(T, y, i, v)
#endif

kernel void split_sum(const __global float *partial, ADDEND_ARGS __global T *y, IDX n, IDX parts, IDX rows, IDX columns,
                      float alpha EXTRA_ARGS) {
  const IDX i = get_global_id(0);
  if (i >= n) return;
  float sum = 0.0f;
  for (IDX p = 0; p < parts; p++) sum += partial[p * n + i];
  EMIT(y, i, (alpha * sum ADDEND(i / columns % rows, i % columns)));
}
