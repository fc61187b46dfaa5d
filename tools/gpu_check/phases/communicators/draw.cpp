// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/communicators/draw.hpp"

#include <cstring>

namespace ccoll::gpu_check {

namespace {

/// In one buffer, which also limits sums over ranks.
constexpr std::size_t kMostBytes = 1 << 20;

}  // namespace

Work Draw::begin(Communicator& c, const void* input, void* output,
                 const CallOptions& options) const {
  switch (kind) {
    case Kind::all_reduce:
      return c.all_reduce_async(ConstBlock(input, count, type), Block(output, count, type), op,
                                options);
    case Kind::reduce:
      return c.reduce_async(ConstBlock(input, count, type), Block(output, count, type), op, root,
                            options);
    case Kind::broadcast:
      return c.broadcast_async(ConstBlock(input, count, type), Block(output, count, type), root,
                               options);
    case Kind::all_gather:
      return c.all_gather_async(ConstBlock(input, count, type),
                                Block(output, c.size() * count, type), options);
    case Kind::reduce_scatter:
      return c.reduce_scatter_async(ConstBlock(input, c.size() * count, type),
                                    Block(output, count, type), op, options);
    case Kind::all_to_all:
      return c.all_to_all_async(ConstBlock(input, c.size() * count, type),
                                Block(output, c.size() * count, type), options);
    case Kind::gather:
      return c.gather_async(ConstBlock(input, count, type), Block(output, c.size() * count, type),
                            root, options);
    case Kind::scatter:
      return c.scatter_async(ConstBlock(input, c.size() * count, type), Block(output, count, type),
                             root, options);
    case Kind::barrier:
      break;
  }
  return c.barrier_async(options);
}

Draw random_draw(std::mt19937_64& same, int size) {
  constexpr Kind kKinds[] = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast,
                             Kind::all_gather,     Kind::all_to_all, Kind::gather,
                             Kind::reduce_scatter, Kind::scatter,    Kind::barrier};
  constexpr DataType kTypes[] = {DataType::uint8, DataType::int32, DataType::float32,
                                 DataType::float64};
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
  constexpr std::size_t kCounts[] = {0, 1, 3, 100, 4097};
  Draw draw;
  draw.kind = kKinds[same() % std::size(kKinds)];
  draw.type = kTypes[same() % std::size(kTypes)];
  draw.op = kOps[same() % std::size(kOps)];
  draw.root = static_cast<int>(same() % static_cast<unsigned>(size));
  const bool has_in_place =
      draw.kind == Kind::all_reduce || draw.kind == Kind::reduce || draw.kind == Kind::broadcast;
  draw.in_place = has_in_place && same() % 3 == 0;
  const std::size_t most = kMostBytes / 8 / static_cast<std::size_t>(size);
  // Small and large sizes are equally frequent.
  const auto any = static_cast<std::size_t>(
      std::exp(std::log(most) * static_cast<double>(same() % 1000) / 1000));
  draw.count = same() % 2 == 0 ? kCounts[same() % std::size(kCounts)] : any;
  return draw;
}

namespace {

/// Floats whose sums are exact in any order.
template <typename T>
void fill_with(std::byte* to, std::size_t bytes, std::mt19937_64& random) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    const T value = static_cast<T>(static_cast<int>(random() % 201) - 100);
    std::memcpy(to + i, &value, sizeof value);
  }
}

}  // namespace

void fill(std::byte* to, std::size_t bytes, DataType type, std::mt19937_64& random) {
  if (type == DataType::float32) return fill_with<float>(to, bytes, random);
  if (type == DataType::float64) return fill_with<double>(to, bytes, random);
  for (std::size_t i = 0; i < bytes; i++) to[i] = static_cast<std::byte>(random());
}

}  // namespace ccoll::gpu_check
