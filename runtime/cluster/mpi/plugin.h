/* plugin.h: what libdflow asks of an MPI. MPIs have no common binary interface, so each has a plug-in of its own
 * (libdflow_mpi_openmpi.so, libdflow_mpi_mpich.so), built from plugin.c where its compiler is, and loaded where its
 * launcher started the ranks. No call blocks but begin and end, which all ranks make.
 */
#ifndef DFLOW_MPI_PLUGIN_H
#define DFLOW_MPI_PLUGIN_H
#include <stdbool.h>
#include <stdint.h>

#define DFI_MPI_PLUGIN "dfi_mpi_plugin_1"                /* the function that gives the table */

typedef struct dfi_mpi_peer {
  int64_t pid;
  int32_t first;                   /* the lowest rank on its host */
  char host[64];
} dfi_mpi_peer;

typedef struct dfi_mpi_plugin {
  /* What each of `size` ranks is, by rank. 0; else why not, as a sentence. */
  const char *(*begin)(int32_t rank, int32_t size, dfi_mpi_peer *peers);
  bool    (*send)(int32_t to, const void *bytes, int64_t n);        /* copies; false: too much is under way to it */
  int64_t (*receive)(int32_t from, void *to, int64_t room);         /* 0: there is none */
  void    (*end)(void);
} dfi_mpi_plugin;
#endif
