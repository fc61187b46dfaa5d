// SPDX-License-Identifier: Apache-2.0
// Any messages with buffers on the host, or on a device that the host plays
// (support/gpu/cuda_on_host), and a stream operation that only notes what it is asked for.
#include "comm/streams/stream_messages.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "comm/streams/memory/scattered_on_device.hpp"

namespace ccoll::test {
namespace {

using What = MessageOperation::What;

struct NoCopier final : device::DeviceToHost {
  void begin(std::uint32_t /*to*/, const std::byte* /*from*/, std::uint64_t /*bytes*/) override {}
  Status lift() override { return {}; }
  std::span<const std::byte> lifted() const override { return {}; }
  void lend(std::size_t /*bytes*/) override {}
  bool take_back() override { return false; }
};
struct NoCopierBack final : device::HostToDevice {
  void begin(std::uint32_t /*from*/) override {}
  std::size_t most_bytes() const override { return 1; }
  std::byte* room(std::byte* /*there*/, std::size_t /*bytes*/) override { return nullptr; }
  Status fill(std::size_t /*bytes*/) override { return {}; }
  Status take_off() override { return {}; }
  bool is_over() override { return true; }
};

/// Has a place on the host for each place of the device, and a copier for each buffer.
struct NotedStreamOp final : device::StreamOp {
  Status enqueue(std::shared_ptr<device::StreamListener> /*listener*/) override { return {}; }
  bool reached() const override { return true; }
  bool passed() const override { return false; }
  Status trouble() const override { return {}; }
  std::byte* on_host(const void* place, std::size_t part) const override {
    CHECK(part == 0);
    return &here[place];
  }
  device::DeviceToHost* to_host(std::size_t number) override { return &lifting[number]; }
  device::HostToDevice* to_device(std::size_t number) override { return &landing[number]; }
  void release() override {}

  mutable std::map<const void*, std::byte> here;
  std::map<std::size_t, NoCopier> lifting;
  std::map<std::size_t, NoCopierBack> landing;
};

/// A message, and whether network cards access its buffer.
struct AnyMessage {
  explicit AnyMessage(std::mt19937& random)
      : is_on_device(random() % 4 > 0), is_direct(random() % 3 == 0) {
    constexpr std::size_t kMostBytes = 5000;
    operation->what = random() % 2 == 0 ? What::send : What::recv;
    operation->bytes = random() % 6 == 0 ? 0 : 1 + random() % kMostBytes;
    if (is_on_device)
      memory = device_memory(kMostBytes);
    else
      memory = {new std::byte[kMostBytes], [](const std::byte* bytes) { delete[] bytes; }};
    (sends() ? const_cast<std::byte*&>(operation->input) : operation->output) = memory.get();
  }
  bool sends() const { return operation->what == What::send; }
  bool takes_part() const { return is_on_device && operation->bytes > 0; }
  bool is_whole(std::size_t most) const {
    return takes_part() && !is_direct && operation->bytes <= most;
  }
  bool is_lifted(std::size_t most) const {
    return takes_part() && !is_direct && operation->bytes > most && sends();
  }
  /// A direct message may still have an eager part, which does not come by the card.
  bool is_landed(std::size_t most) const {
    return takes_part() && !sends() && (is_direct || operation->bytes > most);
  }

