// SPDX-License-Identifier: Apache-2.0
#include "control/start_up.hpp"

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <optional>
#include <vector>

#include "control/tree.hpp"
#include "net/deadline.hpp"
#include "net/lack.hpp"
#include "net/wire/frame.hpp"

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

/// Limit of one attempt to reach a rank, and again of its greeting: a rank that is slow to greet is
/// there, and must not be called twice.
constexpr milliseconds kConnectLimit{5000};
constexpr milliseconds kPause{100};
/// Limit of last words to a rank that has counted this one in.
constexpr milliseconds kFarewellLimit{500};
/// Limit of a question to a process that announced itself as this rank, and may be gone.
constexpr milliseconds kClaimLimit{1000};

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

StartUp::StartUp(const Caller& caller, Stage& stage, Roster& roster, Edges& edges,
                 Flooding& flooding, Reconnection& reconnection, const Tasks& tasks,
                 TrafficCount& traffic, Progress& progress, Owner& owner)
    : caller_(caller),
      stage_(stage),
      roster_(roster),
      edges_(edges),
      flooding_(flooding),
      reconnection_(reconnection),
      tasks_(tasks),
      traffic_(traffic),
      progress_(progress),
      owner_(owner) {}

asio::awaitable<Status> StartUp::call(std::uint32_t peer, Row row) {
  auto reached =
      co_await caller_.connect(row.address, std::min(kConnectLimit, stage_.left(tasks_.now())));
  if (!reached) co_return fail(ErrorKind::aborted, "start-up: the service has ended");
  Result<net::Stream>& connected = *reached;
  if (!connected && connected.error().kind == ErrorKind::exhausted)
    co_return tl::unexpected(Failure{ErrorKind::exhausted,
                                     fmt::format("start-up: rank {} cannot call rank {}: {}",
                                                 caller_.rank(), peer, connected.error().message),
                                     caller_.rank()});
  if (!connected)
    co_return fail(connected.error().kind,
                   "no rank {} at {} ({}): is it still running, and can this host reach that "
                   "address?",
                   peer, endpoint_text(row.address), connected.error().message);
  net::Stream stream = std::move(*connected);
  Result<std::optional<Refusal>> answer;
  {
    // The limit of connecting does not apply: a callee that has counted us in would take hanging up
    // for our death.
    const net::Deadline answered(stream, stage_.left(tasks_.now()));
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
    for (const FailureNews& news : flooding_.news().failures()) farewell += encode(news);
    const std::uint32_t departed[] = {caller_.rank()};
    farewell += encode_left(departed);
    const net::Deadline limit(stream, kFarewellLimit);
    asio::error_code ignored;
    co_await stream.write(std::move(farewell), ignored);
    co_await net::drain(stream.socket());
    co_return fail(ErrorKind::aborted, "start-up: rank {} has left", caller_.rank());
  }
  traffic_.received();
  roster_.set(peer, row);
  owner_.welcomed(*owner_.meet(std::move(stream), peer, row.address, {}));
  advance();
  co_return Status{};
}

void StartUp::call_parent(const Row& parent) {
  tasks_.spawn(attempt(tasks_.keep(), parent), "start-up");
}

asio::awaitable<void> StartUp::attempt(std::shared_ptr<void> /*kept*/, Row parent) {
  Status status = co_await call(parent_of(caller_.rank()), parent);
  if (!status) last_trouble_ = status.error().message;
  tell_attempt(std::move(status));
}

void StartUp::ask_claimant(const Row& row) {
  tasks_.spawn(check_claim(tasks_.keep(), row), "start-up");
}

asio::awaitable<void> StartUp::check_claim(std::shared_ptr<void> /*kept*/, Row other) {
  const Result<std::string> payload = co_await caller_.ask(other, kClaimLimit);
  const Result<std::optional<Refusal>> answer = read_answer(payload, caller_.rank());
  Status status;
  const bool is_claimed = answer && *answer && (*answer)->reason.kind == ErrorKind::mismatch &&
                          (*answer)->reason.culprit == caller_.rank();
  if (is_claimed) status = tl::unexpected<Failure>((*answer)->reason);
  tell_attempt(std::move(status));
}

