// SPDX-License-Identifier: Apache-2.0
// Byte strings: ranks exchange their lengths first, then the strings.
#include <cstdint>

#include "comm/api/session.hpp"
#include "comm/call/byte_call.hpp"
#include "comm/groups/exchange.hpp"

namespace ccoll {
namespace {

using Lengths = std::vector<std::uint64_t>;

/// Calls `move` with everyone's lengths and the options for moving the strings. Returns its
/// strings, so a call that moves them must be over when it returns.
template <typename Move>
auto with_lengths(const std::shared_ptr<Session>& member, const ByteCall& call,
                  const CallOptions& options, Move move) {
  const auto communicator = member;  // another thread may close it meanwhile
  communicator->self().value_or_raise(check_byte_call(call, communicator->self().size(), options),
                                      options.label);
  try {
    const std::uint64_t mine = call.length;
    Lengths all(communicator->self().size());
    communicator->self().value_or_raise(
        communicator->exchange().tell_all(call.shown_as, &mine, all.data(), sizeof mine, options,
                                          static_cast<Rank>(call.root)),
        options.label);
    CallOptions until_over = options;
    until_over.unfinished = nullptr;
    return move(all, until_over);
  } catch (const Error&) {
    throw;
  } catch (...) {
    communicator->failures().call_threw(call.name, failure_of(std::current_exception()),
                                        options.label);
  }
}

ConstBlock block_of(std::string_view bytes) {
  return {bytes.data(), bytes.size(), DataType::uint8};
}

std::vector<Block> room_for(std::vector<std::string>& strings, const Lengths& lengths) {
  std::vector<Block> outputs;
  strings.resize(lengths.size());
  for (std::size_t rank = 0; rank < lengths.size(); rank++) {
    strings[rank].resize(lengths[rank]);
    outputs.emplace_back(strings[rank].data(), lengths[rank], DataType::uint8);
  }
  return outputs;
}

}  // namespace

std::string Communicator::broadcast_bytes(std::string_view bytes, int root,
                                          const CallOptions& options) {
  const ByteCall call{"broadcast_bytes",
                      kBroadcastBytes,
                      {Kind::broadcast},
                      rank() == root ? bytes.size() : 0,
                      root};
  return with_lengths(
      session(), call, options, [&](const Lengths& lengths, const CallOptions& until_over) {
        std::string received(lengths[static_cast<std::size_t>(root)], '\0');
        broadcast(ConstBlock(bytes.data(), received.size(), DataType::uint8),
                  Block(received.data(), received.size(), DataType::uint8), root, until_over);
        return received;
      });
}

std::vector<std::string> Communicator::all_gather_bytes(std::string_view bytes,
                                                        const CallOptions& options) {
  const ByteCall call{"all_gather_bytes", kAllGatherBytes, {Kind::all_gather, true}, bytes.size()};
  return with_lengths(session(), call, options,
                      [&](const Lengths& lengths, const CallOptions& until_over) {
                        std::vector<std::string> received;
                        const auto outputs = room_for(received, lengths);
                        all_gather_v(block_of(bytes), outputs, until_over);
                        return received;
                      });
}

std::vector<std::string> Communicator::gather_bytes(std::string_view bytes, int root,
                                                    const CallOptions& options) {
  const ByteCall call{"gather_bytes", kGatherBytes, {Kind::gather, true}, bytes.size(), root};
  return with_lengths(session(), call, options,
                      [&](const Lengths& lengths, const CallOptions& until_over) {
                        std::vector<std::string> received;
                        std::vector<Block> outputs;
                        if (rank() == root) outputs = room_for(received, lengths);
                        gather_v(block_of(bytes), outputs, root, until_over);
                        return received;
                      });
}

}  // namespace ccoll
