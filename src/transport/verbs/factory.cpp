// SPDX-License-Identifier: Apache-2.0
// sender                                            receiver
// connects; hello and proof of the token, as on every connection
// link id, fabric                                   ──────►
// if both have several ports: their networks        ◄─────►  their networks
// makes a queue pair; its address                   ──────►  makes one, ready to send and receive
//                                                   ◄──────  its address; or why there is none
// ready to receive and send; says so                ──────►  delivers the link, or its queue pair
//                                                            says that nobody will read
//
// Two ranks have one queue pair for each lane: the direction that is opened first makes it, and the
// other joins with slots of its own. If both begin at once, each end learns from the peer's hello
// the same address that the answer to its own hello would give.
#include "transport/verbs/factory.hpp"

#include <algorithm>
#include <array>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <map>

#include "net/deadline.hpp"
#include "net/handshake.hpp"
#include "net/listener.hpp"
#include "net/wire/turns.hpp"
#include "system/locks.hpp"
#include "transport/arrival_board.hpp"
#include "transport/corruption.hpp"
#include "transport/link_id_wire.hpp"
#include "transport/verbs/link.hpp"
#include "transport/verbs/listener.hpp"
#include "transport/verbs/pair_ends.hpp"

namespace ccoll::verbs {
namespace {

using asio::ip::tcp;

/// The peer has listened since start-up: if it cannot be reached soon, it is gone.
constexpr std::chrono::seconds kConnectTimeout{10};
constexpr std::size_t kHelloBytes = kLinkIdBytes + 1;
constexpr std::size_t kAnswerHeadBytes = 1 + 4;
constexpr std::size_t kMostReasonBytes = 400;
enum class Verdict : std::uint8_t { taken, no_rdma };
/// Sent once the sender's queue pair is ready; a sender that fails earlier just disconnects.
constexpr char kReady = 'R';

/// Limit of a rank's links that connect at the same time: making a queue pair and registering its
/// slots occupies the service threads of both ends.
constexpr std::size_t kConnectedAtOnce = 16;

/// Descriptors of a link that waits to be opened: its completion channel.
constexpr std::size_t kDescriptors = 1;

/// The local address of this connection; the peer's packets come by the same route.
GidBytes route_of(const tcp::socket& socket) {
  std::error_code code;
  const auto ip = socket.local_endpoint(code).address();
  return ip.is_v4() ? asio::ip::make_address_v6(asio::ip::v4_mapped, ip.to_v4()).to_bytes()
                    : ip.to_v6().to_bytes();
}

asio::awaitable<Result<std::string>> read_exactly(tcp::socket& socket, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::error_code code;
  co_await asio::async_read(socket, asio::buffer(text),
                            asio::redirect_error(asio::use_awaitable, code));
  if (code == asio::error::eof) co_return fail(ErrorKind::peer_lost, "it closed the connection");
  if (code) co_return fail(ErrorKind::peer_lost, "{}", code.message());
  co_return text;
}

asio::awaitable<Status> write_all(tcp::socket& socket, const std::string& bytes) {
  std::error_code code;
  co_await asio::async_write(socket, asio::buffer(bytes),
                             asio::redirect_error(asio::use_awaitable, code));
  if (code) co_return fail(ErrorKind::peer_lost, "{}", code.message());
  co_return Status{};
}

/// Sends the networks of this end's ports and receives those of the peer's.
asio::awaitable<Result<std::vector<GidBytes>>> exchange_networks(
    tcp::socket& socket, const std::vector<PortChoice>& mine) {
  net::Writer told;
  told.number(static_cast<std::uint8_t>(mine.size()));
  for (const auto& rail : mine)
    for (const std::uint8_t byte : rail.network) told.number(byte);
  const auto sent = co_await write_all(socket, told.bytes());
  if (!sent) co_return tl::unexpected(sent.error());
  const auto head = co_await read_exactly(socket, 1);
  if (!head) co_return tl::unexpected(head.error());
  const auto count = net::Reader(*head).number<std::uint8_t>();
  if (count > kMostRails)
    co_return fail(ErrorKind::corrupt, "it announced {} ports; at most {} are possible", count,
                   kMostRails);
  const auto rest = co_await read_exactly(socket, count * sizeof(GidBytes));
  if (!rest) co_return tl::unexpected(rest.error());
  net::Reader reader(*rest);
  std::vector<GidBytes> theirs(count);
  for (GidBytes& network : theirs)
    for (std::uint8_t& byte : network) byte = reader.number<std::uint8_t>();
  co_return theirs;
}

/// State shared by the coroutines of a rank's transport; they may outlive it.
class Maker {
 public:
  explicit Maker(const TransportContext& context) : context_(context) {}

