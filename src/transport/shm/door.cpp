// SPDX-License-Identifier: Apache-2.0
// sender                                        receiver
// connects; hello and proof of the token, as on every connection
// link id, bell's number, its process's mark;
//   memory, bell's chime and cells;
//   memory of shared slots, if any      ──────►  maps it and takes the offer
//                                       ◄──────  verdict: taken, why not, or try again later
//                                       ◄──────  once the link is opened there: bell's number; its
//                                                chime and cells (ShmReceiveLink::settle)
// A connection that lends registered memory goes on as in lending.cpp.
#include "transport/shm/door.hpp"

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <new>
#include <set>

#include "core/bytes.hpp"
#include "core/os_error.hpp"
#include "net/accept.hpp"
#include "net/address.hpp"
#include "net/deadline.hpp"
#include "net/lack.hpp"
#include "net/pending_handshakes.hpp"
#include "net/silenceable.hpp"
#include "system/log.hpp"
#include "transport/link_id_wire.hpp"
#include "transport/shm/visit.hpp"

namespace ccoll::shm {
namespace {

constexpr std::size_t kHelloBytes = kLinkIdBytes + 4 + 1 + 8 + 8;
constexpr std::size_t kVerdictHeadBytes = 1 + 4;
enum class Verdict : std::uint8_t { refused, taken, later };
constexpr std::size_t kMostReasonBytes = 400;
constexpr std::size_t kDoorbellBytes = 4;

struct Hello {
  LinkId id;
  std::uint32_t doorbell = 0;
  bool has_multicast = false;
  ProcessMark mark;
};

std::string encode(const Hello& hello) {
  net::Writer writer;
  return write(writer, hello.id)
      .number(hello.doorbell)
      .number(std::uint8_t{hello.has_multicast})
      .number(hello.mark.address)
      .number(hello.mark.value)
      .take();
}

std::optional<Hello> decode(std::string_view bytes) {
  net::Reader reader(bytes);
  Hello hello;
  hello.id = read_link_id(reader);
  hello.doorbell = reader.number<std::uint32_t>();
  hello.has_multicast = reader.number<std::uint8_t>() != 0;
  hello.mark = {reader.number<std::uint64_t>(), reader.number<std::uint64_t>()};
  if (!reader.complete()) return std::nullopt;
  return hello;
}

Result<Offer> map_offer(WithDescriptors& came, const Hello& hello) {
  const std::size_t expected = hello.has_multicast ? 4 : 3;
  if (came.descriptors.size() != expected)
    return fail(ErrorKind::exhausted, "{} of {} descriptors reached it (is its ulimit -n used up?)",
                came.descriptors.size(), expected);
  auto memory = Segment::map(came.descriptors[0], Ring::kBytes);
  if (!memory) return tl::unexpected(memory.error());
  auto doorbell =
      Doorbell::of_peer(std::move(came.descriptors[1]), came.descriptors[2], hello.doorbell);
  if (!doorbell) return tl::unexpected(doorbell.error());
  Offer offer{std::move(*memory), nullptr, std::nullopt, std::move(*doorbell), FileDescriptor()};
  if (hello.has_multicast) {
    auto multicast = Segment::map(came.descriptors[3], MulticastSlots::kBytes);
    if (!multicast) return tl::unexpected(multicast.error());
    offer.multicast = std::move(*multicast);
  }
  return offer;
}

/// Lets the receiver read lent slices in the sender's process, if that is permitted.
void reach(Offer& offer, pid_t sender, const Hello& hello, std::uint32_t rank) {
  auto memory = PeerMemory::reach(sender, hello.mark);
  if (memory)
    offer.sender_memory = *memory;
  else
    log().debug("rank {}: data from rank {} are copied twice: {}", rank, hello.id.from,
                memory.error().message);
}

/// State shared by the coroutines of a door. Service thread only, except to silence the handler.
struct Answering {
  Answering(const TransportContext& context, Door::HasPlace p, Door::Handler h,
            std::shared_ptr<Borrowed> b, std::optional<Failure> r)
      : acceptor(context.service->context()),
        pending_handshakes(fmt::format("shared memory of rank {}", context.rank)),
        token(context.token),
        rank(context.rank),
        size(context.table.size()),
        single_copy(context.single_copy),
        has_place(std::move(p)),
        handler(std::move(h)),
        borrowed(std::move(b)),
        refusal(std::move(r)) {}

