/* choose.cu: which elements there are: those that are not 0, those that come for the first time, those that another
 * list has not; and whether all are finite.
 *
 * Flags, a byte for each element, are counted by chunks of CHUNK, the counts are added up by one block, and then each
 * element knows how many flags are before it: its place among what is chosen. */
#include "complex.cuh"

enum { BLOCK = 128, EACH = 8, CHUNK = BLOCK * EACH };

/* Sums of what the threads before this one have, and of all; part: shared, BLOCK of them. */
DFC_INLINE int64_t before_me(int64_t mine, int64_t *part, int64_t *all) {
  const int t = (int)threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (int by = 1; by < BLOCK; by *= 2) {
    const int64_t more = t >= by ? part[t - by] : 0;
    __syncthreads();
    part[t] += more;
    __syncthreads();
  }
  *all = part[BLOCK - 1];
  const int64_t to_me = part[t];
  __syncthreads();
  return to_me - mine;
}

/* places[chunk]: how many flags it has. */
DFC_KERNEL(k_flags_count, dfc_flagging) {
  DFC_SHARED int64_t part[BLOCK];
  for (int64_t chunk = blockIdx.x; chunk * CHUNK < p.n; chunk += gridDim.x) {
    int64_t mine = 0, all;
    for (int64_t i = chunk * CHUNK + threadIdx.x; i < (chunk + 1) * CHUNK && i < p.n; i += BLOCK) mine += p.flags[i];
    before_me(mine, part, &all);
    if (threadIdx.x == 0) p.chunks[chunk] = all;
  }
}
/* By one block: chunks[c] becomes how many are before it, chunks[the number of chunks] how many there are. */
DFC_KERNEL(k_flags_add, dfc_flagging) {
  DFC_SHARED int64_t part[BLOCK];
  const int64_t chunks = (p.n + CHUNK - 1) / CHUNK;
  int64_t before = 0;
  for (int64_t first = 0; first < chunks; first += BLOCK) {
    const int64_t c = first + threadIdx.x, mine = c < chunks ? p.chunks[c] : 0;
    int64_t all;
    const int64_t place = before + before_me(mine, part, &all);
    if (c < chunks) p.chunks[c] = place;
    before += all;
  }
  if (threadIdx.x == 0) p.chunks[chunks] = before;
}
DFC_KERNEL(k_flags_place, dfc_flagging) {
  DFC_SHARED int64_t part[BLOCK];
  for (int64_t chunk = blockIdx.x; chunk * CHUNK < p.n; chunk += gridDim.x) {
    const int64_t first = chunk * CHUNK + threadIdx.x * EACH;
    int64_t mine = 0, all;
    for (int64_t i = first; i < first + EACH && i < p.n; i++) mine += p.flags[i];
    int64_t place = p.chunks[chunk] + before_me(mine, part, &all);
    for (int64_t i = first; i < first + EACH && i < p.n; i++) {
      p.places[i] = place;
      place += p.flags[i];
    }
  }
}

/* The indices of what is flagged, a row for each. */
DFC_KERNEL(k_flags_indices, dfc_indexing) {
  DFC_EACH(i, p.n) {
    if (!p.flags[i]) continue;
    int64_t *row = (int64_t *)p.z + p.places[i] * p.rank, left = i;
    for (int64_t d = p.rank - 1; d >= 0; d--) {
      row[d] = left % p.dims[d];
      left /= p.dims[d];
    }
  }
}

template <class A> DFC_INLINE bool above(A a, A b) { return a != a ? b == b : a > b; }

