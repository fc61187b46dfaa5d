// SPDX-License-Identifier: Apache-2.0
/// Sets up a rank's connections: the rows of each subtree go up the tree, the whole table comes
/// down, and then each rank calls its ring successor. That takes three messages per tree edge and
/// two greetings per connection: O(1) messages per rank, O(log n) in sequence.

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "control/hub.hpp"
#include "control/tree.hpp"
#include "net/deadline.hpp"
#include "net/handshake.hpp"
#include "net/lack.hpp"
#include "net/listener.hpp"
#include "net/service.hpp"
#include "net/wire/frame.hpp"

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloLimit{10000};
/// Limit of one attempt to reach a rank, and again of its greeting: a rank that is slow to greet is
/// there, and must not be called twice.
constexpr milliseconds kConnectLimit{5000};
constexpr milliseconds kPause{100};
/// Limit of last words to a rank that has counted this one in.
constexpr milliseconds kFarewellLimit{500};
/// Limit of a question to a process that announced itself as this rank, and may be gone.
constexpr milliseconds kClaimLimit{1000};

milliseconds until(Hub::Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Hub::Clock::now());
  return std::max(left, milliseconds(1));
}

/// Reads the answer to our hello; none means welcome.
Result<std::optional<Refusal>> read_answer(const Result<std::string>& payload, std::uint32_t peer) {
  if (!payload)
    return fail(ErrorKind::peer_lost, "rank {} did not answer our hello: {}", peer,
                payload.error().message);
  const Result<Frame> frame = parse(*payload);
  if (!frame) return tl::unexpected<Failure>(frame.error());
  if (frame->type == Type::welcome) return std::nullopt;
  auto refusal = frame->type == Type::refused ? decode_refusal(frame->body) : std::nullopt;
  if (!refusal)
    return fail(ErrorKind::corrupt, "rank {} sent a malformed answer to our hello", peer);
  refusal->reason.message =
      fmt::format("start-up: rank {} refused the connection: {}", peer, refusal->reason.message);
  return refusal;
}

}  // namespace

void Hub::accept(net::Stream stream) {
  net::spawn(context_.get_executor(), receive_call(keep(), std::move(stream)),
             "a control connection was dropped");
}

asio::awaitable<void> Hub::receive_call(Kept /*kept*/, Stream accepted) {
  Stream stream = std::move(accepted);
  std::optional<Hello> hello;
  bool is_question = false;
  {
    const net::Deadline limit(stream, kHelloLimit);
    const Result<std::string> payload = co_await net::read_frame(stream, kMaxFrame);
    if (payload) {
      const Result<Frame> frame = parse(*payload);
      is_question = frame && frame->type == Type::question;
      if (frame && (frame->type == Type::hello || is_question)) hello = decode_hello(frame->body);
    }
  }
  if (!hello) {
    traffic_.refused();
    co_return;
  }
  traffic_.received();
  const auto twice = admission_.claimed_twice(*hello);
  if (admission_.disagrees(*hello))
    last_trouble_ =
        fmt::format("rank {} called, which was started with {} ranks", hello->rank, hello->size);
  const auto refusal = is_question ? admission_.reply(*hello)
                                   : admission_.objection(*hello, edges_.contains(hello->rank));
  if (refusal || is_question) {
    if (!is_question) traffic_.refused();
    const net::Deadline limit(stream, kHelloLimit);
    std::string frame = refusal ? encode(*refusal) : encode_welcome();
    asio::error_code ignored;
    co_await stream.write(std::move(frame), ignored);
    if (twice) tell_claim(*twice);
    co_return;
  }
  // After an earlier failure the caller would try again; from here on it is counted in.
  try {
    roster_.set(hello->rank, hello->row);
    watch_.tell_limit(*meet(std::move(stream), hello->rank, hello->row.address, encode_welcome()));
    advance();
  } catch (...) {
    break_down();
  }
}

