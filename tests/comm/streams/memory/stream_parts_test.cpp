// SPDX-License-Identifier: Apache-2.0
// Buffers partly in memory of the host, partly of a device that the host plays
// (support/gpu/cuda_on_host).
#include "comm/streams/stream_parts.hpp"

#include <catch2/catch.hpp>

#include "comm/streams/memory/scattered_on_device.hpp"

namespace ccoll::test {
namespace {

/// Where a part's copy of a device's memory is on the host; nobody looks there.
std::byte* on_host_of(const std::byte* place, std::size_t part) {
  constexpr std::uintptr_t kElsewhere = std::uintptr_t{1} << 50;
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(place) +
                                      (part + 1) * kElsewhere);
}

/// A stream that has reached as many parts as the test says.
class PartsOp final : public device::StreamOp {
 public:
  Status enqueue(std::shared_ptr<device::StreamListener> /*listener*/) override { return {}; }
  bool reached() const override { return true; }
  bool passed() const override { return false; }
  Status trouble() const override { return {}; }
  std::byte* on_host(const void* place, std::size_t part) const override {
    return on_host_of(static_cast<const std::byte*>(place), part);
  }
  std::size_t parts_reached() const override { return reached_parts; }
  void end_parts(std::size_t count) override { ended.push_back(count); }
  void release() override {}

  std::size_t reached_parts = 1;
  std::vector<std::size_t> ended;
};

/// A buffer of several that follow each other, each of them of the device or of the host.
struct MixedBuffer {
  std::size_t width;
  std::vector<std::unique_ptr<Scattered>> parts;
  BufferView view;
  std::vector<std::byte*> places;
  std::vector<bool> is_of_device;  ///< by element

  explicit MixedBuffer(std::mt19937_64& random) : width(std::size_t{1} << random() % 4) {
    for (auto left = random() % 5; left > 0; left--) {
      const bool is_device = random() % 2 == 0;
      parts.push_back(std::make_unique<Scattered>(1 + random() % 40, width, random,
                                                  is_device ? &device_memory : &host_memory));
      const auto& next = *parts.back();
      auto segments = next.view().segments;
      if (segments.empty()) segments.push_back({0, next.view().data});
      for (auto& each : segments) each.first += places.size();
      view.segments.insert(view.segments.end(), segments.begin(), segments.end());
      for (auto* const place : next.places()) {
        places.push_back(place);
        is_of_device.push_back(is_device);
      }
    }
    if (!view.segments.empty()) view.data = view.segments.front().data;
    if (view.segments.size() == 1 && view.segments[0].row_elems == 0) view.segments.clear();
  }
};

std::vector<Stretch> some_stretches(std::uint64_t elems, std::mt19937_64& random) {
  std::vector<Stretch> stretches;
  for (std::uint64_t at = random() % 10; at < elems; at += 1 + random() % 20) {
    stretches.push_back({at, std::min(elems - at, 1 + random() % 20)});
    at += stretches.back().elems;
  }
  return stretches;
}

std::byte* place_in(const BufferView& view, std::uint64_t elem, std::size_t width) {
  if (view.segments.empty()) return view.data + elem * width;
  const auto behind =
      std::ranges::upper_bound(view.segments, elem, {}, &BufferView::Segment::first);
  REQUIRE(behind != view.segments.begin());
  const auto& segment = *std::prev(behind);
  CHECK(segment.row_elems == 0);
  return segment.data + (elem - segment.first) * width;
}

std::uint64_t staged_in(const std::vector<device::MemoryRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const auto& range : ranges) bytes += device::staged_bytes(range.bytes);
  return bytes;
}

/// The elements of the device in those ranges, in order.
std::vector<std::byte*> places_in(const std::vector<device::MemoryRange>& ranges,
                                  std::size_t width) {
  std::vector<std::byte*> places;
  for (const auto& range : ranges) {
    CHECK(range.bytes % width == 0);
    for (std::uint64_t at = 0; at < range.bytes; at += width) places.push_back(range.data + at);
  }
  return places;
}

Call sum_on(std::byte* input, std::byte* output, std::size_t count) {
  Call call;
  call.count = count;
  call.type = DataType::float32;
  call.input.data = input;
  call.output.data = output;
  call.in_place = input == output;
  return call;
}

Windows windows_of(const Call& call, Rank size, std::uint64_t slice_elems) {
  Problem problem;
  problem.kind = call.kind;
  problem.size = size;
  problem.count = call.count;
  return {problem, 0, size, slice_elems};
}

}  // namespace

TEST_CASE("stream parts: of any part of a buffer, the device's memory has its place on the host",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const PartsOp op;
  for (int i = 0; i < 500; i++) {
    CAPTURE(seed, i);
    const MixedBuffer mixed(random);
    const auto elems = mixed.places.size();
    const StreamBuffer buffer(mixed.view, elems, mixed.width);
    CHECK(buffer.has_device_memory() == (std::ranges::count(mixed.is_of_device, true) > 0));
    CHECK(buffer.whole() ==
          (elems == 0 ? std::vector<Stretch>{} : std::vector<Stretch>{{0, elems}}));
    const bool is_whole = random() % 4 == 0;
    const auto stretches = is_whole ? buffer.whole() : some_stretches(elems, random);
    const auto part = random() % 5;
    const auto view = buffer.on_host(stretches, op, part);
    std::vector<std::byte*> of_device;
    for (const auto& [first, count] : stretches)
      for (auto elem = first; elem < first + count; elem++) {
        auto* const place = mixed.places[elem];
        CHECK(place_in(view, elem, mixed.width) ==
              (mixed.is_of_device[elem] ? on_host_of(place, part) : place));
        if (mixed.is_of_device[elem]) of_device.push_back(place);
      }
    const auto ranges = buffer.device_ranges(stretches);
    CHECK(places_in(ranges, mixed.width) == of_device);
    CHECK(buffer.staged_bytes(stretches) == staged_in(ranges));
  }
}

