// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Injects faults between ccoll and libibverbs, or the device of device.hpp: calls that fail or
/// kill the process; completions that are changed, reordered, repeated or lost; flipped bits.
/// Nothing happens unless requested, here or by CCOLL_TEST_RDMA.

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

/// Makes the `number`-th call from here (the next is 1) fail with this errno, and the `times` - 1
/// calls after it.
void fail(Call call, int code, std::uint64_t number = 1, std::uint64_t times = 1);

/// The queue of a queue pair that a completion belongs to.
enum class Of : std::uint8_t { sends, receives };

/// Changes the `number`-th completion of a kind polled from here, or loses it.
void complete_with(ibv_wc_status status, Of of, std::uint64_t number = 1);
void lose_completion(Of of, std::uint64_t number = 1);
void repeat_completion(Of of, std::uint64_t number = 1);
/// Whether all of these have been polled.
bool have_befallen();
/// Reorders completions of sends and of receives among each other at random, and returns fewer than
/// there are from a poll.
void mix_completions(std::uint64_t seed);

/// Flips one bit, modulo the message's length, of the `number`-th message posted from here that has
/// `least` bytes or more.
void flip(std::uint64_t bit, std::uint64_t number = 1, std::uint32_t least = 1);

/// The most inline data that devices allow; they refuse larger requests.
void grant_inline(std::uint32_t bytes);
/// Hides a function from libraries loaded later, or a whole library by its name.
void lack(std::string_view name);
/// Used by wrapped.cpp.
bool lacks(std::string_view name);

/// Removes all faults.
void reset();

/// How often this has been called since the start of the process.
std::uint64_t times_called(Call call);

/// Used by wrapped.cpp: the function between `name`'s caller and `function`.
void* between(std::string_view name, void* function);
/// Parses CCOLL_TEST_RDMA: "mix:SEED", "ports:3", "kill@modify_qp:2" (the process ends in the
/// second call as by SIGKILL), "kill-memory-first@post_send:9" (its registered memory disappears
/// before its queue pairs, as when a driver cleans up, but for longer). Throws std::runtime_error
/// if the text is invalid.
void arm(const std::string& text);

}  // namespace ccoll::testing::rdma
