// SPDX-License-Identifier: Apache-2.0
// Byte strings: first their lengths, then they themselves.
#include <cstdint>

#include "comm/implementation.hpp"

namespace ccoll {
namespace {

ConstBlock block_of(std::string_view bytes) {
  return {bytes.data(), bytes.size(), DataType::uint8};
}

std::vector<Block> room_for(std::vector<std::string>& strings,
                            const std::vector<std::uint64_t>& lengths) {
  std::vector<Block> outputs;
  strings.resize(lengths.size());
  for (std::size_t rank = 0; rank < lengths.size(); rank++) {
    strings[rank].resize(lengths[rank]);
    outputs.emplace_back(strings[rank].data(), lengths[rank], DataType::uint8);
  }
  return outputs;
}

}  // namespace

std::vector<std::uint64_t> Communicator::lengths(std::size_t mine, const CallOptions& options,
                                                 std::string_view call, int root) {
  const auto communicator = implementation();  // another thread may close it meanwhile
  if (root < 0 || root >= size())
    raise(communicator->named(
        {ErrorKind::invalid_argument,
         fmt::format("{}: root {} is not one of {} ranks", call, root, size()), std::nullopt}));
  const std::uint64_t length = mine;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size()));
  communicator->value_or_raise(
      communicator->exchange(kBytes, &length, all.data(), sizeof length, options), options.label);
  return all;
}

std::string Communicator::broadcast_bytes(std::string_view bytes, int root,
                                          const CallOptions& options) {
  const auto all = lengths(rank() == root ? bytes.size() : 0, options, "broadcast_bytes", root);
  std::string received(all[static_cast<std::size_t>(root)], '\0');
  broadcast(bytes.data(), received.data(), received.size(), DataType::uint8, root, options);
  return received;
}

std::vector<std::string> Communicator::all_gather_bytes(std::string_view bytes,
                                                        const CallOptions& options) {
  std::vector<std::string> received;
  const auto outputs = room_for(received, lengths(bytes.size(), options, "all_gather_bytes"));
  all_gather_v(block_of(bytes), outputs, options);
  return received;
}

std::vector<std::string> Communicator::gather_bytes(std::string_view bytes, int root,
                                                    const CallOptions& options) {
  const auto all = lengths(bytes.size(), options, "gather_bytes", root);
  std::vector<std::string> received;
  std::vector<Block> outputs;
  if (rank() == root) outputs = room_for(received, all);
  gather_v(block_of(bytes), outputs, root, options);
  return received;
}

}  // namespace ccoll