  bool is_on_device, is_direct;
  std::shared_ptr<std::byte> memory;
  std::shared_ptr<MessageOperation> operation = std::make_shared<MessageOperation>();
};

/// Buffers in the order of their addresses.
using Places = std::vector<std::pair<std::byte*, std::uint64_t>>;
template <typename Ranges>
Places places_of(const Ranges& ranges) {
  Places places;
  for (const auto& range : ranges) places.emplace_back(range.data, range.bytes);
  std::ranges::sort(places);
  return places;
}
template <typename Belongs>
Places places_of(const std::vector<AnyMessage>& messages, Belongs belongs) {
  Places places;
  for (const auto& message : messages)
    if (belongs(message)) places.emplace_back(message.memory.get(), message.operation->bytes);
  std::ranges::sort(places);
  return places;
}

std::vector<std::shared_ptr<MessageOperation>> operations_of(
    const std::vector<AnyMessage>& messages) {
  std::vector<std::shared_ptr<MessageOperation>> operations;
  for (const auto& message : messages) operations.push_back(message.operation);
  return operations;
}

StreamMessages made_of(const std::vector<AnyMessage>& messages) {
  return StreamMessages(operations_of(messages), [&](MessageOperation& operation) {
    const auto asked = std::ranges::find(
        messages, &operation, [](const auto& message) { return message.operation.get(); });
    CHECK(asked->takes_part());
    return asked->is_direct;
  });
}

/// `most`: bytes of the longest message that is copied as a whole.
void check_request(const StreamMessages& made, const std::vector<AnyMessage>& messages,
                   std::size_t most) {
  const auto request = made.request(std::nullopt);
  CHECK_FALSE(request.stream);
  REQUIRE(request.parts.size() == 1);
  const auto whole = [&](const AnyMessage& each) { return each.is_whole(most); };
  CHECK(places_of(request.parts[0].reads) == places_of(messages, whole));
  // The rest of a receive's buffer comes back as it went.
  CHECK(places_of(request.parts[0].writes) == places_of(messages, [&](const AnyMessage& each) {
          return each.is_whole(most) && !each.sends();
        }));
  CHECK(places_of(request.lifted) ==
        places_of(messages, [&](const AnyMessage& each) { return each.is_lifted(most); }));
  CHECK(places_of(request.landed) ==
        places_of(messages, [&](const AnyMessage& each) { return each.is_landed(most); }));
  std::uint64_t bytes = 0;
  for (const auto& each : messages)
    if (each.is_whole(most)) bytes += device::staged_bytes(each.operation->bytes);
  CHECK(made.whole_bytes() == bytes);
}

/// Any limit, often one that a message just meets.
std::size_t any_limit(const std::vector<AnyMessage>& messages, std::mt19937& random) {
  if (messages.empty() || random() % 2 == 0) return random() % 5000;
  return messages[random() % messages.size()].operation->bytes;
}

/// The copier's number for that buffer in the request.
template <typename Ranges>
std::size_t number_of(const AnyMessage& message, const Ranges& ranges) {
  const auto found = std::ranges::find(ranges, message.memory.get(), &device::MemoryRange::data);
  REQUIRE(found != ranges.end());
  return static_cast<std::size_t>(found - ranges.begin());
}

}  // namespace

TEST_CASE("stream messages: each buffer of a device has one who copies it, and no other has",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; trial++) {
    std::vector<AnyMessage> messages;
    for (auto more = random() % 8; more > 0; more--) messages.emplace_back(random);
    const auto made = made_of(messages);
    check_request(made, messages, SIZE_MAX);
    const auto most = any_limit(messages, random);
    check_request(made.in_pieces(most), messages, most);
    check_request(made, messages, SIZE_MAX);  // a copy was made
  }
}

TEST_CASE("stream messages: each operation gets its own place on the host, or its own copier",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; trial++) {
    std::vector<AnyMessage> messages;
    for (auto more = random() % 8; more > 0; more--) messages.emplace_back(random);
    const auto most = any_limit(messages, random);
    const auto made = made_of(messages).in_pieces(most);
    const auto request = made.request(std::nullopt);
    const auto stream_op = std::make_shared<NotedStreamOp>();
    made.give(stream_op);
    for (const auto& message : messages) {
      const auto& operation = *message.operation;
      auto* const data =
          message.sends() ? const_cast<std::byte*>(operation.input) : operation.output;
      const bool is_whole = message.is_whole(most);
      CHECK(data == (is_whole ? &stream_op->here[message.memory.get()] : message.memory.get()));
      CHECK(operation.to_host.get() == (message.is_lifted(most)
                                            ? stream_op->to_host(number_of(message, request.lifted))
                                            : nullptr));
      CHECK(operation.to_device.get() ==
            (message.is_landed(most) ? stream_op->to_device(number_of(message, request.landed))
                                     : nullptr));
    }
    // The copiers are the stream operation's, which lives as long as they do.
    const auto copiers = std::ranges::count_if(messages, [&](const AnyMessage& each) {
      return each.is_lifted(most) || each.is_landed(most);
    });
    CHECK(stream_op.use_count() == 1 + copiers);
  }
}

}  // namespace ccoll::test
