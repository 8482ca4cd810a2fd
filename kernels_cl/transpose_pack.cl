// A stack of matrices with contiguous columns, transposed, as float: y[s][k][n] = x[s][n][k].

#ifndef T
#define T float              // storage type of x
#endif

// size: rows n, columns k, row pitch of y (a multiple of 8, missing columns zero). Work-items: (k / 8, n / 8, s).
kernel void transpose_pack(const __global T *x, __global float *y, dims_t size) {
  const IDX N = size.d[0], K = size.d[1], pitch = size.d[2];
  const IDX k = (IDX)get_global_id(0) * 8, n = (IDX)get_global_id(1) * 8, s = get_global_id(2);
  if (k >= K || n >= N) return;
  const __global T *from = x + (s * N + n) * K + k;
  const IDX lanes = K - k < 8 ? K - k : 8, rows = N - n < 8 ? N - n : 8;
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define GET(r) \
  float8 v##r = r >= rows ? (float8)(0) : lanes == 8 ? LOAD8(T, from, r * K) : LOADN(T, from, r * K, lanes);
  EACH(GET)
  TRANSPOSE8(v)
  __global float *to = y + (s * K + k) * pitch + n;
#define PUT(r) if (r < lanes) ASTORE8(float, to, r * pitch, v##r);
  EACH(PUT)
}
