// SPDX-License-Identifier: Apache-2.0
#include "comm/member.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "rendezvous/identity.hpp"

namespace ccoll {

/// Hands the listener's connections to whom they are for. The listener must stand before start-up
/// can tell its port, so connections may come before there are transports: those wait here.
class Dispatcher {
 public:
  void set_control(std::shared_ptr<Control> control) {
    std::lock_guard lock(mutex_);
    control_ = std::move(control);
  }

  void set_transport(std::shared_ptr<TransportSet> transports) {
    std::vector<asio::ip::tcp::socket> early;
    {
      std::lock_guard lock(mutex_);
      transports_ = transports;
      early.swap(early_);
    }
    for (auto& socket : early) transports->accept(std::move(socket));
  }

  void dispatch(net::Purpose purpose, asio::ip::tcp::socket socket) {
    std::unique_lock lock(mutex_);
    const auto control = control_;
    const auto transports = transports_;
    if (purpose == net::Purpose::link && !transports) {
      early_.push_back(std::move(socket));
      return;
    }
    lock.unlock();
    if (purpose == net::Purpose::link) transports->accept(std::move(socket));
    if (purpose == net::Purpose::control && control) control->accept(std::move(socket));
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Control> control_;          // guarded by mutex_
  std::shared_ptr<TransportSet> transports_;  // guarded by mutex_
  std::vector<asio::ip::tcp::socket> early_;  // guarded by mutex_
};

Result<std::shared_ptr<Member>> Member::join(Store& store, std::uint32_t rank, std::uint32_t size,
                                             const CommunicatorOptions& options,
                                             const std::string& towards) {
  std::shared_ptr<Member> member(new Member);
  member->rank_ = rank;
  member->service_ = net::Service::shared();
  member->dispatcher_ = std::make_shared<Dispatcher>();
  asio::ip::tcp::endpoint endpoint;
  if (size > 1) {
    auto address = net::local_address(options.interface, towards);
    if (!address) return tl::unexpected(address.error());
    auto listener = net::Listener::open(
        member->service_, *address, options.token,
        [dispatcher = member->dispatcher_](net::Purpose purpose, asio::ip::tcp::socket socket) {
          dispatcher->dispatch(purpose, std::move(socket));
        });
    if (!listener) return tl::unexpected(listener.error());
    member->listener_ = std::move(*listener);
    endpoint = member->listener_->endpoint();
  }
  member->control_ = Control::make(member->service_, {.rank = rank,
                                                      .size = size,
                                                      .address = identify(endpoint),
                                                      .token = options.token,
                                                      .timeout = options.start_timeout});
  member->dispatcher_->set_control(member->control_);
  CCOLL_TRY(member->control_->join(store));
  member->transports_ =
      std::make_shared<TransportSet>(TransportContext{.service = member->service_,
                                                      .token = options.token,
                                                      .rank = rank,
                                                      .table = member->control_->table(),
                                                      .connect_timeout = options.start_timeout},
                                     options.transport);
  member->dispatcher_->set_transport(member->transports_);
  return member;
}

Member::~Member() {
  if (control_) control_->leave();
}

double Member::cores_per_rank() const {
  std::map<std::uint64_t, std::pair<double, double>> hosts;  // ranks, cores
  for (const auto& peer : table()) {
    auto& [ranks, cores] = hosts[peer.host];
    ranks += 1;
    cores = std::max<double>(cores, peer.cores);
  }
  double least = 1e9;
  for (const auto& [host, counts] : hosts) least = std::min(least, counts.second / counts.first);
  return least;
}

std::string Member::name_of(std::uint32_t rank) const {
  const auto& peer = table()[rank];
  return fmt::format("rank {} ({}, pid {})", rank, ip_text(peer), peer.pid);
}

}  // namespace ccoll
