// Work-group tiles for GPUs: both operands of a product go through local memory, each work-item keeps LOCAL_RM x
// LOCAL_RN results in registers. Work-items of a group lie LOCAL_GX x LOCAL_GY; their results are interleaved, so that
// neighbours store to neighbouring addresses.

#define LOCAL_THREADS (LOCAL_GX * LOCAL_GY)
#define LOCAL_TM (LOCAL_RM * LOCAL_GY)
#define LOCAL_TN (LOCAL_RN * LOCAL_GX)

// One column more than needed: neighbours of a transposed store fall into different banks.
#define LOCAL_MEMORY(as, bs) \
  local float as[LOCAL_TK][LOCAL_TM + 1]; \
  local float bs[LOCAL_TK][LOCAL_TN + 1];

#define LOCAL_GROUP __attribute__((reqd_work_group_size(LOCAL_GX, LOCAL_GY, 1)))

// Four elements from p + i on, which lies on a boundary of four.
#define LOAD4(T, p, i) CAT2(load4_, T)((p), (i))
#define load4_float(p, i) (*(const __global float4 *)((p) + (i)))
#define load4_half(p, i) vload_half4(0, (p) + (i))

// tile[k][i]: `width` rows from i0 on of an operand of `extent` rows, depth k0 to below `k_end`, zeros beyond. Neighbouring
// work-items load along k where `along_k`, else along the rows.
#define LOCAL_LOAD(by_four, along_k, tile, width, p, i0, extent, k0, k_end, i_stride, k_stride)                       \
  if (by_four) {                                                                                                      \
    for (int t = id * 4; t < (width) * LOCAL_TK; t += LOCAL_THREADS * 4) {                                            \
      const int k = (along_k) ? t % LOCAL_TK : t / (width), i = (along_k) ? t / LOCAL_TK : t % (width);               \
      const bool inside = (i0) + i < (extent) && (k0) + k < (k_end);                                                  \
      const float4 v = inside ? LOAD4(T, p, ((i0) + i) * (i_stride) + ((k0) + k) * (k_stride)) : (float4)(0.0f);      \
      tile[k][i] = v.x;                                                                                               \
      tile[k + ((along_k) ? 1 : 0)][i + ((along_k) ? 0 : 1)] = v.y;                                                   \
      tile[k + ((along_k) ? 2 : 0)][i + ((along_k) ? 0 : 2)] = v.z;                                                   \
      tile[k + ((along_k) ? 3 : 0)][i + ((along_k) ? 0 : 3)] = v.w;                                                   \
    }                                                                                                                 \
  } else {                                                                                                            \
    for (int t = id; t < (width) * LOCAL_TK; t += LOCAL_THREADS) {                                                    \
      const int k = (along_k) ? t % LOCAL_TK : t / (width), i = (along_k) ? t / LOCAL_TK : t % (width);               \
      const bool inside = (i0) + i < (extent) && (k0) + k < (k_end);                                                  \
      tile[k][i] = inside ? LOAD(T, p, ((i0) + i) * (i_stride) + ((k0) + k) * (k_stride)) : 0.0f;                     \
    }                                                                                                                 \
  }

#define LOCAL_CLEAR(acc) \
  for (int r = 0; r < LOCAL_RM; r++) \
    for (int c = 0; c < LOCAL_RN; c++) acc[r][c] = 0.0f;

#define LOCAL_MULTIPLY(as, bs, acc, lx, ly) \
  for (int k = 0; k < LOCAL_TK; k++) { \
    float row_[LOCAL_RM], column_[LOCAL_RN]; \
    for (int r = 0; r < LOCAL_RM; r++) row_[r] = as[k][ly + r * LOCAL_GY]; \
    for (int c = 0; c < LOCAL_RN; c++) column_[c] = bs[k][lx + c * LOCAL_GX]; \
    for (int r = 0; r < LOCAL_RM; r++) \
      for (int c = 0; c < LOCAL_RN; c++) acc[r][c] += row_[r] * column_[c]; \
  }
