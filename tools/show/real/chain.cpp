// SPDX-License-Identifier: Apache-2.0
#include "show/real/chain.hpp"

namespace ccoll::show {

namespace {

bench::Layout layout(const bench::Shape& shape) {
  if (shape.rank == 0) return {shape.count, 0, {}};
  return {0, shape.count, {{0, 0, shape.count}}};
}

void call(Communicator& communicator, const bench::Arguments& arguments) {
  const int rank = communicator.rank();
  const Block output(arguments.output, arguments.count, arguments.type);
  const ConstBlock input(arguments.input, arguments.count, arguments.type);
  if (rank > 0) communicator.recv(output, rank - 1, 0, arguments.options);
  if (rank + 1 < communicator.size())
    communicator.send(rank == 0 ? input : output, rank + 1, 0, arguments.options);
}

}  // namespace

const bench::Operation kChain = {.name = "chain",
                                 .kind = std::nullopt,
                                 .over_blocks = false,
                                 .rooted = false,
                                 .reduces = false,
                                 .has_in_place = false,
                                 .has_data = true,
                                 .bus_factor = [](int) { return 1.0; },
                                 .layout = layout,
                                 .call = call,
                                 .meaning = "a message that is handed on from rank to rank"};

}  // namespace ccoll::show
