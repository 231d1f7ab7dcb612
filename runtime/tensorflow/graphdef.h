/* graphdef.h: a TensorFlow graph as a message, read from a file's bytes. */
#ifndef DFLOW_GRAPHDEF_H
#define DFLOW_GRAPHDEF_H
#include "graph/graph.h"
#include "ops/tensor_proto.h"

typedef struct dfi_graphdef {
  Pb__GraphDef     *graph;   /* never NULL; all of it lies in the arena */
  Pb__MetaGraphDef *meta;    /* what the graph came in (signatures, collections), or NULL */
  dfi_arena         arena;
  int64_t           budget;  /* bytes that the messages may still take: a file that asks for more is hostile */
  bool              spent;
  int64_t           unpack;  /* bytes that tensors may still take beyond what the file holds of them */
  int32_t           gradients;   /* functions that were differentiated for this graph */
  struct dfi_graphdef *next;     /* owned: graphs whose messages are used in this one */
} dfi_graphdef;

/* Reads a GraphDef, or the first graph of a MetaGraphDef or SavedModel, in binary or text form, gzipped or not.
 * Owned; NULL: err says what is wrong and where. */
dfi_graphdef *dfi_graphdef_read(const char *bytes, int64_t n, df_error *err);
void          dfi_graphdef_free(dfi_graphdef *d);
/* The bytes of a `func` attribute as a message, which lives as long as d. NULL: err is filled. */
Pb__NameAttrList *dfi_graphdef_function(dfi_graphdef *d, ProtobufCBinaryData func, df_error *err);

/* The bytes of an entry of the collection `variables`, likewise; NULL: they are none. */
Pb__VariableDef *dfi_graphdef_variable(dfi_graphdef *d, ProtobufCBinaryData variable);

/* graphdef_text.c: is this text form? Its wire form, allocated with malloc; the message's type is found out. */
bool    dfi_graphdef_is_text(const char *bytes, int64_t n);
char *dfi_graphdef_from_text(const char *text, int64_t n, const ProtobufCMessageDescriptor **type, int64_t *size,
                             df_error *err);
#endif
