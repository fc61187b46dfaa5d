// SPDX-License-Identifier: Apache-2.0
// Contexts, and queries of streams: a query while a device without a context is the current one
// would make CUDA give it one.
#include "gpu/cuda/driver.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

bool has_context(int device) {
  const auto driver = find_driver();
  unsigned flags = 0;
  int active = 0;
  return !driver || (*driver)->context_state(device, &flags, &active) != CUDA_SUCCESS ||
         active != 0;
}

Result<bool> is_captured(cudaStream_t stream, int device) {
  const CurrentDevice current(device);
  CCOLL_TRY(current.status());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const auto error = cudaStreamGetCaptureInfo(stream, &status, nullptr);
  if (error == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return fail(ErrorKind::invalid_argument,
                "the default stream cannot be used while a stream that waits for it is captured: "
                "expected another stream, or one made with cudaStreamNonBlocking to be captured");
  }
  CCOLL_TRY(cuda_status(error, "asking whether a stream is captured"));
  if (status == cudaStreamCaptureStatusInvalidated)
    return fail(ErrorKind::invalid_argument, "the stream's capture has failed before");
  return status == cudaStreamCaptureStatusActive;
}

std::optional<int> device_of_stream(cudaStream_t stream, int user) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return {};
  const CurrentDevice current(user);
  int device = 0;
  if (cudaStreamGetDevice(stream, &device) == cudaSuccess) return device;
  (void)cudaGetLastError();  // drivers before 12.8 have no such call
  return {};
}

}  // namespace ccoll::device
