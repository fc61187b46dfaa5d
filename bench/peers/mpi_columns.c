// SPDX-License-Identifier: Apache-2.0
// MPI's side of bench/costs/columns_cost.cpp: columns of a matrix of float32 as vector types.
//
//     mpicc -O3 bench/peers/mpi_columns.c -o mpi-columns && mpirun -n 2 ./mpi-columns
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 41 };
static const int kShapes[][2] = {{4096, 1},  {65536, 1},  {4096, 16}, {65536, 16},
                                 {256, 256}, {4096, 256}, {64, 4096}, {1024, 4096}};

struct Matrices {
  int rows, width, rank, size;
  float *in, *out;
  MPI_Datatype columns;  // one rank's, so long that the next one's begin behind them
};

static void all_gather(const struct Matrices* m) {
  MPI_Allgather(m->in + m->rank * m->width, 1, m->columns, m->out, 1, m->columns, MPI_COMM_WORLD);
}

static void all_to_all(const struct Matrices* m) {
  MPI_Alltoall(m->in, 1, m->columns, m->out, 1, m->columns, MPI_COMM_WORLD);
}

static void send_recv(const struct Matrices* m) {
  MPI_Sendrecv(m->in, 1, m->columns, (m->rank + 1) % m->size, 0, m->out, 1, m->columns,
               (m->rank + m->size - 1) % m->size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

// Microseconds per call on the slowest rank: the median of all rounds.
static double median_us(const struct Matrices* m, void (*call)(const struct Matrices*)) {
  double times[kRounds];
  int calls = 3;
  for (int round = -1; round < kRounds; round++) {
    call(m);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < calls; i++) call(m);
    double took = 1e6 * (MPI_Wtime() - begin) / calls;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 0) {
      times[round] = took;
    } else {
      calls = took > 2000 ? 1 : took < 2 ? 1000 : (int)(2000 / took);
    }
  }
  qsort(times, kRounds, sizeof times[0], compare);
  return times[kRounds / 2];
}

static void measure(int rows, int width) {
  struct Matrices m = {.rows = rows, .width = width};
  MPI_Comm_rank(MPI_COMM_WORLD, &m.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &m.size);
  const size_t elems = (size_t)rows * width * m.size;
  m.in = malloc(elems * sizeof(float));
  m.out = malloc(elems * sizeof(float));
  for (size_t i = 0; i < elems; i++) m.in[i] = m.out[i] = 1;
  MPI_Datatype vector;
  MPI_Type_vector(rows, width, width * m.size, MPI_FLOAT, &vector);
  MPI_Type_create_resized(vector, 0, (MPI_Aint)(width * sizeof(float)), &m.columns);
  MPI_Type_commit(&m.columns);
  const double times[] = {median_us(&m, all_gather), median_us(&m, all_to_all),
                          median_us(&m, send_recv)};
  static const char* const kNames[] = {"all_gather", "all_to_all", "send_recv"};
  for (int i = 0; i < 3 && m.rank == 0; i++)
    printf("%8d%9d  %-15s%12.1f\n", rows, width, kNames[i], times[i]);
  MPI_Type_free(&m.columns);
  MPI_Type_free(&vector);
  free(m.in);
  free(m.out);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%8s%9s  %-15s%12s\n", "rows", "columns", "operation", "median us");
  for (size_t i = 0; i < sizeof kShapes / sizeof kShapes[0]; i++)
    measure(kShapes[i][0], kShapes[i][1]);
  MPI_Finalize();
  return 0;
}
