// SPDX-License-Identifier: Apache-2.0
// Calls on random buffers, compared with their elements one by one.
#include "comm/call/arguments.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "comm/call/extent.hpp"
#include "support/effort.hpp"

namespace ccoll::test {
namespace {

constexpr std::array kAllKinds{Kind::all_reduce, Kind::reduce,         Kind::broadcast,
                               Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all,
                               Kind::gather,     Kind::scatter};
std::array<std::byte, 2048> arena;

using Elements = std::vector<std::byte*>;  // where each lies

BufferView random_view(std::mt19937_64& random, std::uint64_t elems, std::size_t width) {
  const auto place = [&] {
    const auto at = random() % (4 * elems + 4) * width;
    return arena.data() + at + (random() % 16 == 0 ? 1 : 0);
  };
  if (elems == 0 || random() % 3 == 0) return {place(), {}};
  BufferView view;
  for (std::uint64_t first = 0; first < elems;) {
    const auto most = elems - first;
    BufferView::Segment segment{first, place()};
    auto count = 1 + random() % most;
    if (random() % 2 == 0) {
      segment.row_elems = 1 + random() % count;
      segment.stride_elems = segment.row_elems + random() % 4;
      count -= count % segment.row_elems;
    }
    view.segments.push_back(segment);
    first += count;
  }
  view.data = view.segments.front().data;
  return view;
}

Elements elements_of(const BufferView& view, std::uint64_t elems, std::size_t width) {
  Elements all;
  for_each_stretch(view, elems, width, [&](std::byte* data, std::uint64_t, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; i++) all.push_back(data + i * width);
  });
  return all;
}

/// Each element is a segment.
BufferView view_of_elements(const Elements& elements) {
  BufferView view;
  for (auto* const each : elements) view.segments.push_back({view.segments.size(), each});
  if (!elements.empty()) view.data = elements.front();
  return view;
}

/// The element of the output that the first one of the input is, where a call is in place.
std::int64_t place_of(const Call& call, Rank rank) {
  std::uint64_t before = call.count * rank;
  if (call.ragged()) {
    before = 0;
    for (Rank each = 0; each < rank; each++) before += call.block_counts[each];
  }
  if (holds_own_block_only(call.kind, Buffer::input)) return static_cast<std::int64_t>(before);
  if (holds_own_block_only(call.kind, Buffer::output)) return -static_cast<std::int64_t>(before);
  return 0;
}

/// Empty: the buffers may be so.
std::string complaint(const Call& call, Rank rank, const Elements& in, const Elements& out,
                      bool& shared) {
  const auto width = static_cast<std::ptrdiff_t>(size_of(call.type));
  const auto share = [width](const std::byte* a, const std::byte* b) {
    return a < b + width && b < a + width;
  };
  for (std::size_t i = 0; i < out.size(); i++)
    for (std::size_t j = 0; j < i; j++)
      if (share(out[i], out[j])) return "parts of the output overlap each other";
  bool wrong = false;
  for (std::size_t i = 0; i < in.size(); i++) {
    for (std::size_t j = 0; j < out.size(); j++) {
      if (!share(in[i], out[j])) continue;
      shared = true;
      wrong |= in[i] != out[j] ||
               static_cast<std::int64_t>(i) + place_of(call, rank) != static_cast<std::int64_t>(j);
    }
  }
  return wrong && call.kind != Kind::all_to_all ? "input and output overlap" : "";
}

Call random_call(std::mt19937_64& random, Rank rank, Rank size) {
  constexpr std::array kTypes{DataType::uint8, DataType::float16, DataType::int32,
                              DataType::float64};
  Call call;
  call.kind = kAllKinds[random() % kAllKinds.size()];
  call.type = kTypes[random() % kTypes.size()];
  call.root = static_cast<Rank>(random() % size);
  call.count = random() % 5;
  const auto width = size_of(call.type);
  const auto ins = elems_of(call, Buffer::input, rank, size);
  const auto outs = elems_of(call, Buffer::output, rank, size);
  call.input = random_view(random, ins, width);
  call.output = random_view(random, outs, width);
  if (random() % 2 == 0) return call;
  // In place, perhaps but for one element.
  auto in = elements_of(call.input, ins, width), out = elements_of(call.output, outs, width);
  for (std::size_t i = 0; i < in.size(); i++) {
    const auto j = static_cast<std::int64_t>(i) + place_of(call, rank);
    if (j >= 0 && j < static_cast<std::int64_t>(out.size()))
      out[static_cast<std::size_t>(j)] = in[i];
  }
  if (!out.empty() && random() % 4 == 0) out[random() % out.size()] += width;
  call.output = view_of_elements(out);
  return call;
}

}  // namespace