void Hub::tell_claim(const Failure& claim) {
  if (stage_.is_leaving() || (stage_.is_decided() && Clock::now() > stage_.deadline())) return;
  if (admission_.blame(claim))
    flooding_.flood(kEveryCommunicator, {claim.kind, "start-up: " + claim.message, claim.culprit});
}

asio::awaitable<Status> Hub::call(std::uint32_t peer, Row row) {
  auto reached =
      co_await caller_.connect(row.address, std::min(kConnectLimit, until(stage_.deadline())));
  if (!reached) co_return fail(ErrorKind::aborted, "start-up: the service has ended");
  Result<Stream>& connected = *reached;
  if (!connected && connected.error().kind == ErrorKind::exhausted)
    co_return tl::unexpected(Failure{ErrorKind::exhausted,
                                     fmt::format("start-up: rank {} cannot call rank {}: {}", rank_,
                                                 peer, connected.error().message),
                                     rank_});
  if (!connected)
    co_return fail(connected.error().kind,
                   "no rank {} at {} ({}): is it still running, and can this host reach that "
                   "address?",
                   peer, endpoint_text(row.address), connected.error().message);
  Stream stream = std::move(*connected);
  Result<std::optional<Refusal>> answer;
  {
    // The limit of connecting does not apply: a callee that has counted us in would take hanging up
    // for our death.
    const net::Deadline answered(stream, until(stage_.deadline()));
    std::string frame = encode(caller_.hello_to(row));
    traffic_.sent();
    asio::error_code ignored;  // then reading the answer fails, too
    co_await stream.write(std::move(frame), ignored);
    const Result<std::string> payload = co_await net::read_frame(stream, kMaxFrame);
    answer = read_answer(payload, peer);
  }
  if (!answer) co_return tl::unexpected<Failure>(answer.error());
  if (const std::optional<Refusal>& refusal = *answer) {
    if (refusal->final) give_up(refusal->reason);
    co_return tl::unexpected<Failure>(refusal->reason);
  }
  if (stage_.is_leaving()) {
    // The callee has counted this rank in: tell it why this rank leaves.
    std::string farewell;
    for (const FailureNews& news : news_.failures()) farewell += encode(news);
    const std::uint32_t departed[] = {rank_};
    farewell += encode_left(departed);
    const net::Deadline limit(stream, kFarewellLimit);
    asio::error_code ignored;
    co_await stream.write(std::move(farewell), ignored);
    co_await net::drain(stream.socket());
    co_return fail(ErrorKind::aborted, "start-up: rank {} has left", rank_);
  }
  traffic_.received();
  roster_.set(peer, row);
  welcomed(*meet(std::move(stream), peer, row.address, {}));
  advance();
  co_return Status{};
}

void Hub::call_parent(const Row& parent) {
  tasks_.spawn(attempt(tasks_.keep(), parent), "start-up");
}

asio::awaitable<void> Hub::attempt(Kept /*kept*/, Row parent) {
  Status status = co_await call(parent_of(rank_), parent);
  if (!status) last_trouble_ = status.error().message;
  tell_attempt(std::move(status));
}

void Hub::ask_claimant(const Row& row) {
  tasks_.spawn(check_claim(tasks_.keep(), row), "start-up");
}

asio::awaitable<void> Hub::check_claim(Kept /*kept*/, Row other) {
  const Result<std::string> payload = co_await caller_.ask(other, kClaimLimit);
  const Result<std::optional<Refusal>> answer = read_answer(payload, rank_);
  Status status;
  const bool is_claimed = answer && *answer && (*answer)->reason.kind == ErrorKind::mismatch &&
                          (*answer)->reason.culprit == rank_;
  if (is_claimed) status = tl::unexpected<Failure>((*answer)->reason);
  tell_attempt(std::move(status));
}

void Hub::tell_attempt(Status status) {
  const std::lock_guard lock(progress_.mutex);
  progress_.attempt = std::move(status);
  progress_.changed.notify_all();
}

