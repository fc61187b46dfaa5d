// SPDX-License-Identifier: Apache-2.0
// Small calls of a warmed-up program allocate nothing and make no system call. quiet_test is a
// program of its own because it replaces operator new and its ranks end unable to make system
// calls.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <new>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"

using namespace ccoll;

namespace {

/// Counts of this thread.
thread_local bool counts = false;
thread_local int allocations = 0;
thread_local int system_calls = 0;

constexpr int kRanks = 2;
constexpr int kCalls = 300;
/// A rank that waits for one without a core becomes an operation and sleeps, so retry.
constexpr int kAttempts = 50;

/// Counts every system call of this thread instead of making it, except the process's exit and the
/// return from the counting handler. It cannot be undone.
void count_system_calls() {
  struct sigaction action {};
  action.sa_handler = [](int) { system_calls++; };
  sigaction(SIGSYS, &action, nullptr);
  std::array<sock_filter, 5> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77);
}

/// The calls that one rank repeats.
using Calls = std::function<void(Communicator&)>;

enum Outcome : int { quiet, allocated, called_the_system };

/// Runs ranks as threads over `transport`; ends the process.
[[noreturn]] void attempt(const char* transport, const Calls& calls) {
  const auto store = make_inproc_store();
  std::atomic<int> ready{0}, done{0};
  std::atomic<int> worst{quiet};
  const auto rank = [&](int number) {
    CommunicatorOptions options;
    options.transport = transport;
    auto world = Communicator::create(store, number, kRanks, options);
    for (int i = 0; i < kCalls; i++) calls(world);
    count_system_calls();
    ready++;
    while (ready < kRanks) continue;
    counts = true;
    for (int i = 0; i < kCalls; i++) calls(world);
    counts = false;
    if (allocations > 0) worst = allocated;
    if (system_calls > 0 && worst == quiet) worst = called_the_system;
    done++;
    while (done < kRanks) continue;
    _exit(worst);
  };
  std::vector<std::thread> ranks;
  for (int number = 0; number < kRanks; number++) ranks.emplace_back(rank, number);
  for (auto& each : ranks) each.join();
  std::abort();
}

}  // namespace

void* operator new(std::size_t size) {
  allocations += counts ? 1 : 0;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int main() {
  if (std::thread::hardware_concurrency() < kRanks) {
    std::cout << "skipped: ranks that share a core sleep" << std::endl;
    return 77;
  }
  static std::array<float, 1024> input, output[kRanks];
  const std::vector<std::pair<const char*, Calls>> all = {
      {"all_reduce of 8 bytes",
       [](Communicator& world) {
         world.all_reduce(ConstBlock(input.data(), 2, DataType::float32),
                          Block(output[world.rank()].data(), 2, DataType::float32));
       }},
      {"all_reduce of 4 KiB",
       [](Communicator& world) {
         world.all_reduce(ConstBlock(input.data(), 1024, DataType::float32),
                          Block(output[world.rank()].data(), 1024, DataType::float32));
       }},
      {"all_gather",
       [](Communicator& world) {
         world.all_gather(ConstBlock(input.data(), 16, DataType::float32),
                          Block(output[world.rank()].data(), world.size() * 16, DataType::float32));
       }},
      {"barrier", [](Communicator& world) { world.barrier(); }},
      {"send_recv",
       [](Communicator& world) {
         world.send_recv(ConstBlock(input.data(), 2, DataType::float32), 1 - world.rank(),
                         Block(output[world.rank()].data(), 2, DataType::float32),
                         1 - world.rank());
       }},
      {"send and recv",
       [](Communicator& world) {
         auto* const own = output[world.rank()].data();
         if (world.rank() == 0) {
           world.send(ConstBlock(input.data(), 256, DataType::float32), 1);
           world.recv(Block(own, 256, DataType::float32), 1);
         } else {
           world.recv(Block(own, 256, DataType::float32), 0);
           world.send(ConstBlock(input.data(), 256, DataType::float32), 0);
         }
       }},
      {"one after the other",
       [](Communicator& world) {
         auto* const own = output[world.rank()].data();
         world.reduce_scatter(ConstBlock(input.data(), world.size() * 8, DataType::float32),
                              Block(own, 8, DataType::float32));
         world.all_gather(ConstBlock(input.data(), 8, DataType::float32),
                          Block(own, world.size() * 8, DataType::float32));
         world.all_reduce(ConstBlock(input.data(), 16, DataType::float32),
                          Block(own, 16, DataType::float32));
         world.broadcast(std::span(own, 16), 1);
         world.all_reduce(ConstBlock(input.data(), 1, DataType::float32),
                          Block(own, 1, DataType::float32), ReduceOp::max);
       }},
  };
  int failed = 0;
  for (const char* transport : {"shm", "inproc"}) {
    for (const auto& [name, calls] : all) {
      int outcome = called_the_system;
      for (int i = 0; i < kAttempts && (outcome == called_the_system || outcome == allocated);
           i++) {
        const pid_t child = fork();
        if (child == 0) attempt(transport, calls);
        int status = 0;
        waitpid(child, &status, 0);
        outcome = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      if (outcome == 77) {
        std::cout << "skipped: this machine does not let a thread give up system calls"
                  << std::endl;
        return 77;
      }
      const char* const verdict = outcome == quiet               ? "quiet"
                                  : outcome == allocated         ? "allocates"
                                  : outcome == called_the_system ? "calls the system"
                                                                 : "crashed";
      std::cout << transport << ", " << name << ": " << verdict << std::endl;
      failed += outcome != quiet;
    }
  }
  return failed > 0 ? 1 : 0;
}
