// SPDX-License-Identifier: Apache-2.0
#include "cases.hpp"

#include <algorithm>
#include <utility>

#include "newer.h"

namespace conformance {

namespace {

/// Elements before, between and behind the buffers.
constexpr std::size_t kGuard = 16;
constexpr unsigned char kMark = 0xa5;

constexpr const char* kNames[] = {"all_reduce", "broadcast",      "bcast",      "reduce",
                                  "all_gather", "reduce_scatter", "all_to_all", "gather",
                                  "scatter",    "shift",          "exchange"};

/// How many blocks of `count` elements the buffers have.
struct Blocks {
  int send = 1;
  int recv = 1;
};

Blocks blocks(Operation operation, int ranks) {
  switch (operation) {
    case Operation::all_gather:
    case Operation::gather:
      return {1, ranks};
    case Operation::reduce_scatter:
    case Operation::scatter:
      return {ranks, 1};
    case Operation::all_to_all:
    case Operation::exchange:
      return {ranks, ranks};
    default:
      return {1, 1};
  }
}

}  // namespace

bool Case::reduces() const {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter;
}

std::string Case::text(int ranks) const {
  std::string text = kNames[static_cast<int>(operation)];
  text += std::string(" of ") + std::to_string(count) + " " + type->name;
  if (reduces()) text += std::string(", ") + name(reduction);
  text += ", root or distance " + std::to_string(root) + " of " + std::to_string(ranks);
  text += ", offset " + std::to_string(offset) + (in_place ? ", in place" : "");
  return text + ", seed " + std::to_string(seed);
}

Part::Part(const Case& judged, int rank, int ranks, Memory& memory)
    : judged_(judged), rank_(rank), ranks_(ranks), memory_(&memory) {
  const auto [send, recv] = blocks(judged.operation, ranks);
  const std::size_t count = judged.count;
  const std::size_t first = kGuard + judged.offset;
  const auto own = static_cast<std::size_t>(rank) * count;
  send_ = {first, static_cast<std::size_t>(send) * count};
  recv_ = {first, static_cast<std::size_t>(recv) * count};
  std::size_t end = first + std::max(send_.count, recv_.count);
  if (!judged.in_place) {
    // The alignment differs, too.
    recv_.begin = first + send_.count + kGuard + 1;
    end = recv_.begin + recv_.count;
  } else if (send_.count < recv_.count) {
    send_.begin += own;
  } else if (recv_.count < send_.count) {
    recv_.begin += own;
  }
  bytes_ = (end + kGuard) * judged.type->size;
  data_ = static_cast<unsigned char*>(memory.allocate(bytes_));
}

Part::~Part() {
  if (data_ != nullptr) memory_->free(data_);
  if (factor_ != nullptr) memory_->free(factor_);
}

Part::Part(Part&& other) noexcept
    : judged_(other.judged_),
      rank_(other.rank_),
      ranks_(other.ranks_),
      memory_(other.memory_),
      send_(other.send_),
      recv_(other.recv_),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)),
      factor_(std::exchange(other.factor_, nullptr)),
      before_(std::move(other.before_)) {}

bool Part::sends() const {
  const bool only_root = judged_.operation == Operation::broadcast ||
                         judged_.operation == Operation::bcast ||
                         judged_.operation == Operation::scatter;
  return !only_root || rank_ == judged_.root;
}

bool Part::receives() const {
  const bool only_root =
      judged_.operation == Operation::reduce || judged_.operation == Operation::gather;
  return !only_root || rank_ == judged_.root;
}

unsigned char* Part::at(const Extent& extent) const {
  return data_ + extent.begin * judged_.type->size;
}

Value Part::input(int rank, std::size_t index) const {
  const auto reduction = judged_.reduces() ? judged_.reduction : Reduction::max;
  return element(*judged_.type, reduction, judged_.seed, rank, ranks_, index);
}

void Part::fill() {
  before_.assign(bytes_, kMark);
  if (sends()) {
    for (std::size_t i = 0; i < send_.count; ++i) {
      store(*judged_.type, input(rank_, i), &before_[(send_.begin + i) * judged_.type->size]);
    }
  }
  memory_->copy_in(data_, before_.data(), bytes_);
  // A factor in device memory is read when the call runs; every second one is there.
  if (!memory_->is_of_devices() || judged_.reduction != Reduction::premultiplied ||
      judged_.seed % 2 == 0) {
    return;
  }
  unsigned char scalar[8];
  store(*judged_.type, factor(*judged_.type, judged_.seed, rank_), scalar);
  factor_ = memory_->allocate(sizeof scalar);
  memory_->copy_in(factor_, scalar, sizeof scalar);
}

Value Part::expected(std::size_t index) const {
  const std::size_t count = judged_.count;
  const auto own = static_cast<std::size_t>(rank_) * count;
  const auto from = static_cast<int>(index / count);
  switch (judged_.operation) {
    case Operation::broadcast:
    case Operation::bcast:
      return input(judged_.root, index);
    case Operation::all_gather:
    case Operation::gather:
      return input(from, index % count);
    case Operation::all_to_all:
    case Operation::exchange:
      return input(from, own + index % count);
    case Operation::scatter:
      return input(judged_.root, own + index);
    case Operation::shift:
      return input((rank_ + ranks_ - judged_.root) % ranks_, index);
    default:
      break;
  }
  const std::size_t place = judged_.operation == Operation::reduce_scatter ? own + index : index;
  std::vector<Value> values(static_cast<std::size_t>(ranks_));
  std::vector<Value> factors(values.size());
  for (int r = 0; r < ranks_; ++r) {
    values[static_cast<std::size_t>(r)] = input(r, place);
    factors[static_cast<std::size_t>(r)] = factor(*judged_.type, judged_.seed, r);
  }
  return conformance::reduce(*judged_.type, judged_.reduction, values, factors);
}

