// SPDX-License-Identifier: Apache-2.0
// lender                                             each reader
// offer: number, directions; a descriptor ─────────►  maps it, writes the place
//                                         ◄─────────  mapped, or refused and why
// withdrawal: number                      ─────────►  clears the place, unmaps it
//
// Each rank has an inbox: a socket whose other end all others have.
#include "gpu/group/lending.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/bytes.hpp"
#include "core/deadline.hpp"
#include "core/os_error.hpp"
#include "gpu/cuda/cuda.hpp"
#include "system/descriptors.hpp"
#include "system/log.hpp"

namespace ccoll::device {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostTextBytes = 500;
constexpr std::size_t kMostMessageBytes = 1 + 4 + 4 + 4 + kMostTextBytes;
/// The time after which a full inbox is tried again.
constexpr int kAgainMs = 5;
/// How long an ending rank tries to announce to the others what it takes back.
constexpr std::chrono::seconds kForWithdrawals{1};
/// Readers get twice the number.
constexpr std::uint32_t kMostNumber = UINT32_MAX / 2;

}  // namespace

Result<std::shared_ptr<Lending>> Lending::make(std::uint32_t rank, std::uint32_t size, int device,
                                               GroupWords words, Exchange& exchange,
                                               Exchange::TimePoint deadline) {
  std::shared_ptr<Lending> made(new Lending(rank, size, device, words));
  CCOLL_TRY(made->open(exchange, deadline));
  Registrations::of_process().watch(made);
  return made;
}

Lending::Lending(std::uint32_t rank, std::uint32_t size, int device, GroupWords words)
    : rank_(rank), size_(size), device_(device), words_(words), books_(rank, size) {}

Lending::Books::Books(std::uint32_t rank, std::uint32_t size)
    : rank(rank), outboxes(size), rounds(kLoanPlaces), taken(kLoanPlaces) {}

/// A rank without an inbox, or a thread for it, can borrow nothing, and so no rank lends.
Status Lending::open(Exchange& exchange, Exchange::TimePoint deadline) {
  int pair[2] = {-1, -1};
  wakes_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const bool is_open =
      wakes_.open() && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
  inbox_ = FileDescriptor(pair[0]);
  const FileDescriptor others(pair[1]);
  std::vector<int> files;
  if (is_open) files.push_back(others.number());
  auto parcels = exchange.swap("lending", files, deadline);
  if (!parcels) return tl::unexpected(std::move(parcels.error()));
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    auto& theirs = (*parcels)[rank].files;
    if (rank != rank_ && theirs.size() == 1)
      books_.lock()->outboxes[rank].socket = std::move(theirs[0]);
  }
  if (!is_open) return {};
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error& error) {
    log().warn("there is no thread to map the GPU memory that other ranks lend: {}", error.what());
    inbox_ = FileDescriptor();
  }
  return {};
}

Lending::~Lending() {
  books_.with([](Books& books) {
    for (const auto& [id, lent] : books.lent) books.withdraw(lent);
    books.is_over = true;
  });
  if (!thread_.joinable()) return;
  wake();
  thread_.join();
}

void Lending::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wakes_.number(), &one, sizeof one) == sizeof one);
}

// Memory that this rank lends

std::optional<Lending::Loan> Lending::find(const std::byte* data, std::uint64_t bytes,
                                           std::chrono::milliseconds patience) {
  const auto memory = Registrations::of_process().find(data, bytes);
  if (!memory || memory->device() != device_ || memory->directions().empty() || size_ == 1)
    return std::nullopt;
  auto books = books_.lock();
  auto [at, is_new] = books->lent.try_emplace(memory->id());
  Lent& lent = at->second;
  if (is_new) {
    lent.number = books->take_number();
    lent.is_refused = lent.number == 0 || !thread_.joinable();
    if (!lent.is_refused) {
      if (const auto offered = books->offer(*memory, lent.number); !offered) {
        lent.is_refused = true;
        // Others report a rank that has gone.
        if (offered.error().kind != ErrorKind::peer_lost)
          books->log_refusal(offered.error().message);
      }
    }
    wake();
  }
  // Nobody frees the memory meanwhile.
  books.wait_until(books->changed, deadline_after(patience),
                   [&](const Books&) { return lent.is_refused || lent.answers + 1 == size_; });
  if (lent.is_refused || lent.answers + 1 != size_) return std::nullopt;
  return Loan{lent.number, static_cast<std::uint64_t>(data - memory->data())};
}

/// Goes to all others.
Status Lending::Books::offer(Lendable& memory, std::uint32_t number) {
  for (std::uint32_t to = 0; to < outboxes.size(); ++to) {
    if (to == rank) continue;
    if (!outboxes[to].socket.open())
      return fail(ErrorKind::peer_lost, "rank {} takes no offers any more", to);
    auto file = memory.file_to_give();
    if (!file) return tl::unexpected(std::move(file.error()));
    send(to, {Message::Kind::offer, rank, number, memory.directions(), std::move(*file)});
  }
  return {};
}

/// A number whose place no other has; 0: there is none.
std::uint32_t Lending::Books::take_number() {
  for (std::uint32_t place = 0; place < kLoanPlaces; ++place) {
    const std::uint64_t number = (std::uint64_t{rounds[place]} + 1) * kLoanPlaces + place;
    if (taken[place] || number > kMostNumber) continue;
    taken[place] = true;
    ++rounds[place];
    return static_cast<std::uint32_t>(number);
  }
  return 0;
}

void Lending::withdraw(std::uint64_t id) {
  const auto books = books_.lock();
  const auto found = books->lent.find(id);
  if (found == books->lent.end()) return;
  books->withdraw(found->second);
  books->lent.erase(found);
  wake();
}

