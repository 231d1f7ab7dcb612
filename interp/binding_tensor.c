/* binding_tensor.c: numbers, booleans, strings and tables to tensors and back. */
#include "binding.h"
#include <math.h>
#include <string.h>

/* ---- scalars --------------------------------------------------------------------------------- */
static bool to_int(lua_State *L, int arg, int64_t low, int64_t high, int64_t *out) {
  if (lua_type(L, arg) != LUA_TNUMBER) return false;
  int exact;
  *out = lua_tointegerx(L, arg, &exact);    /* a float with an integer value counts */
  return exact && *out >= low && *out <= high;
}

bool dfb_to_scalar(lua_State *L, int arg, int32_t dtype, df_value *out) {
  int64_t i;
  memset(out, 0, sizeof *out);
  out->kind = DF_SCALAR;
  out->dtype = (uint8_t)dtype;
  switch (dtype) {
    case DF_FLOAT32:
      if (lua_type(L, arg) != LUA_TNUMBER) return false;
      out->as.f32 = (float)lua_tonumber(L, arg);
      return true;
    case DF_FLOAT64:
      if (lua_type(L, arg) != LUA_TNUMBER) return false;
      out->as.f64 = lua_tonumber(L, arg);
      return true;
    case DF_INT32: case DF_QINT32:
      if (!to_int(L, arg, INT32_MIN, INT32_MAX, &i)) return false;
      out->as.i32 = (int32_t)i;
      return true;
    case DF_INT64:
      if (!to_int(L, arg, INT64_MIN, INT64_MAX, &i)) return false;
      out->as.i64 = i;
      return true;
    case DF_UINT8: case DF_QUINT8:
      if (!to_int(L, arg, 0, UINT8_MAX, &i)) return false;
      out->as.u8 = (uint8_t)i;
      return true;
    case DF_INT8: case DF_QINT8:
      if (!to_int(L, arg, INT8_MIN, INT8_MAX, &i)) return false;
      out->as.i8 = (int8_t)i;
      return true;
    case DF_INT16: case DF_QINT16:
      if (!to_int(L, arg, INT16_MIN, INT16_MAX, &i)) return false;
      out->as.i16 = (int16_t)i;
      return true;
    case DF_UINT16: case DF_QUINT16:
      if (!to_int(L, arg, 0, UINT16_MAX, &i)) return false;
      out->as.u16 = (uint16_t)i;
      return true;
    case DF_UINT32:
      if (!to_int(L, arg, 0, UINT32_MAX, &i)) return false;
      out->as.u32 = (uint32_t)i;
      return true;
    case DF_UINT64: {
      if (to_int(L, arg, 0, INT64_MAX, &i)) { out->as.u64 = (uint64_t)i; return true; }
      double v = lua_type(L, arg) == LUA_TNUMBER ? (double)lua_tonumber(L, arg) : -1;     /* past INT64_MAX: a float */
      if (!(v >= 0x1p63 && v < 0x1p64)) return false;
      out->as.u64 = (uint64_t)v;
      return true;
    }
    case DF_BOOL:
      if (lua_type(L, arg) != LUA_TBOOLEAN) return false;
      out->as.b = lua_toboolean(L, arg);
      return true;
  }
  return false;
}

/* Lua's integers end at INT64_MAX: what is larger becomes a float. */
static void push_uint64(lua_State *L, uint64_t v) {
  if (v <= INT64_MAX) lua_pushinteger(L, (lua_Integer)v);
  else lua_pushnumber(L, (lua_Number)v);
}

static void push_element(lua_State *L, const df_tensor *t, int64_t i) {
  switch (df_tensor_dtype(t)) {
    case DF_BOOL:
      lua_pushboolean(L, df_tensor_get_int(t, i) != 0);
      break;
    case DF_INT32: case DF_INT64: case DF_INT8: case DF_UINT8: case DF_INT16: case DF_UINT16: case DF_UINT32:
    case DF_QINT8: case DF_QUINT8: case DF_QINT16: case DF_QUINT16: case DF_QINT32:
      lua_pushinteger(L, df_tensor_get_int(t, i));
      break;
    case DF_UINT64:
      push_uint64(L, (uint64_t)df_tensor_get_int(t, i));
      break;
    case DF_COMPLEX64: case DF_COMPLEX128:
      lua_createtable(L, 0, 2);
      lua_pushnumber(L, df_tensor_get(t, i));
      lua_setfield(L, -2, "re");
      lua_pushnumber(L, df_tensor_imaginary(t, i));
      lua_setfield(L, -2, "im");
      break;
    case DF_VARIANT:
      lua_pushliteral(L, "<variant>");
      break;
    case DF_STRING: {
      int64_t n;
      const char *bytes = df_tensor_string(t, i, &n);
      lua_pushlstring(L, bytes, (size_t)n);
      break;
    }
    default:
      lua_pushnumber(L, df_tensor_get(t, i));
  }
}

