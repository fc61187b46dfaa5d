// SPDX-License-Identifier: Apache-2.0
// Ranks that make different calls, for which NCCL hangs or gives wrong data.
#include "job.hpp"

namespace faults {

namespace {

/// Two ranks make different calls; both get an error that names both.
void differ(ncclResult_t (*call)(Rank& rank), std::initializer_list<const char*> words) {
  const std::vector<const char*> both(words);
  Job job(2, [call, &both](Rank& rank) {
    rank.make();
    const auto code = call(rank);
    require_code(code, {ncclInvalidUsage}, "a call that differs between ranks");
    for (const char* word : both) require_code(code, {code}, "the text", {word});
    require(rank.async_error() == ncclInvalidUsage, "it is the communicator's state");
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well();
}

float data[4096];

void counts() {
  differ(
      [](Rank& rank) {
        const std::size_t count = rank.number == 0 ? 100 : 101;
        return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, rank.comm, nullptr);
      },
      {"100", "101", "ncclAllReduce"});
}

void types() {
  differ(
      [](Rank& rank) {
        const auto type = rank.number == 0 ? ncclFloat32 : ncclInt32;
        return ncclAllReduce(data, data, 64, type, ncclSum, rank.comm, nullptr);
      },
      {"float32", "int32"});
}

void reductions() {
  differ(
      [](Rank& rank) {
        const auto op = rank.number == 0 ? ncclSum : ncclMax;
        return ncclAllReduce(data, data, 64, ncclFloat32, op, rank.comm, nullptr);
      },
      {"sum", "max"});
}

/// Each root is done once it has sent: it gets the error by its next call.
void roots() {
  differ(
      [](Rank& rank) {
        const auto code =
            ncclBroadcast(data, data, 64, ncclFloat32, rank.number, rank.comm, nullptr);
        return code == ncclSuccess ? rank.sum() : code;
      },
      {"root"});
}

void order() {
  differ(
      [](Rank& rank) {
        const auto sum = [&] {
          return ncclAllReduce(data, data, 64, ncclFloat32, ncclSum, rank.comm, nullptr);
        };
        const auto gather = [&] {
          return ncclAllGather(data, data + 128, 64, ncclFloat32, rank.comm, nullptr);
        };
        const auto first = rank.number == 0 ? sum() : gather();
        return first != ncclSuccess ? first : rank.number == 0 ? gather() : sum();
      },
      {"all_reduce", "all_gather"});
}

void messages() {
  differ(
      [](Rank& rank) {
        const std::size_t count = rank.number == 0 ? 100 : 60;
        const auto code = rank.number == 0
                              ? ncclSend(data, count, ncclFloat32, 1, rank.comm, nullptr)
                              : ncclRecv(data, count, ncclFloat32, 0, rank.comm, nullptr);
        // A short message has left before the other side reports that it does not fit.
        return rank.number == 0 && code == ncclSuccess ? rank.sum() : code;
      },
      {"400 bytes", "240"});
}

void short_messages() {
  differ(
      [](Rank& rank) {
        const std::size_t count = rank.number == 0 ? 60 : 100;
        const auto code = rank.number == 0
                              ? ncclSend(data, count, ncclFloat32, 1, rank.comm, nullptr)
                              : ncclRecv(data, count, ncclFloat32, 0, rank.comm, nullptr);
        return rank.number == 0 && code == ncclSuccess ? rank.sum() : code;
      },
      {"400 bytes", "240"});
}

void message_types() {
  differ(
      [](Rank& rank) {
        const auto code = rank.number == 0 ? ncclSend(data, 64, ncclFloat32, 1, rank.comm, nullptr)
                                           : ncclRecv(data, 64, ncclInt32, 0, rank.comm, nullptr);
        return rank.number == 0 && code == ncclSuccess ? rank.sum() : code;
      },
      {"float32", "int32"});
}

/// Rank 0's first call of the group is a send that fits; its receive is what fails.
void grouped_messages() {
  differ(
      [](Rank& rank) {
        const int other = 1 - rank.number;
        const auto sends = [&](std::size_t count) {
          return ncclSend(data, count, ncclFloat32, other, rank.comm, nullptr);
        };
        must(ncclGroupStart(), "ncclGroupStart");
        must(sends(rank.number == 0 ? 100 : 60), "ncclSend in a group");
        must(ncclRecv(data + 256, 100, ncclFloat32, other, rank.comm, nullptr),
             "ncclRecv in a group");
        const auto code = ncclGroupEnd();
        if (rank.number == 1) return code == ncclSuccess ? rank.sum() : code;
        require_code(code, {ncclInvalidUsage}, "the group", {"ncclRecv from rank 1"});
        return code;
      },
      {"400 bytes", "240"});
}

}  // namespace

std::vector<Scenario> scenarios_of_mismatches() {
  return {{"counts differ", counts},
          {"types differ", types},
          {"reductions differ", reductions},
          {"roots differ", roots},
          {"the order of calls differs", order},
          {"a message is longer than its receive", messages},
          {"a message is shorter than its receive", short_messages},
          {"a message has another type", message_types},
          {"a group's receive does not fit", grouped_messages}};
}

}  // namespace faults