void Lending::Books::withdraw(const Lent& of) {
  const std::uint32_t number = of.number;
  if (number == 0) return;
  taken[number % kLoanPlaces] = false;
  for (std::uint32_t to = 0; to < outboxes.size(); ++to) {
    auto& waiting = outboxes[to].waiting;
    const auto is_its_offer = [&](const Message& each) {
      return each.kind == Message::Kind::offer && each.number == number;
    };
    if (to == rank || std::erase_if(waiting, is_its_offer) != 0) continue;
    send(to, {Message::Kind::withdrawal, rank, number});
  }
}

void Lending::note_answer(const Message& answer) {
  const auto books = books_.lock();
  for (auto& [id, lent] : books->lent) {
    if (lent.number != answer.number) continue;
    if (answer.kind == Message::Kind::refused) {
      lent.is_refused = true;
      books->log_refusal(fmt::format("rank {}: {}", answer.from, answer.text));
    }
    ++lent.answers;
  }
  books->changed.notify_all();
}

void Lending::Books::log_refusal(std::string_view why) {
  if (std::exchange(is_refusal_logged, true)) return;
  log().warn(
      "rank {}: registered memory of its GPU is copied as if it were not registered: {}; other "
      "memory may be affected, too, without a further warning",
      rank, why);
}

// Messages

void Lending::Books::send(std::uint32_t to, Message message) {
  if (outboxes[to].socket.open()) outboxes[to].waiting.push_back(std::move(message));
}

bool Lending::Books::send_waiting() {
  bool is_full = false;
  for (Outbox& outbox : outboxes) {
    while (!outbox.waiting.empty()) {
      const Message& next = outbox.waiting.front();
      const auto bytes = net::Writer()
                             .number(static_cast<std::uint8_t>(next.kind))
                             .number(next.from)
                             .number(next.number)
                             .text(next.text)
                             .take();
      std::vector<int> files;
      if (next.file.open()) files.push_back(next.file.number());
      const auto sent = shm::send_with_descriptors(outbox.socket.number(), bytes, files);
      if (!sent && sent.error().kind == ErrorKind::exhausted) {
        is_full = true;
        break;
      }
      if (!sent) {
        close(outbox);
        break;
      }
      outbox.waiting.pop_front();
    }
  }
  return is_full;
}

/// That rank's group has ended, so nothing can be lent to all from then on.
void Lending::Books::close(Outbox& outbox) {
  outbox.socket = FileDescriptor();
  outbox.waiting.clear();
  for (auto& [id, each] : lent) each.is_refused = true;
  changed.notify_all();
}

void Lending::serve() {
  for (std::optional<Clock::time_point> gives_up;;) {
    // This comes before it sends, so that what is taken back at the end is sent.
    if (!gives_up && books_.lock()->is_over) gives_up = Clock::now() + kForWithdrawals;
    const bool comes_again = books_.lock()->send_waiting();
    if (gives_up && (!comes_again || Clock::now() >= *gives_up)) return;
    std::array<pollfd, 2> any{{{wakes_.number(), POLLIN, 0}, {inbox_.number(), POLLIN, 0}}};
    if (poll(any.data(), any.size(), comes_again ? kAgainMs : -1) < 0 && errno != EINTR) return;
    std::uint64_t ignored = 0;
    static_cast<void>(::read(wakes_.number(), &ignored, sizeof ignored) == sizeof ignored);
    hear();
  }
}

void Lending::hear() {
  while (inbox_.open()) {
    auto came = shm::receive_with_descriptors(inbox_.number(), kMostMessageBytes);
    if (!came && came.error().kind == ErrorKind::exhausted) return;
    if (!came) {
      inbox_ = FileDescriptor();  // all others have gone
      return;
    }
    net::Reader reader(came->bytes);
    const auto kind = reader.number<std::uint8_t>();
    Message message;
    message.kind = static_cast<Message::Kind>(kind);
    message.from = reader.number<std::uint32_t>();
    message.number = reader.number<std::uint32_t>();
    message.text = reader.text();
    if (!came->descriptors.empty()) message.file = std::move(came->descriptors[0]);
    if (reader.complete() && message.from < size_ && message.from != rank_)
      take(std::move(message));
  }
}

void Lending::take(Message message) {
  switch (message.kind) {
    case Message::Kind::offer: {
      const std::uint32_t from = message.from;
      Message answer{Message::Kind::mapped, rank_, message.number};
      if (auto mapped = borrow(std::move(message)); !mapped) {
        answer.kind = Message::Kind::refused;
        answer.text = mapped.error().message.substr(0, kMostTextBytes);
      }
      books_.lock()->send(from, std::move(answer));
      return;
    }
    case Message::Kind::withdrawal:
      return give_back(message);
    case Message::Kind::mapped:
    case Message::Kind::refused:
      return note_answer(message);
  }
}

// Memory that others lend

Status Lending::borrow(Message offer) {
  auto borrowed = device::borrow(device_, offer.text, std::move(offer.file));
  CCOLL_TRY(borrowed);
  LoanPlace& place = words_.place(rank_, offer.from, offer.number);
  store_relaxed(&place.address, reinterpret_cast<std::uint64_t>(borrowed->data));
  store_release(&place.number, std::uint64_t{offer.number});
  borrowed_[{offer.from, offer.number % kLoanPlaces}] = std::move(*borrowed);
  return {};
}

void Lending::give_back(const Message& withdrawal) {
  LoanPlace& place = words_.place(rank_, withdrawal.from, withdrawal.number);
  if (load_relaxed(&place.number) != withdrawal.number || words_.is_over()) return;
  store_relaxed(&place.number, std::uint64_t{0});
  borrowed_.erase({withdrawal.from, withdrawal.number % kLoanPlaces});
}

}  // namespace ccoll::device
