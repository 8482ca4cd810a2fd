// Transforms a 3 x 3 filter, packed by pack.cl as [panel][3][3][channel][16], to [panel][points][channel][16]: G g G^T.

// As in winograd.cl.
#ifndef RESULTS
#define RESULTS 4
#endif
#define SIDE (RESULTS + 2)

#if RESULTS == 4
#define FILTER_POINTS(o, g0, g1, g2) \
  { \
    const float8 e0_ = (g0 + g2) * (1.0f / 6.0f), e1_ = g1 * (1.0f / 6.0f); \
    const float8 e2_ = g0 * (1.0f / 24.0f) + g2 * (1.0f / 6.0f), e3_ = g1 * (1.0f / 12.0f); \
    o[0] = g0 * 0.25f; \
    o[1] = -e0_ - e1_; \
    o[2] = e1_ - e0_; \
    o[3] = e2_ + e3_; \
    o[4] = e2_ - e3_; \
    o[5] = g2; \
  }
#else
#define FILTER_POINTS(o, g0, g1, g2) \
  { \
    const float8 e0_ = (g0 + g2) * 0.5f, e1_ = g1 * 0.5f; \
    o[0] = g0; \
    o[1] = e0_ + e1_; \
    o[2] = e0_ - e1_; \
    o[3] = g2; \
  }
#endif

// One work-item a panel and channel.
kernel void winograd_filter(const __global float *w, __global float *u, IDX channels) {
  const IDX c = get_global_id(0), panel = get_global_id(1);
  for (IDX half_ = 0; half_ < 2; half_++) {
    const __global float *g = w + (panel * 9 * channels + c) * TILE_PANEL + 8 * half_;
    __global float *to = u + (panel * SIDE * SIDE * channels + c) * TILE_PANEL + 8 * half_;
    const IDX step = channels * TILE_PANEL;
    float8 t[3][SIDE];
    for (IDX j = 0; j < 3; j++) {
      const float8 g0 = ALOAD8(float, g, j * step), g1 = ALOAD8(float, g, (3 + j) * step);
      const float8 g2 = ALOAD8(float, g, (6 + j) * step);
      FILTER_POINTS(t[j], g0, g1, g2)
    }
    for (IDX i = 0; i < SIDE; i++) {
      float8 o[SIDE];
      FILTER_POINTS(o, t[0][i], t[1][i], t[2][i])
      for (IDX j = 0; j < SIDE; j++) ASTORE8(float, to, (i * SIDE + j) * step, o[j]);
    }
  }
}
