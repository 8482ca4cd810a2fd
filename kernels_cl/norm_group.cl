// Layer and instance normalization where the innermost dimension is reduced, for GPUs: a work-group has one group of
// elements and its work-items share it, eight elements each in turn. Arguments as norm_rows.cl.

#ifndef T
#define T float              // storage type of input and output
#endif
#ifndef ITEMS
#define ITEMS 128            // work-items of a work-group, a power of two
#endif
#ifndef SCALE
#define SCALE 0              // scale is indexed 1 by channel, 2 by reduced element; 0: none
#endif
#ifndef BIAS
#define BIAS 0               // the same for bias
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#endif
#ifndef EMIT
#define EMIT8(p, i, v) STORE8(T, p, i, v)
#define EMITN(p, i, n, v) STOREN(T, p, i, n, v)
#endif

// Sum of v over the work-group, which all of its work-items get.
static inline float sum_group(float8 v, __local float *shared) {
  const int item = get_local_id(0);
  const float4 four = v.lo + v.hi;
  shared[item] = (four.x + four.y) + (four.z + four.w);
  for (int width = ITEMS / 2; width > 0; width /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < width) shared[item] += shared[item + width];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float sum = shared[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

// For the elements of this work-item: `count` of them from `at` on, the first being number i + k of the group.
#define FOR_MINE                                                                                        \
  FOR_RUNS(base, 0, n)                                                                                  \
  for (IDX k = (IDX)get_local_id(0) * 8, count; k < run; k += ITEMS * 8)                                \
    if (count = run - k < 8 ? run - k : 8, 1)
#define MINE (count == 8 ? LOAD8(T, x, at + k) : LOADN(T, x, at + k, count))
#define ONLY_MINE(v) SEL8((float8)(0), v, (int8)(0, 1, 2, 3, 4, 5, 6, 7) < (int8)((int)count))

// Work-groups: groups.
kernel void norm_group(const __global T *x, NORM_SCALE_ARG NORM_BIAS_ARG __global T *y, dims_t shape, dims_t strides,
                       dims_t sizes, float eps EXTRA_ARGS) {
  __local float shared[ITEMS];
  const IDX group = get_group_id(0), base = norm_offset(group, shape, strides, 0, 3), n = sizes.d[0];
  float8 total = 0, lost = 0;
  FOR_MINE {
    const float8 part = MINE - lost, next = total + part;
    lost = (next - total) - part;
    total = next;
  }
  const float mean = sum_group(total, shared) / (float)n;
  total = 0;
  float8 rest = 0;
  FOR_MINE {
    const float8 d = ONLY_MINE(MINE - mean);
    total += d * d;
    rest += d;
  }
  const float distance = sum_group(rest, shared) / (float)n;
  float factor = 1.0f / sqrt(sum_group(total, shared) / (float)n + eps);
#if SCALE == 1
  factor *= scale[group % sizes.d[2]];
#endif
#if BIAS == 1
  const float shift = bias[group % sizes.d[2]];
#endif
  FOR_MINE {
    float8 v = ((MINE - mean) - distance) * factor;
#if SCALE == 2
    v *= count == 8 ? LOAD8(float, scale, i + k) : LOADN(float, scale, i + k, count);
#endif
#if BIAS == 1
    v += shift;
#elif BIAS == 2
    v += count == 8 ? LOAD8(float, bias, i + k) : LOADN(float, bias, i + k, count);
#endif
    if (count == 8) {
      EMIT8(y, at + k, v);
    } else {
      EMITN(y, at + k, count, v);
    }
  }
}