  const TransportContext& context() const { return context_; }
  const std::shared_ptr<net::Turns>& turns() const { return turns_; }

  /// This rank's end of a link, and the address that the peer needs to use it.
  struct Opened {
    PairPointer pair;
    QueuePairAddress address;
  };
  /// Chooses the port for a link. Both ends of the link call this; if both have several ports, they
  /// exchange the ports' networks.
  asio::awaitable<Result<PortChoice>> choose(std::uint32_t peer, std::uint16_t lane, Fabric fabric,
                                             tcp::socket& socket) const {
    const auto devices = Devices::of_process();
    if (!devices) co_return tl::unexpected(devices.error());
    const auto ports = (*devices)->ports_now();
    if (std::min(context_.table[context_.rank].rails, context_.table[peer].rails) > 1) {
      auto mine = rails_in(ports, fabric);
      const auto theirs = co_await exchange_networks(socket, mine);
      if (!theirs) co_return tl::unexpected(theirs.error());
      const auto rails = matched(std::move(mine), *theirs);
      if (!rails.empty()) co_return rails[lane % rails.size()];
    }
    const auto choice = choose_port(ports, fabric, route_of(socket));
    if (choice) co_return *choice;
    co_return fail(ErrorKind::unsupported,
                   "rank {} has no active port in that network (cc-bench info lists them)",
                   context_.rank);
  }

  /// `number`: the peer's queue pair, if known.
  Result<Opened> open(const LinkId& id, const PortChoice& choice,
                      std::optional<std::uint32_t> number = std::nullopt) {
    const auto end = id.from == context_.rank ? End::sends : End::receives;
    auto share = budget_->take(SlotMemory::kBytes);
    if (!share)
      return fail(ErrorKind::exhausted,
                  "the slots of rank {}'s RDMA links may take {} MiB, of which {} are taken "
                  "(CCOLL_SLOT_MEMORY)",
                  context_.rank, budget_->limit_bytes() >> 20, budget_->taken_bytes() >> 20);
    auto pair = pair_for({id.communicator, end == End::sends ? id.to : id.from, id.lane}, end,
                         number, choice);
    if (!pair) return tl::unexpected(pair.error());
    auto address = (*pair)->ends().open(end, std::move(share));
    if (!address) return tl::unexpected(address.error());
    return Opened{std::move(*pair), *address};
  }

  Fabric fabric_to(std::uint32_t rank) const {
    return best_of(context_.table[context_.rank].fabrics & context_.table[rank].fabrics);
  }

  /// Forgets pairs that have ended. Called rarely.
  void drop_gone() {
    std::erase_if(known_.lock()->pairs, [](const auto& entry) { return entry.second.expired(); });
  }

 private:
  /// The key of a queue pair that two ranks share.
  struct Joint {
    std::uint64_t communicator = 0;
    std::uint32_t peer = 0;
    std::uint16_t lane = 0;
    friend auto operator<=>(const Joint&, const Joint&) = default;
  };

  /// Returns the queue pair that the other direction has made, or a new one.
  Result<PairPointer> pair_for(const Joint& joint, End end, std::optional<std::uint32_t> number,
                               const PortChoice& choice) {
    {
      const auto known = known_.lock();
      if (auto there = known->pairs[joint].lock(); there && there->ends().is_free(end, number))
        return there;
    }
    const auto devices = Devices::of_process();
    if (!devices) return tl::unexpected(devices.error());
    auto made = QueuePair::make(**devices, choice, peer(joint.peer));
    if (!made) return made;
    known_.lock()->pairs[joint] = *made;
    return made;
  }

