// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/start.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "ccoll/version.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"

namespace ccoll::nccl {
namespace {

/// Options of a communicator; ccoll's own variables have precedence over the config.
CommunicatorOptions options_of(const Comm& comm) {
  auto options = CommunicatorOptions::from_environment();
  const auto& config = comm.config();
  options.name = config.comm_name;
  options.timeout = settings().timeout;
  options.start_timeout = settings().start_timeout;
  options.warn_after = settings().warn_after;
  options.device.ordinal = comm.device();
  if (config.net_name == "Socket" && !read_variable("CCOLL_TRANSPORT"))
    options.transport = "^verbs";
  if (config.max_ctas > 0 && !read_variable("CCOLL_DEVICE_BLOCKS"))
    options.device.blocks = static_cast<std::size_t>(config.max_ctas);
  constexpr int kZeroCtas = 2;
  if (config.cta_policy > 0 && (config.cta_policy & kZeroCtas) != 0 &&
      !read_variable("CCOLL_DEVICE_COPIES"))
    options.device.copies = DeviceCopies::always;
  return options;
}

/// The stores that rank 0 serves at known addresses for the life of the process: an address may
/// make one communicator after another.
struct KnownStores {
  std::map<std::string, std::unique_ptr<StoreServer>> served;
  std::map<std::pair<std::string, int>, int> used;  ///< how often by each rank
};

/// Connects in steps, so that a stop can end it: rank 0 may come late.
std::shared_ptr<Store> connected(const std::string& address, const CommunicatorOptions& options) {
  constexpr std::chrono::milliseconds kStep{500};
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    try {
      return connect_tcp_store(address, options.token, kStep, options.tls);
    } catch (const Error& error) {
      const bool may_come =
          error.kind() == ErrorKind::timed_out || error.kind() == ErrorKind::peer_lost;
      const auto waited = std::chrono::steady_clock::now() - begun;
      if (!may_come || waited >= options.start_timeout || options.start_stop.stop_requested())
        throw;
    }
  }
}

Communicator meet(const KnownAddress& at, int rank, int size, const CommunicatorOptions& options) {
  const int earlier = Runtime::one<Guarded<KnownStores>>().with([&](KnownStores& known) {
    const int before = known.used[{at.address, rank}]++;
    if (auto& server = known.served[at.address]; rank == 0 && !server)
      server = serve_tcp_store(at.address, options.token, options.tls);
    return before;
  });
  auto store = make_prefix_store(connected(at.address, options), fmt::format("nccl/{}/", earlier));
  return Communicator::create(std::move(store), rank, size, options);
}

Communicator meet(const UniqueId& id, int rank, int size, const CommunicatorOptions& options) {
  return Communicator::create(id, rank, size, options);
}

Communicator meet(const std::shared_ptr<Store>& store, int rank, int size,
                  const CommunicatorOptions& options) {
  return Communicator::create(store, rank, size, options);
}

struct Version {
  std::atomic<bool> is_told = false;
};

/// Tools look for this line to find out which library a job uses.
void tell_version(const Comm& comm) {
  if (!settings().logs_version || comm.rank() != 0) return;
  if (Runtime::one<Version>().is_told.exchange(true)) return;
  const int known = settings().version;
  log().warn("NCCL version {}.{}.{} (ccoll {})", known / 10000, known / 100 % 100, known % 100,
             version());
}

}  // namespace

int device_of_thread() { return settings().host ? kHost : device::current(); }

void start(const std::shared_ptr<Comm>& comm, const Meeting& at,
           const std::shared_ptr<Comm>& guard) {
  tell_version(*comm);
  auto options = options_of(*comm);
  options.start_stop = guard->ending();
  try {
    auto made = std::visit(
        [&](const auto& where) { return meet(where, comm->rank(), comm->size(), options); }, at);
    if (comm->came_up(std::move(made))) return;
  } catch (const Error&) {
    if (!options.start_stop.stop_requested()) throw;
  }
  refuse(ncclRemoteError, "{} was aborted during its initialisation", comm->text());
}

}  // namespace ccoll::nccl
