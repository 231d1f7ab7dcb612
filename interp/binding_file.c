/* binding_file.c: files read and written, and the checksums of their parts. */
#include "binding.h"

static int core_read_file(lua_State *L) {
  df_error err;
  df_tensor *t = df_read_file(luaL_checkstring(L, 1), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* inflate(bytes, size): the unpacked string. */
static int core_inflate(lua_State *L) {
  size_t n;
  const char *bytes = luaL_checklstring(L, 1, &n);
  df_error err;
  df_tensor *t = df_inflate(bytes, (int64_t)n, (int64_t)luaL_checknumber(L, 2), &err);
  if (!t) return dfb_raise(L, &err);
  const char *data = df_tensor_data(t);
  lua_pushlstring(L, data ? data : "", (size_t)df_tensor_size(t));
  df_tensor_release(t);
  return 1;
}

static int core_crc32(lua_State *L) {
  size_t n;
  const char *bytes = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, df_crc32(bytes, (int64_t)n));
  return 1;
}

static int core_crc32c(lua_State *L) {
  size_t n;
  const char *bytes = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, df_crc32c(bytes, (int64_t)n));
  return 1;
}

static int core_file_size(lua_State *L) {
  df_error err;
  int64_t n = df_file_size(luaL_checkstring(L, 1), &err);
  if (n < 0) return dfb_raise(L, &err);
  lua_pushinteger(L, n);
  return 1;
}

/* file_read(path, offset, dtype, dims): the tensor that lies there. */
static int core_file_read(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  int64_t dims[DF_MAX_RANK], offset = (int64_t)luaL_checknumber(L, 2);
  int32_t dtype = (int32_t)luaL_checkinteger(L, 3), rank = dfb_dims_arg(L, 4, dims);
  df_error err;
  df_tensor *t = df_file_read(path, offset, dtype, rank < 0 ? 0 : rank, dims, &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* hdf5_list(uint8 tensor): what is in an HDF5 file. */
static int core_hdf5_list(lua_State *L) {
  df_error err;
  df_tensor *t = df_hdf5_list(dfb_tensor_arg(L, 1), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* hdf5_read(uint8 tensor, name) */
static int core_hdf5_read(lua_State *L) {
  df_error err;
  df_tensor *t = df_hdf5_read(dfb_tensor_arg(L, 1), luaL_checkstring(L, 2), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* decode_image(bytes, channels) */
static int core_decode_image(lua_State *L) {
  size_t n;
  const char *bytes = luaL_checklstring(L, 1, &n);
  df_error err;
  df_tensor *t = df_decode_image(bytes, (int64_t)n, (int32_t)luaL_checkinteger(L, 2), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

static int core_folder_list(lua_State *L) {
  df_error err;
  df_tensor *t = df_folder_list(luaL_checkstring(L, 1), &err);
  if (!t) return dfb_raise(L, &err);
  dfb_push_tensor(L, t);
  return 1;
}

/* file_create(path): a file that file_commit makes be there. */
static int core_file_create(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  dfb_box *b = dfb_push_box(L, DFB_FILE);
  df_error err;
  if (!(b->p = df_file_create(path, &err))) return dfb_raise(L, &err);
  return 1;
}

/* file_write(file, string or tensor): the bytes of a tensor are its elements as the machine lays them out. */
static int core_file_write(lua_State *L) {
  df_file *f = dfb_arg(L, 1, DFB_FILE);
  df_tensor *t = dfb_tensor_or_null(L, 2);
  const char *bytes;
  size_t n;
  df_error err;
  if (!t) bytes = luaL_checklstring(L, 2, &n);
  else if (df_tensor_dtype(t) == DF_STRING || df_tensor_dtype(t) == DF_VARIANT)
    return dfb_fail(L, DF_INVALID_ARGUMENT, "a tensor of %ss has no bytes of its own",
                    df_dtype_name(df_tensor_dtype(t)));
  else {
    bytes = df_tensor_data(t);
    n = (size_t)(df_tensor_size(t) * df_dtype_bytes(df_tensor_dtype(t)));
  }
  if (df_file_write(f, bytes, (int64_t)n, &err)) return dfb_raise(L, &err);
  return 0;
}

static int core_file_commit(lua_State *L) {
  df_file *f = dfb_arg(L, 1, DFB_FILE);
  ((dfb_box *)lua_touserdata(L, 1))->p = NULL;
  df_error err;
  if (df_file_commit(f, &err)) return dfb_raise(L, &err);
  return 0;
}

const luaL_Reg dfb_file_functions[] = {
  { "read_file", core_read_file },     { "inflate", core_inflate },       { "crc32", core_crc32 },
  { "crc32c", core_crc32c },           { "file_size", core_file_size },   { "file_read", core_file_read },
  { "folder_list", core_folder_list }, { "file_create", core_file_create }, { "file_write", core_file_write },
  { "file_commit", core_file_commit }, { "decode_image", core_decode_image },
  { "hdf5_list", core_hdf5_list },     { "hdf5_read", core_hdf5_read },
  { NULL, NULL }
};