  std::shared_ptr<Peer> peer(std::uint32_t rank) {
    const auto known = known_.lock();
    auto& peer = known->peers[rank];
    if (!peer) {
      peer = std::make_shared<Peer>();
      peer->rank = rank;
      peer->host = ip_text(context_.table[rank]);
    }
    return peer;
  }

  const TransportContext context_;
  const std::shared_ptr<net::Turns> turns_ = std::make_shared<net::Turns>(kConnectedAtOnce);
  const std::shared_ptr<SlotBudget> budget_ =
      std::make_shared<SlotBudget>(context_.slot_memory_bytes);
  struct Known {
    std::map<std::uint32_t, std::shared_ptr<Peer>> peers;
    std::map<Joint, std::weak_ptr<QueuePair>> pairs;
  };
  Guarded<Known> known_;
};

asio::awaitable<Result<QueuePairAddress>> answer_of(tcp::socket& socket) {
  const auto head = co_await read_exactly(socket, kAnswerHeadBytes);
  if (!head) co_return tl::unexpected(head.error());
  net::Reader reader(*head);
  const auto verdict = static_cast<Verdict>(reader.number<std::uint8_t>());
  const auto length = reader.number<std::uint32_t>();
  const bool is_taken = verdict == Verdict::taken;
  if (length > kMostReasonBytes || (is_taken && length != QueuePairAddress::kBytes))
    co_return fail(ErrorKind::corrupt, "it sent a malformed answer");
  const auto rest = co_await read_exactly(socket, length);
  if (!rest) co_return tl::unexpected(rest.error());
  if (!is_taken) co_return fail(ErrorKind::unsupported, "{}", *rest);
  net::Reader address(*rest);
  co_return read_queue_pair_address(address);
}

asio::awaitable<Result<PairPointer>> connect(std::shared_ptr<Maker> maker, LinkId id) {
  const auto& context = maker->context();
  auto stream = co_await net::connect(
      context.service, endpoint_text(context.table[id.to]), context.token, net::Purpose::verbs,
      std::min<std::chrono::milliseconds>(context.connect_timeout, kConnectTimeout),
      fmt::format("rank {}", id.to), "has it died?");
  if (!stream) co_return tl::unexpected(stream.error());
  auto socket = std::move(*stream).release();
  const net::Deadline deadline(socket, kConnectTimeout);
  const auto fabric = maker->fabric_to(id.to);
  net::Writer hello;
  write(hello, id).number(static_cast<std::uint8_t>(fabric));
  auto sent = co_await write_all(socket, hello.bytes());
  if (!sent) co_return tl::unexpected(sent.error());
  const auto choice = co_await maker->choose(id.to, id.lane, fabric, socket);
  if (!choice) co_return tl::unexpected(choice.error());
  auto opened = maker->open(id, *choice);
  if (!opened) co_return tl::unexpected(opened.error());
  net::Writer mine;
  write(mine, opened->address);
  sent = co_await write_all(socket, mine.bytes());
  if (!sent) co_return tl::unexpected(sent.error());
  const auto address = co_await answer_of(socket);
  if (!address) co_return tl::unexpected(address.error());
  const auto connected = opened->pair->ends().connect(End::sends, *address);
  if (!connected) co_return tl::unexpected(connected.error());
  const std::string ready(1, kReady);
  const auto told = co_await write_all(socket, ready);
  if (!told) co_return tl::unexpected(told.error());
  opened->pair->ends().confirm();
  co_return std::move(opened->pair);
}

asio::awaitable<void> open_link(std::shared_ptr<Maker> maker, LinkId id,
                                std::shared_ptr<PairDelivery> delivery,
                                std::weak_ptr<Waiter> waiter) {
  const auto turn = co_await net::Turns::take(maker->turns());
  auto pair = co_await connect(maker, id);
  if (pair) {
    delivery->deliver(std::move(*pair));
  } else {
    const auto kind = pair.error().kind;
    delivery->deliver({kind == ErrorKind::timed_out ? ErrorKind::peer_lost : kind,
                       fmt::format("no RDMA with rank {}: {}", id.to, pair.error().message),
                       id.to});
  }
  if (const auto awaits = waiter.lock()) awaits->ring();
}

class VerbsTransport final : public Transport, public std::enable_shared_from_this<VerbsTransport> {
 public:
  VerbsTransport(const TransportContext& context, std::shared_ptr<Transport> next)
      : maker_(std::make_shared<Maker>(context)),
        fallback_(std::make_shared<Fallback>(context.rank, std::move(next))),
        meeting_(context.rank, kDescriptors) {
    if (const auto devices = Devices::of_process(); devices && (*devices)->fabrics() != 0)
      listener_ = Listener::of_process(context.service, **devices);
  }

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    auto* const next = fallback_->transport();
    if (next != nullptr && gave_up(id.to)) return next->open_send(id, std::move(waiter));
    auto delivery = std::make_shared<PairDelivery>();
    net::spawn(maker_->context().service->context().get_executor(),
               open_link(maker_, id, delivery, waiter), "RDMA",
               [id, delivery, waiter = std::weak_ptr(waiter)](const Failure& failure) {
                 delivery->deliver(
                     {failure.kind,
                      fmt::format("no RDMA with rank {} of the job: {}", id.to, failure.message),
                      std::nullopt});
                 if (const auto awaits = waiter.lock()) awaits->ring();
               });
    return std::make_unique<VerbsSendLink>(id, std::move(delivery), fallback_, std::move(waiter),
                                           completion_group_of(id.communicator),
                                           maker_->context().checksum);
  }

  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    std::unique_ptr<ReceiveLink> fallback_link;
    if (auto* const next = fallback_->transport()) {
      auto opened = next->open_receive(id, waiter);
      if (!opened || !reaches_rank(id.from)) return opened;
      fallback_link = std::move(*opened);
    }
    auto delivery = meeting_.await(id, waiter);
    std::optional<std::string> checked_as;
    if (maker_->context().checksum) checked_as = link_name("RDMA", maker_->context(), id);
    return std::make_unique<VerbsReceiveLink>(
        id, std::move(delivery), std::move(fallback_link), std::move(waiter),
        completion_group_of(id.communicator), std::move(checked_as));
  }