void StartUp::tell_attempt(Status status) {
  const auto reached = progress_.state.lock();
  reached->attempt = std::move(status);
  progress_.changed.notify_all();
}

asio::awaitable<void> StartUp::call_successor(std::shared_ptr<void> /*kept*/) {
  const std::uint32_t peer = successor_of(caller_.rank(), caller_.size());
  net::Lack lack;
  while (stage_.may_try(tasks_.now())) {
    const Status status = co_await call(peer, roster_[peer]);
    if (status || stage_.is_decided()) co_return;
    last_trouble_ = status.error().message;
    if (lack.lasts(status.error(), tasks_.now())) co_return give_up(status.error());
    asio::steady_timer pause(tasks_.context(), kPause);
    asio::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void StartUp::begin(Clock::time_point deadline) {
  stage_.begin(deadline);
  if (stage_.is_leaving())
    return decide(fail(ErrorKind::aborted, "start-up: rank {} has already left", caller_.rank()));
  if (const auto failure = flooding_.news().general_failure()) {
    decide(tl::unexpected<Failure>(*failure));
    return owner_.leave();
  }
  advance();
}

Status StartUp::gathered(std::uint32_t child, std::string_view body) {
  CCOLL_TRY(roster_.take_rows(child, body));
  advance();
  return {};
}

Status StartUp::table(std::uint32_t parent, std::string_view body) {
  CCOLL_TRY(roster_.take_table(parent, body));
  pass_on_table();
  return {};
}

void StartUp::pass_on_table() {
  const std::string frame = encode_table(roster_.rows(), roster_.rank0_text());
  for (const std::uint32_t child : children_of(caller_.rank(), caller_.size()))
    if (Edge* const edge = edges_.find(child)) edges_.send(*edge, frame);
  edges_.set_frame_limit(max_frame(caller_.size()));
  if (calls_successor(caller_.rank(), caller_.size()))
    tasks_.spawn(call_successor(tasks_.keep()), "start-up");
  advance();
}

void StartUp::advance() {
  if (!stage_.is_starting()) return;
  if (roster_.is_complete()) {
    if (roster_.unmet().empty()) decide({});
  } else if (!roster_.is_report_due()) {
    return;
  } else if (caller_.rank() == 0) {
    roster_.complete();
    pass_on_table();
  } else if (Edge* const parent = edges_.find(parent_of(caller_.rank()))) {
    edges_.send(*parent, encode_rows(roster_.report()));
  }
}

void StartUp::fail_for_all(const Failure& failure) {
  if (!stage_.is_starting()) return;
  decide(tl::unexpected<Failure>(failure));
  owner_.leave();
}

void StartUp::decide(const Status& outcome) {
  // Allocate memory first: waiting threads must get all of the outcome or nothing.
  Status told = outcome;
  std::vector<PeerAddress> table;
  std::string rank0_text;
  if (outcome) {
    table.reserve(caller_.size());
    for (const Row& row : roster_.rows()) table.push_back(row.address);
    rank0_text = roster_.rank0_text();
  }
  stage_.decide(outcome.has_value());
  {
    const auto reached = progress_.state.lock();
    reached->outcome = std::move(told);
    reached->table = std::move(table);
    reached->job = roster_[0].nonce;
    reached->rank0_text = std::move(rank0_text);
    progress_.changed.notify_all();
  }
  reconnection_.ensure();  // some may have left already
}

void StartUp::give_up(const Failure& failure) {
  if (!stage_.is_decided()) flooding_.flood(kEveryCommunicator, failure);
}

Standing StartUp::standing() const {
  Standing standing;
  standing.rank = caller_.rank();
  standing.size = caller_.size();
  standing.table_complete = roster_.is_complete();
  const auto &unmet = roster_.unmet(), &unreported = roster_.unreported();
  standing.parent_met = caller_.rank() == 0 || !unmet.contains(parent_of(caller_.rank()));
  standing.unreported.assign(unreported.begin(), unreported.end());
  standing.unmet.assign(unmet.begin(), unmet.end());
  standing.last_trouble = last_trouble_;
  return standing;
}

}  // namespace ccoll::control
