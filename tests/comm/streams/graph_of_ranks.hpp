// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Several ranks of one thread, each on its GPU, whose streams are captured in one graph.

#include <span>

#include "devices.hpp"
#include "support/gpu/cuda_on_host.hpp"

namespace ccoll::testing {

/// The streams of several ranks as branches of one graph, which begins and ends in the first.
class Branches {
 public:
  explicit Branches(std::span<const OwnedStream> streams) : streams_(streams) {
    for (const auto& stream : streams) {
      int device = 0;
      check_cuda(cudaStreamGetDevice(stream, &device), "asking for a stream's device");
      check_cuda(cudaSetDevice(device), "a device");
      check_cuda(cudaEventCreateWithFlags(&events_.emplace_back(), cudaEventDisableTiming),
                 "making an event");
    }
  }
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;
  ~Branches() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void fork() const {
    check_cuda(cudaEventRecord(events_[0], streams_[0]), "recording an event");
    for (const auto& other : streams_.subspan(1))
      check_cuda(cudaStreamWaitEvent(other, events_[0], 0), "waiting for an event");
  }
  void join() const {
    for (std::size_t i = 1; i < streams_.size(); i++) {
      check_cuda(cudaEventRecord(events_[i], streams_[i]), "recording an event");
      check_cuda(cudaStreamWaitEvent(streams_[0], events_[i], 0), "waiting for an event");
    }
  }

 private:
  std::span<const OwnedStream> streams_;
  std::vector<cudaEvent_t> events_;  // on the device of each stream
};

/// GPUs of one thread's ranks; the first rank's is current before and after.
class GpusOfRanks {
 public:
  GpusOfRanks() { use_gpu_of(0); }
  GpusOfRanks(const GpusOfRanks&) = delete;
  GpusOfRanks& operator=(const GpusOfRanks&) = delete;
  ~GpusOfRanks() { cudaSetDevice(gpu_of(0)); }

  static std::vector<int> of(int ranks) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; rank++) all.push_back(gpu_of(rank));
    return all;
  }
  static OwnedStream stream(int rank) {
    check_cuda(cudaSetDevice(gpu_of(rank)), "a device");
    return OwnedStream();
  }
  static Device memory(int rank, const Values& values) {
    check_cuda(cudaSetDevice(gpu_of(rank)), "a device");
    return Device(values);
  }
};

}  // namespace ccoll::testing
