// Work-group tiles for GPUs: both operands of a product go through local memory, each work-item keeps TILE_RM x
// TILE_RN results in registers. Work-items of a group lie TILE_GX x TILE_GY; their results are interleaved, so that
// neighbours store to neighbouring addresses.

#define LOCAL_THREADS (LOCAL_GX * LOCAL_GY)
#define LOCAL_TM (LOCAL_RM * LOCAL_GY)
#define LOCAL_TN (LOCAL_RN * LOCAL_GX)

// One column more than needed: neighbours of a transposed store fall into different banks.
#define LOCAL_MEMORY(as, bs) \
  local float as[LOCAL_TK][LOCAL_TM + 1]; \
  local float bs[LOCAL_TK][LOCAL_TN + 1];

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
