// SPDX-License-Identifier: Apache-2.0
// The receiver of a long message times the ways to copy it, and reports the better one to its
// sender. It is a program of its own because it replaces process_vm_readv(2), which becomes slow in
// one rank.
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/copier_choice.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

/// Counts of this thread, which is a rank.
thread_local int reads = 0;
thread_local bool is_slow = false;

}  // namespace

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* local, unsigned long locals,
                                    const iovec* remote, unsigned long remotes,
                                    unsigned long flags) {
  reads++;
  // Slower than copies on a machine that has much else to do.
  if (is_slow) testing::be_late(100ms);
  return syscall(SYS_process_vm_readv, process, local, locals, remote, remotes, flags);
}

TEST_CASE("messages: a rank whose reads are slow has its messages copied by their sender",
          "[comm]") {
  const int slow = GENERATE(0, 1);
  // The last slice of the second is so short that its sender copies it in any case.
  const std::size_t elems = GENERATE(128 << 10, (256 << 10) + 3);
  CommunicatorOptions options;
  options.transport = "shm";
  options.timeout = 30s;
  const auto errors = testing::run_ranks(2, options, [&](Communicator& world) {
    const int peer = 1 - world.rank();
    std::vector<std::uint32_t> out(elems), in(out.size());
    const auto exchange = [&](int call) {
      std::iota(out.begin(), out.end(), static_cast<std::uint32_t>(call));
      world.send_recv(out, peer, in, peer);
      testing::expect(in == out, "what has come is not what was sent");
    };
    exchange(-1);                     // it opens the links
    const bool can_read = reads > 0;  // not where the kernel forbids it
    is_slow = world.rank() == slow;
    int call = 0;
    // The first window tries both ways, and the second goes the better one.
    for (; call < CopierChoice::kWindow - 1; call++) exchange(call);
    const int tried = std::exchange(reads, 0);
    for (; call < 2 * CopierChoice::kWindow - 1; call++) exchange(call);
    testing::expect(tried > 0 || !can_read, "it was tried");
    if (is_slow) testing::expect(reads == 0, "its sender has not heard");
  });
  for (const auto& error : errors) CHECK(error == "");
}
