// The addend and the result of GPU kernels of matrix products. HAS_C 1: beta * c is added, which lies at strides that are
// 0 where it repeats. SPLIT 1: y is float, [part, result], without alpha and c (split_sum.cl adds the parts).

#define ADDEND_ARGS CAT2(ADDEND_ARGS_, HAS_C)
#define ADDEND_ARGS_0
#define ADDEND_ARGS_1 const __global T *c, IDX c_row, IDX c_column, float beta,
#define ADDEND(m, n) CAT2(ADDEND_, HAS_C)(m, n)
#define ADDEND_0(m, n)
#define ADDEND_1(m, n) + beta * LOAD(T, c, (m) * c_row + (n) * c_column)
#define RESULT_OR_PART CAT2(RESULT_OR_PART_, SPLIT)
#define RESULT_OR_PART_0 __global T *y
#define RESULT_OR_PART_1 __global float *y
