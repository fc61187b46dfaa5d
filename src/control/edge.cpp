// SPDX-License-Identifier: Apache-2.0
#include "control/edge.hpp"

#include <asio/buffer.hpp>
#include <asio/steady_timer.hpp>

#include "core/net/service.hpp"

namespace ccoll::control {
namespace {

constexpr std::size_t kChunk = 4096;

/// Memory that the kernel has not may be there soon, but nobody tells when.
constexpr std::chrono::milliseconds kTryAgain{20};
constexpr int kTries = 50;

bool lacks_memory(const asio::error_code& error) {
  return error == asio::error::no_buffer_space || error == asio::error::no_memory;
}

}  // namespace

Edge::Edge(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
           std::weak_ptr<Owner> owner, std::size_t frame_limit)
    : stream_(std::move(stream)),
      peer_(peer),
      address_(address),
      owner_(std::move(owner)),
      frame_limit_(frame_limit) {
  asio::error_code ignored;  // a socket that is already dead is found out by reading
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.socket().non_blocking(true, ignored);
}

void Edge::start() {
  net::spawn(stream_.get_executor(), read(shared_from_this()), "control",
             [self = shared_from_this()](const Failure& failure) {
               if (const auto owner = self->owner_.lock()) owner->failed(*self, failure);
               self->close();
             });
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
      last_heard_ = Clock::now();
    }
    if (error == asio::error::eof) {
      why = trouble_.empty() ? "its control connection closed"
                             : fmt::format("its control connection broke ({})", trouble_);
    } else if (error) {
      why = fmt::format("its control connection closed ({})", stream_.reason(error));
    } else if (const Status status = deliver(); !status) {
      why = fmt::format("its control connection was dropped, it sent {}", status.error().message);
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
  if (outgoing_.size() + frame.size() > kMaxBacklog) {
    // The peer has not read for a very long time. Cancelling makes the reader report the end.
    asio::error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    return;
  }
  const bool under_way = !outgoing_.empty();
  outgoing_ += stream_.seal(frame);
  if (!under_way) write();
}

void Edge::write() {
  asio::error_code error;
  while (!outgoing_.empty() && (!error || error == asio::error::interrupted)) {
    const auto taken = stream_.socket().write_some(asio::buffer(outgoing_), error);
    outgoing_.erase(0, taken);
    if (taken > 0) tries_ = 0;
  }
  if (lacks_memory(error) && tries_++ < kTries) return write_later();
  if (error == asio::error::would_block) return write_when_ready();
  if (!outgoing_.empty()) {
    outgoing_.clear();
    return broke(error);
  }
  if (finishing_) stream_.finish();
}

void Edge::write_when_ready() {
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_write, going_on());
}

void Edge::write_later() {
  // Asio would wait until the socket becomes ready, as it is already.
  const auto timer = std::make_shared<asio::steady_timer>(stream_.get_executor(), kTryAgain);
  timer->async_wait([timer, go_on = going_on()](const asio::error_code& error) { go_on(error); });
}

std::function<void(const asio::error_code&)> Edge::going_on() {
  return [self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->closed_) self->write();
  };
}

void Edge::broke(const asio::error_code& error) {
  // Nothing more can be sent. The reader tells the owner once it has read what the peer still
  // managed to say; of what is no fault of the connection (EPERM of a filter) it would not learn by
  // itself.
  if (closed_ || error == asio::error::broken_pipe || error == asio::error::connection_reset)
    return;
  trouble_ = error.message();
  asio::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

void Edge::finish() {
  if (finishing_ || closed_) return;
  finishing_ = true;
  if (outgoing_.empty()) stream_.finish();
}

void Edge::close() {
  closed_ = true;
  asio::error_code ignored;
  stream_.close(ignored);
}

}  // namespace ccoll::control
