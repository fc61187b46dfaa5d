/* SPDX-License-Identifier: Apache-2.0 */
/* Each function while a stream is captured, on a GPU. It is a separate program, linked with the
 * face and the CUDA that the host plays. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { COUNT = 4 };
static cudaStream_t stream;
static float *in, *out;

static void must(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

static void begin(void) {
  must("cudaMemset", cudaMemset(out, 0, COUNT * sizeof out[0]));
  must("cudaStreamBeginCapture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

static bool launch(void) {
  cudaGraph_t graph = NULL;
  cudaGraphExec_t ready = NULL;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return false;
  const bool is_well = cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess &&
                       cudaGraphLaunch(ready, stream) == cudaSuccess &&
                       cudaStreamSynchronize(stream) == cudaSuccess;
  if (ready != NULL) must("cudaGraphExecDestroy", cudaGraphExecDestroy(ready));
  must("cudaGraphDestroy", cudaGraphDestroy(graph));
  return is_well;
}

static bool is_copied(void) {
  float both[2][COUNT];
  must("cudaMemcpy", cudaMemcpy(both[0], in, sizeof both[0], cudaMemcpyDeviceToHost));
  must("cudaMemcpy", cudaMemcpy(both[1], out, sizeof both[1], cudaMemcpyDeviceToHost));
  return memcmp(both[0], both[1], sizeof both[0]) == 0;
}

#define OK_OF(NAME, ...) expect("captured", #NAME, OK, NAME(__VA_ARGS__))

/* A captured call runs only when it is launched. */
static void check_results(void) {
  now_testing("captured", "results");
  const ncclComm_t comm = alone(true);
  begin();
  OK_OF(ncclAllReduce, in, out, COUNT, ncclFloat32, ncclSum, comm, stream);
  require(!is_copied(), "a captured call has not run");
  require(launch() && is_copied(), "a captured call runs when its graph is launched");
  begin();
  group_starts();
  OK_OF(ncclSend, in, COUNT, ncclFloat32, 0, comm, stream);
  OK_OF(ncclRecv, out, COUNT, ncclFloat32, 0, comm, stream);
  group_ends(OK);
  require(launch() && is_copied(), "captured messages come when their graph is launched");
  /* The first input element, 1, is also the factor. */
  ncclRedOp_t scaled = ncclSum;
  OK_OF(ncclRedOpCreatePreMulSum, &scaled, in, ncclFloat32, ncclScalarDevice, comm);
  begin();
  OK_OF(ncclAllReduce, in, out, COUNT, ncclFloat32, scaled, comm, stream);
  OK_OF(ncclRedOpDestroy, scaled, comm);
  require(launch() && is_copied(),
          "a factor in memory of a GPU is read when its graph is launched");
  OK_OF(ncclCommDestroy, comm);
}

/* Functions outside of the table, such as those without a communicator. */
static void check_others(void) {
  now_testing("captured", "others");
  const ncclComm_t comm = alone(true);
  begin();
  ncclUniqueId id;
  OK_OF(ncclGetUniqueId, &id);
  ncclComm_t another = NULL;
  OK_OF(ncclCommInitRank, &another, 1, id, 0);
  OK_OF(ncclCommDestroy, another);
  void* memory = NULL;
  OK_OF(ncclMemAlloc, &memory, 4096);
  void* handle = NULL;
  OK_OF(ncclCommRegister, comm, in, COUNT * sizeof in[0], &handle);
  OK_OF(ncclCommDeregister, comm, handle);
  require(launch() && !is_copied(), "none of all this is in the graph, or ends the capture");
  OK_OF(ncclMemFree, memory);
  OK_OF(ncclCommDestroy, comm);
}

int main(void) {
  const float values[COUNT] = {1, 2, 3, 4};
  void* memory = NULL;
  must("cudaMalloc", cudaMalloc(&memory, 4096));
  in = memory;
  out = in + COUNT;
  must("cudaMemcpy", cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice));
  must("cudaStreamCreateWithPriority",
       cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  const Capture capture = {stream, in, out, begin, launch};
  check_captured(&capture);
  check_results();
  check_others();
  must("cudaStreamDestroy", cudaStreamDestroy(stream));
  must("cudaFree", cudaFree(memory));
  return verdict();
}
