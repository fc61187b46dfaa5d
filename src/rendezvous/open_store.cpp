// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/open_store.hpp"

#include <map>

#include "net/wire/openssl.hpp"
#include "rendezvous/stores/tcp_store.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kFile = "file://";

/// The stores that this process has opened. It must remember them: a caller that opens the
/// environment's store a second time does not know of the first, whose keys are still there.
class Opened {
 public:
  static Opened& of_process() { return Runtime::one_until_exit<Opened>(); }

  /// Its servers end before OpenSSL does.
  Opened() { const net::UsingOpenSsl use; }

  /// Counts how often this rank has opened that store before.
  int times_before(const Environment& environment) {
    const auto key = fmt::format("{}\n{}\n{}/{}", environment.store, environment.job,
                                 environment.rank, environment.size);
    return known_.lock()->times[key]++;
  }

  /// The server at `address`, which runs until the process ends: a rank that soon starts again must
  /// not meet a server that is about to end.
  Result<std::shared_ptr<StoreServer>> serve(const std::string& address, const std::string& job,
                                             const std::string& token, const TlsOptions& tls) {
    jobs_->add(job);
    if (auto server = server_at(address)) return server;
    // Do not hold the lock here: a fork waits for it, and a name service may not answer. If two
    // threads come here, only one can have the address.
    auto made = rendezvous::serve_store(address, token, tls, jobs_);
    if (!made) return tl::unexpected(made.error());
    return known_.with([&](Known& known) { return known.servers[address] = std::move(*made); });
  }
  /// The number that distinguishes its servers from others.
  std::uint64_t number() const { return jobs_->process(); }

 private:
  /// Null if there is none.
  std::shared_ptr<StoreServer> server_at(const std::string& address) {
    const auto known = known_.lock();
    const auto found = known->servers.find(address);
    return found != known->servers.end() ? found->second : nullptr;
  }

  const std::shared_ptr<rendezvous::OwnJobs> jobs_ = std::make_shared<rendezvous::OwnJobs>();
  struct Known {
    std::map<std::string, int> times;
    std::map<std::string, std::shared_ptr<StoreServer>> servers;  ///< by address
  };
  Guarded<Known, ProcessMutex> known_;
};

/// Returns `call()`, with exceptions as failures: the edge from the public store to the inside.
template <typename Call>
auto caught(Call&& call) -> Result<decltype(call())> {
  try {
    return call();
  } catch (...) {
    return tl::unexpected(failure_of(std::current_exception()));
  }
}

std::string prefix_of(const std::string& job, int times_before) {
  return times_before == 0 ? job + "/" : fmt::format("{}#{}/", job, times_before + 1);
}

Result<OpenedStore> open_tcp(const Environment& environment, const std::string& address,
                             const std::string& token, std::chrono::milliseconds timeout,
                             const std::string& prefix, const TlsOptions& tls) {
  if (address.ends_with(":0")) {
    return fail(ErrorKind::invalid_argument,
                "the store's address {} has port 0: give the port, or the ranks cannot find it",
                environment.store);
  }
  OpenedStore opened;
  rendezvous::JobClaim claim{environment.job};
  std::string not_served;
  if (environment.rank == 0 && environment.rank0_serves_store) {
    auto server = Opened::of_process().serve(address, environment.job, token, tls);
    // The address may be another host's, or a separate server (cc-run --store) may have it.
    if (server) {
      opened.server = std::move(*server);
    } else {
      not_served = server.error().message;
      claim.could_not_listen = Opened::of_process().number();
    }
  }
  auto store = rendezvous::connect_store(address, token, timeout, tls, claim);
  if (!store) {
    Failure failure = store.error();
    if (!not_served.empty() && not_served != failure.message)
      failure.message = fmt::format(
          "rank 0 {}{}", not_served,
          // The arguments alone forbid both: the reason is the same.
          failure.kind == ErrorKind::invalid_argument ? ""
          : failure.kind == ErrorKind::timed_out
              ? fmt::format("; nor does another store answer there: {}", failure.message)
              : fmt::format("; the store that listens there cannot be used either: {}",
                            failure.message));
    return tl::unexpected(std::move(failure));
  }
  opened.store = make_prefix_store(std::move(*store), prefix);
  return opened;
}

Result<OpenedStore> open_file(const Environment& environment, const std::string& path,
                              const std::string& job, int times_before) {
  if (!path.starts_with('/')) {
    return fail(ErrorKind::invalid_argument,
                "the store's address {} has no absolute path: expected file:///path",
                environment.store);
  }
  OpenedStore opened;
  if (environment.meeting_place) {
    auto presence = MeetingFile::open(path);
    if (!presence) return tl::unexpected(presence.error());
    opened.presence.emplace(std::move(*presence));
  }
  auto store = caught([&] { return make_file_store(path); });
  if (!store) return tl::unexpected(store.error());
  opened.store = make_prefix_store(std::move(*store), prefix_of(job, times_before));
  return opened;
}

}  // namespace

Result<OpenedStore> open_store(const Environment& environment, const std::string& token,
                               std::chrono::milliseconds timeout, const TlsOptions& tls) {
  const std::string& address = environment.store;
  if (address.empty()) {
    if (environment.size == 1) return OpenedStore{make_inproc_store(), nullptr, std::nullopt};
    return fail(ErrorKind::invalid_argument,
                "{} ranks have no store to meet at: set CCOLL_STORE=tcp://host:port",
                environment.size);
  }
  const int before = Opened::of_process().times_before(environment);
  if (address.starts_with(kTcp)) {
    return open_tcp(environment, address.substr(kTcp.size()), token, timeout,
                    prefix_of(environment.job, before), tls);
  }
  if (address.starts_with(kFile)) {
    return open_file(environment, address.substr(kFile.size()), environment.job, before);
  }
  return fail(
      ErrorKind::invalid_argument,
      "the store's address '{}' has an unknown form: expected tcp://host:port or file:///path",
      address);
}

Result<std::shared_ptr<Store>> open_store_of_id(const std::string& address,
                                                const std::string& token,
                                                std::chrono::milliseconds timeout,
                                                const TlsOptions& tls) {
  return rendezvous::connect_store(
      address, token, timeout, tls, std::nullopt,
      "this rank's id names that address; has the process that made it ended, or is the id an "
      "earlier run's?");
}

}  // namespace ccoll
