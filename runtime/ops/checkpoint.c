/* checkpoint.c: the ops by which TensorFlow's graphs save and restore variables.
 *
 * A graph comes from anywhere, so it may not name files by itself: a path begins with a string that the run was fed, or
 * the graph was imported with leave to touch files.
 */
#include "resource/checkpoint.h"
#include "ops/files.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *text_of(const df_tensor *t, int64_t i) {
  int64_t n;
  const char *s = df_tensor_string(t, i, &n);
  char *copy = memcpy(dfi_xcalloc((size_t)n + 1, 1), n ? s : "", (size_t)n);
  return copy;
}

static bool names_match(df_kernel *k, int64_t tensors, bool parts) {
  const df_tensor *names = k->in[1], *slices = k->in[2];
  if (names->size != tensors || slices->size != tensors) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%lld names and %lld slices for %lld tensors", (long long)names->size,
             (long long)slices->size, (long long)tensors);
    return false;
  }
  for (int64_t i = 0, n; i < tensors; i++) {
    df_tensor_string(slices, i, &n);
    if (!n || parts) continue;
    dfk_fail(k, DF_UNIMPLEMENTED, "slice %lld is not empty: parts of tensors are not saved", (long long)i);
    return false;
  }
  return true;
}

static int32_t write_all(df_kernel *k, const char *path, int32_t n, const char **name, const df_tensor *const *tensor) {
  return dfi_checkpoint_write(path, n, name, tensor, k->error);
}

/* prefix, tensor_names, shape_and_slices, tensors */
static int32_t kernel_save(df_kernel *k) {
  const int32_t n = k->nin - 3;
  if (!names_match(k, n, false)) return k->error->code;
  char *path = dfi_path_input(k, 0);
  if (!path) return k->error->code;
  char *slash = strrchr(path, '/');
  if (slash && slash > path) {                 /* the folder in which a saver collects parts */
    *slash = 0;
    mkdir(path, 0777);
    *slash = '/';
  }
  const char **name = dfi_xcalloc((size_t)n + 1, sizeof *name);
  for (int32_t i = 0; i < n; i++) name[i] = text_of(k->in[1], i);
  const int32_t code = write_all(k, path, n, name, k->in + 3);
  for (int32_t i = 0; i < n; i++) dfi_free((void *)(uintptr_t)name[i]);
  dfi_free(name); dfi_free(path);
  return code;
}

/* prefix, tensor_names, shape_and_slices */
static int32_t kernel_restore(df_kernel *k) {
  if (!names_match(k, k->nout, true)) return k->error->code;
  char *path = dfi_path_input(k, 0);
  if (!path) return k->error->code;
  dfi_checkpoint *c = dfi_checkpoint_open(path, k->error);
  int32_t code = c ? DF_OK : k->error->code;
  for (int32_t i = 0; i < k->nout && !code; i++) {
    char *name = (char *)(uintptr_t)text_of(k->in[1], i), *part = (char *)(uintptr_t)text_of(k->in[2], i);
    df_tensor *t = dfi_checkpoint_read(c, name, part, k->error);
    if (!t) code = k->error->code;
    else if (t->dtype != k->out_dtype[i]) {
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s in the checkpoint, %s is expected", name,
                      df_dtype_name(t->dtype), df_dtype_name(k->out_dtype[i]));
      df_tensor_release(t);
    } else dfk_out_tensor(k, i, t);
    dfi_free(name); dfi_free(part);
  }
  dfi_checkpoint_close(c);
  dfi_free(path);
  return code;
}

/* Removes the files of a checkpoint that went into another. */
static void remove_parts(const char *prefix) {
  dfi_checkpoint_remove(prefix);
  char *path = dfi_xstrdup(prefix);
  char *slash = strrchr(path, '/');
  if (slash && slash > path) { *slash = 0; rmdir(path); }       /* where it is empty now */
  dfi_free(path);
}

typedef struct merged { const char **name; df_tensor **tensor; int32_t n, cap, tensors, tensors_cap; } merged;

static int32_t read_part(df_kernel *k, merged *m, const char *prefix) {
  dfi_checkpoint *c = dfi_checkpoint_open(prefix, k->error);
  int32_t code = c ? DF_OK : k->error->code;
  for (int32_t i = 0; c && i < dfi_checkpoint_count(c) && !code; i++) {
    df_tensor *t = dfi_checkpoint_read(c, dfi_checkpoint_name(c, i), NULL, k->error);
    if (!t) { code = k->error->code; break; }
    DFI_GROW(m->name, m->n, m->cap);
    DFI_GROW(m->tensor, m->tensors, m->tensors_cap);
    const char *name = dfi_checkpoint_name(c, i);
    m->name[m->n++] = strcpy(dfi_xmalloc(strlen(name) + 1), name);
    m->tensor[m->tensors++] = t;
  }
  dfi_checkpoint_close(c);
  return code;
}

