// SPDX-License-Identifier: Apache-2.0
// For builds with CUDA, whose headers only this file includes.
#include "gpu/cuda/cuda.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ccoll/memory.hpp"
#include "faces/nccl/device/device.hpp"
#include "faces/nccl/results.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::nccl::device {
namespace {

using ccoll::device::BesideCaptures;
using ccoll::device::CurrentDevice;
using ccoll::device::OwnEvent;

void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // the caller's own check must not find this one
  refuse(ncclUnhandledCudaError, "{}: {} ({})", what, cudaGetErrorString(error),
         cudaGetErrorName(error));
}

/// The same for the first question of a program that may lack a GPU.
void check_presence(cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  refuse(ncclUnhandledCudaError,
         "CUDA finds no GPU: {} ({}); set CCOLL_NCCL_HOST=1 for communicators over memory of the "
         "host",
         cudaGetErrorString(error), cudaGetErrorName(error));
}

/// The number of the capture that a stream is in; 0: none.
unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  const auto error = cudaStreamGetCaptureInfo(stream, &status, &id);
  // While another stream is captured, the default stream is in no capture itself.
  if (error == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return 0;
  }
  check(error, "asking whether a stream is captured");
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

/// A stream as one thread names it: cudaStreamPerThread is another stream in each thread.
struct Named {
  cudaStream_t stream = nullptr;
  std::thread::id thread;

  explicit Named(cudaStream_t named) : stream(named) {
    if (stream == cudaStreamPerThread) thread = std::this_thread::get_id();
  }
  friend bool operator==(const Named&, const Named&) = default;
};

OwnEvent new_event() {
  const BesideCaptures beside;
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return OwnEvent(event);
}

/// A place behind a call, where another stream can wait for it.
struct Behind {
  OwnEvent event;
  std::optional<Named> stream;     ///< where the call was; nothing: no call yet
  unsigned long long capture = 0;  ///< the capture of that call

  void record(cudaStream_t in, unsigned long long in_capture) {
    if (!event) event = new_event();
    check(cudaEventRecord(event.get(), in), "recording an event behind a call");
    stream = Named(in);
    capture = in_capture;
  }
};

/// Memory that ncclMemAlloc has given out.
struct Given {
  std::map<void*, Memory> by_address;
};

Guarded<Given>& given_out() { return Runtime::one<Guarded<Given>>(); }

/// The calls of one communicator.
struct Calls {
  Behind plain;
  Behind captured;  ///< of the newest capture
  std::vector<OwnEvent> spare;
  unsigned long long capture = 0;  ///< of the calls that follow

  Behind& behind() { return capture == 0 ? plain : captured; }

  /// Makes each of several streams wait for the work in the others.
  void join(std::span<const cudaStream_t> streams) {
    while (spare.size() < streams.size()) spare.push_back(new_event());
    for (std::size_t i = 0; i < streams.size(); i++)
      check(cudaEventRecord(spare[i].get(), streams[i]), "recording an event in a stream");
    for (std::size_t i = 0; i < streams.size(); i++)
      for (std::size_t j = 0; j < streams.size(); j++)
        if (i != j)
          check(cudaStreamWaitEvent(streams[i], spare[j].get(), 0), "having streams wait");
  }
};

}  // namespace

int current() {
  // Says more about what is missing than cudaGetDevice, which may return 0 without any GPU.
  if (count() == 0) check_presence(cudaErrorNoDevice);
  int device = 0;
  check_presence(cudaGetDevice(&device));
  return device;
}

int count() {
  int devices = 0;
  check_presence(cudaGetDeviceCount(&devices));
  return devices;
}

struct Current::State {
  explicit State(int device) : current(device) {}
  CurrentDevice current;
};

Current::Current(int device) {
  if (device < 0) return;
  int before = 0;
  if (cudaGetDevice(&before) == cudaSuccess && before == device) return;
  state_ = std::make_unique<State>(device);
  if (const auto& status = state_->current.status(); !status)
    refuse(ncclUnhandledCudaError, "{}", status.error().message);
}

Current::~Current() = default;

struct Order::State {
  Guarded<Calls> calls;
};

Order::Order() = default;
Order::~Order() = default;

void Order::before(std::span<const cudaStream_t> streams) {
  if (!state_) state_ = std::make_unique<State>();
  const auto calls = state_->calls.lock();
  calls->capture = capture_of(streams.front());
  for (const auto stream : streams)
    if (capture_of(stream) != calls->capture)
      refuse(ncclInvalidUsage,
             "a group has both captured and uncaptured streams of one communicator: expected all "
             "in one graph, or none");
  const auto& last = calls->behind();
  const bool is_awaited = last.stream && last.capture == calls->capture;
  for (const auto stream : streams)
    if (is_awaited && !(Named(stream) == *last.stream))
      check(cudaStreamWaitEvent(stream, last.event.get(), 0), "waiting for the call before");
  if (streams.size() > 1) calls->join(streams);
}

void Order::after(std::span<const cudaStream_t> streams) {
  const auto calls = state_->calls.lock();
  if (streams.size() > 1) calls->join(streams);
  calls->behind().record(streams.back(), calls->capture);
}

bool Order::is_busy() {
  if (!state_) return false;
  const auto calls = state_->calls.lock();
  if (!calls->plain.stream) return false;
  const BesideCaptures beside;
  const bool is_busy = cudaEventQuery(calls->plain.event.get()) == cudaErrorNotReady;
  (void)cudaGetLastError();
  return is_busy;
}

void Order::wait(const std::function<bool()>& is_over) {
  constexpr std::chrono::microseconds kLongest{1000};
  for (auto pause = std::chrono::microseconds(10); is_busy() && !is_over();
       pause = std::min(2 * pause, kLongest))
    std::this_thread::sleep_for(pause);
}

void* allocate(std::size_t bytes) {
  const auto needed = std::max<std::size_t>(bytes, 1);
  const int device = current();
  const BesideCaptures beside;
  try {
    auto memory = ccoll::allocate(needed, Where::device, device);
    void* const at = memory.data();
    given_out().lock()->by_address.emplace(at, std::move(memory));
    return at;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
  }
  void* at = nullptr;
  check(cudaMalloc(&at, needed), "allocating memory of a GPU");
  return at;
}

void release(void* memory) {
  if (given_out().lock()->by_address.erase(memory) > 0) return;
  check(cudaFree(memory), "freeing memory of a GPU");
}

}  // namespace ccoll::nccl::device
