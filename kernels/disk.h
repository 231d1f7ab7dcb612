/* disk.h: compiled code kept on disk, for what compiles while programs run: libdflow (loops, for the processor) and its
 * plug-in for GPUs (kernels), each with a folder of its own. It knows nothing of what the code is.
 *
 * A file is named by its key, which is a hash of all that the code depends on. It is whole, or not read: a sum goes
 * before it. It is written under another name first, so others find all of it or nothing. It must be this user's,
 * and no other user may write it. Of a folder that has become too large what was not used for longest goes.
 */
#ifndef DFLOW_DISK_H
#define DFLOW_DISK_H
#include <stddef.h>
#include <stdint.h>

typedef struct dfk_disk {
  const char *variable;          /* of the environment: the folder; empty: nothing is kept */
  const char *folder;            /* else $XDG_CACHE_HOME/dflow/<folder>, or ~/.cache/dflow/<folder> */
  const char *suffix;            /* of files' names */
  char        magic[8];
  uint64_t    most;              /* bytes of the folder */
} dfk_disk;

typedef struct dfk_disk_key { uint64_t half[2]; } dfk_disk_key;
#define DFK_DISK_KEY (dfk_disk_key){ { 1469598103934665603ull, 0x9e3779b97f4a7c15ull } }
void dfk_disk_hash(dfk_disk_key *key, const void *p, size_t bytes);
void dfk_disk_hash_text(dfk_disk_key *key, const char *text);

/* malloc's, or NULL: it is not there, not whole, or not to be trusted. */
void *dfk_disk_read(const dfk_disk *d, const dfk_disk_key *key, size_t *bytes);
/* What cannot be written is not kept. */
void dfk_disk_write(const dfk_disk *d, const dfk_disk_key *key, const void *code, size_t bytes);
#endif
