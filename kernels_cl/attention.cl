// Attention, softmax(f(q k)) v, without a matrix of scores in memory: blocks of rows pass over chunks of keys, and what
// earlier chunks gave is rescaled when a larger score turns up (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", 2018; Dao et al., "FlashAttention", 2022). After exp_sums.cl; register tiles as in tile.h.
//
// Operands lie where other operators left them. A dims_t called "walk" says how to find them: 0 to 4 the steps along
// the stack of matrices, 5 the offset, 6 the step of rows, 7 that of columns, in elements.

#define TILE_SPACE __global

// f, an element-wise chain: SCORE_ARGS are its arguments, SCORE_FIND(index) finds its operands for one matrix and
// SCORE_ROW(m) for one of its rows; SCORE8(v, n) replaces eight scores v of columns n ..., SCOREN(v, n, count) fewer.
// They need what SCORE_ROW_ARGS lists.
#ifndef SCORE_ARGS
#define SCORE_ARGS
#define SCORE_PASS
#define SCORE_ROW_ARGS
#define SCORE_ROW_PASS
#define SCORE_FIND(index)
#define SCORE_ROW(m)
#endif
#ifndef EMIT8
#define EMIT8(y, i, v) STORE8(float, y, i, v)
#endif
#ifndef EMITN
#define EMITN(y, i, n, v) STOREN(float, y, i, n, v)
#endif
#ifndef EXTRA_ARGS
#define EXTRA_ARGS
#define EXTRA_PASS
#endif

#define ROW_STEP(walk) ((walk).d[6])
#define COLUMN_STEP(walk) ((walk).d[7])

// Where matrix `index` of the stack begins.
static inline IDX offset_of(IDX index, int rank, const dims_t *stack, const dims_t *walk) {
  IDX at = walk->d[5];
  DIMS_DOWN(k, rank - 1, 0) {
    const IDX above = index / stack->d[k];
    at += (index - above * stack->d[k]) * walk->d[k];
    index = above;
  }
  return at;
}

// `rows` rows of `depth` numbers, times `factor`, one after the other.
static inline TILE_OUTLINE void pack_queries(const __global float *q, __global float *to, IDX rows, IDX depth,
                                             IDX row_step, IDX column_step, float factor) {
  for (IDX m = 0; m < rows; m++, q += row_step, to += depth) {
    IDX d = 0;
    if (column_step == 1)
      for (; d + 8 <= depth; d += 8) STORE8(float, to, d, LOAD8(float, q, d) * factor);
    for (; d < depth; d++) to[d] = q[d * column_step] * factor;
  }
}

#define KEY(r) const __global float *k##r = from + TILE_MIN((IDX)(r), left - 1) * key_step;
#define KEYS8(d) (float8)(k0[d], k1[d], k2[d], k3[d], k4[d], k5[d], k6[d], k7[d])

// Eight columns of a panel from keys whose numbers lie together; keys beyond the last repeat it.
static inline void pack_eight(const __global float *from, __global float *to, IDX left, IDX depth, IDX key_step,
                              float factor) {
  KEY(0) KEY(1) KEY(2) KEY(3) KEY(4) KEY(5) KEY(6) KEY(7)
  IDX d = 0;
  for (; d + 8 <= depth; d += 8) {
    float8 d0 = LOAD8(float, k0, d) * factor, d1 = LOAD8(float, k1, d) * factor, d2 = LOAD8(float, k2, d) * factor;
    float8 d3 = LOAD8(float, k3, d) * factor, d4 = LOAD8(float, k4, d) * factor, d5 = LOAD8(float, k5, d) * factor;
    float8 d6 = LOAD8(float, k6, d) * factor, d7 = LOAD8(float, k7, d) * factor;
    TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
    __global float *t = to + d * TILE_PANEL;
    ASTORE8(float, t, 0, d0);
    ASTORE8(float, t, 16, d1);
    ASTORE8(float, t, 32, d2);
    ASTORE8(float, t, 48, d3);
    ASTORE8(float, t, 64, d4);
    ASTORE8(float, t, 80, d5);
    ASTORE8(float, t, 96, d6);
    ASTORE8(float, t, 112, d7);
  }
  for (; d < depth; d++) ASTORE8(float, to, d * TILE_PANEL, KEYS8(d) * factor);
}

