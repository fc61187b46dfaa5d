// SPDX-License-Identifier: Apache-2.0
#include "show/real/buffer_list.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "bench/command/names.hpp"

namespace ccoll::show {

namespace {

bool takes_lists(const bench::Operation& operation) {
  if (operation.ragged || !operation.kind) return false;
  switch (*operation.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::all_gather:
    case Kind::reduce_scatter:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<BufferCounts> buffer_counts_of(const bench::Operation& operation, const std::string& text) {
  if (!takes_lists(operation))
    return fail(ErrorKind::invalid_argument,
                "--buffers {}: {} takes no list of buffers; expected all_reduce, reduce, "
                "broadcast, all_gather or reduce_scatter",
                text, operation.name);
  BufferCounts counts;
  for (const std::string& word : bench::split_list(text)) {
    std::uint64_t& count = counts.emplace_back();
    const char* const end = word.data() + word.size();
    const auto [stopped, error] = std::from_chars(word.data(), end, count);
    if (error != std::errc() || stopped != end || count > UINT32_MAX)
      return fail(ErrorKind::invalid_argument, "--buffers {}: '{}' is not a number of elements",
                  text, word);
  }
  if (counts.size() != static_cast<std::size_t>(std::ranges::count(text, ',')) + 1)
    return fail(ErrorKind::invalid_argument,
                "--buffers {}: a comma without a number, expected the elements of each, like 2,3,1",
                text);
  return counts;
}

void call_on_buffers(const bench::Operation& operation, Communicator& communicator,
                     const bench::Arguments& arguments, const BufferCounts& counts) {
  const auto* in = static_cast<const std::byte*>(arguments.input);
  auto* out = static_cast<std::byte*>(arguments.output);
  const auto all = static_cast<std::size_t>(communicator.size());
  const bool gathers = operation.kind == Kind::all_gather;
  const bool scatters = operation.kind == Kind::reduce_scatter;
  std::vector<BufferPair> pairs;
  for (const std::uint64_t count : counts) {
    const ConstBlock input(in, scatters ? all * count : count, arguments.type);
    const Block output(out, gathers ? all * count : count, arguments.type);
    in += input.count * size_of(arguments.type);
    out += output.count * size_of(arguments.type);
    pairs.emplace_back(input, output);
  }
  switch (*operation.kind) {
    case Kind::all_reduce:
      return communicator.all_reduce(pairs, arguments.op, arguments.options);
    case Kind::reduce:
      return communicator.reduce(pairs, arguments.op, arguments.root, arguments.options);
    case Kind::broadcast:
      return communicator.broadcast(pairs, arguments.root, arguments.options);
    case Kind::all_gather:
      return communicator.all_gather(pairs, arguments.options);
    default:
      return communicator.reduce_scatter(pairs, arguments.op, arguments.options);
  }
}

}  // namespace ccoll::show