  Protocol::acceptor acceptor;
  net::PendingHandshakes pending_handshakes;
  const std::string token;
  const std::uint32_t rank;
  const std::size_t size;
  const bool single_copy;
  const Door::HasPlace has_place;
  net::Silenceable<const LinkId&, Offer> handler;
  const std::shared_ptr<Borrowed> borrowed;
  const std::optional<Failure> refusal;
  std::set<Socket*> lenders;
  bool open = true;

  void close() {
    net::stop_accepting(*this);
    std::error_code ignored;
    for (auto* const lender : lenders) lender->close(ignored);
  }
};

/// Serves a lender until it leaves or the door shuts.
asio::awaitable<void> borrow(Answering& door, Socket& socket) {
  if (!door.open) co_return;
  struct Entry {
    Entry(std::set<Socket*>& all, Socket* one) : lenders(all), socket(one) { all.insert(one); }
    ~Entry() { lenders.erase(socket); }
    Entry(const Entry&) = delete;
    std::set<Socket*>& lenders;
    Socket* const socket;
  };
  const Entry entry(door.lenders, &socket);
  co_await Borrowed::serve(door.borrowed, socket, door.rank, door.size);
}

asio::awaitable<void> answer_one(std::shared_ptr<Answering> door, Socket accepted) {
  Socket socket = std::move(accepted);
  const auto process = process_of_user(socket, "a process");
  if (!process) co_return door->pending_handshakes.refused(process.error());
  const auto purpose =
      co_await net::answer_guest(door->pending_handshakes, socket, door->token, kPatience);
  if (!door->open) co_return;
  if (!purpose) co_return door->pending_handshakes.refused(purpose.error());
  if (*purpose == net::Purpose::memory) {
    // Without descriptors, do not map; slices are then copied.
    if (!net::has_descriptors_left()) co_return;
    co_await borrow(*door, socket);
    co_return;
  }
  if (*purpose != net::Purpose::link) co_return;
  const net::Deadline deadline(socket, kPatience);
  auto came = co_await receive(socket, kHelloBytes);
  if (!came || !door->open) co_return;
  const auto hello = decode(came->bytes);
  // The peer has proven the token but sends nonsense: drop the connection.
  if (!hello || hello->id.to != door->rank || hello->id.from >= door->size) co_return;
  auto offer = door->refusal ? tl::unexpected(*door->refusal) : map_offer(*came, *hello);
  if (offer && door->single_copy) reach(*offer, *process, *hello, door->rank);
  const auto text = offer ? std::string() : offer.error().message.substr(0, kMostReasonBytes);
  const auto verdict = !offer                       ? Verdict::refused
                       : door->has_place(hello->id) ? Verdict::taken
                                                    : Verdict::later;
  const auto answer = net::Writer().number(static_cast<std::uint8_t>(verdict)).text(text).take();
  const std::function<bool()> always = [] { return true; };
  const auto told = co_await send(socket, answer, std::vector<int>(), always);
  // If the sender does not hear the verdict, it falls back.
  if (!door->open || verdict != Verdict::taken || !told) co_return;
  offer->connection = FileDescriptor(socket.release());
  door->handler.call(hello->id, std::move(*offer));
}

class OpenDoor final : public Door {
 public:
  OpenDoor(std::shared_ptr<net::Service> service, std::shared_ptr<Answering> answering)
      : service_(std::move(service)), answering_(std::move(answering)) {
    net::spawn(service_->context().get_executor(),
               net::accept_all(answering_, answer_one, "an offer of shared memory was dropped"),
               "no more shared memory is accepted");
  }
  ~OpenDoor() override { net::close_entrance(*service_, answering_); }

