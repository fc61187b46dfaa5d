// SPDX-License-Identifier: Apache-2.0
#include "comm/member.hpp"

#include <algorithm>
#include <mutex>

#include "comm/agreement.hpp"
#include "comm/costs.hpp"
#include "comm/remarks.hpp"
#include "core/log.hpp"
#include "core/net/interface.hpp"
#include "core/net/listener.hpp"
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
      if (early_.size() < net::waiting_connections())
        early_.push_back(std::move(socket));
      else
        log().warn("{} connections came before start-up was over: one more is dropped",
                   early_.size());
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

/// Every rank sees the same table and comes to the same verdict.
static Status check_agreement(const std::vector<PeerAddress>& table) {
  for (std::uint32_t rank = 1; rank < table.size(); rank++)
    if (table[rank].agreement != table[0].agreement)
      return fail(ErrorKind::mismatch,
                  "ranks were started with different options: rank 0 with {}; rank {} with {}",
                  agreement_text(table[0].agreement), rank, agreement_text(table[rank].agreement));
  return {};
}

Result<std::shared_ptr<Member>> Member::join(Store& store, std::uint32_t rank, std::uint32_t size,
                                             const CommunicatorOptions& options) {
  const auto agreement = agreement_of(options);
  if (!agreement) return tl::unexpected(agreement.error());
  std::shared_ptr<Member> member(new Member);
  member->rank_ = rank;
  member->service_ = net::Service::shared();
  member->dispatcher_ = std::make_shared<Dispatcher>();
  asio::ip::tcp::endpoint endpoint;
  if (size > 1) {
    auto interface = net::local_address(options.interface, store.address());
    if (!interface) return tl::unexpected(interface.error());
    auto listener = net::Listener::open(
        member->service_, *interface, options.token,
        [dispatcher = member->dispatcher_](net::Purpose purpose, asio::ip::tcp::socket socket) {
          dispatcher->dispatch(purpose, std::move(socket));
        });
    if (!listener) return tl::unexpected(listener.error());
    member->listener_ = std::move(*listener);
    endpoint = member->listener_->endpoint();
  }
  std::string told;
  if (rank == 0 && size > 1)
    if (const auto tuning = load_tuning(); !tuning.empty()) told = to_text(tuning);
  auto address = identify(endpoint);
  address.agreement = *agreement;
  member->control_ = Control::make(member->service_, {.rank = rank,
                                                      .size = size,
                                                      .address = address,
                                                      .token = options.token,
                                                      .timeout = options.start_timeout,
                                                      .told = told});
  member->dispatcher_->set_control(member->control_);
  CCOLL_TRY(member->control_->join(store));
  CCOLL_TRY(check_agreement(member->table()));
  auto tuning = parse_tuning(member->control_->told());
  if (!tuning)
    return tl::unexpected(
        Failure{ErrorKind::corrupt, "rank 0's tuning: " + tuning.error().message, 0});
  member->tuning_ = std::move(*tuning);
  member->cores_per_rank_ = ccoll::cores_per_rank(member->table());
  member->transports_ =
      std::make_shared<TransportSet>(TransportContext{.service = member->service_,
                                                      .token = options.token,
                                                      .rank = rank,
                                                      .table = member->control_->table(),
                                                      .connect_timeout = options.start_timeout,
                                                      .slot_memory_bytes = options.slot_memory},
                                     options.transport);
  member->dispatcher_->set_transport(member->transports_);
  for (std::uint32_t peer = 0; peer < size; peer++)
    if (auto kind = member->transports_->between(peer); !kind) return tl::unexpected(kind.error());
  member->introduce(options, store.address());
  return member;
}

void Member::introduce(const CommunicatorOptions& options, const std::string& store) const {
  if (!log().tells(LogLevel::info)) return;
  Introduction facts;
  facts.rank = rank_;
  facts.table = table();
  facts.host = host_name();
  if (listener_) facts.interface = net::interface_with(listener_->endpoint().address());
  facts.why_there = !options.interface.empty() ? "CCOLL_SOCKET_IFNAME=" + options.interface
                    : store.empty()          ? "the store has no address"
                                               : "the route to the store at " + store;
  for (std::uint32_t peer = 0; peer < table().size(); peer++)
    facts.transports.push_back((*transports_->between(peer))->name);
  facts.transport_forced = !options.transport.empty();
  for (const auto& line : introduction(facts)) log().info("{}", line);
}

void Member::exit() {
  if (communicators_.fetch_sub(1) == 1) control_->leave();
}

Member::~Member() {
  if (control_) control_->leave();
}

std::string Member::name_of(std::uint32_t rank) const {
  const auto& peer = table()[rank];
  return fmt::format("rank {} ({}, pid {})", rank, ip_text(peer), peer.pid);
}

}  // namespace ccoll
