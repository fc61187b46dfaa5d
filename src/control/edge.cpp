// SPDX-License-Identifier: Apache-2.0
#include "control/edge.hpp"

#include <asio/buffer.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "core/net/service.hpp"

namespace ccoll::control {
namespace {

constexpr std::size_t kChunk = 4096;

}  // namespace

Edge::Edge(asio::ip::tcp::socket socket, std::uint32_t peer, const PeerAddress& address,
           std::weak_ptr<Owner> owner, std::size_t frame_limit)
    : socket_(std::move(socket)),
      peer_(peer),
      address_(address),
      owner_(std::move(owner)),
      frame_limit_(frame_limit) {
  asio::error_code ignored;  // a socket that is already dead is found out by reading
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void Edge::start() {
  net::spawn(
      socket_.get_executor(), read(shared_from_this()), "control",
      [self = shared_from_this()](const Failure& failure) {
        self->end(fmt::format("this rank dropped its control connection: {}", failure.message));
      });
}

asio::awaitable<void> Edge::read(std::shared_ptr<Edge> /*self*/) {
  std::string why;
  while (why.empty() && !closed_) {
    const std::size_t before = incoming_.size();
    incoming_.resize(before + kChunk);
    asio::error_code error;
    const std::size_t count =
        co_await socket_.async_read_some(asio::buffer(incoming_.data() + before, kChunk),
                                         asio::redirect_error(asio::use_awaitable, error));
    incoming_.resize(before + count);
    if (error == asio::error::eof) {
      why = "its control connection closed";
    } else if (error) {
      why = fmt::format("its control connection closed ({})", error.message());
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

void Edge::send(const std::string& frame) {
  if (closed_ || finishing_) return;
  if (outgoing_.size() + frame.size() > kMaxBacklog) {
    // The peer has not read for a very long time. Cancelling makes the reader report the end.
    asio::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    return;
  }
  if (!writing_.empty()) {
    outgoing_ += frame;
    return;
  }
  asio::error_code error;
  const std::size_t taken = socket_.write_some(asio::buffer(frame), error);
  if (error && error != asio::error::would_block) return;  // the reader tells the owner
  outgoing_ = frame.substr(taken);
  if (!outgoing_.empty()) write();
}

void Edge::write() {
  writing_.swap(outgoing_);
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      self->writing_.clear();
                      // After an error nothing more can be sent; the reader tells the owner once
                      // it has read what the peer still managed to say.
                      if (error || self->closed_) return;
                      if (!self->outgoing_.empty()) return self->write();
                      asio::error_code ignored;
                      if (self->finishing_)
                        self->socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                    });
}

void Edge::finish() {
  if (finishing_ || closed_) return;
  finishing_ = true;
  asio::error_code ignored;
  if (writing_.empty()) socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void Edge::close() {
  closed_ = true;
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace ccoll::control
