/* device.c: a device that counts what is asked of it, where kernels/device.h says devices stand.
 *
 * It knows that header and nothing else, links to nothing, and is loaded as the plug-in for GPUs is. Its memory is
 * pages that may be touched only inside one of its own functions, so a runtime that reads or writes elements by itself
 * ends there. Its kernels are Add and Mul of float32, each in as many lines as it takes to enqueue one and wait.
 */
#include "spec/counter/counter.h"
#include "kernels/device.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const dfi_gpu_host *host;
static char failed_because[80];

__attribute__((visibility("default"))) counted counter = { .most_bytes = 1 << 30 };

/* What stands beside a tensor's head: the block that its elements are a part of. */
typedef struct note { char *block; size_t bytes; } note;
_Static_assert(sizeof(note) <= DFI_NOTE_BYTES, "it must fit beside the head");

static void touch(const void *n, int access) {
  const note *at = n;
  if (at && at->block) mprotect(at->block, at->bytes, access);
}
static void opened(const void *n) { touch(n, PROT_READ | PROT_WRITE); }
static void closed(const void *n) { touch(n, PROT_NONE); }

/* ---- memory ------------------------------------------------------------------------------------------------- */

static void *allocate(void *device, int64_t bytes, void *beside) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), takes = ((size_t)bytes + page - 1) / page * page;
  if (counter.bytes + bytes > counter.most_bytes) return NULL;
  char *block = mmap(NULL, takes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return NULL;
  *(note *)beside = (note){ block, takes };
  counter.allocations++;
  counter.bytes += bytes;
  return block;
}

static void release(void *device, void *p, void *beside) {
  const note *n = beside;
  munmap(n->block, n->bytes);
  counter.frees++;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

static bool from_host(void *device, void *to, void *to_note, const void *from, int64_t bytes) {
  opened(to_note);
  memcpy(to, from, (size_t)bytes);
  closed(to_note);
  counter.copies_in++;
  counter.bytes_in += bytes;
  return true;
}

static bool to_host(void *device, void *to, const void *from, void *from_note, int64_t bytes) {
  opened(from_note);
  memcpy(to, from, (size_t)bytes);
  closed(from_note);
  counter.copies_out++;
  counter.waits++;                         /* the caller has it when this returns */
  counter.bytes_out += bytes;
  return true;
}

static bool within(void *device, void *to, void *to_note, const void *from, void *from_note, int64_t bytes) {
  opened(from_note);
  opened(to_note);
  memcpy(to, from, (size_t)bytes);
  closed(to_note);
  closed(from_note);
  counter.copies_within++;
  return true;
}

static bool fill(void *device, void *to, void *to_note, int32_t byte, int64_t bytes) {
  opened(to_note);
  memset(to, byte, (size_t)bytes);
  closed(to_note);
  counter.fills++;
  return true;
}

static bool wait_for_all(void *device) { counter.waits++; return true; }
static const char *first_error(void *device) { return failed_because; }

static bool refuse(const char *what) {
  if (!failed_because[0]) {
    strcpy(failed_because, "it counts, and has no ");
    strcat(failed_because, what);
  }
  return false;
}
static bool update(void *device, dfk_update_op op, int32_t dtype, int64_t n, void *to, void *to_note, const void *a,
                   void *a_note, const void *b, void *b_note, bool one_b) { return refuse("updates"); }
static bool step(void *device, const dfi_remote_step *s) { return refuse("steps"); }
static bool train(void *device, const dfi_remote_train *t) { return refuse("rules"); }
static bool place(void *device, const dfi_remote_place *p) { return refuse("places"); }

static const dfi_remote one_device = {
  .device = &counter, .alloc = allocate, .free = release, .from_host = from_host, .to_host = to_host, .within = within,
  .fill = fill, .update = update, .step = step, .train = train, .place = place,
  .wait = wait_for_all, .error = first_error,
};

/* ---- kernels ------------------------------------------------------------------------------------------------ */

static int32_t binary(df_kernel *k, float (*f)(float, float)) {
  const df_tensor *a = k->in[0], *b = k->in[1], *larger = a->size >= b->size ? a : b;
  if (a->size != b->size && a->size != 1 && b->size != 1)
    return host->fail(k, DF_INVALID_ARGUMENT, "the counting device does not broadcast");
  df_tensor *out = host->out(k, 0, DF_FLOAT32, larger->rank, larger->dims);
  if (!out) return k->error->code;
  void *notes[] = { host->note(a), host->note(b), host->note(out) };
  for (int32_t i = 0; i < 3; i++) opened(notes[i]);
  const float *p = a->data, *q = b->data;
  float *to = out->data;
  for (int64_t i = 0; i < out->size; i++) to[i] = f(p[a->size == 1 ? 0 : i], q[b->size == 1 ? 0 : i]);
  for (int32_t i = 0; i < 3; i++) closed(notes[i]);
  counter.launches++;
  return DF_OK;
}
static float plus(float a, float b) { return a + b; }
static float times(float a, float b) { return a * b; }
static int32_t add(df_kernel *k) { return binary(k, plus); }
static int32_t mul(df_kernel *k) { return binary(k, times); }

static bool takes(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) { return in[0] == DF_FLOAT32; }
static const dfi_gpu_kernel table[] = { { "Add", add, .takes = takes }, { "Mul", mul, .takes = takes } };

/* ---- the door ----------------------------------------------------------------------------------------------- */

static const char *open_device(const dfi_gpu_host *services) { host = services; return NULL; }
static int32_t count(void) { return 1; }
static const dfi_remote *device(int32_t number, char *error, size_t room) { return &one_device; }
static void about(const dfi_remote *r, dfi_gpu_about *out) { *out = (dfi_gpu_about){ .launches = counter.launches }; }
static const dfi_gpu_kernel *kernels(int32_t *n) { *n = sizeof table / sizeof *table; return table; }

__attribute__((visibility("default"))) const dfi_gpu_api dflow_gpu = {
  .version = DFI_GPU_VERSION, .open = open_device, .count = count, .device = device, .about = about, .kernels = kernels,
};
