/* table.c: tables of a session, with TensorFlow's names: HashTableV2, which is filled once, and MutableHashTableV2.
 * The types of TensorFlow's first version (HashTable) differ in name only. A MutableDenseHashTable is a
 * MutableHashTable that refuses two keys, by which TensorFlow's marks what is empty.
 *
 * LookupTableFilled is dflow's own: it fills a table the first time it runs and gives its handle, so that a lookup
 * by that handle comes after, in loops and branches too.
 */
#include "op/run.h"
#include "resource/resource.h"
#include "ops/table.h"

enum { KEY, VALUE, CONTAINER, SHARED_NAME, USE_NODE_NAME, VALUE_SHAPE };   /* of those that make one */

/* ---- what is known while building ------------------------------------------------------------------------ */

static int32_t shape_table(dfi_infer *c) {
  const int32_t key = (int32_t)c->node->attrs[KEY].i;
  c->node->out[0].shape = dfi_shape_scalar();
  if (key == DF_INT64 || key == DF_INT32 || key == DF_STRING) return DF_OK;
  return dfi_infer_fail(c, "the keys of a table are int32, int64 or string, not %s", df_dtype_name(key));
}

/* The values are the keys' shape, then the default's. */
static int32_t shape_find(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 1);
  const dfi_shape *none = dfi_in_shape(c, 2);
  if (s.rank < 0 || none->rank < 0 || s.rank + none->rank > DF_MAX_RANK) return DF_OK;
  for (int32_t i = 0; i < none->rank; i++) s.dims[s.rank + i] = none->dims[i];
  s.rank = (int8_t)(s.rank + none->rank);
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t shape_export(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_vector(-1);
  return DF_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------- */

static dfi_handle *make(void *user, df_error *err) { return (dfi_handle *)dfi_table_new(user, err); }

static dfi_table *table_of(df_kernel *k, const dfi_shape *element, bool grows) {
  const char *shared = dfk_string(k, SHARED_NAME);
  const df_node *n = dfi_run_node(k->run);
  dfi_table_spec spec = { .name = shared[0] ? shared : dfi_node_name((df_node *)n), .key = (uint8_t)dfk_int(k, KEY),
                          .value = (uint8_t)dfk_int(k, VALUE), .element = *element, .grows = grows };
  dfi_table *t = dfi_resource_get(k->run, DFI_TABLE, dfk_string(k, CONTAINER), shared, make, &spec, k->error);
  if (!t) return NULL;
  if (t->key != spec.key || t->value != spec.value || t->grows != grows || !dfi_shape_equal(&t->element, element)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the session has a table '%s' already, from %s to %s", t->name,
             df_dtype_name(t->key), df_dtype_name(t->value));
    return NULL;
  }
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(t) };
  return t;
}
static int32_t kernel_table(df_kernel *k) {
  return table_of(k, &(dfi_shape){ .rank = 0 }, false) ? DF_OK : k->error->code;
}
static int32_t kernel_mutable(df_kernel *k) {
  return table_of(k, &(dfi_shape){ .rank = 0 }, true) ? DF_OK : k->error->code;
}
static dfi_table *mutable_of_tensors(df_kernel *k) {
  const dfi_shape element = dfi_shape_of((int32_t)k->attrs[VALUE_SHAPE].i, k->attrs[VALUE_SHAPE].ints);
  char text[160];
  if (dfi_shape_known(&element)) return table_of(k, &element, true);
  dfk_fail(k, DF_INVALID_ARGUMENT, "value_shape is %s but must be known", dfi_shape_text(&element, text));
  return NULL;
}
static int32_t kernel_mutable_of_tensors(df_kernel *k) { return mutable_of_tensors(k) ? DF_OK : k->error->code; }

static int32_t kernel_dense(df_kernel *k) {
  if (k->in[0]->rank || k->in[1]->rank)
    return dfk_fail(k, DF_UNIMPLEMENTED, "empty_key has rank %d and deleted_key rank %d: the keys of a table are "
                    "scalars here", k->in[0]->rank, k->in[1]->rank);
  if (k->in[0]->dtype != dfk_int(k, KEY) || k->in[1]->dtype != dfk_int(k, KEY))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "empty_key is %s and deleted_key %s, but the table's keys are %s",
                    df_dtype_name(k->in[0]->dtype), df_dtype_name(k->in[1]->dtype),
                    df_dtype_name((int32_t)dfk_int(k, KEY)));
  dfi_table *t = mutable_of_tensors(k);
  return t ? dfi_table_refuse(t, k, k->in[0], k->in[1]) : k->error->code;
}

static dfi_table *table_in(df_kernel *k) { return dfi_handle_in(k, 0, DFI_TABLE); }

static int32_t locked(df_kernel *k, int32_t (*fn)(dfi_table *, df_kernel *)) {
  dfi_table *t = table_in(k);
  if (!t) return k->error->code;
  pthread_mutex_lock(&t->lock);
  const int32_t code = fn(t, k);
  pthread_mutex_unlock(&t->lock);
  return code;
}

