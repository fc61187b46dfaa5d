// SPDX-License-Identifier: Apache-2.0
#include "net/wire/outbox.hpp"

#include <asio/buffer.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <string_view>
#include <utility>

namespace ccoll::net {
namespace {

/// If the kernel has no memory, some may be free soon, but there is no event for that.
constexpr std::chrono::milliseconds kTryAgain{20};
constexpr int kTries = 50;

bool lacks_memory(const asio::error_code& error) {
  return error == asio::error::no_buffer_space || error == asio::error::no_memory;
}

}  // namespace

struct Outbox::State : std::enable_shared_from_this<State> {
  State(Stream& s, std::size_t most, std::function<void(const Failure&)> f)
      : stream(&s), most_bytes(most), failed(std::move(f)) {}

  bool empty() const { return written == waiting.size(); }
  void add(const std::string& wire) {
    // Written bytes are erased only when they are half or more: not for every few bytes taken.
    if (2 * written >= waiting.size()) waiting.erase(0, std::exchange(written, 0));
    waiting += wire;
  }
  /// Writes until the socket takes no more; the rest is written as soon as it can be.
  void write();
  void broke(const asio::error_code& error);
  void break_off(std::string why);
  /// A handler that continues writing, unless the Outbox has been destroyed meanwhile.
  auto going_on();

  Stream* stream;  // null once the Outbox is gone
  const std::size_t most_bytes;
  const std::function<void(const Failure&)> failed;
  std::string waiting;      // sealed; while it is not empty, a write is in progress
  std::size_t written = 0;  // bytes of `waiting` that the kernel has
  int tries = 0;            // since the kernel last took any
  std::string trouble;
  bool finishing = false;
};

auto Outbox::State::going_on() {
  return [self = shared_from_this()](const asio::error_code& error) {
    if (error || self->stream == nullptr) return;
    try {
      self->write();
    } catch (...) {
      self->failed(failure_of(std::current_exception()));
    }
  };
}

void Outbox::State::write() {
  asio::error_code error;
  while (!empty() && (!error || error == asio::error::interrupted)) {
    const auto rest = std::string_view(waiting).substr(written);
    const auto taken = stream->socket().write_some(asio::buffer(rest), error);
    written += taken;
    if (taken > 0) tries = 0;
  }
  if (lacks_memory(error) && tries++ < kTries) {
    // Asio would wait until the socket is ready, but it already is.
    const auto timer = std::make_shared<asio::steady_timer>(stream->get_executor(), kTryAgain);
    timer->async_wait([timer, go_on = going_on()](const asio::error_code& over) { go_on(over); });
    return;
  }
  if (error == asio::error::would_block)
    return stream->socket().async_wait(asio::ip::tcp::socket::wait_write, going_on());
  const bool all = empty();
  waiting.clear();
  written = 0;
  if (!all) return broke(error);
  if (finishing) stream->finish();
}

void Outbox::State::broke(const asio::error_code& error) {
  // After these two errors reading fails too, once it has read the peer's last bytes. Other errors
  // are no fault of the connection (EPERM of a filter), so reading would not fail.
  if (error == asio::error::broken_pipe || error == asio::error::connection_reset) return;
  break_off(error.message());
}

Outbox::Outbox(Stream& stream, std::size_t most_bytes, std::function<void(const Failure&)> failed)
    : state_(std::make_shared<State>(stream, most_bytes, std::move(failed))) {
  asio::error_code ignored;  // reading finds out if the socket is already dead
  stream.socket().non_blocking(true, ignored);
}

void Outbox::State::break_off(std::string why) {
  if (trouble.empty()) trouble = std::move(why);
  asio::error_code ignored;
  stream->socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

const std::string& Outbox::trouble() const { return state_->trouble; }

Outbox::~Outbox() { state_->stream = nullptr; }

void Outbox::send(std::string frame) {
  State& state = *state_;
  if (state.finishing || !state.stream->is_open()) return;
  const bool under_way = !state.empty();
  const std::size_t bytes = state.waiting.size() - state.written + frame.size();
  if (under_way && bytes > state.most_bytes)
    return state.break_off(fmt::format("it has left {} bytes unread", bytes));
  state.add(state.stream->seal(std::move(frame)));
  if (!under_way) state.write();
}

void Outbox::finish() {
  if (std::exchange(state_->finishing, true)) return;
  if (state_->empty() && state_->stream->is_open()) state_->stream->finish();
}

}  // namespace ccoll::net
