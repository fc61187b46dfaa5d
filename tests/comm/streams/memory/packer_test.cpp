// SPDX-License-Identifier: Apache-2.0
// Rows in memory of the host, and of a device that the host plays (support/gpu/cuda_on_host).
#include "comm/streams/packer.hpp"

#include <catch2/catch.hpp>

#include "comm/streams/memory/scattered_on_device.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;

/// Memory of the device for rows that are packed, and what was asked for.
struct PackerRoom {
  std::vector<device::MemoryRange> ranges;
  std::uint64_t bytes = 0;

  Packer::Room taker() {
    return [this](std::vector<device::MemoryRange> wanted, std::uint64_t size) {
      ranges = std::move(wanted);
      bytes = size;
      return Result<std::shared_ptr<std::byte>>(device_memory(size));
    };
  }
};

/// Moves rows as the stream does before the call, and behind it.
void put_rows(const device::Packing& packing, bool together) {
  for (const auto& each : packing.rows) {
    if (!(together ? each.is_read : each.is_written)) continue;
    for (std::uint64_t row = 0; row < each.count; row++) {
      auto* const apart = each.rows + row * each.stride_bytes;
      auto* const here = each.together + row * each.row_bytes;
      std::memcpy(together ? here : apart, together ? apart : here, each.row_bytes);
    }
  }
}

Bytes read_from(const BufferView& view, std::uint64_t elems, std::size_t width) {
  Bytes bytes(elems * width);
  for_each_stretch(view, elems, width, [&](std::byte* data, std::uint64_t first, std::uint64_t n) {
    std::memcpy(bytes.data() + first * width, data, n * width);
  });
  return bytes;
}

void write_to(const BufferView& view, const Bytes& bytes, std::size_t width) {
  for_each_stretch(view, bytes.size() / width, width,
                   [&](std::byte* data, std::uint64_t first, std::uint64_t n) {
                     std::memcpy(data, bytes.data() + first * width, n * width);
                   });
}

/// Any call on scattered buffers of the device or of the host.
struct PackedCall {
  Call call;
  Rank size, rank;
  bool in_place;
  std::uint64_t in_elems, out_elems;
  std::size_t width;
  Scattered input, output;

  explicit PackedCall(std::mt19937_64& random)
      : call(call_from(random)),
        size(static_cast<Rank>(1 + random() % 4)),
        rank(static_cast<Rank>(random() % size)),
        in_place(random() % 2 == 0 && call.kind == Kind::all_reduce),
        in_elems(elems_of(call, Buffer::input, rank, size)),
        out_elems(elems_of(call, Buffer::output, rank, size)),
        width(size_of(call.type)),
        input(in_elems, width, random, random() % 2 == 0 ? &device_memory : &host_memory),
        output(out_elems, width, random, random() % 2 == 0 ? &device_memory : &host_memory) {
    call.input = input.view();
    call.output = written().view();
    call.in_place = in_place;
  }
  Scattered& written() { return in_place ? input : output; }

 private:
  static Call call_from(std::mt19937_64& random) {
    constexpr Kind kKinds[] = {Kind::all_reduce, Kind::broadcast, Kind::all_gather,
                               Kind::reduce_scatter, Kind::all_to_all};
    Call made;
    made.kind = kKinds[random() % std::size(kKinds)];
    made.count = random() % 60;
    made.type = kDataTypes[random() % std::size(kDataTypes)];
    return made;
  }
};

/// Whether rows of that buffer must be packed.
bool must_pack(const BufferView& view, bool all) {
  return has_rows(view) && (all || device::device_of(view.data));
}

/// A message of 5 rows of 8 bytes, with gaps of 4 between them.
std::shared_ptr<MessageOperation> message_of_rows(MessageOperation::What what, std::byte* data) {
  auto message = std::make_shared<MessageOperation>();
  message->what = what;
  message->input = message->output = data;
  message->bytes = 40;
  message->row_bytes = 8;
  message->stride_bytes = 12;
  return message;
}

std::string error_for(std::byte* data, std::uint64_t row_bytes, std::uint64_t stride_bytes) {
  const auto message = message_of_rows(MessageOperation::What::send, data);
  message->bytes = 5 * row_bytes;
  message->row_bytes = row_bytes;
  message->stride_bytes = stride_bytes;
  Packer packer;
  const auto packed = packer.pack(*message);
  if (packed) return "packed";
  CHECK(packed.error().kind == ErrorKind::invalid_argument);
  return packed.error().message;
}

}  // namespace

