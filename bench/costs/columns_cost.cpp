// SPDX-License-Identifier: Apache-2.0
/// Collectives and messages on columns of a matrix of float32: where they lie, and copied together
/// before the call and apart after it, as programs do without blocks of rows. Both take turns.
///
///     cc-run -n 2 columns-cost
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "bench/costs/no_arguments.hpp"
#include "bench/costs/side_by_side.hpp"

namespace {

using ccoll::Block;
using ccoll::Communicator;
using ccoll::bench::quantile;

constexpr int kRounds = 41;
constexpr double kBatchUs = 2000;

/// A matrix of all ranks' columns, and how many each has.
struct Shape {
  std::size_t rows, columns;
};
constexpr Shape kShapes[] = {{4096, 1},  {65536, 1},  {4096, 16}, {65536, 16},
                             {256, 256}, {4096, 256}, {64, 4096}, {1024, 4096}};

struct Matrix {
  Matrix(Shape shape, std::size_t ranks)
      : rows(shape.rows), width(shape.columns), all(width * ranks), elems(rows * all, 1) {}

  std::vector<Block> blocks() {
    return ccoll::columns(elems, rows, std::vector(all / width, width));
  }
  void pack(std::size_t rank, float* to) const {
    for (std::size_t row = 0; row < rows; row++)
      std::memcpy(to + row * width, &elems[row * all + rank * width], width * sizeof(float));
  }
  void unpack(std::size_t rank, const float* from) {
    for (std::size_t row = 0; row < rows; row++)
      std::memcpy(&elems[row * all + rank * width], from + row * width, width * sizeof(float));
  }

  std::size_t rows, width, all;
  std::vector<float> elems;
};

/// One operation both ways.
struct Operation {
  std::string_view name;
  std::function<void()> where_they_lie, packed;
};

std::vector<Operation> operations(Communicator& world, Matrix& in, Matrix& out,
                                  std::vector<float>& sent, std::vector<float>& got) {
  const auto size = static_cast<std::size_t>(world.size()),
             me = static_cast<std::size_t>(world.rank());
  const std::size_t block = in.rows * in.width;
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  const auto inputs = in.blocks(), outputs = out.blocks();
  const std::vector<ccoll::ConstBlock> read(inputs.begin(), inputs.end());
  const auto pack_all = [&in, &sent, size, block] {
    for (std::size_t r = 0; r < size; r++) in.pack(r, &sent[r * block]);
  };
  const auto unpack_all = [&out, &got, size, block] {
    for (std::size_t r = 0; r < size; r++) out.unpack(r, &got[r * block]);
  };
  const auto part = [block](std::vector<float>& of) { return std::span(of).first(block); };
  return {
      {"all_gather", [=, &world] { world.all_gather_v(read[me], outputs); },
       [=, &world, &in, &sent, &got] {
         in.pack(me, sent.data());
         world.all_gather(part(sent), got);
         unpack_all();
       }},
      {"reduce_scatter", [=, &world] { world.reduce_scatter_v(read, outputs[me]); },
       [=, &world, &out, &sent, &got] {
         pack_all();
         world.reduce_scatter(sent, part(got));
         out.unpack(me, got.data());
       }},
      {"all_to_all", [=, &world] { world.all_to_all_v(read, outputs); },
       [=, &world, &sent, &got] {
         pack_all();
         world.all_to_all(sent, got);
         unpack_all();
       }},
      {"send_recv", [=, &world] { world.send_recv(read[0], next, outputs[0], last); },
       [=, &world, &in, &out, &sent, &got] {
         in.pack(0, sent.data());
         world.send_recv(part(sent), next, part(got), last);
         out.unpack(0, got.data());
       }},
  };
}

void measure(Communicator& world, Shape shape) {
  const auto size = static_cast<std::size_t>(world.size());
  Matrix in(shape, size), out(shape, size);
  std::vector<float> sent(in.elems.size()), got(in.elems.size());
  for (const auto& [name, where_they_lie, packed] : operations(world, in, out, sent, got)) {
    const double estimate = ccoll::bench::time_batch(world, 3, packed);
    const auto calls = static_cast<std::uint64_t>(std::clamp(kBatchUs / estimate, 1.0, 1000.0));
    std::vector<double> lies_us, packed_us, ratios;
    for (int round = 0; round < kRounds; round++) {
      packed_us.push_back(ccoll::bench::time_batch(world, calls, packed));
      lies_us.push_back(ccoll::bench::time_batch(world, calls, where_they_lie));
      ratios.push_back(lies_us.back() / packed_us.back());
    }
    if (world.rank() != 0) continue;
    fmt::print("{:>8}{:>9}  {:<15}{:>12.1f}{:>12.1f}{:>8.2f}\n", shape.rows, shape.columns, name,
               quantile(packed_us, 0.5), quantile(lies_us, 0.5), quantile(ratios, 0.5));
  }
}

}  // namespace

int main(int count, char** values) {
  if (const auto status = ccoll::bench::not_to_run(count, values, "cc-run -n 2 columns-cost"))
    return *status;
  try {
    auto world = Communicator::create();
    if (world.rank() == 0)
      fmt::print(
          "{} ranks, {} rounds: median us, and the median of the rounds' ratios\n"
          "{:>8}{:>9}  {:<15}{:>12}{:>12}{:>8}\n",
          world.size(), kRounds, "rows", "columns", "operation", "packed", "as it lies", "ratio");
    for (const auto& shape : kShapes) measure(world, shape);
    world.close();
  } catch (const ccoll::Error& error) {
    fmt::print(stderr, "columns-cost: {}\n", error.what());
    return 1;
  }
}