  void listen(std::shared_ptr<Arrivals> arrivals) override { meeting_.listen(std::move(arrivals)); }
  void forget(std::uint64_t communicator) override {
    meeting_.forget(communicator,
                    [](const PairPointer& pair) { pair->ends().forsake(End::receives); });
    maker_->drop_gone();
    completion_groups_.lock()->erase(communicator);
  }
  bool gave_up(std::uint32_t peer) override {
    return !reaches_rank(peer) || fallback_->serves(peer);
  }

  void accept(tcp::socket socket) override {
    net::spawn(maker_->context().service->context().get_executor(),
               accept_link(weak_from_this(), std::move(socket)), "an RDMA link was dropped");
  }

 private:
  bool reaches_rank(std::uint32_t peer) const {
    const auto& table = maker_->context().table;
    return reaches(table[maker_->context().rank], table[peer]);
  }

  std::shared_ptr<CompletionGroup> completion_group_of(std::uint64_t communicator) {
    const auto groups = completion_groups_.lock();
    auto& completion_group = (*groups)[communicator];
    if (!completion_group) completion_group = std::make_shared<CompletionGroup>();
    return completion_group;
  }

  static asio::awaitable<void> accept_link(std::weak_ptr<VerbsTransport> transport,
                                           tcp::socket accepted) {
    auto socket = std::move(accepted);
    const net::Deadline deadline(socket, kConnectTimeout);
    const auto hello = co_await read_exactly(socket, kHelloBytes);
    auto self = transport.lock();
    if (!hello || !self) co_return;
    net::Reader reader(*hello);
    const auto id = read_link_id(reader);
    const auto fabric = static_cast<Fabric>(reader.number<std::uint8_t>());
    const auto maker = self->maker_;
    const auto& context = maker->context();
    // The peer has proven the token but sends nonsense: drop the connection.
    if (id.to != context.rank || id.from >= context.table.size()) co_return;
    self.reset();  // the transport may end while the peer takes its time
    const auto choice = co_await maker->choose(id.from, id.lane, fabric, socket);
    const auto theirs = co_await read_exactly(socket, QueuePairAddress::kBytes);
    self = transport.lock();
    if (!theirs || !self) co_return;
    net::Reader rest(*theirs);
    const auto opened = self->open(id, choice, read_queue_pair_address(rest));
    self.reset();
    const auto answer = answer_to(opened);
    const auto answered = co_await write_all(socket, answer);
    if (!opened) co_return;
    const auto ready = co_await read_exactly(socket, 1);
    // If the sender has failed, both ends fall back, and this one has nothing to report.
    self = transport.lock();
    if (!self || !answered || !ready) co_return;
    opened->pair->ends().confirm();
    if (const auto refused = self->meeting_.arrive(id, opened->pair))
      (*refused)->ends().forsake(End::receives);
  }