 private:
  const std::shared_ptr<net::Service> service_;
  const std::shared_ptr<Answering> answering_;
};

/// Makes the offer. The time limit covers that alone, not the wait for the verdict.
asio::awaitable<Status> knock(Socket& socket, Protocol::endpoint door, std::string token, LinkId id,
                              DoorWait wait, std::shared_ptr<HandOver> hand_over) {
  auto status = co_await enter(socket, std::move(door), std::move(token), net::Purpose::link,
                               std::move(wait));
  if (!status) co_return status;
  const net::Deadline deadline(socket, kPatience);
  const auto& doorbell = *hand_over->waiter->doorbell();
  const auto& multicast = hand_over->multicast_file;
  const auto hello = encode({id, doorbell.number(), multicast != nullptr, hand_over->mark});
  std::vector<int> descriptors = {hand_over->memory->file().number(),
                                  doorbell.chime().event().number(), doorbell.memory().number()};
  if (multicast) descriptors.push_back(multicast->number());
  const std::function<bool()> go_on = [end = std::chrono::steady_clock::now() + kPatience / 2] {
    return std::chrono::steady_clock::now() < end;
  };
  co_return co_await send(socket, hello, std::move(descriptors), go_on);
}

/// Returns taken or later; fails if refused. There is no time limit: the receiver may be asleep. It
/// reads no byte more: the bell may follow at once, and its descriptors come with its first byte.
asio::awaitable<Result<Verdict>> verdict_of(Socket& socket) {
  const auto head = co_await receive_exactly(socket, kVerdictHeadBytes);
  if (!head) co_return tl::unexpected(head.error());
  net::Reader reader(*head);
  const auto verdict = static_cast<Verdict>(reader.number<std::uint8_t>());
  const auto length = reader.number<std::uint32_t>();
  if (length > kMostReasonBytes || verdict > Verdict::later)
    co_return fail(ErrorKind::corrupt, "it sent a malformed answer");
  const auto why_not = co_await receive_exactly(socket, length);
  if (!why_not) co_return tl::unexpected(why_not.error());
  if (verdict == Verdict::refused) co_return fail(ErrorKind::exhausted, "{}", *why_not);
  co_return verdict;
}

/// Waits, without a limit, until the receiver has opened its end.
asio::awaitable<Result<std::shared_ptr<Doorbell>>> receive_doorbell(Socket& socket) {
  auto came = co_await receive(socket, kDoorbellBytes);
  if (!came) co_return tl::unexpected(came.error());
  if (came->descriptors.size() != 2)
    co_return fail(ErrorKind::exhausted,
                   "{} of its doorbell's 2 descriptors arrived (is this rank's ulimit -n used up?)",
                   came->descriptors.size());
  if (came->bytes.size() != kDoorbellBytes)
    co_return fail(ErrorKind::corrupt, "it sent an incomplete doorbell");
  net::Reader reader(came->bytes);
  co_return Doorbell::of_peer(std::move(came->descriptors[0]), came->descriptors[1],
                              reader.number<std::uint32_t>());
}

asio::awaitable<void> wait_for_doorbell(Socket& socket, LinkId id,
                                        std::shared_ptr<HandOver> hand_over) {
  auto doorbell = co_await receive_doorbell(socket);
  if (!doorbell) {
    // The receiver would sleep forever, or has gone without a word: the link is unusable.
    hand_over->unheard.deliver(
        {doorbell.error().kind,
         doorbell.error().kind == ErrorKind::peer_lost
             ? fmt::format("rank {} has left", id.to)
             : fmt::format("shared memory with rank {}: {}", id.to, doorbell.error().message),
         doorbell.error().kind == ErrorKind::exhausted ? id.from : id.to});
    hand_over->waiter->ring();
    co_return;
  }
  hand_over->receiver = std::move(*doorbell);
  hand_over->doorbell.store(hand_over->receiver.get());
  // Slices may have been pushed before.
  hand_over->receiver->ring();
  hand_over->waiter->ring();
}

/// Repeats the offer until the receiver takes it, refuses it, or the sender closes the link.
asio::awaitable<Status> be_taken(Socket& socket, Protocol::endpoint door, std::string token,
                                 LinkId id, std::chrono::steady_clock::time_point doors_open,
                                 std::shared_ptr<HandOver> hand_over) {
  using namespace std::chrono_literals;
  const std::function<bool()> wanted = [hand_over] {
    return Ring::at(hand_over->memory->data())->writer_gone.load() == 0;
  };
  // A named variable: GCC 12 destroys a temporary in such a call twice.
  const DoorWait until{doors_open, wanted};
  asio::steady_timer pause(socket.get_executor());
  for (auto wait = 10ms;; wait = std::min(2 * wait, 250ms)) {
    const auto knocked = co_await knock(socket, door, token, id, until, hand_over);
    if (!knocked) co_return knocked;
    const auto verdict = co_await verdict_of(socket);
    if (!verdict) co_return tl::unexpected(verdict.error());
    if (*verdict == Verdict::taken) co_return Status{};
    std::error_code ignored;
    socket.close(ignored);
    pause.expires_after(wait);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (!wanted())
      co_return fail(ErrorKind::peer_lost, "it was closed before the receiver had a place for it");
  }
}

/// Makes the pages of the link's slots, a few at a time: the service thread has other work.
asio::awaitable<void> make_pages(std::shared_ptr<HandOver> hand_over) {
  constexpr std::size_t kFew = kShortSlotBytes;
  const auto& memory = *hand_over->memory;
  auto* const ring = Ring::at(memory.data());
  // The first short slices of a link take the first bytes of each slot.
  for (std::size_t at = 0; at < kSlotBytes; at += kFew)
    for (std::uint32_t slot = 0; slot < kLinkSlots && ring->writer_gone.load() == 0; slot++) {
      memory.make_pages(ring->slot(slot) + at, kFew);
      co_await asio::post(asio::use_awaitable);
    }
}

void begin_to_make_pages(asio::io_context& context, std::shared_ptr<HandOver> hand_over) try {
  net::spawn(context.get_executor(), make_pages(std::move(hand_over)), "pages of shared memory");
} catch (const std::bad_alloc&) {  // the first slices make them
}

asio::awaitable<void> offer_now(asio::io_context& context, Protocol::endpoint door,
                                std::string token, LinkId id,
                                std::chrono::steady_clock::time_point doors_open,
                                std::shared_ptr<HandOver> hand_over) {
  Socket socket(context);
  const auto status =
      co_await be_taken(socket, std::move(door), std::move(token), id, doors_open, hand_over);
  hand_over->memory->close_file();
  hand_over->multicast_file.reset();
  if (status)
    hand_over->taken.deliver(std::monostate());
  else
    hand_over->taken.deliver(
        {status.error().kind,
         fmt::format("no shared memory with rank {}: {}", id.to, status.error().message), id.to});
  hand_over->waiter->ring();
  if (!status) co_return;
  if (hand_over->makes_pages) begin_to_make_pages(context, hand_over);
  co_await wait_for_doorbell(socket, id, std::move(hand_over));
}

}  // namespace

std::string door_name(const std::vector<PeerAddress>& table, std::uint32_t rank) {
  return fmt::format("{}ccoll/{:016x}/{}/{}", '\0', table[rank].process, table[0].port,
                     table[rank].port);
}

Result<std::unique_ptr<Door>> Door::open(const TransportContext& context, HasPlace has_place,
                                         Handler handler, std::shared_ptr<Borrowed> borrowed,
                                         std::optional<Failure> refusal) {
  auto answering = std::make_shared<Answering>(context, std::move(has_place), std::move(handler),
                                               std::move(borrowed), std::move(refusal));
  auto& acceptor = answering->acceptor;
  std::error_code code;
  acceptor.open(Protocol(), code);
  if (!code) net::make_own(acceptor, code);
  if (!code) acceptor.bind(Protocol::endpoint(door_name(context.table, context.rank)), code);
  if (!code) acceptor.listen(Protocol::acceptor::max_listen_connections, code);
  if (code)
    return fail(ran_out(code) ? ErrorKind::exhausted : ErrorKind::unsupported, "no Unix socket: {}",
                os_error(code));
  return std::make_unique<OpenDoor>(context.service, std::move(answering));
}

void offer_link(const TransportContext& context, const LinkId& id,
                std::chrono::steady_clock::time_point doors_open,
                std::shared_ptr<HandOver> hand_over) {
  auto& service = context.service->context();
  net::spawn(
      service.get_executor(),
      offer_now(service, door_name(context.table, id.to), context.token, id, doors_open, hand_over),
      "shared memory", [id, hand_over](const Failure& failure) {
        // The receiver may have taken the link by now: it is too late to fall back.
        hand_over->unheard.deliver(
            {failure.kind,
             fmt::format("shared memory with rank {} of the job: {}", id.to, failure.message),
             std::nullopt});
        hand_over->waiter->ring();
      });
}

}  // namespace ccoll::shm