asio::awaitable<void> Hub::call_successor(Kept /*kept*/) {
  const std::uint32_t peer = successor_of(rank_, size_);
  net::Lack lack;
  while (!stage_.is_decided() && Clock::now() < stage_.deadline()) {
    const Status status = co_await call(peer, roster_[peer]);
    if (status || stage_.is_decided()) co_return;
    last_trouble_ = status.error().message;
    if (lack.lasts(status.error())) co_return give_up(status.error());
    asio::steady_timer pause(context_, kPause);
    asio::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

std::shared_ptr<Edge> Hub::meet(Stream stream, std::uint32_t peer, const PeerAddress& address,
                                const std::string& greeting) {
  auto edge = edges_.add(std::move(stream), peer, address, weak_from_this());
  roster_.met(peer);
  edge->start();
  watch_.keep_watch();
  if (!greeting.empty()) edges_.send(*edge, greeting);
  flooding_.catch_up(*edge);
  return edge;
}

void Hub::begin(Clock::time_point deadline) {
  stage_.begin(deadline);
  if (stage_.is_leaving())
    return decide(fail(ErrorKind::aborted, "start-up: rank {} has already left", rank_));
  if (const auto failure = news_.general_failure()) {
    decide(tl::unexpected<Failure>(*failure));
    return leave();
  }
  advance();
}

Status Hub::gathered(std::uint32_t child, std::string_view body) {
  CCOLL_TRY(roster_.take_rows(child, body));
  advance();
  return {};
}

Status Hub::table(std::uint32_t parent, std::string_view body) {
  CCOLL_TRY(roster_.take_table(parent, body));
  pass_on_table();
  return {};
}

void Hub::pass_on_table() {
  const std::string frame = encode_table(roster_.rows(), roster_.rank0_text());
  for (const std::uint32_t child : children_of(rank_, size_))
    if (Edge* const edge = edges_.find(child)) edges_.send(*edge, frame);
  edges_.set_frame_limit(max_frame(size_));
  if (calls_successor(rank_, size_)) tasks_.spawn(call_successor(tasks_.keep()), "start-up");
  advance();
}

void Hub::advance() {
  if (!stage_.is_starting()) return;
  if (roster_.is_complete()) {
    if (roster_.unmet().empty()) decide({});
  } else if (!roster_.is_report_due()) {
    return;
  } else if (rank_ == 0) {
    roster_.complete();
    pass_on_table();
  } else if (Edge* const parent = edges_.find(parent_of(rank_))) {
    edges_.send(*parent, encode_rows(roster_.report()));
  }
}

void Hub::decide(const Status& outcome) {
  // Allocate memory first: waiting threads must get all of the outcome or nothing.
  Status told = outcome;
  std::vector<PeerAddress> table;
  std::string rank0_text;
  if (outcome) {
    table.reserve(size_);
    for (const Row& row : roster_.rows()) table.push_back(row.address);
    rank0_text = roster_.rank0_text();
  }
  stage_.decide(outcome.has_value());
  {
    const std::lock_guard lock(progress_.mutex);
    progress_.outcome = std::move(told);
    progress_.table = std::move(table);
    progress_.job = roster_[0].nonce;
    progress_.rank0_text = std::move(rank0_text);
    progress_.changed.notify_all();
  }
  reconnection_.ensure();  // some may have left already
}

void Hub::give_up(const Failure& failure) {
  if (!stage_.is_decided()) flooding_.flood(kEveryCommunicator, failure);
}

Standing Hub::standing() const {
  Standing standing;
  standing.rank = rank_;
  standing.size = size_;
  standing.table_complete = roster_.is_complete();
  const auto &unmet = roster_.unmet(), &unreported = roster_.unreported();
  standing.parent_met = rank_ == 0 || !unmet.contains(parent_of(rank_));
  standing.unreported.assign(unreported.begin(), unreported.end());
  standing.unmet.assign(unmet.begin(), unmet.end());
  standing.last_trouble = last_trouble_;
  return standing;
}

}  // namespace ccoll::control
