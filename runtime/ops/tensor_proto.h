/* tensor_proto.h: TensorFlow's tensor message as a tensor. */
#ifndef DFLOW_TENSOR_PROTO_H
#define DFLOW_TENSOR_PROTO_H
#include "base/internal.h"
#include "graphdef.pb-c.h"

/* A TensorProto as a tensor, owned. `what` (`attr value of node x`) begins the message. What the tensor has beyond the
 * elements that are listed is taken from *unpack bytes (NULL: there is no budget). NULL: err is filled. */
df_tensor *dfi_tensor_from_proto(const Pb__TensorProto *p, const char *what, int64_t *unpack, df_error *err);
/* The dims of a TensorShapeProto, at most DF_MAX_RANK; -1 as the rank when it is not known. False: err is filled. */
bool dfi_proto_dims(const Pb__TensorShapeProto *s, int32_t *rank, int64_t *dims, const char *what, df_error *err);
#endif
