// Weights or biases of a recurrent operator as float, in blocks of eight hidden units with the gates of a unit side by
// side: element (direction, block, gate, lane) is row gates[gate] * hidden + block * 8 + lane of the source, rows that
// do not exist are zero.

#ifndef T
#define T float              // storage type of the source
#endif
#ifndef PANELS
#define PANELS 0             // 0: [direction][block][gate][lane][depth]; 1: [direction][block][depth][gate][lane]
#endif

// sizes: hidden units, depth (elements of a row), gates of the source, gates of the result, rows of the result / 8.
// Work-items: (depth / 8, rows of the result / 8).
kernel void recurrent_pack(const __global T *x, __global float *y, dims_t sizes, dims_t gates) {
  const IDX H = sizes.d[0], K = sizes.d[1], G = sizes.d[3], blocks = (H + 7) / 8;
  const IDX k = (IDX)get_global_id(0) * 8, group = get_global_id(1);
  if (k >= K || group >= sizes.d[4]) return;
  const IDX g = group % G, block = group / G % blocks, direction = group / G / blocks;
  const IDX gate = dim_at(&gates, g), unit = block * 8, rows = gate < 0 ? 0 : H - unit, depth = K - k < 8 ? K - k : 8;
  const IDX from = ((direction * sizes.d[2] + gate) * H + unit) * K + k;
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define GET(r) \
  float8 v##r = r >= rows ? (float8)(0) : depth == 8 ? LOAD8(T, x, from + r * K) : LOADN(T, x, from + r * K, depth);
  EACH(GET)
#if PANELS
  TRANSPOSE8(v)
  const IDX to = (((direction * blocks + block) * K + k) * G + g) * 8;
#define PUT(r) if (r < depth) ASTORE8(float, y, to + r * G * 8, v##r);
#else
#define PUT(r)                                          \
  if (depth == 8) {                                     \
    STORE8(float, y, (group * 8 + r) * K + k, v##r);    \
  } else {                                              \
    STOREN(float, y, (group * 8 + r) * K + k, depth, v##r); \
  }
#endif
  EACH(PUT)
}
