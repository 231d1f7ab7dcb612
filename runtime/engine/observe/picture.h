/* picture.h: what an owner has of a paused run, as bytes: frames, iterations, counts, values, tokens, calls,
 * messages and counters. Of these another rank makes a dfi_exec without a thread, which is read as the owner's own is.
 *
 * Numbers and small tensors are in the picture. A large tensor, a variable and an array are described there
 * without their elements, and with where these are: they are fetched from there while the run is paused.
 */
#ifndef DFLOW_PICTURE_H
#define DFLOW_PICTURE_H
#include "base/packet.h"
#include "engine/executor.h"

/* Where a far value lies: an owner of the plan, and there a place among its iterations (-1: its frame's constants; and
 * with frame -1: what is given). */
typedef struct dfi_far_place { int32_t owner, frame, record, slot; } dfi_far_place;

/* Adds x's picture. x is paused. */
void dfi_picture_write(dfi_exec *x, dfi_packet *to);
/* The owner whose picture it is; x is another one of the run, which lends what all have alike. Owned; NULL: these bytes
 * are none. *n: how many of them it took. */
dfi_exec *dfi_picture_read(const dfi_exec *x, const void *bytes, size_t *n);
void dfi_picture_free(dfi_exec *seen);

/* Where the value lies; false: it is not far. */
bool dfi_far(const df_value *v, dfi_far_place *place);
/* What another rank has told of an array that it holds; NULL: v is no such array. */
const df_array_info *dfi_far_array(const df_value *v);
/* The value at a place of x's, borrowed; NULL: there is none. x has been paused since its picture. */
const df_value *dfi_picture_value(dfi_exec *x, const dfi_far_place *place);
#endif