static int32_t insert(dfi_table *t, df_kernel *k) { return dfi_table_insert(t, k, false); }
/* What fills a HashTable once, as InitializeTableV2 does, gives one that grows other entries. */
static int32_t import(dfi_table *t, df_kernel *k) {
  return t->grows ? dfi_table_insert(t, k, true) : dfi_table_fill(t, k);
}
static int32_t size(dfi_table *t, df_kernel *k) {
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT64, .as.i64 = dfi_table_size(t) };
  return DF_OK;
}
static int32_t kernel_find(df_kernel *k)   { return locked(k, dfi_table_find); }
static int32_t kernel_insert(df_kernel *k) { return locked(k, insert); }
static int32_t kernel_import(df_kernel *k) { return locked(k, import); }
static int32_t kernel_fill(df_kernel *k)   { return locked(k, dfi_table_fill); }
static int32_t kernel_file(df_kernel *k)   { return locked(k, dfi_table_fill_from_file); }
static int32_t kernel_remove(df_kernel *k) { return locked(k, dfi_table_remove); }
static int32_t kernel_export(df_kernel *k) { return locked(k, dfi_table_export); }
static int32_t kernel_size(df_kernel *k)   { return locked(k, size); }
static int32_t kernel_filled(df_kernel *k) {
  const int32_t code = locked(k, dfi_table_fill);
  if (!code) k->out[0] = dfi_value_copy(k->raw[0]);
  return code;
}

/* ---- entries ----------------------------------------------------------------------------------------------- */

#define GIVEN "key_dtype:dtype value_dtype:dtype container:string='' shared_name:string='' " \
              "use_node_name_sharing:bool=false"
#define BOTH(OP, TYPE, ...) OP(TYPE, __VA_ARGS__), OP(TYPE "V2", __VA_ARGS__)
#define TABLE(TYPE, IN, ATTRS, KERNEL, DOC) \
  { .type = TYPE, .in = IN, .out = "table_handle:handle", .attrs = ATTRS, .doc = DOC, \
    .stateful = true, .no_grad = true, .shape = shape_table, .kernel = { [DF_REF] = KERNEL } }
#define CHANGE(TYPE, IN, TYPES, KERNEL, DOC) \
  { .type = TYPE, .in = IN, .out = "", .types = TYPES, .doc = DOC, \
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = KERNEL } }
#define ASK(TYPE, IN, OUT, TYPES, ATTRS, SHAPE, KERNEL, DOC) \
  { .type = TYPE, .in = IN, .out = OUT, .types = TYPES, .attrs = ATTRS, .doc = DOC, \
    .stateful = true, .ordered = true, .no_grad = true, .shape = SHAPE, .kernel = { [DF_REF] = KERNEL } }
#define KEYS "int32|int64|string"
#define PAIRS "table_handle:handle keys:Tin values:Tout"
#define TYPES "Tin=" KEYS " Tout=any"

#define FROM_FILE(TYPE, ...) \
  { .type = TYPE, .in = "table_handle:handle filename:string", .out = "", \
    .attrs = "key_index:int[-2..] value_index:int[-2..] vocab_size:int[-1..]=-1 delimiter:string='\\t' " \
             "offset:int[0..]=0", \
    .doc = "fills a table that was not filled yet from the lines of a file: -1 is a line's number, -2 all of " \
           "it, 0 its first " \
           "column. The path begins with a string that the run was fed", \
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_file } }

static const df_op ops[] = {
  BOTH(TABLE, "HashTable", "", GIVEN, kernel_table, "a handle of the session's table, which is filled once"),
  BOTH(TABLE, "MutableHashTable", "", GIVEN, kernel_mutable,
       "a handle of the session's table, whose entries come and go"),
  BOTH(TABLE, "MutableHashTableOfTensors", "", GIVEN " value_shape:shape=[]", kernel_mutable_of_tensors,
       "a MutableHashTable whose values have a shape"),
  TABLE("MutableDenseHashTableV2", "empty_key:" KEYS " deleted_key:" KEYS,
        GIVEN " value_shape:shape=[] initial_num_buckets:int=131072 max_load_factor:float=0.8", kernel_dense,
        "a MutableHashTable of which empty_key and deleted_key can be no keys"),
  BOTH(CHANGE, "InitializeTable", "table_handle:handle keys:Tkey values:Tval", "Tkey=" KEYS " Tval=any",
       kernel_fill, "fills a table that was not filled yet"),
  BOTH(FROM_FILE, "InitializeTableFromTextFile", ),
  { .type = "LookupTableFilled", .in = PAIRS, .out = "handle:handle", .types = TYPES,
    .doc = "the table, once it is filled: the first time with these keys and values",
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_filled } },
  BOTH(ASK, "LookupTableFind", "table_handle:handle keys:Tin default_value:Tout", "values:Tout", TYPES, "", shape_find,
       kernel_find, "the values of keys; default_value where a key is not there"),
  BOTH(CHANGE, "LookupTableInsert", PAIRS, TYPES, kernel_insert, "keys have these values from then on"),
  BOTH(CHANGE, "LookupTableImport", PAIRS, TYPES, kernel_import,
       "the table has these entries and no others; one that does not change is filled with them, once"),
  CHANGE("LookupTableRemoveV2", "table_handle:handle keys:Tin", "Tin=" KEYS, kernel_remove,
         "keys are in the table no more; those that are not there are left out"),
  BOTH(ASK, "LookupTableSize", "table_handle:handle", "size:int64", "", "", dfi_shape_all_scalar, kernel_size,
       "how many entries the table has"),
  BOTH(ASK, "LookupTableExport", "table_handle:handle", "keys:Tkeys values:Tvalues",
       "Tkeys=" KEYS " Tvalues=any", "Tkeys:dtype Tvalues:dtype", shape_export, kernel_export,
       "all keys and their values, in the order in which they came while none was removed"),
};
const dfi_op_table dfi_ops_table = { ops, (int32_t)(sizeof ops / sizeof *ops) };
