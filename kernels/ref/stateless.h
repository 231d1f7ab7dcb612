/* stateless.h: TensorFlow's generator: Philox4x32-10 that goes on from a key and a counter, word by word. */
#ifndef DFLOW_REF_STATELESS_H
#define DFLOW_REF_STATELESS_H
#include "../random.h"
#include "element.h"
#include <Random123/philox.h>

typedef struct ref_generator {
  philox4x32_ctr_t counter;
  philox4x32_key_t key;
  uint32_t         left[4];
  int              used;
} ref_generator;


/* The generator of k's inputs from 1 on: a seed, or a key, a counter and an algorithm. */
int32_t ref_generator_in(df_kernel *k, int32_t at, ref_generator *g);

/* As many blocks of four words further on. */
void ref_generator_skip(ref_generator *g, uint64_t blocks);

static inline uint32_t ref_generator_word(ref_generator *g) {
  if (g->used == 4) {
    const philox4x32_ctr_t r = philox4x32_R(10, g->counter, g->key);
    memcpy(g->left, r.v, sizeof r.v);
    ref_generator_skip(g, 1);
    g->used = 0;
  }
  return g->left[g->used++];
}

static inline double ref_unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t)1023 << 52 | (uint64_t)(high & 0xfffffu) << 32 | low;
  double d;
  memcpy(&d, &bits, 8);
  return d - 1.0;
}

/* Box and Muller's pair of normal numbers. */
void ref_normal_pair(ref_generator *g, bool wide, double out[2]);
#endif