/* At place j of the order: does another element begin there? It is flagged in the order (heads) and where it lies. */
template <class T> DFC_INLINE void distinct(const dfc_telling &p) {
  DFC_EACH(j, p.n) {
    const int64_t i = p.order ? p.order[j] : j;
    const bool head = j == 0 || !(((const T *)p.x)[i] == ((const T *)p.x)[p.order[j - 1]]);
    p.heads[j] = head;
    p.flags[i] = head;
  }
}
/* Which of x are not in y, whose order is p.order. */
template <class T> DFC_INLINE void absent(const dfc_telling &p) {
  typedef typename wide_of<T>::type W;
  DFC_EACH(i, p.n) {
    const W v = (W)((const T *)p.x)[i];
    int64_t low = 0, high = p.m;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      if (above((W)((const T *)p.y)[p.order ? p.order[mid] : mid], v)) low = mid + 1;
      else high = mid;
    }
    p.flags[i] = !(low < p.m && (W)((const T *)p.y)[p.order ? p.order[low] : low] == v);
  }
}
/* Is it not zero? As the host has it, for which denormals of float32 and float64 are zeros, those of halves are not. */
template <class T> DFC_INLINE bool is_set(const T &x) { return !(x == (T)0); }
template <> DFC_INLINE bool is_set(const f16 &x) { return x.bits & 0x7fff; }
template <> DFC_INLINE bool is_set(const b16 &x) { return x.bits & 0x7fff; }
template <> DFC_INLINE bool is_set(const float &x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x7f800000;
}
template <> DFC_INLINE bool is_set(const double &x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x7ff0000000000000;
}
template <class T> DFC_INLINE void set(const dfc_telling &p) {
  DFC_EACH(i, p.n) p.flags[i] = is_set(((const T *)p.x)[i]);
}
/* The first NaN and the first infinity that each block meets: p.n where there is none. */
template <class T> DFC_INLINE void check(const dfc_checking &p, int64_t *part) {
  typedef typename wide_of<T>::type W;
  int64_t first[2] = { p.n, p.n };
  DFC_EACH(i, p.n) {
    const W v = (W)((const T *)p.x)[i];
    if (v != v) { if (i < first[0]) first[0] = i; }
    else if (v - v != 0 && i < first[1]) first[1] = i;
  }
  for (int what = 0; what < 2; what++) {
    part[threadIdx.x] = first[what];
    __syncthreads();
    for (int half = BLOCK / 2; half; half >>= 1) {
      if ((int)threadIdx.x < half && part[threadIdx.x + half] < part[threadIdx.x])
        part[threadIdx.x] = part[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) p.first[2 * blockIdx.x + what] = part[0];
    __syncthreads();
  }
}
/* Of all blocks, by one thread: there are few. */
DFC_KERNEL(k_check_all, dfc_checking) {
  if (blockIdx.x || threadIdx.x) return;
  for (int64_t b = 1; b < p.blocks; b++)
    for (int what = 0; what < 2; what++)
      if (p.first[2 * b + what] < p.first[what]) p.first[what] = p.first[2 * b + what];
}
#define CHOOSE(s, T) \
  DFC_KERNEL(k_set_##s, dfc_telling) { set<T>(p); } \
  DFC_KERNEL(k_distinct_##s, dfc_telling) { distinct<T>(p); } \
  DFC_KERNEL(k_absent_##s, dfc_telling) { absent<T>(p); }
#define CHECK(s, T) \
  CHOOSE(s, T) \
  DFC_KERNEL(k_check_##s, dfc_checking) { \
    DFC_SHARED int64_t part[BLOCK]; \
    check<T>(p, part); \
  }
CHECK(f32, float)
CHECK(f64, double)
CHECK(f16, f16)
CHECK(b16, b16)
CHOOSE(i32, int32_t)
CHOOSE(i64, int64_t)
CHOOSE(i8, int8_t)
CHOOSE(u8, uint8_t)
DFC_KERNEL(k_set_bool, dfc_telling) { set<bool>(p); }
DFC_KERNEL(k_set_c64, dfc_telling) { set<c64>(p); }
DFC_KERNEL(k_set_c128, dfc_telling) { set<c128>(p); }

/* Where equal elements begin in their order: begin[g] of group g, and behind the last one the end. */
DFC_KERNEL(k_groups, dfc_grouping) {
  DFC_EACH(j, p.n) {
    if (p.heads[j]) p.begin[p.group[j]] = j;
    if (j == p.n - 1) p.begin[p.m] = p.n;
  }
}
/* idx of each element, and of each group its size: by the place that its first element has among the first ones. */
DFC_KERNEL(k_number, dfc_grouping) {
  DFC_EACH(j, p.n) {
    const int64_t g = p.group[j] + p.heads[j] - 1, head = p.begin[g];
    const int64_t number = p.place[p.order ? p.order[head] : head], i = p.order ? p.order[j] : j;
    if (p.wide) ((int64_t *)p.idx)[i] = number; else ((int32_t *)p.idx)[i] = (int32_t)number;
    if (!p.count || !p.heads[j]) continue;
    const int64_t many = p.begin[g + 1] - head;
    if (p.wide) ((int64_t *)p.count)[number] = many; else ((int32_t *)p.count)[number] = (int32_t)many;
  }
}
/* What is flagged, and where it was. */
#define PICK(bits, T) \
  DFC_KERNEL(k_chosen_##bits, dfc_chosen) { \
    DFC_EACH(i, p.n) { \
      if (!p.flags[i]) continue; \
      ((T *)p.z)[p.places[i]] = ((const T *)p.x)[i]; \
      if (!p.idx) continue; \
      if (p.wide) ((int64_t *)p.idx)[p.places[i]] = i; else ((int32_t *)p.idx)[p.places[i]] = (int32_t)i; \
    } \
  }
PICK(8, uint8_t)
PICK(16, uint16_t)
PICK(32, uint32_t)
PICK(64, uint64_t)
