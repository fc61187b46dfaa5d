/* SPDX-License-Identifier: Apache-2.0 */
/* A program made for NCCL, of which nothing is ccoll's: its ranks add up numbers, and pass some on in
 * a ring. docs/nccl.md says how it is built and run. The ranks meet by a file, as others do by MPI.
 *
 *   nccl_sum RANK RANKS ID_FILE */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(CALL)                                                                        \
  do {                                                                                     \
    ncclResult_t result = (CALL);                                                          \
    if (result != ncclSuccess) {                                                           \
      fprintf(stderr, "%s: %s\n%s\n", #CALL, ncclGetErrorString(result),                   \
              ncclGetLastError(NULL));                                                     \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

/* Rank 0 makes the id, and all others read it; the file appears as a whole. */
static ncclUniqueId share_id(int rank, const char* path) {
  ncclUniqueId id;
  if (rank == 0) {
    char partial[4096];
    snprintf(partial, sizeof partial, "%s.part", path);
    CHECK(ncclGetUniqueId(&id));
    FILE* file = fopen(partial, "w");
    if (file == NULL || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 ||
        rename(partial, path) != 0) {
      perror(path);
      exit(1);
    }
    return id;
  }
  FILE* file = NULL;
  while ((file = fopen(path, "r")) == NULL) usleep(1000);
  if (fread(&id, sizeof id, 1, file) != 1) exit(1);
  fclose(file);
  return id;
}

int main(int count, char** values) {
  if (count != 4) {
    fprintf(stderr, "usage: nccl_sum RANK RANKS ID_FILE\n");
    return 2;
  }
  int rank = atoi(values[1]);
  int ranks = atoi(values[2]);
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, ranks, share_id(rank, values[3]), rank));

  /* With a GPU these are memory of cudaMalloc, and a stream is given; on the host just memory. */
  float mine[1000], sum[1000], neighbours[1000];
  for (int i = 0; i < 1000; ++i) mine[i] = (float)(rank + 1);
  CHECK(ncclAllReduce(mine, sum, 1000, ncclFloat32, ncclSum, comm, NULL));
  CHECK(ncclGroupStart());
  CHECK(ncclSend(mine, 1000, ncclFloat32, (rank + 1) % ranks, comm, NULL));
  CHECK(ncclRecv(neighbours, 1000, ncclFloat32, (rank + ranks - 1) % ranks, comm, NULL));
  CHECK(ncclGroupEnd());
  printf("rank %d of %d: the sum is %g, the rank before sent %g\n", rank, ranks, sum[999],
         neighbours[999]);
  CHECK(ncclCommDestroy(comm));
  return 0;
}
