// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/member.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/failures/remarks.hpp"
#include "comm/groups/agreement.hpp"
#include "comm/groups/copy_calibration.hpp"
#include "comm/groups/costs.hpp"
#include "engine/mix.hpp"
#include "gpu/device_way.hpp"
#include "net/interface.hpp"
#include "net/listener.hpp"
#include "rendezvous/identity.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/variables.hpp"

namespace ccoll {

/// Hands the listener's connections to their receivers. The listener must exist before start-up can
/// tell its port, so connections may come before there are transports: those wait here.
class Dispatcher {
 public:
  void set_control(std::shared_ptr<Control> control) { to_.lock()->control = std::move(control); }

  void set_transport(std::shared_ptr<TransportSet> transports) {
    auto to = to_.lock();
    to->transports = transports;
    auto early = std::exchange(to->early, {});
    to.unlock();
    for (auto& [purpose, socket] : early) transports->accept(purpose, std::move(socket));
  }

  void dispatch(net::Purpose purpose, net::Stream stream) {
    auto to = to_.lock();
    const auto control = to->control;
    const auto transports = to->transports;
    const bool is_link = find_transport(purpose) != nullptr;
    if (is_link && !transports) {
      if (to->early.size() < net::waiting_connections())
        to->early.emplace_back(purpose, std::move(stream).release());
      else
        log().warn("{} connections came before start-up was over: one more is dropped",
                   to->early.size());
      return;
    }
    to.unlock();
    if (is_link) transports->accept(purpose, std::move(stream).release());
    if (purpose == net::Purpose::control && control) control->accept(std::move(stream));
  }

 private:
  using Connection = std::pair<net::Purpose, asio::ip::tcp::socket>;

