// SPDX-License-Identifier: Apache-2.0
#include "control/connections/edge.hpp"

#include <asio/buffer.hpp>

#include "net/service.hpp"

namespace ccoll::control {
namespace {

constexpr std::size_t kChunk = 4096;

}  // namespace

Edge::Edge(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
           std::weak_ptr<Owner> owner, std::size_t frame_limit, Now now)
    : stream_(std::move(stream)),
      outbox_(stream_, kMaxBacklog, [this](const Failure& failure) { break_down(failure); }),
      peer_(peer),
      address_(address),
      owner_(std::move(owner)),
      now_(now),
      frame_limit_(frame_limit) {
  asio::error_code ignored;  // reading detects a dead socket
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Edge::start() {
  net::spawn(stream_.get_executor(), read(shared_from_this()), "control",
             [self = shared_from_this()](const Failure& failure) { self->break_down(failure); });
}

void Edge::break_down(const Failure& failure) {
  const auto kept = shared_from_this();
  if (const auto owner = owner_.lock()) owner->failed(*this, failure);
  close();
}

asio::awaitable<void> Edge::read(std::shared_ptr<Edge> /*self*/) {
  std::string why;
  while (why.empty() && !closed_) {
    const std::size_t before = incoming_.size();
    incoming_.resize(before + kChunk);
    asio::error_code error;
    const auto room = asio::buffer(incoming_.data() + before, kChunk);
    const std::size_t count = co_await stream_.read_some(room, error);
    incoming_.resize(before + count);
    if (count > 0) {
      has_heard_ = true;
      last_heard_ = now_();
    }
    if (error == asio::error::eof) {
      why = outbox_.trouble().empty()
                ? "its control connection closed"
                : fmt::format("its control connection broke ({})", outbox_.trouble());
    } else if (error) {
      why = fmt::format("its control connection closed ({})", stream_.reason(error));
    } else if (const Status status = deliver(); !status) {
      why = fmt::format("its control connection was dropped, because it sent {}",
                        status.error().message);
    }
  }
  end(why);
}

void Edge::end(const std::string& why) {
  if (closed_) return;
  close();
  if (const auto owner = owner_.lock()) owner->ended(*this, why);
}

Status Edge::deliver() {
  std::string_view rest = incoming_;
  const auto owner = owner_.lock();
  while (owner && !closed_) {
    const auto frame = next_frame(rest, frame_limit_);
    if (!frame) return tl::unexpected<Failure>(frame.error());
    if (!*frame) break;
    CCOLL_TRY(owner->received(*this, **frame));
  }
  incoming_.erase(0, incoming_.size() - rest.size());
  return {};
}

bool Edge::is_due(std::chrono::milliseconds passed) {
  silent_for_ =
      std::exchange(has_heard_, false) ? std::chrono::milliseconds(0) : silent_for_ + passed;
  return !std::exchange(has_sent_, false);
}

void Edge::send(const std::string& frame) {
  if (closed_ || finishing_) return;
  has_sent_ = true;
  outbox_.send(frame);
}

void Edge::finish() {
  if (finishing_ || closed_) return;
  finishing_ = true;
  outbox_.finish();
}

void Edge::close() {
  closed_ = true;
  asio::error_code ignored;
  stream_.close(ignored);
}

}  // namespace ccoll::control
