// Work-groups of GPUs that share lines of elements. A group has GROUP work-items: `depth` of them (a power of two) share
// a line, GROUP / depth lines side by side make a group. Neighbouring work-items lie along the line where its elements
// are neighbours in memory (`along`), else across the lines, so that they read neighbouring addresses either way.
//
// Every work-item reaches every barrier: what depends on the data is kept out of the loops that hold one, and
// work-items beyond the last line take part with neutral values.

#define GROUP_OF __attribute__((reqd_work_group_size(GROUP, 1, 1)))

// Declares: id; d, number within the line; across, distance of the line's work-items; line and part of this work-item.
#define WHERE_IN_GROUP                                                                          \
  const int id = get_local_id(0), columns = GROUP / depth, across = along ? 1 : columns;        \
  const int d = along ? id % depth : id / columns;                                              \
  const IDX line = (IDX)get_group_id(0) * columns + (along ? id / depth : id % columns);        \
  const IDX part = get_group_id(1), parts = get_num_groups(1);

// Lines of a packed [outer, n, inner]: element i of this line is base + i * inner, element p of [outer, parts, inner]
// result + p * inner.
#define LINE_IN_MEMORY                                                                          \
  const IDX above = line / inner, base = (above * n) * inner + (line - above * inner);          \
  const IDX result = (above * parts) * inner + (line - above * inner);

// This work-item's elements: begin, begin + depth ... below end; none beyond the last line.
#define ITS_SHARE                                                                               \
  const IDX first = part * chunk, stop = first + chunk < n ? first + chunk : n;                 \
  const IDX begin = first + d, end = line < lines ? stop : 0;

// Joins what the line's work-items have in local memory, pairwise, into that of the first; JOIN_WITH names `id` and
// `other`.
#define TREE(JOIN_WITH)                                  \
  for (int half_ = depth / 2; half_ > 0; half_ /= 2) {   \
    barrier(CLK_LOCAL_MEM_FENCE);                        \
    if (d < half_) {                                     \
      const int other = id + half_ * across;             \
      JOIN_WITH                                          \
    }                                                    \
  }                                                      \
  barrier(CLK_LOCAL_MEM_FENCE);

// `total`: the line's values v joined, for all of its work-items.
#define JOIN_LINE(total, shared, v, JOIN_WITH)           \
  shared[id] = (v);                                      \
  TREE(JOIN_WITH)                                        \
  const float total = shared[id - d * across];           \
  barrier(CLK_LOCAL_MEM_FENCE);
#define ADD_OTHER shared[id] += shared[other];
#define TAKE_LARGER shared[id] = shared[other] > shared[id] ? shared[other] : shared[id];

// s + c is the sum of all v so far, s alone its rounded value (Knuth's two-sum); TYPE is theirs.
#define TWO_SUM(TYPE, s, c, v)                           \
  {                                                      \
    const TYPE old_ = (s);                               \
    const TYPE part_ = (v);                              \
    (s) = old_ + part_;                                  \
    const TYPE got_ = (s) - old_;                        \
    (c) += (old_ - ((s) - got_)) + (part_ - got_);       \
  }
// An overflow to infinity leaves NaN in c.
#define TWO_SUM_TOTAL(s, c) ((c) - (c) == 0 ? (s) + (c) : (s))
