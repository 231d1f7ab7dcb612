/* binding.h: what the files of the Lua 5.4 module `dflow.core` share.
 *
 * The module is a flat table of functions that mirror dflow.h; stdlib/dflow/backend/ffi.lua gives LuaJIT the same
 * table. Both are called by the Lua front end only. Conventions of the table:
 *   - a graph, session or run is a userdata that owns it;
 *   - a tensor is a Lua table {handle = userdata} whose metatable is core.Tensor;
 *   - lists of outputs are flat Lua lists {node, index, node, index, ...}; node ids and indices count from 0;
 *   - dtypes are dflow.h's numbers; shapes are Lua lists, nil for an unknown rank;
 *   - what fails raises a table {code, message, op, frame, source} whose metatable is core.Error.
 * Errors are raised here and nowhere else, when everything owned has been released: a Lua error jumps over C frames.
 */
#ifndef DFLOW_BINDING_H
#define DFLOW_BINDING_H
#include "../runtime/dflow.h"
#include <lauxlib.h>
#include <lua.h>

enum { DFB_TENSOR = 0x7e450001, DFB_GRAPH, DFB_SESSION, DFB_RUN, DFB_SNAPSHOT, DFB_FILE };

/* A userdata of ours. `p` is NULL once it was closed. */
typedef struct dfb_box { uint32_t magic; void *p; } dfb_box;

/* One per Lua state: the upvalue of every function. */
enum { DFB_STACKS = 1024 };
typedef struct dfb_state {
  lua_State *L;              /* the thread that is in df_gradients, for the custom gradient's callback */
  lua_State *host_L;         /* the thread that is in a run, or waits for one, for functions that are ops */
  int32_t    host;           /* df_host_open's; -1: none yet */
  char       own[2][512];    /* prefixes of the chunk names that are dflow's own */
  size_t     own_length[2];
  uint64_t   stack_key[DFB_STACKS];  /* stacks of the user's frames that were seen, by their hash; 0: none */
  int32_t    stack_id[DFB_STACKS];
  bool       at;             /* nodes are of core.at's line, which is in the registry by &at, not of the user's */
  int32_t    at_callers;     /* the number of its callers; 0: none */
  int32_t    stacks;         /* how many have a number: their texts are in the registry, by it */
  int64_t    charged;        /* bytes of tensors and nodes made since the last full collection */
  int64_t    threshold;      /* collect when `charged` passes this */
} dfb_state;

/* Upvalues: the state, the metatable of tensor tables, of errors, and of the four kinds of userdata. */
enum { DFB_UP_STATE = 1, DFB_UP_TENSOR, DFB_UP_ERROR, DFB_UP_BOX, DFB_UPVALUES = 4 };

static inline dfb_state *dfb_state_of(lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(DFB_UP_STATE));
}

/* binding.c */
void      *dfb_arg(lua_State *L, int arg, uint32_t magic);    /* raises when it is none, or is closed */
df_tensor *dfb_tensor_arg(lua_State *L, int arg);             /* borrowed */
df_tensor *dfb_tensor_or_null(lua_State *L, int arg);         /* borrowed; NULL when it is no tensor */
dfb_box   *dfb_push_box(lua_State *L, uint32_t magic);        /* p is NULL: fill it */
void       dfb_push_tensor(lua_State *L, df_tensor *t);       /* consumes t */
void       dfb_charge(lua_State *L, int64_t bytes);           /* tells the collector; may collect */
int        dfb_raise(lua_State *L, const df_error *err);
int        dfb_fail(lua_State *L, int32_t code, const char *format, ...);
/* A Lua list of integers; in `buffer` when it fits, else in a userdata that is left on the stack. nil is the empty
   list. */
int32_t   *dfb_ints_arg(lua_State *L, int arg, int32_t *n, int32_t *buffer, int32_t room);
/* Dims into dims[DF_MAX_RANK]; the rank, -1 for nil. */
int32_t    dfb_dims_arg(lua_State *L, int arg, int64_t *dims);
void       dfb_push_ints(lua_State *L, int32_t n, const int32_t *v);
/* A field of the table on top. */
void       dfb_set_int(lua_State *L, const char *key, int64_t v);
void       dfb_set_number(lua_State *L, const char *key, double v);
void       dfb_set_bool(lua_State *L, const char *key, bool v);
void       dfb_set_text(lua_State *L, const char *key, const char *v);      /* NULL: "" */
/* A Lua number or boolean as an unboxed scalar of that dtype: false when the dtype cannot hold it. Not for strings,
 * float16, bfloat16, complex numbers and variants. */
bool       dfb_to_scalar(lua_State *L, int arg, int32_t dtype, df_value *out);
void       dfb_push_value(lua_State *L, df_value *v);         /* consumes what v holds: rank 0 becomes a Lua value */
void       dfb_push_value_as_tensor(lua_State *L, df_value *v);  /* the same, but rank 0 stays a tensor */

extern const luaL_Reg dfb_tensor_functions[], dfb_graph_functions[], dfb_run_functions[], dfb_import_functions[],
                      dfb_check_functions[], dfb_draw_functions[], dfb_watch_functions[], dfb_file_functions[],
                      dfb_cluster_functions[];
#endif
