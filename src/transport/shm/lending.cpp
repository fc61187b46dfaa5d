// SPDX-License-Identifier: Apache-2.0
// owner                                         peer
// connects; hello and proof of the token, as on every connection; its rank
// offer: number, place in the file; the file ──────►  maps it
//                                            ◄──────  1, or 0 if it cannot
// withdrawal: number                         ──────►  drops it
#include "transport/shm/lending.hpp"

#include <array>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <deque>

#include "core/bytes.hpp"
#include "net/deadline.hpp"
#include "system/log.hpp"
#include "transport/shm/door.hpp"

namespace ccoll::shm {
namespace {

constexpr std::size_t kIntroductionBytes = 4 + 4;

struct Notice {
  enum class Kind : std::uint8_t { offer = 1, withdrawal = 2 };
  Kind kind;
  std::uint32_t number;
  std::uint64_t bytes;
  std::uint64_t offset;
};
constexpr std::size_t kNoticeBytes = 1 + 4 + 8 + 8;

std::string encode_notice(const Notice& notice) {
  return net::Writer()
      .number(static_cast<std::uint8_t>(notice.kind))
      .number(notice.number)
      .number(notice.bytes)
      .number(notice.offset)
      .take();
}

std::optional<Notice> decode_notice(std::string_view bytes) {
  net::Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  Notice notice{static_cast<Notice::Kind>(kind), reader.number<std::uint32_t>(), 0, 0};
  notice.bytes = reader.number<std::uint64_t>();
  notice.offset = reader.number<std::uint64_t>();
  if (!reader.complete() || kind < 1 || kind > 2) return std::nullopt;
  return notice;
}

/// State shared by a Lender and its coroutine, which may briefly outlive it.
struct Lent {
  enum class State : std::uint8_t { offered, mapped, refused };

  struct Shared {
    std::map<std::uint32_t, State> memories;  ///< by number
    std::deque<std::shared_ptr<const RegisteredMemory>> offers;
    std::deque<std::uint32_t> withdrawals;
    bool running = false;
    bool refuses = false;  ///< no more memory can be handed over
    bool ended = false;
  };
  Guarded<Shared> shared;
  // Service thread only: the objects on which the coroutine waits, if it does.
  asio::steady_timer* pause = nullptr;
  Socket* answers = nullptr;

  void answer(std::uint32_t number, bool mapped) {
    const auto locked = shared.lock();
    const auto found = locked->memories.find(number);
    if (found != locked->memories.end()) found->second = mapped ? State::mapped : State::refused;
  }
  void refuse_all() {
    const auto locked = shared.lock();
    for (auto& each : locked->memories) each.second = State::refused;
    locked->offers.clear();
    locked->withdrawals.clear();
    locked->refuses = true;
  }
  bool has_ended() { return shared.lock()->ended; }
  /// Wakes the coroutine for new work or for the end.
  void nudge() {
    if (pause != nullptr) pause->cancel();
    if (answers != nullptr && has_ended()) answers->cancel();
  }
};

/// Sets `place` for its own lifetime, while the coroutine waits on `what`.
template <typename T>
class Awaits {
 public:
  Awaits(T*& place, T& what) : place_(place) { place_ = &what; }
  ~Awaits() { place_ = nullptr; }
  Awaits(const Awaits&) = delete;