// Keys as panels of 16 columns, [panel][depth][16].
static inline TILE_OUTLINE void pack_keys(const __global float *k, __global float *to, IDX keys, IDX depth,
                                          IDX key_step, IDX deep_step, float factor) {
  for (IDX n = 0; n < keys; n += TILE_PANEL, to += depth * TILE_PANEL) {
    const __global float *from = k + n * key_step;
    const IDX left = keys - n;
    if (deep_step == 1) {
      pack_eight(from, to, left, depth, key_step, factor);
      if (left > 8) pack_eight(from + 8 * key_step, to + 8, left - 8, depth, key_step, factor);
    } else if (key_step == 1 && left >= TILE_PANEL) {
      for (IDX d = 0; d < depth; d++) {
        ASTORE8(float, to, d * TILE_PANEL, LOAD8(float, from, d * deep_step) * factor);
        ASTORE8(float, to, d * TILE_PANEL + 8, LOAD8(float, from, d * deep_step + 8) * factor);
      }
    } else {
      for (IDX d = 0; d < depth; d++)
        for (IDX j = 0; j < left && j < TILE_PANEL; j++)
          to[d * TILE_PANEL + j] = from[d * deep_step + j * key_step] * factor;
    }
  }
}

// Values as panels of 16 columns, [panel][`chunk` keys][16], zeros beyond the last column.
static inline TILE_OUTLINE void pack_values(const __global float *v, __global float *to, IDX keys, IDX columns,
                                            IDX chunk, IDX row_step) {
  for (IDX c = 0; c < columns; c += TILE_PANEL, to += chunk * TILE_PANEL) {
    const IDX left = columns - c;
    for (IDX n = 0; n < keys; n++) {
      const __global float *from = v + n * row_step + c;
      float8 low, high = (float8)(0.0f);
      if (left >= TILE_PANEL) {
        low = LOAD8(float, from, 0);
        high = LOAD8(float, from, 8);
      } else if (left > 8) {
        low = LOAD8(float, from, 0);
        high = LOADN(float, from, 8, left - 8);
      } else {
        low = LOADN(float, from, 0, TILE_MIN((IDX)8, left));
      }
      ASTORE8(float, to, n * TILE_PANEL, low);
      ASTORE8(float, to, n * TILE_PANEL + 8, high);
    }
  }
}

#define QUERY_ROW(r) const __global float *a##r = q + TILE_MIN(m + r, rows - 1) * depth;
#define LEAVE_SCORES(r) ASTORE8(float, to, r * pitch, p##r); ASTORE8(float, to, r * pitch + 8, q##r);

// s = q k, whole tiles: rows beyond the last repeat it.
static inline TILE_OUTLINE void score_tiles(const __global float *q, const __global float *k, __global float *s,
                                            IDX rows, IDX keys, IDX depth, IDX pitch) {
  for (IDX n = 0; n < keys; n += TILE_PANEL, k += depth * TILE_PANEL) {
    for (IDX m = 0; m < rows; m += 6) {
      TILE_ROWS6(QUERY_ROW)
      TILE_ROWS6(TILE_ZERO16)
      TILE_MULTIPLY(16, TILE_ROWS6, k, depth)
      __global float *to = s + m * pitch + n;
      TILE_ROWS6(LEAVE_SCORES)
    }
  }
}