static double from_half(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 0 ? ldexp(fraction, -24)
           : exponent == 31 ? (fraction ? NAN : INFINITY) : ldexp(fraction + 1024, exponent - 25);
  return h & 0x8000 ? -v : v;
}

static double from_bfloat16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

void dfb_push_value(lua_State *L, df_value *v) {
  if (v->kind == DF_TENSOR) {
    df_tensor *t = v->as.tensor;
    v->kind = DF_EMPTY;
    if (df_tensor_rank(t) > 0 || df_tensor_dtype(t) == DF_VARIANT) {
      dfb_push_tensor(L, t);
    } else {
      push_element(L, t, 0);
      df_tensor_release(t);
    }
    return;
  }
  if (v->kind != DF_SCALAR) {      /* an operation, which has no value: it ran */
    df_value_release(v);
    lua_pushboolean(L, 1);
    return;
  }
  switch (v->dtype) {
    case DF_BOOL:     lua_pushboolean(L, v->as.b); break;
    case DF_FLOAT32:  lua_pushnumber(L, v->as.f32); break;
    case DF_FLOAT64:  lua_pushnumber(L, v->as.f64); break;
    case DF_INT32:    lua_pushinteger(L, v->as.i32); break;
    case DF_INT64:    lua_pushinteger(L, v->as.i64); break;
    case DF_UINT64:   push_uint64(L, v->as.u64); break;
    case DF_UINT32:   lua_pushinteger(L, v->as.u32); break;
    case DF_QINT32:   lua_pushinteger(L, v->as.i32); break;
    case DF_INT16: case DF_QINT16:   lua_pushinteger(L, v->as.i16); break;
    case DF_UINT16: case DF_QUINT16: lua_pushinteger(L, v->as.u16); break;
    case DF_INT8: case DF_QINT8:     lua_pushinteger(L, v->as.i8); break;
    case DF_UINT8: case DF_QUINT8:   lua_pushinteger(L, v->as.u8); break;
    case DF_FLOAT16:  lua_pushnumber(L, from_half(v->as.u16)); break;
    case DF_BFLOAT16: lua_pushnumber(L, from_bfloat16(v->as.u16)); break;
    default:          lua_pushnil(L);
  }
}

void dfb_push_value_as_tensor(lua_State *L, df_value *v) {
  df_tensor *t = v->as.tensor;
  if (v->kind == DF_SCALAR) {
    df_error err;
    if (!(t = df_tensor_new(v->dtype, 0, NULL, &err))) {
      dfb_raise(L, &err);
      return;
    }
    memcpy(df_tensor_data(t), &v->as, (size_t)df_dtype_bytes(v->dtype));
  } else if (v->kind != DF_TENSOR) {
    dfb_push_value(L, v);
    return;
  }
  v->kind = DF_EMPTY;
  dfb_push_tensor(L, t);
}

/* ---- tables ------------------------------------------------------------------------------------ */
/* A number, or a table {re =, im =}. */
static bool set_complex(lua_State *L, df_tensor *t, int64_t i) {
  if (lua_type(L, -1) == LUA_TNUMBER) return df_tensor_set_complex(t, i, lua_tonumber(L, -1), 0);
  if (lua_type(L, -1) != LUA_TTABLE) return false;
  bool re = lua_getfield(L, -1, "re") == LUA_TNUMBER, im = lua_getfield(L, -2, "im") == LUA_TNUMBER;
  double x = re ? lua_tonumber(L, -2) : 0, y = im ? lua_tonumber(L, -1) : 0;
  lua_pop(L, 2);
  return re && im && df_tensor_set_complex(t, i, x, y);
}