TEST_CASE("packer: a call on packed rows reads and writes the caller's elements, and no others",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; i++) {
    PackedCall made(random);
    auto& call = made.call;
    const bool all = random() % 2 == 0;
    CAPTURE(seed, i, to_string(call.kind), call.count, made.rank, made.size, made.in_place, all);
    const bool packs_output = made.out_elems > 0 && must_pack(call.output, all);
    const bool packs_input = made.in_elems > 0 && must_pack(call.input, all);
    Packer packer;
    REQUIRE(packer.pack(call, made.rank, made.size, all));
    PackerRoom room;
    const auto packing = packer.finish(room.taker());
    REQUIRE(packing);
    CHECK((*packing != nullptr) == (packs_input || packs_output));
    CHECK_FALSE(must_pack(call.input, all));
    CHECK_FALSE(must_pack(call.output, all));
    CHECK(call.in_place == (made.in_place && *packing == nullptr));

    const auto before = made.input.elements(),
               results = random_bytes(made.out_elems * made.width, random);
    if (*packing) put_rows(**packing, true);
    CHECK(read_from(call.input, made.in_elems, made.width) == before);
    write_to(call.output, results, made.width);
    // The call may read its input to the end, and in place of nothing it stays as it was.
    if (*packing) CHECK(read_from(call.input, made.in_elems, made.width) == before);
    if (*packing) put_rows(**packing, false);
    CHECK(made.written().elements() == results);
    if (!made.in_place) CHECK(made.input.elements() == before);
    CHECK(made.input.gaps_are_whole());
    CHECK(made.output.gaps_are_whole());
  }
}

TEST_CASE("packer: the room is asked for once, for all rows of the device", "[comm][unit]") {
  const auto first = device_memory(100), second = device_memory(100), host = host_memory(100);
  using What = MessageOperation::What;
  const auto sent = message_of_rows(What::send, first.get());
  const auto received = message_of_rows(What::recv, second.get());
  const auto of_host = message_of_rows(What::send, host.get());
  Packer packer;
  for (const auto& message : {sent, received, of_host}) REQUIRE(packer.pack(*message));
  PackerRoom room;
  const auto packing = packer.finish(room.taker());
  REQUIRE(packing);
  REQUIRE(*packing);
  CHECK(room.bytes == 2 * device::staged_bytes(40));
  REQUIRE(room.ranges.size() == 2);
  CHECK(room.ranges[0].data == first.get());
  CHECK(room.ranges[1].data == second.get());
  for (const auto& range : room.ranges) CHECK(range.bytes == 4 * 12 + 8);

  const auto& rows = (*packing)->rows;
  REQUIRE(rows.size() == 2);
  CHECK(sent->input == rows[0].together);
  CHECK(received->output == rows[1].together);
  CHECK(rows[1].together >= rows[0].together + 40);
  for (const auto& each : rows) CHECK(each.count == 5);
  // A shorter message leaves the end of its buffer as it was, so that is read before.
  CHECK(rows[0].is_read);
  CHECK_FALSE(rows[0].is_written);
  CHECK(rows[1].is_read);
  CHECK(rows[1].is_written);
  for (const auto& message : {sent, received}) CHECK(message->row_bytes == 0);
  // Links read the host's rows where they are.
  CHECK(of_host->input == host.get());
  CHECK(of_host->row_bytes == 8);
}

TEST_CASE("packer: where there is no room the reason is told", "[comm][unit]") {
  const auto memory = device_memory(100);
  const auto message = message_of_rows(MessageOperation::What::send, memory.get());
  Packer packer;
  REQUIRE(packer.pack(*message));
  const auto packing = packer.finish([](const auto&, std::uint64_t) {
    return Result<std::shared_ptr<std::byte>>(fail(ErrorKind::exhausted, "the device is full"));
  });
  REQUIRE_FALSE(packing);
  CHECK(packing.error().message == "the device is full");
}

TEST_CASE("packer: rows that leave the memory of their GPU are refused", "[comm][unit]") {
  const auto memory = device_memory(4096);
  CHECK(error_for(memory.get(), 8, 1000) == "packed");
  const auto refusal = [](int row) {
    return fmt::format(
        "a block of 5 rows begins in memory of GPU 0, and row {} is elsewhere, at least in part: "
        "expected all of it there",
        row);
  };
  constexpr std::uint64_t kFar = std::uint64_t{1} << 44;
  CHECK(error_for(memory.get(), 8, kFar) == refusal(1));
  CHECK(error_for(memory.get(), kFar, kFar) == refusal(0));
}

}  // namespace ccoll::test