  struct Receivers {
    std::shared_ptr<Control> control;
    std::shared_ptr<TransportSet> transports;
    std::vector<Connection> early;
  };
  Guarded<Receivers> to_;
};

/// Every rank sees the same table and comes to the same verdict.
static Status check_agreement(const std::vector<PeerAddress>& table) {
  for (std::uint32_t rank = 1; rank < table.size(); rank++)
    if (table[rank].agreement != table[0].agreement)
      return fail(ErrorKind::mismatch, "ranks were started with different options: {}",
                  disagreement_text(table[0].agreement, table[rank].agreement, "rank 0",
                                    fmt::format("rank {}", rank)));
  return {};
}

std::uint32_t device_number(int device) {
  if (device < 0) return 0;
  const auto identity = device::identity_of(device);
  return identity ? static_cast<std::uint32_t>(mix_text(*identity)) | 1U : 0;
}

/// The address, with the rank's GPU and what collectives may use of it.
static PeerAddress with_device(PeerAddress address, const DeviceOptions& device) {
  address.device = device_number(device.ordinal);
  address.device_blocks =
      static_cast<std::uint16_t>(std::min<std::size_t>(device.blocks, kMostDeviceBlocks));
  address.device_copies = static_cast<std::uint8_t>(device.copies);
  return address;
}

static Status check_heartbeat(std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kLeast{100};
  if (limit.count() == 0 || (limit >= kLeast && limit <= kMaxHeartbeat)) return {};
  return fail(
      ErrorKind::invalid_argument,
      "the heartbeat limit is {} ms (CCOLL_HEARTBEAT): expected {} ms to {} s, or 0 (no limit)",
      limit.count(), kLeast.count(), kMaxHeartbeat.count() / 1000);
}

/// Whether ranks may copy from process to process (CopyCosts).
static bool may_copy(const CommunicatorOptions& options) {
  const auto choice = TransportChoice::parse(options.transport);
  return options.shm.single_copy && choice && choice->allows(*find_transport("shm"));
}

Result<std::shared_ptr<Member>> Member::join(Store& store, std::uint32_t rank, std::uint32_t size,
                                             const CommunicatorOptions& options,
                                             bool is_whole_job) {
  // Identify first, as it takes descriptors: a rank without any left must say so in the store.
  const auto began = std::chrono::steady_clock::now();
  const auto self = identify();
  if (!self) return tl::unexpected(self.error());
  // Before the ranks meet none is in a call. Where ranks outnumber the cores no core is free.
  std::optional<CopyCostsFile> copy_costs;
  if (may_copy(options) && size > 1) copy_costs = copy_costs_file(self->cores);
  if (copy_costs && size <= self->cores) measure_and_keep_copy_costs(*copy_costs);
  auto joined = join_as(*self, store, rank, size, options, is_whole_job);
  // The rank that measured has kept the costs before it joined.
  if (copy_costs) learn_copy_costs(*copy_costs);
  // Not a forked child, whose parent has the rank, nor a rank that was told to end: its store may
  // not answer.
  const bool is_forked = self->pid != static_cast<std::uint32_t>(::getpid());
  if (!joined && size > 1 && !is_forked && joined.error().kind != ErrorKind::aborted) {
    const Failure why{joined.error().kind,
                      fmt::format("start-up: rank {} gave up: {}", rank, joined.error().message),
                      rank};
    Control::decline(store, rank, self->host, began, why);
  }
  return joined;
}

/// A listener on the interface of the options, or on the one that reaches the store.
static Result<std::unique_ptr<net::Listener>> listen(const CommunicatorOptions& options,
                                                     const Store& store,
                                                     const net::Credentials& credentials,
                                                     const std::shared_ptr<net::Service>& service,
                                                     std::shared_ptr<Dispatcher> dispatcher) {
  const auto interface =
      net::local_address(options.interface, store.address(), options.socket_family);
  if (!interface) return tl::unexpected(interface.error());
  return net::Listener::open(
      service, *interface, credentials,
      [dispatcher = std::move(dispatcher)](net::Purpose purpose, net::Stream stream) {
        dispatcher->dispatch(purpose, std::move(stream));
      });
}

Result<std::shared_ptr<Member>> Member::join_as(PeerAddress address, Store& store,
                                                std::uint32_t rank, std::uint32_t size,
                                                const CommunicatorOptions& options,
                                                bool is_whole_job) {
  CCOLL_TRY(check_heartbeat(options.heartbeat));
  const auto agreement = agreement_of(options);
  if (!agreement) return tl::unexpected(agreement.error());
  std::shared_ptr<Member> member(new Member);
  member->rank_ = rank;
  member->service_ = net::Service::shared();
  member->dispatcher_ = std::make_shared<Dispatcher>();
  const auto credentials = size > 1 ? net::Credentials::make(options.token, options.tls)
                                    : net::Credentials(options.token);
  if (!credentials) return tl::unexpected(credentials.error());
  if (size > 1) {
    auto listener = listen(options, store, *credentials, member->service_, member->dispatcher_);
    if (!listener) return tl::unexpected(listener.error());
    member->listener_ = std::move(*listener);
    address = located(address, member->listener_->endpoint());
  }
  std::string rank0_text;
  if (rank == 0 && size > 1)
    if (const auto tuning = load_tuning(); !tuning.empty()) rank0_text = to_text(tuning);
  address.agreement = *agreement;
  if (size > 1) member->residence_.emplace(address);
  address = with_device(address, options.device);
  const auto fabrics = usable_fabrics();
  if (!fabrics) return tl::unexpected(fabrics.error());
  address.fabrics = *fabrics;
  address.rails = usable_rails();
  member->control_ = Control::make(member->service_, {.rank = rank,
                                                      .size = size,
                                                      .address = address,
                                                      .credentials = *credentials,
                                                      .timeout = options.start_timeout,
                                                      .heartbeat = options.heartbeat,
                                                      .rank0_text = rank0_text,
                                                      .is_whole_job = is_whole_job});
  member->dispatcher_->set_control(member->control_);
  if (auto joined = member->control_->join(store); !joined) {
    // A child's goodbye would go out on its parent's sockets.
    if (member->service_->is_forked()) (void)new std::shared_ptr(member);
    return tl::unexpected(std::move(joined.error()));
  }
  CCOLL_TRY(check_agreement(member->table()));
  auto tuning = parse_tuning(member->control_->rank0_text());
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
                                                      .slot_memory_bytes = options.shm.slot_bytes,
                                                      .single_copy = options.shm.single_copy,
                                                      .huge_pages = options.shm.huge_pages,
                                                      .oversubscribed = member->cores_per_rank_ < 1,
                                                      .job = member->control_->job(),
                                                      .checksum = options.checksum},
                                     options.transport);
  member->dispatcher_->set_transport(member->transports_);
  for (std::uint32_t peer = 0; peer < size; peer++)
    if (auto kind = member->transports_->between(peer); !kind) return tl::unexpected(kind.error());
  member->introduce(options, store.address());
  return member;
}

Member::Member() = default;

Member::Member(std::uint32_t rank, std::shared_ptr<Control> control,
               std::shared_ptr<TransportSet> transports)
    : rank_(rank),
      cores_per_rank_(ccoll::cores_per_rank(control->table())),
      service_(net::Service::shared()),
      control_(std::move(control)),
      transports_(std::move(transports)) {}

void Member::introduce(const CommunicatorOptions& options, const std::string& store) const {
  if (!log().tells(LogLevel::info)) return;
  Introduction facts;
  facts.rank = rank_;
  facts.table = table();
  facts.host = host_name();
  if (listener_) facts.interface = net::interface_with(listener_->endpoint().address());
  facts.why_there = !options.interface.empty()
                        ? set_as("CCOLL_SOCKET_IFNAME") + "=" + options.interface
                    : store.empty() ? "the store has no address"
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
