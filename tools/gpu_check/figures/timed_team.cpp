// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/figures/timed_team.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "algorithms/algorithms.hpp"
#include "gpu/team/team_device.hpp"
#include "gpu_check/phases/graph.hpp"
#include "support/differences.hpp"

namespace ccoll::gpu_check {
namespace {

/// Enough for the slots of every lane.
constexpr std::uint64_t kWorkspaceBytes = 512 << 20;

/// Whether ranks give the operation blocks of the larger buffer instead of all of it.
bool is_of_blocks(Kind kind) {
  return kind == Kind::reduce_scatter || kind == Kind::all_gather || kind == Kind::all_to_all;
}

}  // namespace

Result<Buffers> make_buffers(std::size_t count, std::uint64_t bytes) {
  Buffers all(count);
  for (auto& each : all) CCOLL_TRY(device::put(device::allocate_on_device(bytes), each));
  return all;
}

TimedTeam::TimedTeam(std::uint32_t ranks, const Buffers& buffers, std::uint64_t buffer_bytes,
                     device::CopyUse copies)
    : ranks_(ranks),
      buffers_(buffers),
      buffer_bytes_(buffer_bytes),
      team_(value_or_throw(device::Team::make(
          {.ranks = ranks, .workspace_bytes = kWorkspaceBytes, .copies = copies}))) {
  for (std::uint32_t rank = 1; rank < ranks; ++rank)
    streams_.push_back(value_or_throw(device::make_stream()));
}

Result<TimedTeam::Program> TimedTeam::load(Kind kind, const Choice& choice, std::uint64_t bytes) {
  Problem problem;
  problem.kind = kind;
  problem.size = ranks_;
  problem.count = bytes / 4 / (is_of_blocks(kind) ? ranks_ : 1);
  const auto schedule = [=](Rank rank) { return make_program(problem, choice, rank); };
  const auto lowered =
      device::lower({problem, choice, schedule, DataType::float32, ReduceOp::sum, {}});
  if (!lowered) return tl::unexpected(lowered.error());
  const auto loaded = team_->load(*lowered);
  CCOLL_TRY(loaded);
  return Program{kind,
                 bytes,
                 *loaded,
                 lowered->program.block_count,
                 (*loaded)->parts[0].threads,
                 8 * std::size_t{lowered->program.shared_words()}};
}

std::vector<cudaStream_t> TimedTeam::streams(cudaStream_t stream) const {
  std::vector<cudaStream_t> all = {stream};
  for (const auto& each : streams_) all.push_back(each.get());
  return all;
}

Status TimedTeam::call(const Program& program, cudaStream_t stream) {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    device::TeamCall call;
    call.rank = rank;
    call.program = program.loaded;
    call.input = input(rank);
    call.output = output(rank);
    call.stream = rank == 0 ? stream : streams_[rank - 1].get();
    CCOLL_TRY(team_->arrive(call));
  }
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) CCOLL_TRY(team_->leave(rank, soon));
  return {};
}

std::string TimedTeam::wrong(const Program& program, cudaStream_t stream) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const int fill = i < buffers_.size() / 2 ? kFill : 0xee;
    check(cudaMemset(buffers_[i].get(), fill, buffer_bytes_), "filling buffers");
  }
  check(cudaDeviceSynchronize(), "filling buffers");
  value_or_throw(call(program, stream));
  check(cudaDeviceSynchronize(), "a timed call");
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (auto wrong = wrong_results(program, rank); !wrong.empty()) return wrong;
  }
  return "";
}

/// Describes the first and the last of them.
std::string TimedTeam::wrong_results(const Program& program, std::uint32_t rank) const {
  float value = 0;
  std::memset(&value, kFill, sizeof value);
  if (reduces(program.kind)) value *= static_cast<float>(ranks_);
  const std::uint64_t all =
      program.kind == Kind::reduce_scatter ? program.bytes / ranks_ / 4 * 4 : program.bytes;
  const std::uint64_t bytes = std::min<std::uint64_t>(all, 256 << 10) / 4 * 4;
  const std::vector<float> expected(bytes / 4, value);
  std::vector<float> here(expected.size());
  for (const std::uint64_t at : {std::uint64_t{0}, all - bytes}) {
    check(cudaMemcpy(here.data(), output(rank) + at, bytes, cudaMemcpyDeviceToHost),
          "reading an output");
    const auto wrong = testing::differences(
        std::as_bytes(std::span(here)), std::as_bytes(std::span(expected)),
        [&](std::size_t byte) { return fmt::format("element {}", (at + byte) / 4); });
    if (!wrong.empty()) return fmt::format("rank {}'s output: {}", rank, wrong);
  }
  return "";
}

}  // namespace ccoll::gpu_check