 private:
  T*& place_;
};

asio::awaitable<Status> send(Socket& socket, Lent& lent, std::string bytes,
                             std::vector<int> descriptors) {
  const std::function<bool()> go_on = [&lent] { return !lent.has_ended(); };
  co_return co_await shm::send(socket, std::move(bytes), std::move(descriptors), go_on);
}

/// There is no limit for the answer: until it comes, slices are copied.
asio::awaitable<Status> offer(Socket& socket, Lent& lent,
                              std::shared_ptr<const RegisteredMemory> memory) {
  const Notice notice{Notice::Kind::offer, memory->number, memory->bytes, memory->file_offset};
  std::vector<int> descriptors(1, memory->file.number());
  const auto sent = co_await send(socket, lent, encode_notice(notice), std::move(descriptors));
  if (!sent) co_return sent;
  const Awaits awaits(lent.answers, socket);
  if (lent.has_ended()) co_return Status{};
  const auto answer = co_await receive_exactly(socket, 1);
  if (!answer) co_return tl::unexpected(answer.error());
  lent.answer(memory->number, (*answer)[0] != 0);
  co_return Status{};
}

asio::awaitable<void> wait(Socket& socket, Lent& lent) {
  asio::steady_timer pause(socket.get_executor(), asio::steady_timer::time_point::max());
  const Awaits awaits(lent.pause, pause);
  std::error_code ignored;
  co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

/// Sends offers and withdrawals until the end or a failure.
asio::awaitable<Status> attend(Socket& socket, Lent& lent) {
  for (;;) {
    std::shared_ptr<const RegisteredMemory> offered;
    std::optional<std::uint32_t> withdrawn;
    {
      const auto locked = lent.shared.lock();
      if (locked->ended) co_return Status{};
      if (!locked->withdrawals.empty()) {
        withdrawn = locked->withdrawals.front();
        locked->withdrawals.pop_front();
      } else if (!locked->offers.empty()) {
        offered = std::move(locked->offers.front());
        locked->offers.pop_front();
      }
    }
    auto status = Status{};
    if (withdrawn) {
      auto notice = encode_notice({Notice::Kind::withdrawal, *withdrawn, 0, 0});
      status = co_await send(socket, lent, std::move(notice), std::vector<int>());
    } else if (offered) {
      status = co_await offer(socket, lent, std::move(offered));
    } else {
      co_await wait(socket, lent);
    }
    if (!status) co_return status;
  }
}

asio::awaitable<Status> introduce(Socket& socket, std::string door, std::string token,
                                  std::uint32_t from, std::uint32_t to, DoorWait wait) {
  auto status = co_await enter(socket, Protocol::endpoint(door), std::move(token),
                               net::Purpose::memory, std::move(wait));
  if (!status) co_return status;
  const net::Deadline deadline(socket, kPatience);
  // The deadline closes the socket, which ends the send.
  const std::function<bool()> always = [] { return true; };
  co_return co_await shm::send(socket, net::Writer().number(from).number(to).take(),
                               std::vector<int>(), always);
}

asio::awaitable<void> lend(asio::io_context& context, std::string door, std::string token,
                           std::uint32_t from, std::uint32_t to,
                           std::chrono::steady_clock::time_point doors_open,
                           std::shared_ptr<Lent> lent) {
  Socket socket(context);
  const std::function<bool()> wanted = [lent] { return !lent->has_ended(); };
  // A named variable: GCC 12 destroys a temporary in such a call twice.
  const DoorWait until{doors_open, wanted};
  auto status = co_await introduce(socket, std::move(door), std::move(token), from, to, until);
  if (status) status = co_await attend(socket, *lent);
  lent->refuse_all();
  if (status) co_return;
  log().debug("rank {}: rank {} no longer maps registered memory, so slices are copied: {}", from,
              to, status.error().message);
  // The peer would drop its mappings if the socket closed, and they may be on loan.
  while (!lent->has_ended()) co_await wait(socket, *lent);
}

/// The peer's rank; none if the peer, though it has proven the token, sends nonsense.
asio::awaitable<std::optional<std::uint32_t>> introduced(Socket& socket, std::uint32_t to,
                                                         std::size_t size) {
  const net::Deadline deadline(socket, kPatience);
  const auto hello = co_await receive_exactly(socket, kIntroductionBytes);
  if (!hello) co_return std::nullopt;
  net::Reader reader(*hello);
  const auto from = reader.number<std::uint32_t>();
  if (reader.number<std::uint32_t>() != to || from >= size) co_return std::nullopt;
  co_return from;
}

class RunningLender final : public Lender {
 public:
  RunningLender(const TransportContext& context, std::uint32_t to,
                std::chrono::steady_clock::time_point doors_open)
      : service_(context.service),
        token_(context.token),
        from_(context.rank),
        to_(to),
        door_(door_name(context.table, to)),
        doors_open_(doors_open) {}
  ~RunningLender() override {
    lent_->shared.lock()->ended = true;
    nudge();
  }

  std::optional<Place> find(const std::byte* data, std::size_t bytes) override {
    const auto memory = RegisteredMemories::of_process().find(data, bytes);
    if (!memory) return std::nullopt;
    auto shared = lent_->shared.lock();
    if (shared->refuses) return std::nullopt;
    const auto [found, is_new] = shared->memories.try_emplace(memory->number, Lent::State::offered);
    if (is_new) {
      shared->offers.push_back(memory);
      const bool starts = !std::exchange(shared->running, true);
      shared.unlock();
      starts ? start() : nudge();
      return std::nullopt;
    }
    if (found->second != Lent::State::mapped) return std::nullopt;
    return Place{memory->number, static_cast<std::uint64_t>(data - memory->data)};
  }

  void withdraw(std::uint32_t number) override {
    {
      const auto shared = lent_->shared.lock();
      if (shared->memories.erase(number) == 0) return;
      if (shared->refuses) return;
      if (std::erase_if(shared->offers, [&](const auto& each) { return each->number == number; }))
        return;
      shared->withdrawals.push_back(number);
    }
    nudge();
  }

 private:
  void start() {
    auto& context = service_->context();
    net::spawn(context.get_executor(), lend(context, door_, token_, from_, to_, doors_open_, lent_),
               "registered memory", [lent = lent_](const Failure&) { lent->refuse_all(); });
  }
  void nudge() {
    if (service_->is_forked()) return;
    asio::post(service_->context(), [lent = lent_] { lent->nudge(); });
  }

  const std::shared_ptr<net::Service> service_;
  const std::string token_;
  const std::uint32_t from_, to_;
  const std::string door_;
  const std::chrono::steady_clock::time_point doors_open_;
  const std::shared_ptr<Lent> lent_ = std::make_shared<Lent>();
};

}  // namespace

std::shared_ptr<Lender> Lender::make(const TransportContext& context, std::uint32_t to,
                                     std::chrono::steady_clock::time_point doors_open) {
  auto lender = std::make_shared<RunningLender>(context, to, doors_open);
  RegisteredMemories::of_process().watch(lender);
  return lender;
}

std::shared_ptr<const Segment> Borrowed::find(std::uint32_t from, std::uint32_t memory) const {
  const auto mapped = mapped_.lock();
  const auto found = mapped->find({from, memory});
  return found == mapped->end() ? nullptr : found->second;
}

std::shared_ptr<const Segment> Borrowed::take(std::uint32_t from,
                                              std::optional<std::uint32_t> memory) {
  const auto mapped = mapped_.lock();
  const auto found = mapped->lower_bound({from, memory.value_or(0)});
  if (found == mapped->end() || found->first.first != from) return nullptr;
  if (memory && found->first.second != *memory) return nullptr;
  return std::move(mapped->extract(found).mapped());
}

asio::awaitable<void> Borrowed::serve(std::shared_ptr<Borrowed> self, Socket& socket,
                                      std::uint32_t rank, std::size_t size) {
  const auto from = co_await introduced(socket, rank, size);
  if (!from) co_return;
  for (;;) {
    auto came = co_await receive(socket, kNoticeBytes);
    const auto notice = came ? decode_notice(came->bytes) : std::nullopt;
    if (!notice) break;
    if (notice->kind == Notice::Kind::withdrawal) {
      static_cast<void>(self->take(*from, notice->number));
      continue;
    }
    bool mapped = false;
    if (came->descriptors.size() == 1) {
      if (auto memory = Segment::view(came->descriptors[0], notice->offset, notice->bytes)) {
        const auto all = self->mapped_.lock();
        mapped = all->try_emplace({*from, notice->number}, std::move(*memory)).second;
      }
    }
    const std::string answer(1, mapped ? 1 : 0);
    const std::function<bool()> while_open = [&socket] { return socket.is_open(); };
    const auto answered = co_await send(socket, answer, std::vector<int>(), while_open);
    if (!answered) break;
  }
  while (self->take(*from, std::nullopt)) {
  }
}

}  // namespace ccoll::shm