  /// Opens and connects this end of the link.
  Result<Maker::Opened> open(const LinkId& id, const Result<PortChoice>& choice,
                             const QueuePairAddress& address) {
    if (!choice) return tl::unexpected(choice.error());
    auto opened = maker_->open(id, *choice, address.number);
    if (!opened) return opened;
    CCOLL_TRY(opened->pair->ends().connect(End::receives, address));
    return opened;
  }

  static std::string answer_to(const Result<Maker::Opened>& opened) {
    const auto answer = [](Verdict verdict, std::string_view text) {
      return net::Writer().number(static_cast<std::uint8_t>(verdict)).text(text).take();
    };
    if (!opened)
      return answer(Verdict::no_rdma, opened.error().message.substr(0, kMostReasonBytes));
    net::Writer mine;
    write(mine, opened->address);
    return answer(Verdict::taken, mine.bytes());
  }

  const std::shared_ptr<Maker> maker_;
  const std::shared_ptr<Fallback> fallback_;
  std::shared_ptr<Listener> listener_;
  ArrivalBoard<PairPointer> meeting_;
  Guarded<std::map<std::uint64_t, std::shared_ptr<CompletionGroup>>> completion_groups_;
};

}  // namespace

bool reaches(const PeerAddress& a, const PeerAddress& b) {
  return (a.fabrics & b.fabrics) != 0 && a.port != 0 && b.port != 0;
}

std::string why_not(const PeerAddress& mine, const PeerAddress& theirs) {
  if (mine.port == 0 || theirs.port == 0) return "a rank listens at no port";
  const auto devices = Devices::of_process();
  if (!devices) return devices.error().message;
  if (mine.fabrics == 0) return "none of this host's RDMA ports can be used (see cc-bench info)";
  if (theirs.fabrics == 0) return "the peer can use no RDMA port (see cc-bench info on its host)";
  return "the RDMA ports of the two are of different kinds: InfiniBand, RoCE over IPv4 or IPv6";
}

std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport> next) {
  return std::make_shared<VerbsTransport>(context, std::move(next));
}

Result<std::uint8_t> usable_fabrics() {
  const auto devices = Devices::of_process();
  if (devices) return (*devices)->fabrics();
  // A lack of devices is no failure; a wrong setting is.
  if (devices.error().kind == ErrorKind::invalid_argument) return tl::unexpected(devices.error());
  return std::uint8_t{0};
}

std::uint8_t usable_rails() {
  const auto devices = Devices::of_process();
  return devices ? (*devices)->rails() : std::uint8_t{0};
}

std::vector<std::string> describe_fabrics() { return describe(Devices::of_process()); }

}  // namespace ccoll::verbs