#define WEIGHT_ROW(r) const __global float *a##r = s + (m + r) * pitch;
#define START_SUM(r) \
  float8 p##r = (float8)(0.0f), q##r = p##r; \
  if (!first) { \
    const float c_ = fade[m + r]; \
    p##r = ALOAD8(float, to, r * columns) * c_; \
    q##r = ALOAD8(float, to, r * columns + 8) * c_; \
  }
#define LEAVE_SUM(r) ASTORE8(float, to, r * columns, p##r); ASTORE8(float, to, r * columns + 8, q##r);

// sums = sums * fade + s v; `columns` is a multiple of 16.
static inline TILE_OUTLINE void value_tiles(const __global float *s, const __global float *v, __global float *sums,
                                            const __global float *fade, IDX rows, IDX keys, IDX columns, IDX chunk,
                                            IDX pitch, int first) {
  for (IDX c = 0; c < columns; c += TILE_PANEL, v += chunk * TILE_PANEL) {
    for (IDX m = 0; m < rows; m += 6) {
      __global float *to = sums + m * columns + c;
      TILE_ROWS6(START_SUM)
      TILE_ROWS6(WEIGHT_ROW)
      TILE_MULTIPLY(16, TILE_ROWS6, v, keys)
      TILE_ROWS6(LEAVE_SUM)
    }
  }
}

#define LANES ((int8)(0, 1, 2, 3, 4, 5, 6, 7))

// The largest of the scores of a row, which `top` joins, after f; a last vector is filled with -infinity.
static inline float finish_scores(__global float *s, IDX keys, float top, IDX n0 SCORE_ROW_ARGS) {
  float8 a = (float8)(top), b = a;
  IDX n = 0;
#ifdef SCORE8
  for (; n + 16 <= keys; n += 16) {
    float8 v = ALOAD8(float, s, n), w = ALOAD8(float, s, n + 8);
    SCORE8(v, n0 + n);
    SCORE8(w, n0 + n + 8);
    ASTORE8(float, s, n, v);
    ASTORE8(float, s, n + 8, w);
    a = LARGER8(a, v);
    b = LARGER8(b, w);
  }
  for (; n + 8 <= keys; n += 8) {
    float8 v = ALOAD8(float, s, n);
    SCORE8(v, n0 + n);
    ASTORE8(float, s, n, v);
    a = LARGER8(a, v);
  }
#else
  for (; n + 16 <= keys; n += 16) {
    const float8 v = ALOAD8(float, s, n), w = ALOAD8(float, s, n + 8);
    a = LARGER8(a, v);
    b = LARGER8(b, w);
  }
  for (; n + 8 <= keys; n += 8) {
    const float8 v = ALOAD8(float, s, n);
    a = LARGER8(a, v);
  }
#endif
  if (n < keys) {
    float8 v = ALOAD8(float, s, n);
#ifdef SCORE8
    SCOREN(v, n0 + n, keys - n);
#endif
    v = SEL8((float8)(-INFINITY), v, LANES < (int8)((int)(keys - n)));
    ASTORE8(float, s, n, v);
    a = LARGER8(a, v);
  }
  return largest_lane(LARGER8(a, b));
}

// Scores to exponentials relative to `shift`, times 2^64 `weight`; their sum.
static inline float exponentials(__global float *s, IDX keys, float shift, float weight) {
  float8 sum = (float8)(0.0f);
  for (IDX n = 0; n < keys; n += 8) {
    const float8 e = EXP8(ALOAD8(float, s, n) - shift) * weight;
    ASTORE8(float, s, n, e);
    sum += e;
  }
  return sum_lanes(sum);
}

