/* zoo_kernels.cc: kernels for the zoo, of what the threads of a block and the blocks of a grid do to each other's
 * memory: right ones, and wrong ones that must be caught. Each thread has a place of its own in p.z. */
#include "../../kernels/cuda/kernel.cuh"

enum { THREADS = 32 };

/* Each takes what its neighbour gave. */
DFC_KERNEL(k_zoo_neighbours, dfc_unary) {
  DFC_SHARED float part[THREADS];
  const int t = (int)threadIdx.x;
  part[t] = (float)t;
  __syncthreads();
  ((float *)p.z)[blockIdx.x * THREADS + t] = part[(t + 1) % THREADS];
}
/* The same, without waiting for it. */
DFC_KERNEL(k_zoo_hasty, dfc_unary) {
  DFC_SHARED float part[THREADS];
  const int t = (int)threadIdx.x;
  part[t] = (float)t;
  ((float *)p.z)[t] = part[(t + 1) % THREADS];
}
/* Waits, and then gives anew what the neighbour has perhaps not taken. */
DFC_KERNEL(k_zoo_twice, dfc_unary) {
  DFC_SHARED float part[THREADS];
  const int t = (int)threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    part[t] = (float)(t + i);
    __syncthreads();
    sum += part[(t + 1) % THREADS];
  }
  ((float *)p.z)[t] = sum;
}
/* All give to one place. */
DFC_KERNEL(k_zoo_crowd, dfc_unary) {
  DFC_SHARED float one;
  one = 1;
  __syncthreads();
  ((float *)p.z)[threadIdx.x] = one;
}
/* The first gives, the others take once it has. */
DFC_KERNEL(k_zoo_leader, dfc_unary) {
  DFC_SHARED float one;
  if (threadIdx.x == 0) one = 1;
  __syncthreads();
  ((float *)p.z)[blockIdx.x * THREADS + threadIdx.x] = one;
}
/* Through device memory, with a barrier and without. */
DFC_KERNEL(k_zoo_through, dfc_unary) {
  const int t = (int)threadIdx.x;
  float *z = (float *)p.z;
  z[t] = (float)t;
  __syncthreads();
  z[THREADS + t] = z[(t + 1) % THREADS];
}
DFC_KERNEL(k_zoo_through_hastily, dfc_unary) {
  const int t = (int)threadIdx.x;
  float *z = (float *)p.z;
  z[t] = (float)t;
  z[THREADS + t] = z[(t + 1) % THREADS];
}
/* A barrier does not order blocks: each takes what the one after it gave. */
DFC_KERNEL(k_zoo_blocks, dfc_unary) {
  float *z = (float *)p.z;
  if (threadIdx.x == 0) z[blockIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) z[gridDim.x + blockIdx.x] = z[(blockIdx.x + 1) % gridDim.x];
}
/* Blocks read what one of them writes. */
DFC_KERNEL(k_zoo_one_for_all, dfc_unary) {
  float *z = (float *)p.z;
  const float was = z[0];
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 0) z[0] = was + 1;
}
/* The first word is one thread's, and its second byte another's. */
DFC_KERNEL(k_zoo_part, dfc_unary) {
  if (threadIdx.x == 0) *(uint32_t *)p.z = 1;
  if (threadIdx.x == 1) ((uint8_t *)p.z)[THREADS] = ((const uint8_t *)p.z)[1];
}
/* The same, of a struct: of twelve bytes the last is the neighbour's, too. */
struct three { float x, y, z; };
DFC_KERNEL(k_zoo_struct, dfc_unary) {
  if (threadIdx.x == 0) *(three *)p.z = ((const three *)p.z)[1];
  if (threadIdx.x == 1) ((float *)p.z)[2] = 1;
}
/* Bytes side by side are each one thread's. */
DFC_KERNEL(k_zoo_bytes, dfc_unary) { ((uint8_t *)p.z)[threadIdx.x] = (uint8_t)threadIdx.x; }
/* Half of the threads give, all take. */
DFC_KERNEL(k_zoo_half, dfc_unary) {
  DFC_SHARED float part[THREADS];
  const int t = (int)threadIdx.x;
  if (t < THREADS / 2) part[t] = (float)t;
  __syncthreads();
  ((float *)p.z)[t] = part[t];
}
/* Gives only in the first block what each takes. */
DFC_KERNEL(k_zoo_first_block, dfc_unary) {
  DFC_SHARED float one;
  if (blockIdx.x == 0 && threadIdx.x == 0) one = 1;
  __syncthreads();
  ((float *)p.z)[blockIdx.x * THREADS + threadIdx.x] = one;
}
/* Each place becomes what it is. */
DFC_KERNEL(k_zoo_again, dfc_unary) {
  const int t = (int)threadIdx.x;
  volatile float *z = (volatile float *)p.z;
  z[t] = z[t];
}
/* Each of them says where a conditional node is to go. */
DFC_KERNEL(k_zoo_all_decide, dfc_unary) { cudaGraphSetConditional((uint64_t)p.n, threadIdx.x); }
