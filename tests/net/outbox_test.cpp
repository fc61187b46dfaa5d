// SPDX-License-Identifier: Apache-2.0
// Outgoing frames: ordered, bounded, and ended with a reason.
#include "net/wire/outbox.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <future>

#include "net/service.hpp"
#include "net/wire/frame.hpp"

using namespace ccoll;
using asio::ip::tcp;

namespace {

/// A connection whose one end writes through an Outbox; the other is the test's socket.
struct Ends {
  explicit Ends(std::size_t most_bytes) {
    auto& context = service->context();
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    tcp::socket near(context);
    near.connect(acceptor.local_endpoint());
    far.emplace(acceptor.accept());
    stream.emplace(std::move(near));
    outbox.emplace(*stream, most_bytes, [](const Failure&) {});
  }
  ~Ends() {
    on_service([&] {
      outbox.reset();
      stream.reset();
    });
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  template <typename Action>
  void on_service(Action action) {
    asio::post(service->context(), asio::use_future(action)).get();
  }

  std::shared_ptr<net::Service> service = net::Service::shared();
  std::optional<net::Stream> stream;
  std::optional<net::Outbox> outbox;
  std::optional<tcp::socket> far;
};

asio::awaitable<void> read_to_end(net::Stream& stream, std::promise<std::string>& why) {
  const auto frame = co_await net::read_frame(stream, 1000);
  why.set_value(frame ? "a frame: " + *frame : frame.error().message);
}

}  // namespace

TEST_CASE("outbox: frames come whole and in order to who reads later", "[core]") {
  Ends ends(std::size_t{64} << 20);
  std::string sent;
  ends.on_service([&] {
    for (char c = 'a'; c <= 'z'; c++) {
      const std::string frame(300'000, c);
      sent += frame;
      ends.outbox->send(frame);
    }
    ends.outbox->finish();
    ends.outbox->send("too late");
  });
  std::string got;
  std::vector<char> part(70'000);
  for (asio::error_code error; !error;)
    got.append(part.data(), ends.far->read_some(asio::buffer(part), error));
  CHECK(got.size() == sent.size());
  CHECK(got == sent);
}

TEST_CASE("outbox: a peer that does not read loses the connection, with the reason", "[core]") {
  constexpr std::size_t kMost = 1 << 20;
  Ends ends(kMost);
  std::promise<std::string> why;
  ends.on_service([&] {
    asio::co_spawn(ends.service->context(), read_to_end(*ends.stream, why), asio::detached);
    // The kernel's buffers fill first.
    for (int i = 0; i < 200 && ends.outbox->trouble().empty(); i++)
      ends.outbox->send(std::string(kMost / 4, 'x'));
    CHECK_THAT(ends.outbox->trouble(),
               Catch::StartsWith("it has left 1") && Catch::EndsWith(" bytes unread"));
  });
  CHECK(why.get_future().get() == net::kClosedByPeer);
}