/* Element i of t from the value on top of the stack: false when the dtype cannot hold it. */
static bool set_element(lua_State *L, df_tensor *t, int32_t dtype, int64_t i) {
  df_value v;
  switch (dtype) {
    case DF_STRING: {
      if (lua_type(L, -1) != LUA_TSTRING) return false;
      size_t n;
      const char *bytes = lua_tolstring(L, -1, &n);
      return df_tensor_set_string(t, i, bytes, (int64_t)n, NULL) == DF_OK;
    }
    case DF_COMPLEX64: case DF_COMPLEX128: return set_complex(L, t, i);
    case DF_FLOAT16: case DF_BFLOAT16:
      return lua_type(L, -1) == LUA_TNUMBER && df_tensor_set(t, i, lua_tonumber(L, -1));
  }
  if (!dfb_to_scalar(L, -1, dtype, &v)) return false;
  switch (df_dtype_bytes(dtype)) {
    case 8:  ((uint64_t *)df_tensor_data(t))[i] = v.as.u64; break;
    case 4:  ((uint32_t *)df_tensor_data(t))[i] = v.as.u32; break;
    case 2:  ((uint16_t *)df_tensor_data(t))[i] = v.as.u16; break;
    default: ((uint8_t *)df_tensor_data(t))[i] = v.as.u8;
  }
  return true;
}

/* tensor_new(dtype, dims, flat): a tensor of these elements in row-major order; flat may hold one element to be
 * repeated. When the dtype cannot hold element k: nil, k (from 1). */
static int core_tensor_new(lua_State *L) {
  int32_t dtype = (int32_t)luaL_checkinteger(L, 1);
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfb_dims_arg(L, 2, dims);
  luaL_checktype(L, 3, LUA_TTABLE);
  df_error err;
  df_tensor *t = df_tensor_new(dtype, rank < 0 ? 0 : rank, dims, &err);
  if (!t) return dfb_raise(L, &err);
  int64_t n = df_tensor_size(t), given = (int64_t)lua_rawlen(L, 3);
  for (int64_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, given == 1 ? 1 : i + 1);
    if (!set_element(L, t, dtype, i)) {
      df_tensor_release(t);
      lua_pushnil(L);
      lua_pushinteger(L, i + 1);
      return 2;
    }
    lua_pop(L, 1);
  }
  dfb_push_tensor(L, t);
  return 1;
}

/* tensor_from_bytes(dtype, dims, bytes): as the machine lays them out. The length must fit. */
static int core_tensor_from_bytes(lua_State *L) {
  int32_t dtype = (int32_t)luaL_checkinteger(L, 1);
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfb_dims_arg(L, 2, dims);
  size_t n;
  const char *bytes = luaL_checklstring(L, 3, &n);
  df_error err;
  df_tensor *t = df_tensor_new(dtype, rank < 0 ? 0 : rank, dims, &err);
  if (!t) return dfb_raise(L, &err);
  int64_t want = df_tensor_size(t) * df_dtype_bytes(dtype);
  if (dtype == DF_STRING || dtype == DF_VARIANT || want != (int64_t)n) {
    df_tensor_release(t);
    return dfb_fail(L, DF_INVALID_ARGUMENT, "%d bytes of %s given, %d expected", (int)n, df_dtype_name(dtype),
                    (int)want);
  }
  if (dtype == DF_BOOL) for (size_t i = 0; i < n; i++) ((bool *)df_tensor_data(t))[i] = bytes[i] != 0;
  else if (n) memcpy(df_tensor_data(t), bytes, n);
  dfb_push_tensor(L, t);
  return 1;
}

static int core_tensor_bytes(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  int32_t dtype = df_tensor_dtype(t);
  if (dtype == DF_STRING || dtype == DF_VARIANT)
    return dfb_fail(L, DF_INVALID_ARGUMENT, "a tensor of %ss has no bytes of its own", df_dtype_name(dtype));
  const char *data = df_tensor_data(t);
  lua_pushlstring(L, data ? data : "", (size_t)(df_tensor_size(t) * df_dtype_bytes(dtype)));
  return 1;
}

/* tensor_info(t) -> dtype, rank, size */
static int core_tensor_info(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  lua_pushinteger(L, df_tensor_dtype(t));
  lua_pushinteger(L, df_tensor_rank(t));
  lua_pushinteger(L, df_tensor_size(t));
  return 3;
}

