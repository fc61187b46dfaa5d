// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/team_part.hpp"

#include <chrono>

namespace ccoll::gpu_check {

TeamPart::TeamPart(std::uint32_t ranks, std::uint64_t seed)
    : random_(seed),
      team_(value_or_throw(device::Team::make(
          {.ranks = ranks, .workspace_bytes = 64 << 20, .copies = device::CopyUse::always}))) {
  for (std::uint32_t rank = 0; rank < ranks; rank++)
    streams_.push_back(value_or_throw(device::make_stream()));
  const auto entries = catalogue();
  for (const Kind kind : {Kind::all_gather, Kind::all_to_all})
    add(test::random_case(*std::ranges::find(entries, kind, &CatalogueEntry::kind), ranks,
                          random_));
  for (std::size_t i = 0; i < kPrograms; i++)
    add(test::random_case(entries[random_() % entries.size()], ranks, random_));
}

void TeamPart::add(const test::TeamCase& made) {
  Program program{made, made.lowered(), nullptr, test::TeamMemory(made, random_), {}};
  program.loaded = value_or_throw(team_->load(program.lowered));
  for (Rank rank = 0; rank < streams_.size(); rank++)
    program.there.push_back(
        value_or_throw(device::allocate_on_device(program.memory.all(rank).size())));
  programs_.push_back(std::move(program));
}

std::vector<cudaStream_t> TeamPart::streams() const {
  std::vector<cudaStream_t> all;
  for (const auto& each : streams_) all.push_back(each.get());
  return all;
}

void TeamPart::put(int /*round*/) {
  for (auto& [made, lowered, loaded, memory, there] : programs_) {
    for (Rank rank = 0; rank < streams_.size(); rank++) {
      const auto all = memory.all(rank);
      for (auto& byte : all) byte = static_cast<std::byte>(random_());
      check(cudaMemcpyAsync(there[rank].get(), all.data(), all.size(), cudaMemcpyHostToDevice,
                            streams_[rank].get()),
            "copying a rank's memory to the GPU");
    }
  }
}

void TeamPart::call(std::span<const cudaStream_t> streams) {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (auto& [made, lowered, loaded, memory, there] : programs_) {
    for (Rank rank = 0; rank < streams.size(); rank++) {
      const std::byte* const begin = memory.all(rank).data();
      device::TeamCall call;
      call.rank = rank;
      call.program = loaded;
      call.input = there[rank].get() + (memory.input(rank) - begin);
      call.output = there[rank].get() + (memory.output(rank) - begin);
      call.stream = streams[rank];
      value_or_throw(team_->arrive(call));
    }
    for (Rank rank = 0; rank < streams.size(); rank++) value_or_throw(team_->leave(rank, soon));
  }
}

std::string TeamPart::wrong() {
  for (const auto& each : streams_) check(cudaStreamSynchronize(each.get()), "a team's calls");
  value_or_throw(team_->check(programs_.back().loaded));
  std::string wrong;
  for (auto& [made, lowered, loaded, memory, there] : programs_) {
    test::TeamMemory expected = memory, got = memory;
    host_.run(lowered, expected.buffers(), 1);
    for (Rank rank = 0; rank < streams_.size(); rank++) {
      const auto all = got.all(rank);
      check(cudaMemcpy(all.data(), there[rank].get(), all.size(), cudaMemcpyDeviceToHost),
            "copying a rank's memory from the GPU");
    }
    if (got != expected)
      wrong += fmt::format("{}: bits differ from the host's: {}; ", made.text(),
                           got.differences(expected));
  }
  return wrong;
}

}  // namespace ccoll::gpu_check
