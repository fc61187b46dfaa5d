// SPDX-License-Identifier: Apache-2.0

/// The device's own threads, host functions in streams, and objects that graphs own.

#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

namespace {

/// The device's own threads: one drives streams while no caller waits, the other runs host
/// functions, one after another.
class Motor {
 public:
  void start() {
    const std::lock_guard lock(mu);
    if (!threads_.empty()) return;
    for (const auto step : {&step_unless_broken, &run_host_function}) {
      threads_.emplace_back([step](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (!step()) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
      });
    }
  }

 private:
  static bool step_unless_broken() {
    const std::lock_guard lock(mu);
    return broken_by == cudaSuccess && step_streams();
  }
  static bool run_host_function() {
    std::function<void()> function;
    {
      const std::lock_guard lock(mu);
      if (host_functions.empty()) return false;
      function = std::move(host_functions.front());
      host_functions.pop_front();
    }
    in_host_function = true;
    function();
    in_host_function = false;
    return true;
  }

  std::vector<std::jthread> threads_;  // guarded by mu
} motor;

/// An object that the captured graph owns and destroys with itself.
struct UserObject {
  void* what;
  cudaHostFn_t destroy;
};

}  // namespace

void start_motor() { motor.start(); }

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  use_current_device();
  start_motor();
  const std::lock_guard lock(mu);
  const auto calls = std::make_shared<Runs>();
  put(stream, [=] {
    ++calls->begun;
    host_functions.emplace_back([=] {
      function(argument);
      ++calls->ended;
    });
  });
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.is_ready = [calls] { return calls->ended == calls->begun; };
  put(stream, std::move(ended));
  return cudaSuccess;
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* what, cudaHostFn_t destroy,
                                 unsigned /*count*/, unsigned /*flags*/) {
  *object = reinterpret_cast<cudaUserObject_t>(new UserObject{what, destroy});
  return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t given, unsigned /*count*/) {
  const std::unique_ptr<UserObject> object(reinterpret_cast<UserObject*>(given));
  object->destroy(object->what);
  return cudaSuccess;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t given, unsigned /*count*/,
                                      unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  const std::unique_ptr<UserObject> object(reinterpret_cast<UserObject*>(given));
  // The thread for host functions destroys it after the graph's last reference is gone.
  graph->objects.emplace_back(object->what, [destroy = object->destroy](void* what) {
    start_motor();
    const std::lock_guard last(mu);
    host_functions.emplace_back([destroy, what] { destroy(what); });
  });
  return cudaSuccess;
}

}  // extern "C"