// Work-item: `blocks_each` blocks of `block` rows, over chunks of `chunk` keys. `block` is a multiple of 6, `chunk` one
// of 16. Its part of `scratch`, `scratch_each` floats: queries, scores, sums, the largest score, the sum of
// exponentials and the last rescaling of each row, keys, values; the last two for one matrix in all if `resident`,
// else for one chunk. `weight` is 2^-64 times a power of two that keeps the sums from overflowing.
static inline TILE_OUTLINE void attention_item(IDX item, const __global float *q, const __global float *k,
                                               const __global float *v, __global float *y, __global float *scratch,
                                               IDX scratch_each, IDX rows, IDX keys, IDX depth, IDX columns, IDX block,
                                               IDX chunk, IDX resident, IDX blocks, IDX blocks_each, float q_factor,
                                               float k_factor, float weight, int rank, dims_t stack, dims_t q_walk,
                                               dims_t k_walk, dims_t v_walk, dims_t y_walk SCORE_ARGS EXTRA_ARGS) {
  const IDX blocks_of_matrix = (rows + block - 1) / block, end = TILE_MIN(blocks, (item + 1) * blocks_each);
  const IDX wide = (columns + TILE_PANEL - 1) / TILE_PANEL * TILE_PANEL;
  const IDX padded = (keys + TILE_PANEL - 1) / TILE_PANEL * TILE_PANEL;
  __global float *queries = scratch + item * scratch_each, *scores = queries + (block * depth + 15) / 16 * 16;
  __global float *sums = scores + block * chunk, *state = sums + block * wide;
  __global float *top = state, *total = state + block, *fade = state + 2 * block;
  __global float *own_keys = state + (3 * block + 15) / 16 * 16;
  __global float *own_values = own_keys + (resident ? padded : chunk) * depth;
  IDX packed = -1;
  for (IDX b = item * blocks_each; b < end; b++) {
    const IDX matrix = b / blocks_of_matrix, row0 = (b - matrix * blocks_of_matrix) * block;
    const IDX count = TILE_MIN(block, rows - row0);
    const __global float *k_at = k + offset_of(matrix, rank, &stack, &k_walk);
    const __global float *v_at = v + offset_of(matrix, rank, &stack, &v_walk);
    SCORE_FIND(matrix)
    pack_queries(q + offset_of(matrix, rank, &stack, &q_walk) + row0 * ROW_STEP(q_walk), queries, count, depth,
                 ROW_STEP(q_walk), COLUMN_STEP(q_walk), q_factor);
    for (IDX m = 0; m < block; m++) {
      top[m] = -INFINITY;
      total[m] = 0.0f;
      fade[m] = 0.0f;
    }
    for (IDX n0 = 0; n0 < keys; n0 += chunk) {
      const IDX here = TILE_MIN(chunk, keys - n0);
      __global float *chunk_keys = own_keys + (resident ? n0 * depth : 0);
      __global float *chunk_values = own_values + (resident ? n0 * wide : 0);
      if (!resident || packed != matrix) {
        pack_keys(k_at + n0 * COLUMN_STEP(k_walk), chunk_keys, here, depth, COLUMN_STEP(k_walk), ROW_STEP(k_walk),
                  k_factor);
        pack_values(v_at + n0 * ROW_STEP(v_walk), chunk_values, here, columns, chunk, ROW_STEP(v_walk));
      }
      score_tiles(queries, chunk_keys, scores, count, here, depth, chunk);
      for (IDX m = 0; m < count; m++) {
        __global float *s = scores + m * chunk;
        const float before = top[m];
        SCORE_ROW(row0 + m)
        const float now = finish_scores(s, here, before, n0 SCORE_ROW_PASS), shift = SHIFT1(now);
        const float sum = exponentials(s, here, shift, weight);
        fade[m] = EXP1(before - shift) * SCALE;
        total[m] = total[m] * fade[m] + sum;
        top[m] = now;
      }
      value_tiles(scores, chunk_values, sums, fade, count, here, wide, chunk, chunk, n0 == 0);
    }
    packed = matrix;
    const IDX y_at = offset_of(matrix, rank, &stack, &y_walk) + row0 * ROW_STEP(y_walk);
    for (IDX m = 0; m < count; m++) {
      const float scale = 1.0f / total[m];
      const __global float *from = sums + m * wide;
      IDX c = 0;
      for (; c + 8 <= columns; c += 8) EMIT8(y, y_at + m * ROW_STEP(y_walk) + c, ALOAD8(float, from, c) * scale);
      if (c < columns) EMITN(y, y_at + m * ROW_STEP(y_walk) + c, columns - c, ALOAD8(float, from, c) * scale);
    }
  }
}

