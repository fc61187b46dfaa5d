// SPDX-License-Identifier: Apache-2.0
/// The cost of a call through nccl.h compared with the same call in C++: an all_reduce of 2 floats
/// by one rank, on the host.
///
///     nccl-cost                 times of both, side by side
///     nccl-cost face|cpp CALLS  that many calls of one, for bench/costs/nccl_instructions
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "nccl.h"

namespace {

constexpr std::size_t kCount = 2;
constexpr int kRounds = 201;
constexpr int kCallsPerRound = 2000;

void must(ncclResult_t code) {
  if (code != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
}

class Face {
 public:
  Face() { must(ncclCommInitAll(&communicator_, 1, nullptr)); }
  ~Face() { ncclCommDestroy(communicator_); }
  Face(const Face&) = delete;
  Face& operator=(const Face&) = delete;

  void call() {
    must(ncclAllReduce(in_, out_, kCount, ncclFloat32, ncclSum, communicator_, nullptr));
  }

 private:
  ncclComm_t communicator_ = nullptr;
  float in_[kCount] = {1, 2};
  float out_[kCount] = {};
};

class Cpp {
 public:
  void call() {
    rank_.all_reduce(ccoll::ConstBlock(in_, kCount, ccoll::DataType::float32),
                     ccoll::Block(out_, kCount, ccoll::DataType::float32), ccoll::ReduceOp::sum);
  }

 private:
  ccoll::Communicator rank_ = std::move(ccoll::Communicator::create_all(1).front());
  float in_[kCount] = {1, 2};
  float out_[kCount] = {};
};

template <typename Side>
double nanoseconds_per_call(Side& side) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCallsPerRound; ++i) side.call();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kCallsPerRound;
}

void compare() {
  Face face;
  Cpp cpp;
  std::vector<double> of_face;
  std::vector<double> of_cpp;
  for (int round = 0; round < kRounds; ++round) {
    of_face.push_back(nanoseconds_per_call(face));
    of_cpp.push_back(nanoseconds_per_call(cpp));
  }
  const auto middle = [](std::vector<double> times) {
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    return times[kRounds / 2];
  };
  const double face_ns = middle(of_face);
  const double cpp_ns = middle(of_cpp);
  fmt::print(
      "all_reduce of {} floats by one rank, the middle of {} rounds of {} calls:\n"
      "nccl.h {:.0f} ns, C++ {:.0f} ns: {:.0f} ns more, {:.2f} times as long\n",
      kCount, kRounds, kCallsPerRound, face_ns, cpp_ns, face_ns - cpp_ns, face_ns / cpp_ns);
}

template <typename Side>
int call_often(int calls) {
  Side side;
  for (int i = 0; i < calls; ++i) side.call();
  return 0;
}

}  // namespace

int main(int count, char** values) {
  ::setenv("CCOLL_NCCL_HOST", "1", 0);
  try {
    const std::string side = count == 3 ? values[1] : "";
    if (side == "face") return call_often<Face>(std::atoi(values[2]));
    if (side == "cpp") return call_often<Cpp>(std::atoi(values[2]));
    if (count != 1) {
      fmt::print(stderr, "usage: nccl-cost [face|cpp CALLS]\n");
      return 2;
    }
    compare();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "nccl-cost: {}\n", error.what());
    return 1;
  }
}