TEST_CASE("stream parts: a run goes from part to part as the stream comes to them",
          "[comm][unit]") {
  const auto op = std::make_shared<PartsOp>();
  std::byte memory[6];
  const auto parts = std::make_shared<StreamParts>();
  parts->stream_op = op;
  for (std::uint64_t i = 0; i < 3; i++)
    parts->parts.push_back({{memory + 2 * i, {}}, {memory + 2 * i + 1, {}}, 10 * (i + 1)});
  PlanRun run;
  const auto is_in = [&](std::size_t part) {
    return run.input.data == memory + 2 * part && run.output.data == memory + 2 * part + 1 &&
           run.open_windows == 10 * (part + 1);
  };
  PartedRun parted(parts, run);
  CHECK(is_in(0));
  // The part's end is news once, even if the next one has not come.
  CHECK(parted.go_on(run));
  CHECK_FALSE(parted.go_on(run));
  CHECK(op->ended == std::vector<std::size_t>{1});
  CHECK(is_in(0));
  op->reached_parts = 2;
  CHECK(parted.go_on(run));
  CHECK(is_in(1));
  // Where the next part has come already, it begins at once.
  op->reached_parts = 3;
  CHECK(parted.go_on(run));
  CHECK(is_in(2));
  CHECK(op->ended == std::vector<std::size_t>{1, 2});
}

TEST_CASE(
    "stream parts: a divided call has all of its elements, each in one part, and two parts "
    "have room",
    "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const auto memory = device_memory(8);
  // Only where they begin is looked at.
  auto* const input = memory.get();
  int divided = 0;
  for (int i = 0; i < 300; i++) {
    const std::size_t count = 1 + random() % 20'000;
    const auto call = sum_on(input, random() % 2 == 0 ? input : input + 4, count);
    const auto size = static_cast<Rank>(2 + random() % 5);
    const auto windows = windows_of(call, size, 1 + random() % 1000);
    const std::uint64_t room = std::uint64_t{1} << (8 + random() % 12);
    CAPTURE(seed, i, count, size, room, windows.count(), call.in_place);
    DividedCall made(call, 0, size);
    CHECK(made.has_device_memory());
    made.divide(windows, room);
    const auto copied = made.copied();
    const auto on_host = made.on_host(std::make_shared<PartsOp>());
    REQUIRE(copied.size() == on_host.parts.size());
    if (copied.size() > 1) divided++;

    std::vector<std::byte*> reads, writes;
    std::uint64_t begin = 0;
    for (std::size_t part = 0; part < copied.size(); part++) {
      const auto& [in, out] = copied[part];
      for (auto* const place : places_in(in, sizeof(float))) reads.push_back(place);
      for (auto* const place : places_in(out, sizeof(float))) writes.push_back(place);
      if (copied.size() == 1) continue;
      const auto end = on_host.parts[part].end;
      CHECK(begin < end);
      const auto bytes =
          call.in_place ? std::max(staged_in(in), staged_in(out)) : staged_in(in) + staged_in(out);
      CHECK((end - begin == 1 || 2 * bytes <= room));
      begin = end;
    }
    CHECK(on_host.parts.back().end == (copied.size() == 1 ? UINT64_MAX : windows.count()));
    std::vector<std::byte*> all_in(count), all_out(count);
    for (std::size_t elem = 0; elem < count; elem++) {
      all_in[elem] = input + elem * sizeof(float);
      all_out[elem] = call.output.data + elem * sizeof(float);
    }
    std::ranges::sort(reads);
    std::ranges::sort(writes);
    CHECK((reads == all_in));
    CHECK((writes == all_out));
  }
  CHECK(divided > 0);
}

TEST_CASE("stream parts: a call is large beyond a sixteenth of the memory", "[comm][unit]") {
  const auto memory = device_memory(8);
  constexpr std::size_t kBytes = 1 << 20;
  const DividedCall in_place(sum_on(memory.get(), memory.get(), kBytes / sizeof(float)), 0, 4);
  CHECK_FALSE(in_place.is_large(16 * kBytes));
  CHECK(in_place.is_large(16 * kBytes - 16));
  const DividedCall apart(sum_on(memory.get(), memory.get() + 4, kBytes / sizeof(float)), 0, 4);
  CHECK_FALSE(apart.is_large(32 * kBytes));
  CHECK(apart.is_large(32 * kBytes - 16));
  // The host's memory needs no other.
  std::byte host[8];
  const DividedCall of_host(sum_on(host, host, kBytes), 0, 4);
  CHECK_FALSE(of_host.is_large(16));
  CHECK_FALSE(of_host.has_device_memory());
}

}  // namespace ccoll::test