kernel void attention(const __global float *q, const __global float *k, const __global float *v, __global float *y,
                      __global float *scratch, IDX scratch_each, IDX rows, IDX keys, IDX depth, IDX columns, IDX block,
                      IDX chunk, IDX resident, IDX blocks, IDX blocks_each, float q_factor, float k_factor,
                      float weight, int rank, dims_t stack, dims_t q_walk, dims_t k_walk, dims_t v_walk,
                      dims_t y_walk SCORE_ARGS EXTRA_ARGS) {
  attention_item(get_global_id(0), q, k, v, y, scratch, scratch_each, rows, keys, depth, columns, block, chunk,
                 resident, blocks, blocks_each, q_factor, k_factor, weight, rank, stack, q_walk, k_walk, v_walk,
                 y_walk SCORE_PASS EXTRA_PASS);
}

#define KEY_SUM(r) float8 d##r = (float8)(0.0f);
#define KEY_ADD(r) d##r = d##r + x * LOAD8(float, k##r, d);

// The products of one query with eight keys whose numbers lie together; keys beyond the last repeat it.
static inline float8 eight_products(const __global float *q, const __global float *from, IDX left, IDX depth,
                                    IDX key_step) {
  KEY(0) KEY(1) KEY(2) KEY(3) KEY(4) KEY(5) KEY(6) KEY(7)
  TILE_ROWS8(KEY_SUM)
  IDX d = 0;
  for (; d + 8 <= depth; d += 8) {
    const float8 x = ALOAD8(float, q, d);
    TILE_ROWS8(KEY_ADD)
  }
  TILE_TRANSPOSE(d0, d1, d2, d3, d4, d5, d6, d7)
  float8 sum = ((d0 + d1) + (d2 + d3)) + ((d4 + d5) + (d6 + d7));
  for (; d < depth; d++) sum = sum + q[d] * KEYS8(d);
  return sum;
}

// s = q k for one query, eight keys at a time.
static inline TILE_OUTLINE void score_row(const __global float *q, const __global float *k, __global float *s,
                                          IDX keys, IDX depth, IDX key_step, IDX deep_step) {
  for (IDX n = 0; n < keys; n += 8) {
    const __global float *from = k + n * key_step;
    const IDX left = keys - n;
    float8 sum = (float8)(0.0f);
    if (deep_step == 1) {
      sum = eight_products(q, from, left, depth, key_step);
    } else if (key_step == 1 && left >= 8) {
      for (IDX d = 0; d < depth; d++) sum = sum + q[d] * LOAD8(float, from, d * deep_step);
    } else {
      const IDX count = TILE_MIN((IDX)8, left);
      for (IDX d = 0; d < depth; d++) sum = sum + q[d] * GATHER8(float, from, d * deep_step, key_step, count);
    }
    ASTORE8(float, s, n, sum);
  }
}

#define VALUE_ADD(r) p##r = p##r + w * LOAD8(float, from, 8 * r);
#define TOTAL_VALUE(r) t_[r] = (float8)(0.0f);
#define LEAVE_VALUE(r) EMIT8(y, at + c + 8 * r, t_[r] * scale);