TEST_CASE("arguments: buffers may overlap where each element is the same one of both",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int refused = 0, in_place = 0;
  for (int trial = 0; trial < testing::by_effort(3000, 30'000, 300'000); trial++) {
    const auto size = static_cast<Rank>(1 + random() % 4),
               rank = static_cast<Rank>(random() % size);
    auto call = random_call(random, rank, size);
    const auto width = size_of(call.type);
    const auto in = elements_of(call.input, elems_of(call, Buffer::input, rank, size), width);
    const auto out = elements_of(call.output, elems_of(call, Buffer::output, rank, size), width);
    bool shared = false;
    const auto wrong = complaint(call, rank, in, out, shared);
    CAPTURE(trial, to_string(call.kind), size, rank, call.root, call.count, width, wrong);
    const auto status = check_arguments(call, rank, size);
    REQUIRE(status.has_value() == wrong.empty());
    if (status) {
      REQUIRE(call.in_place == shared);
      in_place += shared ? 1 : 0;
      continue;
    }
    refused++;
    REQUIRE(status.error().kind == ErrorKind::invalid_argument);
    REQUIRE(status.error().message.starts_with(name_of(call) + ": " + wrong));
  }
  CHECK(refused > 0);
  CHECK(in_place > 0);
}

TEST_CASE("arguments: a null buffer is refused where it has elements, and its call says how many",
          "[comm][unit][property]") {
  for (const auto kind : kAllKinds)
    for (const Rank size : {1U, 2U, 5U})
      for (Rank rank = 0; rank < size; rank++)
        for (const auto null : {Buffer::input, Buffer::output})
          for (const std::size_t count : {0UL, 3UL}) {
            Call call;
            call.kind = kind;
            call.count = count;
            (null == Buffer::input ? call.output : call.input).data = arena.data();
            const auto elems = elems_of(call, null, rank, size);
            const auto other =
                elems_of(call, null == Buffer::input ? Buffer::output : Buffer::input, rank, size);
            CAPTURE(to_string(kind), size, rank, null, count, other);
            const auto status = check_arguments(call, rank, size);
            REQUIRE(status.has_value() == (elems == 0));
            if (status) continue;
            CHECK(status.error().message ==
                  fmt::format("{}: {} is null, {} elements are expected there", to_string(kind),
                              null == Buffer::input ? "input" : "output", elems));
          }
}

TEST_CASE("arguments: what is out of range is told with its range", "[comm][unit][property]") {
  for (const Rank size : {1U, 2U, 7U, 24'000U}) {
    for (const Rank root : {size, size + 1, 2 * size, UINT32_MAX}) {
      CHECK(check_root("call", size - 1, size));
      const auto status = check_root("call", root, size);
      REQUIRE_FALSE(status);
      const auto& message = status.error().message;
      CHECK(message.starts_with(fmt::format("call: root {} ", static_cast<std::int32_t>(root))));
      CHECK(message.find(fmt::format("of {} rank", size)) != message.npos);
      CHECK(message.ends_with(size == 1 ? " 0" : fmt::format(" to {}", size - 1)));
    }
    Call call;
    call.type = DataType::float64;
    call.count = kBeyondMemory / size / 8;
    CHECK(check_values(call, size));
    call.count++;
    const auto status = check_values(call, size);
    REQUIRE_FALSE(status);
    CHECK(status.error().message.find(std::to_string(call.count)) != std::string::npos);
  }
}

TEST_CASE("arguments: every collective and algorithm is found by its name, and no other is",
          "[comm][unit][property]") {
  std::size_t ragged_ones = 0;
  for (const auto kind : kAllKinds) {
    for (const bool ragged : {false, true}) {
      const auto name = std::string(to_string(kind)) + (ragged ? "_v" : "");
      const auto there_are = algorithms_for(kind, ragged);
      const auto collective = collective_named(name);
      CAPTURE(name);
      REQUIRE(collective.has_value() == !there_are.empty());
      if (!collective) continue;
      ragged_ones += ragged ? 1 : 0;
      CHECK((collective->kind == kind && collective->ragged == ragged));
      CHECK_FALSE(*algorithm_named("", *collective));
      for (const auto other : kAllKinds) {
        for (const auto algorithm : algorithms_for(other, false)) {
          const auto found = algorithm_named(to_string(algorithm), *collective);
          const bool is_one = std::ranges::find(there_are, algorithm) != there_are.end();
          REQUIRE(found.has_value() == is_one);
          if (found) CHECK(*found == algorithm);
          for (const auto each : there_are)
            if (!found) CHECK(found.error().message.find(to_string(each)) != std::string::npos);
        }
      }
    }
  }
  CHECK(ragged_ones > 0);
  CHECK_FALSE(collective_named("all_reduce_v_v"));
  CHECK_FALSE(collective_named(""));
}

}  // namespace ccoll::test
