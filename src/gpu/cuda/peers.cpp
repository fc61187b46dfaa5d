// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/peers.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/trial.hpp"
#include "kernels/device/launch.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// How long one GPU may take to read and write, or copy, some bytes of another's.
constexpr std::chrono::seconds kLimit{5};

/// How one GPU accesses another's memory.
enum class By : std::uint8_t { kernels, copies };

/// The patterns of a trial: its own, the one that it has read elsewhere, and those that others have
/// written, or copied.
enum Place : std::size_t { own, read, written, copied, places };
std::byte* at(const Trial& trial, Place place) { return trial.memory() + place * kTrialBytes; }

std::uint32_t number_of(int device) { return static_cast<std::uint32_t>(device); }

Status enable(int device, int peer) {
  int can = 0;
  CCOLL_TRY(cuda_status(cudaDeviceCanAccessPeer(&can, device, peer), "asking for peers"));
  if (can == 0) return fail(ErrorKind::unsupported, "CUDA has no peer access between them");
  const auto error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) return cuda_status(error, "enabling access");
  (void)cudaGetLastError();
  return {};
}

/// The process's knowledge of its GPUs.
class Peers {
 public:
  Status reach(std::span<const int> devices, By by) {
    for (const int device : devices) {
      for (const int peer : devices) {
        if (device == peer) continue;
        const auto known = known_.find({device, peer, by});
        CCOLL_TRY(known != known_.end() ? known->second : find_out(device, peer, by));
      }
    }
    return {};
  }

 private:
  Status find_out(int device, int peer, By by) {
    auto works = try_out(device, peer, by);
    // There may be memory next time.
    const bool is_known = works || works.error().kind != ErrorKind::exhausted;
    if (!works && is_known) {
      works.error().message =
          fmt::format("GPU {} does not reach the memory of GPU {}{}: {}", device, peer,
                      by == By::copies ? " by copies" : "", works.error().message);
      // Memory that does not work is given up, whatever the reason.
      works.error().kind = ErrorKind::unsupported;
    }
    if (!works && by == By::copies) {
      log().warn("calls of ranks that have several GPUs are made by kernels, none by copies: {}",
                 works.error().message);
    }
    if (is_known) known_[{device, peer, by}] = works;
    return works;
  }

  Status try_out(int device, int peer, By by) {
    const auto there = trial_on(peer), here = trial_on(device);
    CCOLL_TRY(there);
    CCOLL_TRY(here);
    const CurrentDevice current(device);
    CCOLL_TRY(current.status());
    const BesideCaptures beside;
    Status works;
    if (by == By::kernels) {
      CCOLL_TRY(enable(device, peer));
      works = pass_patterns(**here, device, **there, peer);
    } else {
      works = copy_pattern(**here, device, **there, peer);
    }
    // A trial that may hang is not touched again.
    if (!works && works.error().kind == ErrorKind::timed_out) {
      for (const int each : {device, peer}) {
        abandoned_.push_back(std::move(trials_[each]));
        trials_.erase(each);
      }
    }
    return works;
  }

  /// Kernels of `device` read the peer's pattern there, and write their own there.
  static Status pass_patterns(Trial& here, int device, Trial& there, int peer) {
    const auto limit = Clock::now() + kLimit;
    const LaunchShape shape{1, 64};
    CCOLL_TRY(launch_copy(at(there, own), at(here, read), kTrialBytes, shape, here.stream()));
    CCOLL_TRY(launch_copy(at(here, own), at(there, written), kTrialBytes, shape, here.stream()));
    CCOLL_TRY(here.mark());
    CCOLL_TRY(here.wait(limit, "a kernel that reads and writes there"));
    const auto misread = here.find_wrong(at(here, read), number_of(peer), 1, limit);
    CCOLL_TRY(misread);
    if (*misread) return fail(ErrorKind::unsupported, "what it reads there is wrong");
    const CurrentDevice current(peer);
    CCOLL_TRY(current.status());
    const auto miswritten = there.find_wrong(at(there, written), number_of(device), 1, limit);
    CCOLL_TRY(miswritten);
    if (*miswritten) return fail(ErrorKind::unsupported, "what it writes there is wrong");
    return {};
  }

  /// A stream of `device` copies its pattern to the peer.
  static Status copy_pattern(Trial& here, int device, Trial& there, int peer) {
    const auto limit = Clock::now() + kLimit;
    CCOLL_TRY(cuda_status(cudaMemcpyAsync(at(there, copied), at(here, own), kTrialBytes,
                                          cudaMemcpyDefault, here.stream()),
                          "copying there"));
    CCOLL_TRY(here.mark());
    CCOLL_TRY(here.wait(limit, "a copy to there"));
    const CurrentDevice current(peer);
    CCOLL_TRY(current.status());
    const auto miscopied = there.find_wrong(at(there, copied), number_of(device), 1, limit);
    CCOLL_TRY(miscopied);
    if (*miscopied) return fail(ErrorKind::unsupported, "what they bring there is wrong");
    return {};
  }

  Result<Trial*> trial_on(int device) {
    const CurrentDevice current(device);
    CCOLL_TRY(current.status());
    const BesideCaptures beside;
    if (const auto known = trials_.find(device); known != trials_.end()) return known->second.get();
    // Kernels that load later might wait for whatever runs.
    CCOLL_TRY(load_kernels());
    std::unique_ptr<Trial> trial;
    CCOLL_TRY(put(Trial::make(places), trial));
    auto written = trial->write(number_of(device), at(*trial, own), Clock::now() + kLimit);
    // To free the memory of a trial that hangs would hang, too.
    if (!written) abandoned_.push_back(std::move(trial));
    CCOLL_TRY(written);
    return (trials_[device] = std::move(trial)).get();
  }

  std::map<std::tuple<int, int, By>, Status> known_;  // by GPU, peer and means
  /// By device. They stay, because CUDA may wait for any stream when memory is freed.
  std::map<int, std::unique_ptr<Trial>> trials_;
  std::vector<std::unique_ptr<Trial>> abandoned_;
};

Status reach(std::span<const int> devices, By by) {
  return Runtime::one<Guarded<Peers, ProcessMutex>>().lock()->reach(devices, by);
}

}  // namespace

Status reach_peers(std::span<const int> devices) { return reach(devices, By::kernels); }

Status reach_by_copies(std::span<const int> devices) { return reach(devices, By::copies); }

bool is_reached(const void* address, std::span<const int> devices) {
  const auto driver = find_driver();
  if (!driver) return false;
  const auto place = reinterpret_cast<CUdeviceptr>(address);
  const auto ask = (*driver)->pointer_attribute;
  unsigned is_plain = 0;
  if (ask(&is_plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, place) == CUDA_SUCCESS &&
      is_plain != 0) {
    return true;
  }
  return std::ranges::all_of(devices, [&](int device) {
    const CurrentDevice current(device);
    unsigned access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    return current.status() &&
           ask(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, place) == CUDA_SUCCESS &&
           access != CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
  });
}

}  // namespace ccoll::device