/* tensor_summary(t): {min, mean, max, deviation, finite, nan, inf, histogram}, nil for what holds no real numbers. */
static int core_tensor_summary(lua_State *L) {
  df_summary s;
  if (!df_tensor_summary(dfb_tensor_arg(L, 1), &s)) return 0;
  const struct { const char *name; double v; } fields[] = {
    { "min", s.min }, { "mean", s.mean }, { "max", s.max }, { "finite", (double)s.finite }, { "nan", (double)s.nan },
    { "inf", (double)s.inf }, { "deviation", s.deviation }
  };
  lua_createtable(L, 0, 8);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    lua_pushnumber(L, fields[i].v);
    lua_setfield(L, -2, fields[i].name);
  }
  lua_createtable(L, DF_SUMMARY_BINS, 0);
  for (int i = 0; i < DF_SUMMARY_BINS; i++) {
    lua_pushnumber(L, (lua_Number)s.histogram[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "histogram");
  return 1;
}

static int core_tensor_shape(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  int32_t rank = df_tensor_rank(t);
  lua_createtable(L, rank, 0);
  for (int32_t i = 0; i < rank; i++) {
    lua_pushinteger(L, df_tensor_dim(t, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* tensor_get(t, i): element i in row-major order, from 0. The caller has checked i. */
static int core_tensor_get(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  int64_t i = (int64_t)luaL_checknumber(L, 2);
  if (i < 0 || i >= df_tensor_size(t))
    return dfb_fail(L, DF_OUT_OF_RANGE, "element %d of a tensor of %d", (int)i, (int)df_tensor_size(t));
  push_element(L, t, i);
  return 1;
}

/* tensor_list(t): all elements in row-major order, as a Lua list. */
static int core_tensor_list(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  int64_t n = df_tensor_size(t);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    push_element(L, t, i);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int core_tensor_reshape(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfb_dims_arg(L, 2, dims);
  df_error err;
  df_tensor *r = df_tensor_reshape(t, rank < 0 ? 0 : rank, dims, &err);
  if (!r) return dfb_raise(L, &err);
  dfb_push_tensor(L, r);
  return 1;
}

static int core_tensor_cast(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  df_error err;
  df_tensor *r = df_tensor_cast(t, (int32_t)luaL_checkinteger(L, 2), &err);
  if (!r) return dfb_raise(L, &err);
  dfb_push_tensor(L, r);
  return 1;
}

/* tensor_rows(t, rows, first, count): a new tensor of t's rows rows[first], ..., rows[first + count - 1]; rows count
 * from 0, places in the list from 1. */
static int core_tensor_rows(lua_State *L) {
  df_tensor *t = dfb_tensor_arg(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int64_t first = luaL_checkinteger(L, 3), count = luaL_checkinteger(L, 4);
  int32_t rank = df_tensor_rank(t), dtype = df_tensor_dtype(t);
  if (rank < 1 || dtype == DF_VARIANT)
    return dfb_fail(L, DF_INVALID_ARGUMENT,
                    "rows are taken of numbers or strings of rank 1 or more, not of %s of rank %d",
                    df_dtype_name(dtype), rank);
  int64_t dims[DF_MAX_RANK], n = df_tensor_dim(t, 0), each = 1, row;
  dims[0] = count;
  for (int32_t i = 1; i < rank; i++) each *= dims[i] = df_tensor_dim(t, i);
  row = each * df_dtype_bytes(dtype);
  df_error err;
  df_tensor *r = df_tensor_new(dtype, rank, dims, &err);
  if (!r) return dfb_raise(L, &err);
  for (int64_t i = 0; i < count; i++) {
    lua_rawgeti(L, 2, first + i);
    int64_t at = lua_tointeger(L, -1);
    lua_pop(L, 1);
    if (at < 0 || at >= n) {
      df_tensor_release(r);
      return dfb_fail(L, DF_OUT_OF_RANGE, "row %d of a tensor of %d rows", (int)at, (int)n);
    }
    for (int64_t j = 0; dtype == DF_STRING && j < each; j++) {
      int64_t length;
      const char *s = df_tensor_string(t, at * each + j, &length);
      if (df_tensor_set_string(r, i * each + j, s, length, &err)) {
        df_tensor_release(r);
        return dfb_raise(L, &err);
      }
    }
    if (row && dtype != DF_STRING)
      memcpy((char *)df_tensor_data(r) + i * row, (char *)df_tensor_data(t) + at * row, (size_t)row);
  }
  dfb_push_tensor(L, r);
  return 1;
}

const luaL_Reg dfb_tensor_functions[] = {
  { "tensor_new", core_tensor_new },     { "tensor_from_bytes", core_tensor_from_bytes },
  { "tensor_bytes", core_tensor_bytes }, { "tensor_info", core_tensor_info },
  { "tensor_summary", core_tensor_summary },
  { "tensor_shape", core_tensor_shape }, { "tensor_get", core_tensor_get },
  { "tensor_list", core_tensor_list },   { "tensor_reshape", core_tensor_reshape },
  { "tensor_cast", core_tensor_cast },   { "tensor_rows", core_tensor_rows },
  { NULL, NULL }
};
