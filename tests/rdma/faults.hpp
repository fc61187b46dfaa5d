// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Faults on purpose between ccoll and libibverbs, or the device of device.hpp in its place: calls
/// that fail or kill the process, completions that say something else, come in another order, twice
/// or never, bits that flip. Nothing happens before it is asked for, or without CCOLL_TEST_RDMA.

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ccoll::testing::rdma {

enum class Call : std::uint8_t {
  open_device,
  alloc_pd,
  query_device,
  query_port,
  reg_mr,
  reg_dmabuf_mr,
  create_comp_channel,
  create_cq,
  create_qp,
  modify_qp,
  destroy_qp,
  post_send,
  post_recv,
  poll_cq,
  req_notify_cq,
};
inline constexpr std::size_t kCalls = 15;
std::string_view to_string(Call call);

/// The `number`-th of these calls from now (the next is 1) fails with this errno, and `times` - 1
/// after it.
void fail(Call call, int code, std::uint64_t number = 1, std::uint64_t times = 1);

/// Of which of a queue pair's two queues a completion tells.
enum class Of : std::uint8_t { sends, receives };

/// What befalls the `number`-th completion of a kind that is polled from now on.
void complete_with(ibv_wc_status status, Of of, std::uint64_t number = 1);
void lose_completion(Of of, std::uint64_t number = 1);
void repeat_completion(Of of, std::uint64_t number = 1);
/// Whether all of these have been polled.
bool have_befallen();
/// From now on completions of sends and of receives change places as they may, by chance from a
/// seed, and a poll gives fewer than there are.
void mix_completions(std::uint64_t seed);

/// The `number`-th message of `least` bytes or more that is posted from now on leaves with one bit
/// changed, mod its length.
void flip(std::uint64_t bit, std::uint64_t number = 1, std::uint32_t least = 1);

/// The most that devices grant to travel within a request; they refuse more.
void grant_inline(std::uint32_t bytes);
/// Libraries that are loaded from now on have no such function; of a library's name: there is none.
void lack(std::string_view name);
/// For wrapped.cpp.
bool lacks(std::string_view name);

/// No faults any more.
void reset();

/// How often this was called since the start of the process.
std::uint64_t times_called(Call call);

/// For wrapped.cpp: what stands between `name`'s caller and `function`.
void* between(std::string_view name, void* function);
/// What CCOLL_TEST_RDMA says: "mix:SEED", "ports:3", "kill@modify_qp:2" (in the second call from
/// now this process ends as by SIGKILL), "kill-memory-first@post_send:9" (its registered memory is
/// gone a while before its queue pairs, as when a driver cleans up behind a process, but longer).
/// Throws std::runtime_error for what is none.
void arm(const std::string& text);

}  // namespace ccoll::testing::rdma
