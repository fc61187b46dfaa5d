// SPDX-License-Identifier: Apache-2.0
// Memory registered by ncclCommRegister that another process keeps open, over GPUs that the host
// plays. It is a separate program because it forks.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <new>
#include <string>
#include <thread>

#include "nccl/nccl.h"
#include "support/gpu/cuda_on_host.hpp"
#include "support/logged.hpp"

namespace {

using namespace std::chrono_literals;
using ccoll::testing::count_of;
using ccoll::testing::logged;

constexpr std::size_t kCount = 100'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

void ok(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
}
void ok(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// Memory shared by the two processes.
struct Shared {
  ncclUniqueId id;
  std::atomic<bool> has_id{false};
  std::atomic<int> opened{0};  ///< how many of rank 0's memories rank 1 has open
  std::atomic<int> sums{0};    ///< how many calls rank 1 has made; `opened` is their outcome
};

/// One rank of two, both on GPU 0.
class Member {
 public:
  Member(const Shared& shared, int number) {
    ok(cudaSetDevice(0));
    ok(ncclCommInitRank(&comm, 2, shared.id, number));
    ok(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    for (auto* const each : {&input, &output}) {
      void* memory = nullptr;
      ok(cudaMalloc(&memory, kBytes));
      ok(cudaMemset(memory, 0, kBytes));
      *each = static_cast<float*>(memory);
    }
    ok(ncclCommRegister(comm, input, kBytes, &handle));
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() { ncclCommDestroy(comm); }

  void sum() {
    ok(ncclAllReduce(input, output, kCount, ncclFloat, ncclSum, comm, stream));
    ok(cudaStreamSynchronize(stream));
  }
  void free() {
    for (auto* const each : {input, output}) ok(cudaFree(each));
    ok(cudaStreamDestroy(stream));
  }

  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* input = nullptr;
  float* output = nullptr;
  void* handle = nullptr;
};

/// Calls that are made at most, until memory is lent. A call does not wait for a rank that has
/// not opened it yet.
constexpr int kMostSums = 500;

/// Rank 1, which stops once it has opened rank 0's registered memory.
void be_the_other(Shared& shared) {
  while (!shared.has_id) std::this_thread::yield();
  Member member(shared, 1);
  while (shared.opened == 0 && shared.sums < kMostSums) {
    member.sum();
    shared.opened = cuda_on_host_opened();
    shared.sums++;
  }
  raise(SIGSTOP);
  ok(ncclCommDeregister(member.comm, member.handle));
}

/// A stopped process closes nothing that it has open.
class Stopped {
 public:
  explicit Stopped(pid_t process) : process_(process) {
    int status = 0;
    is_ = waitpid(process_, &status, WUNTRACED) == process_ && WIFSTOPPED(status);
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;
  ~Stopped() {
    if (is_) kill(process_, SIGCONT);
  }
  bool is() const { return is_; }

 private:
  const pid_t process_;
  bool is_ = false;
};

}  // namespace

TEST_CASE("nccl devices: memory that another process has open is deregistered within its limit",
          "[faces]") {
  void* const page =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto& shared = *new (page) Shared;
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      be_the_other(shared);
    } catch (const std::exception& error) {
      fprintf(stderr, "rank 1: %s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  // Only after the fork: a child cannot use its parent's library state.
  ok(ncclGetUniqueId(&shared.id));
  shared.has_id = true;
  Member member(shared, 0);
  for (int made = 0; shared.opened == 0 && made < kMostSums;) {
    member.sum();
    made++;
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (shared.sums < made && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    REQUIRE(shared.sums >= made);
  }
  const auto said = logged([&] {
    const Stopped stopped(other);
    REQUIRE(stopped.is());
    REQUIRE(shared.opened > 0);
    // Two threads deregister the same handle at once: one waits, and the other at once hears that
    // it is invalid.
    std::atomic<int> waited{0}, refused{0}, others_made{0}, made_meanwhile{0};
    const auto deregister = [&] {
      const auto code = ncclCommDeregister(member.comm, member.handle);
      if (code == ncclSuccess) {
        waited++;
        return;
      }
      if (code == ncclInvalidUsage) refused++;
      // Calls on other memory do not wait for the first one, either.
      for (int i = 0; i < 10; i++) {
        void* handle = nullptr;
        if (ncclCommRegister(member.comm, member.output, kBytes, &handle) == ncclSuccess &&
            ncclCommDeregister(member.comm, handle) == ncclSuccess)
          others_made++;
      }
      if (waited == 0) made_meanwhile = others_made.load();
    };
    std::thread first(deregister), second(deregister);
    first.join();
    second.join();
    // The other process is stopped all the time.
    CHECK(waited == 1);
    CHECK(refused == 1);
    CHECK(made_meanwhile == 10);
  });
  CHECK(count_of("another rank still maps the registered GPU memory", said) == 1);
  int status = -1;
  REQUIRE(waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  // Nobody has it open any more.
  member.free();
  munmap(page, sizeof(Shared));
}
