// A transposed convolution's filter of several groups as one of a single group: zeros where input and output channel
// belong to different groups.

#ifndef T
#define T float              // storage type of the filter
#endif

// shape: of y, whose dimensions `i` and `o` are input and output channels; x is the same but for o, which it has
// `groups` times fewer of. Work-items: elements of y.
kernel void spread_groups(const __global T *x, __global T *y, dims_t shape, int i, int o, IDX groups, IDX size) {
  const IDX at = get_global_id(0);
  if (at >= size) return;
  IDX rest = at, c[4];
  for (int d = 3; d >= 0; d--) {
    c[d] = rest % shape.d[d];
    rest /= shape.d[d];
  }
  const IDX channels = dim_at(&shape, o) / groups, group = c[o] / channels;
  c[o] -= group * channels;
  IDX from = 0;
  for (int d = 0; d < 4; d++) from = from * (d == o ? channels : shape.d[d]) + c[d];
  STORE(T, y, at, c[i] * groups / dim_at(&shape, i) == group ? LOAD(T, x, from) : 0);
}
