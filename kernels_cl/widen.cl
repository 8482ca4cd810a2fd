// float16 storage to float32, eight elements a work-item.

kernel void widen(const __global half *x, __global float *y, IDX n) {
  const IDX i = (IDX)get_global_id(0) * 8;
  if (i >= n) return;
  if (i + 8 <= n) {
    ASTORE8(float, y, i, ALOAD8(half, x, i));
  } else {
    STOREN(float, y, i, n - i, LOADN(half, x, i, n - i));
  }
}
