/* enqueue.h: how the libraries for tests (blas.cc and its like) enqueue work in the driver for tests, and report what
 * is wrong with a call. They see device memory only while the driver runs what they enqueued. */
#ifndef DFLOW_STRICT_ENQUEUE_H
#define DFLOW_STRICT_ENQUEUE_H
#include "../../kernels/cuda/driver.h"
#include <functional>
#include <string>
#include <vector>

#define STRICT_API __attribute__((visibility("default")))
enum { STRICT_READS = 1, STRICT_WRITES = 2 };
struct strict_range { const void *at; size_t bytes; int how; };

/* Work that touches these ranges of device memory, each inside of one allocation. `run` gives "" or what went wrong. */
STRICT_API CUresult strict_enqueue(CUstream stream, const std::string &call, const std::vector<strict_range> &ranges,
                                   std::function<std::string()> run);
/* A call that is wrong: reported, as the driver's own are. */
STRICT_API void strict_misuse(const std::string &call, const std::string &what);
STRICT_API bool strict_has_context();
STRICT_API int  strict_capability();         /* 90: compute capability 9.0 */
STRICT_API bool strict_product_fails();      /* DFLOW_STRICT_FAULT=product:N: this is the N-th */
#endif