ncclResult_t Part::messages(ncclComm_t communicator, cudaStream_t stream) {
  const auto type = judged_.type->number;
  if (const auto code = ncclGroupStart(); code != ncclSuccess) return code;
  ncclResult_t first = ncclSuccess;
  const auto note = [&](ncclResult_t code) {
    if (first == ncclSuccess) first = code;
  };
  if (judged_.operation == Operation::shift) {
    const int to = (rank_ + judged_.root) % ranks_;
    const int from = (rank_ + ranks_ - judged_.root) % ranks_;
    note(ncclSend(at(send_), judged_.count, type, to, communicator, stream));
    note(ncclRecv(at(recv_), judged_.count, type, from, communicator, stream));
  } else {
    const std::size_t block = judged_.count * judged_.type->size;
    for (int i = 0; i < ranks_; ++i) {
      // Neither in rank order nor in one order for both.
      const int to = (rank_ + i) % ranks_;
      const int from = (rank_ + ranks_ - i) % ranks_;
      note(ncclRecv(at(recv_) + static_cast<std::size_t>(from) * block, judged_.count, type, from,
                    communicator, stream));
      note(ncclSend(at(send_) + static_cast<std::size_t>(to) * block, judged_.count, type, to,
                    communicator, stream));
    }
  }
  note(ncclGroupEnd());
  return first;
}

ncclResult_t Part::make_operation(ncclRedOp_t& op, ncclComm_t communicator) {
  const auto type = judged_.type->number;
  if (factor_ != nullptr) {
    return ncclRedOpCreatePreMulSum(&op, factor_, type, ncclScalarDevice, communicator);
  }
  unsigned char scalar[8];
  store(*judged_.type, factor(*judged_.type, judged_.seed, rank_), scalar);
  return ncclRedOpCreatePreMulSum(&op, scalar, type, ncclScalarHostImmediate, communicator);
}

ncclResult_t Part::call(ncclComm_t communicator, cudaStream_t stream) {
  // A buffer that a rank does not use may be any address.
  auto* const nothing = reinterpret_cast<unsigned char*>(std::uintptr_t{0x10});
  unsigned char* const send = sends() ? at(send_) : nothing;
  unsigned char* const recv = receives() ? at(recv_) : nothing;
  const std::size_t count = judged_.count;
  const auto type = judged_.type->number;
  const int root = judged_.root;
  ncclRedOp_t op = number(judged_.reduction);
  const bool own_op = judged_.reduces() && judged_.reduction == Reduction::premultiplied;
  if (own_op) {
    if (const auto made = make_operation(op, communicator); made != ncclSuccess) return made;
  }
  ncclResult_t code = ncclSuccess;
  switch (judged_.operation) {
    case Operation::all_reduce:
      code = ncclAllReduce(send, recv, count, type, op, communicator, stream);
      break;
    case Operation::broadcast:
      code = ncclBroadcast(send, recv, count, type, root, communicator, stream);
      break;
    case Operation::bcast:
      code = ncclBcast(at(recv_), count, type, root, communicator, stream);
      break;
    case Operation::reduce:
      code = ncclReduce(send, recv, count, type, op, root, communicator, stream);
      break;
    case Operation::all_gather:
      code = ncclAllGather(send, recv, count, type, communicator, stream);
      break;
    case Operation::reduce_scatter:
      code = ncclReduceScatter(send, recv, count, type, op, communicator, stream);
      break;
    case Operation::all_to_all:
      code = ncclAlltoAll(send, recv, count, type, communicator, stream);
      break;
    case Operation::gather:
      code = ncclGather(send, recv, count, type, root, communicator, stream);
      break;
    case Operation::scatter:
      code = ncclScatter(send, recv, count, type, root, communicator, stream);
      break;
    case Operation::shift:
    case Operation::exchange:
      code = messages(communicator, stream);
      break;
  }
  if (!own_op) return code;
  // A call that has been made, or recorded in a group, keeps it.
  const auto destroyed = ncclRedOpDestroy(op, communicator);
  return code != ncclSuccess ? code : destroyed;
}

std::string Part::wrong() {
  std::vector<unsigned char> now(bytes_);
  memory_->copy_out(now.data(), data_, bytes_);
  const std::size_t size = judged_.type->size;
  const std::string who = "rank " + std::to_string(rank_) + ", " + judged_.text(ranks_) + ": ";
  const bool nearly = judged_.reduces() && judged_.reduction == Reduction::avg;
  const std::size_t received = receives() ? recv_.count : 0;
  for (std::size_t i = 0; i < received; ++i) {
    const Value value = expected(i);
    const unsigned char* const got = &now[(recv_.begin + i) * size];
    if (holds(*judged_.type, value, nearly, got)) continue;
    unsigned char right[8];
    store(*judged_.type, value, right);
    return who + "element " + std::to_string(i) + " is " + shown(*judged_.type, got) + ", not " +
           shown(*judged_.type, right);
  }
  // All other bytes are unchanged. In place, the input's other blocks may hold anything.
  const bool free_input = judged_.in_place && receives();
  const auto inside = [size](std::size_t byte, const Extent& extent) {
    return byte >= extent.begin * size && byte < (extent.begin + extent.count) * size;
  };
  for (std::size_t byte = 0; byte < bytes_; ++byte) {
    if (now[byte] == before_[byte] || (receives() && inside(byte, recv_))) continue;
    if (free_input && inside(byte, send_)) continue;
    return who + "byte " + std::to_string(byte) + " of " + std::to_string(bytes_) +
           " outside of the output was written";
  }
  return {};
}

}  // namespace conformance
