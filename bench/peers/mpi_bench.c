/* SPDX-License-Identifier: Apache-2.0 */
/* Times one MPI collective on float32 in host memory, for bench/compare.
 *
 * Usage: mpirun -n N mpi_bench [--fresh] [--first] OP BYTES...
 *   OP: all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv barrier
 *
 * Sizes are cc-bench's: the bytes of the larger of a rank's input and output. Each figure is the
 * median over batches of a batch's mean time per call, and of each batch the slowest rank counts.
 * With --fresh each rank writes its input again before every call, which does not count.
 * OP may also be start: one call, and then the time of the clock that counts from the machine's start
 * (bench/start).
 * With --first the very first call of a size is timed, too, and the mean of the second to the 20th.
 * One CSV row per size, without a heading: op,ranks,bytes,usec[,first_us,early_us]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 9, kMostCalls = 20000, kFewestCalls = 3, kEarlyCalls = 20 };
static const double kBatchSeconds = 0.05;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void call(const char *op, float *in, float *out, size_t count, int rank, int n) {
  const int total = (int)count, part = (int)(count / (size_t)n);
  if (!strcmp(op, "all_reduce"))
    MPI_Allreduce(in, out, total, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (!strcmp(op, "all_gather"))
    MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  else if (!strcmp(op, "reduce_scatter"))
    MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (!strcmp(op, "all_to_all"))
    MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  else if (!strcmp(op, "broadcast"))
    MPI_Bcast(in, total, MPI_FLOAT, 0, MPI_COMM_WORLD);
  else if (!strcmp(op, "reduce"))
    MPI_Reduce(in, out, total, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  else if (!strcmp(op, "send_recv"))
    MPI_Sendrecv(in, total, MPI_FLOAT, (rank + 1) % n, 0, out, total, MPI_FLOAT,
                 (rank + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else if (!strcmp(op, "barrier"))
    MPI_Barrier(MPI_COMM_WORLD);
  else {
    fprintf(stderr, "mpi_bench: no operation '%s'\n", op);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

static void renew(const char *op, float *in, size_t count, int rank) {
  if (rank != 0 && !strcmp(op, "broadcast")) return;
  for (size_t i = 0; i < count; i += 16) *(volatile float *)&in[i] = 1.0f;
}

static int fresh; /* from the command line */

/* Seconds per call of the slowest rank. */
static double seconds_of_batch(const char *op, float *in, float *out, size_t count, int rank, int n,
                               int iters) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime(), spent = 0;
  for (int i = 0; i < iters; i++) {
    if (fresh) {
      renew(op, in, count, rank);
      start = MPI_Wtime();
    }
    call(op, in, out, count, rank, n);
    if (fresh) spent += MPI_Wtime() - start;
  }
  const double mine = (fresh ? spent : MPI_Wtime() - start) / iters;
  double slowest;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static double seconds_per_call(const char *op, float *in, float *out, size_t count, int rank,
                               int n) {
  call(op, in, out, count, rank, n); /* the first one sets up connections */
  const double start = MPI_Wtime();
  for (int i = 0; i < 3; i++) call(op, in, out, count, rank, n);
  const double calls = kBatchSeconds / ((MPI_Wtime() - start) / 3 + 1e-9);
  int iters = calls < kFewestCalls ? kFewestCalls : calls > kMostCalls ? kMostCalls : (int)calls;
  MPI_Bcast(&iters, 1, MPI_INT, 0, MPI_COMM_WORLD);
  double batch[kBatches];
  for (int b = 0; b < kBatches; b++)
    batch[b] = seconds_of_batch(op, in, out, count, rank, n, iters);
  qsort(batch, kBatches, sizeof(double), by_value);
  return batch[kBatches / 2];
}

static void start(int rank) {
  double one = 1, sum;
  MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (rank == 0) printf("%.6f\n", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, n;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  int a = 1, times_first = 0;
  if (a < argc && !strcmp(argv[a], "--fresh")) fresh = 1, a++;
  if (a < argc && !strcmp(argv[a], "--first")) times_first = 1, a++;
  if (argc < a + 2) {
    if (rank == 0) fprintf(stderr, "usage: mpi_bench [--fresh] [--first] OP BYTES...\n");
    MPI_Finalize();
    return 2;
  }
  const char *op = argv[a++];
  if (!strcmp(op, "start")) {
    start(rank);
    MPI_Finalize();
    return 0;
  }
  for (; a < argc; a++) {
    const size_t bytes = strtoull(argv[a], NULL, 10), count = bytes / sizeof(float);
    float *in = malloc(bytes + sizeof(float)), *out = malloc(bytes + sizeof(float));
    if (!in || !out) MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < count; i++) in[i] = 1.0f, out[i] = 0.0f;
    double first = 0, early = 0;
    if (times_first) {
      first = seconds_of_batch(op, in, out, count, rank, n, 1);
      early = seconds_of_batch(op, in, out, count, rank, n, kEarlyCalls - 1);
    }
    const double seconds = seconds_per_call(op, in, out, count, rank, n);
    if (rank == 0) {
      printf("%s,%d,%zu,%.3f", op, n, bytes, seconds * 1e6);
      if (times_first) printf(",%.3f,%.3f", first * 1e6, early * 1e6);
      printf("\n");
    }
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
