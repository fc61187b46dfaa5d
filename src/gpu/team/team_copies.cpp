// SPDX-License-Identifier: Apache-2.0
// A team's calls by copies. Each copy goes into the launch stream of the GPU whose memory is read.
// Copies that must follow those of other GPUs wait for their events.
#include <utility>

#include "gpu/team/copy_engines.hpp"
#include "gpu/team/team_device.hpp"

namespace ccoll::device {

Result<bool> Team::Device::copy(const LoadedProgram& program, std::span<const TeamCall> calls,
                                std::span<const cudaStream_t> streams) {
  if (program.copies.empty()) return false;
  const CurrentDevice current(gpus_[0].device);
  CCOLL_TRY(current.status());
  const auto copies = copies_for(program.copies, arguments(program, calls, 0));
  // CUDA promises nothing about copies between GPUs if one of them does not reach the memory.
  if (copies.empty() || (gpus_.size() > 1 && !are_reached(calls))) return false;
  Status put = put_copies(copies, program, calls, streams);
  if (put) return true;
  // Copies that are in the streams are made, by a graph whenever it runs.
  const bool is_captured = calls[0].capture != 0;
  if (!end_parts(static_cast<std::uint32_t>(gpus_.size()), is_captured) || is_captured)
    put.error().message += "; buffers may still be written";
  return tl::unexpected(std::move(put.error()));
}

Status Team::Device::put_copies(std::span<const PlacedCopies> copies, const LoadedProgram& program,
                                std::span<const TeamCall> calls,
                                std::span<const cudaStream_t> streams) {
  const auto on_each = [&](const auto& put) -> Status {
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      Status done = current.status();
      if (done) done = put(number, arguments(program, calls, number), streams[number]);
      if (done) continue;
      done.error().message += fmt::format(", on GPU {}", gpus_[number].device);
      return done;
    }
    return {};
  };
  CCOLL_TRY(on_each([&](std::uint32_t number, const TeamLaunch& launch, cudaStream_t stream) {
    return put_sent(copies[number].sent, launch, number, stream);
  }));
  return on_each([&](std::uint32_t number, const TeamLaunch& launch, cudaStream_t stream) {
    return put_spread(copies[number].spread, launch, number, stream);
  });
}

Status Team::Device::put_sent(std::span<const PlacedCopy> copies, const TeamLaunch& launch,
                              std::uint32_t number, cudaStream_t stream) const {
  CCOLL_TRY(put_claim(launch, stream));
  CCOLL_TRY(device::put_copies(copies, stream));
  if (gpus_.size() == 1) return {};
  return cuda_status(cudaEventRecord(gpus_[number].sent.get(), stream),
                     "recording what a GPU has sent by copies");
}

/// They follow what the other GPUs have sent.
Status Team::Device::put_spread(std::span<const PlacedCopy> copies, const TeamLaunch& launch,
                                std::uint32_t number, cudaStream_t stream) const {
  for (std::uint32_t other = 0; !copies.empty() && other < gpus_.size(); ++other) {
    if (other == number) continue;
    CCOLL_TRY(cuda_status(cudaStreamWaitEvent(stream, gpus_[other].sent.get(), 0),
                          "waiting for what a GPU has sent by copies"));
  }
  CCOLL_TRY(device::put_copies(copies, stream));
  return put_end_of_claim(launch, stream);
}

}  // namespace ccoll::device