// y = s v * scale for one row of weights, 64 columns at a time.
static inline TILE_OUTLINE void value_row(const __global float *s, const __global float *v, __global float *y, IDX at,
                                          IDX keys, IDX columns, IDX row_step, float scale EXTRA_ARGS) {
  IDX c = 0;
  for (; c + 64 <= columns; c += 64) {
    const __global float *from = v + c;
    float8 t_[8];
    TILE_ROWS8(TOTAL_VALUE)
    for (IDX n = 0; n < keys;) {
      const IDX stop = TILE_MIN(keys, n + TILE_RUN);
      TILE_ROWS8(TILE_ZERO8)
      for (; n < stop; n++, from += row_step) {
        const float w = s[n];
        TILE_ROWS8(VALUE_ADD)
      }
      TILE_ROWS8(TILE_ADD8)
    }
    TILE_ROWS8(LEAVE_VALUE)
  }
  for (; c < columns; c += 8) {
    const __global float *from = v + c;
    const IDX left = columns - c;
    float8 total = (float8)(0.0f);
    for (IDX n = 0; n < keys;) {
      const IDX stop = TILE_MIN(keys, n + TILE_RUN);
      float8 sum = (float8)(0.0f);
      if (left >= 8) {
        for (; n < stop; n++, from += row_step) sum = sum + s[n] * LOAD8(float, from, 0);
      } else {
        for (; n < stop; n++, from += row_step) sum = sum + s[n] * LOADN(float, from, 0, left);
      }
      total = total + sum;
    }
    if (left >= 8) {
      EMIT8(y, at + c, total * scale);
    } else {
      EMITN(y, at + c, left, total * scale);
    }
  }
}

// Few rows, as when tokens are decoded one by one: keys and values are read where they lie. Work-item: one matrix. Its
// part of `scratch`, `scratch_each` floats: a query, and a row of scores.
static inline TILE_OUTLINE void attention_few_item(IDX matrix, const __global float *q, const __global float *k,
                                                   const __global float *v, __global float *y, __global float *scratch,
                                                   IDX scratch_each, IDX rows, IDX keys, IDX depth, IDX columns,
                                                   float factor, float weight, int rank, dims_t stack, dims_t q_walk,
                                                   dims_t k_walk, dims_t v_walk, dims_t y_walk SCORE_ARGS EXTRA_ARGS) {
  __global float *query = scratch + matrix * scratch_each, *s = query + (depth + 15) / 16 * 16;
  const __global float *q_at = q + offset_of(matrix, rank, &stack, &q_walk);
  const __global float *k_at = k + offset_of(matrix, rank, &stack, &k_walk);
  const __global float *v_at = v + offset_of(matrix, rank, &stack, &v_walk);
  const IDX y_at = offset_of(matrix, rank, &stack, &y_walk);
  SCORE_FIND(matrix)
  for (IDX m = 0; m < rows; m++) {
    pack_queries(q_at + m * ROW_STEP(q_walk), query, 1, depth, ROW_STEP(q_walk), COLUMN_STEP(q_walk), factor);
    score_row(query, k_at, s, keys, depth, COLUMN_STEP(k_walk), ROW_STEP(k_walk));
    SCORE_ROW(m)
    const float top = finish_scores(s, keys, -INFINITY, 0 SCORE_ROW_PASS);
    const float total = exponentials(s, keys, SHIFT1(top), weight);
    value_row(s, v_at, y, y_at + m * ROW_STEP(y_walk), keys, columns, ROW_STEP(v_walk), 1.0f / total EXTRA_PASS);
  }
}

kernel void attention_few(const __global float *q, const __global float *k, const __global float *v,
                          __global float *y, __global float *scratch, IDX scratch_each, IDX rows, IDX keys, IDX depth,
                          IDX columns, float factor, float weight, int rank, dims_t stack, dims_t q_walk,
                          dims_t k_walk, dims_t v_walk, dims_t y_walk SCORE_ARGS EXTRA_ARGS) {
  attention_few_item(get_global_id(0), q, k, v, y, scratch, scratch_each, rows, keys, depth, columns, factor, weight,
                     rank, stack, q_walk, k_walk, v_walk, y_walk SCORE_PASS EXTRA_PASS);
}