/* checkpoint_prefixes, destination_prefix */
static int32_t kernel_merge(df_kernel *k) {
  char *to = dfi_path_input(k, 1);
  if (!to) return k->error->code;
  merged m = { 0 };
  int32_t code = DF_OK;
  for (int64_t i = 0, n; i < k->in[0]->size && !code; i++) {
    const char *s = df_tensor_string(k->in[0], i, &n);
    if (!dfk_may_touch(k, 0, s, n)) {
      code = k->error->code;
      break;
    }
    char *part = (char *)(uintptr_t)text_of(k->in[0], i);
    code = read_part(k, &m, part);
    dfi_free(part);
  }
  if (!code) code = write_all(k, to, m.n, m.name, (const df_tensor *const *)m.tensor);
  for (int64_t i = 0; i < k->in[0]->size && !code && dfk_bool(k, 0); i++) {
    char *part = (char *)(uintptr_t)text_of(k->in[0], i);
    if (strcmp(part, to)) remove_parts(part);
    dfi_free(part);
  }
  dfi_free(to);
  for (int32_t i = 0; i < m.n; i++) { dfi_free((void *)(uintptr_t)m.name[i]); df_tensor_release(m.tensor[i]); }
  dfi_free(m.name); dfi_free(m.tensor);
  return code;
}

static int32_t kernel_sharded(df_kernel *k) {
  int64_t n, shard, shards;
  if (!dfk_integer(k, 1, "shard", &shard) || !dfk_integer(k, 2, "num_shards", &shards)) return k->error->code;
  const char *s = df_tensor_string(k->in[0], 0, &n);
  char *text = dfi_xmalloc((size_t)n + 64);
  const int length =
      snprintf(text, (size_t)n + 64, "%.*s-%05lld-of-%05lld", (int)n, s, (long long)shard, (long long)shards);
  df_tensor *t = dfk_out(k, 0, DF_STRING, 0, NULL);
  const bool good = t && dfk_set_string(k, t, 0, text, length);
  dfi_free(text);
  return good ? DF_OK : k->error->code;
}

/* path, parts: strings as their bytes, other tensors as their elements lie in memory. */
static int32_t kernel_write_whole(df_kernel *k) {
  char *path = dfi_path_input(k, 0);
  if (!path) return k->error->code;
  df_file *f = df_file_create(path, k->error);
  int32_t code = f ? DF_OK : k->error->code;
  for (int32_t i = 1; i < k->nin && !code; i++) {
    const df_tensor *t = k->in[i];
    if (dfk_plain(t->dtype)) {
      code = df_file_write(f, t->data, t->size * dfi_dtype_size[t->dtype], k->error);
      continue;
    }
    for (int64_t c = 0; t->dtype == DF_STRING && c < t->size && !code; c++) {
      const df_str *s = (const df_str *)t->data + c;
      code = df_file_write(f, s->bytes, s->length, k->error);
    }
  }
  if (f && code) df_file_discard(f);
  else if (f) code = df_file_commit(f, k->error);
  dfi_free(path);
  return code;
}

static int32_t kernel_nothing(df_kernel *k) { return DF_OK; }

static const df_op ops[] = {
  { .type = "SaveV2", .in = "prefix:string tensor_names:string shape_and_slices:string tensors:any*", .out = "",
    .doc = "writes the tensors as a TensorFlow checkpoint under their names. The path begins with a string that the "
    "run was fed",
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_save } },
  { .type = "RestoreV2", .in = "prefix:string tensor_names:string shape_and_slices:string", .out = "tensors:dtypes*",
    .attrs = "dtypes:types",
    .doc = "the tensors of these names in a TensorFlow checkpoint. The path begins with a string that the run was fed",
    .stateful = true, .no_grad = true, .kernel = { [DF_REF] = kernel_restore } },
  { .type = "WriteWholeFile", .in = "path:string parts:any*", .out = "",
    .doc = "writes the parts, one behind the other, to a file that is there whole or not at all. The path begins with "
    "a string that the run was fed",
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_write_whole } },
  { .type = "MergeV2Checkpoints", .in = "checkpoint_prefixes:string destination_prefix:string", .out = "",
    .attrs = "delete_old_dirs:bool=true allow_missing_files:bool=false",
    .doc = "several checkpoints as one; the several are removed",
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_merge } },
  { .type = "ShardedFilename", .in = "basename:string shard:int32 num_shards:int32", .out = "filename:string",
    .doc = "basename-00000-of-00001", .no_grad = true, .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_sharded } },
  { .type = "DisableCopyOnRead", .hosted = true, .in = "resource:handle", .out = "",
    .doc = "nothing: reads of variables never copy here",
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_nothing } },
};
const dfi_op_table dfi_ops_checkpoint = { ops, sizeof ops / sizeof *ops };
