// SPDX-License-Identifier: Apache-2.0
#include "control/connections/edge.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <stdexcept>

#include "control/parts.hpp"

namespace ccoll::control {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

constexpr std::size_t kFrameLimit = std::size_t{64} << 10;

/// Records what an edge reports.
struct Hearer final : Edge::Owner {
  std::function<Status(Edge&)> at_frame = [](Edge&) { return Status{}; };
  std::function<void()> at_end = [] {};
  Texts frames;  ///< each with its type and body
  Texts ends, failures;

  Status received(Edge& edge, const Frame& frame) override {
    frames.push_back(static_cast<char>(frame.type) + std::string(frame.body));
    return at_frame(edge);
  }
  void ended(Edge& /*edge*/, const std::string& why) override {
    ends.push_back(why);
    at_end();
  }
  void failed(Edge& /*edge*/, const Failure& failure) override {
    failures.push_back(failure.message);
  }
};

/// A connection: one end is an edge, which is read, and the other is in the test's hands.
struct Pair {
  asio::io_context context;
  const std::shared_ptr<Hearer> hearer = std::make_shared<Hearer>();
  tcp::socket far{context};
  std::shared_ptr<Edge> edge;

  Pair() {
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    tcp::socket near(context);
    near.connect(acceptor.local_endpoint());
    far = acceptor.accept();
    edge = std::make_shared<Edge>(net::Stream(std::move(near)), 7, PeerAddress{}, hearer,
                                  kFrameLimit, &now_shown);
    edge->start();
  }
  ~Pair() {
    if (edge) edge->close();
    context.restart();
    context.poll();
  }

  void say(std::string_view bytes) { asio::write(far, asio::buffer(bytes)); }
  template <typename Holds>
  bool until(Holds holds) {
    return run_until(context, holds);
  }
  /// All bytes that the far end gets until the end of the connection, which it finds broken or not.
  std::string read_to_end() {
    std::string bytes;
    far.non_blocking(true);
    asio::error_code error;
    const auto is_over = [&] {
      char chunk[4096];
      std::size_t count = 0;
      do {
        count = far.read_some(asio::buffer(chunk), error);
        bytes.append(chunk, count);
      } while (count > 0);
      return error != asio::error::would_block;
    };
    CHECK(until(is_over));
    far.non_blocking(false);
    return bytes;
  }
};

/// The frame as a Hearer records it.
std::string heard(const std::string& frame) { return frame.substr(5); }

}  // namespace

TEST_CASE("edge: frames come whole and in order, wherever the bytes are cut", "[unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 20; trial++) {
    Pair pair;
    Texts expected;
    std::string bytes;
    for (std::uint32_t i = 0; i < 40; i++) {
      // Some are longer than what is read at a time.
      const std::string frame =
          random() % 2 == 0 ? encode_beat(i) : encode_rows(std::vector<Row>(random() % 200));
      expected.push_back(heard(frame));
      bytes += frame;
    }
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto some = rest.substr(0, 1 + random() % 9000);
      pair.say(some);
      rest.remove_prefix(some.size());
      if (random() % 2 == 0) pair.until([turns = 3]() mutable { return turns-- == 0; });
    }
    CHECK(pair.until([&] { return pair.hearer->frames.size() == expected.size(); }));
    CHECK(pair.hearer->frames == expected);
    CHECK(pair.hearer->ends.empty());
  }
}

TEST_CASE("edge: its end is told once, with the reason, after the last frame", "[unit]") {
  Pair pair;
  pair.say(encode_beat(1));
  std::string why;
  SECTION("the peer closes") {
    pair.far.close();
    why = "its control connection closed";
  }
  SECTION("the peer resets") {
    REQUIRE(pair.until([&] { return !pair.hearer->frames.empty(); }));
    pair.far.set_option(tcp::socket::linger(true, 0));
    pair.far.close();
    why = "its control connection closed (Connection reset by peer)";
  }
  SECTION("the peer sends no frame") {
    pair.say("GET / HTTP/1.1\r\n\r\n" + encode_beat(2));
    why = "its control connection was dropped, because it sent ";
  }
  SECTION("the owner does not take a frame") {
    pair.say(encode_welcome() + encode_beat(2));
    pair.hearer->at_frame = [&](Edge&) -> Status {
      if (pair.hearer->frames.size() < 2) return {};
      return fail(ErrorKind::corrupt, "what nobody expected");
    };
    why = "its control connection was dropped, because it sent what nobody expected";
  }
  // The owner may forget the edge.
  const auto kept = pair.edge;
  pair.hearer->at_end = [&] { pair.edge.reset(); };
  CHECK(pair.until([&] { return kept.use_count() == 1; }));
  if (pair.far.is_open()) CHECK(pair.read_to_end().empty());
  CHECK(pair.hearer->frames.front() == heard(encode_beat(1)));
  CHECK(pair.hearer->frames.size() <= 2);
  REQUIRE(pair.hearer->ends.size() == 1);
  CHECK_THAT(pair.hearer->ends.front(), Catch::StartsWith(why));
  CHECK(pair.hearer->failures.empty());
}

TEST_CASE("edge: closed by its owner it reports nothing more, and the peer sees the end",
          "[unit]") {
  Pair pair;
  pair.hearer->at_frame = [](Edge& edge) {
    edge.close();
    return Status{};
  };
  pair.say(encode_beat(1) + encode_beat(2));
  CHECK(pair.read_to_end().empty());
  pair.edge->send(encode_beat(3));
  CHECK(pair.until([&] { return pair.edge.use_count() == 1; }));
  CHECK(pair.hearer->frames == Texts{heard(encode_beat(1))});
  CHECK(pair.hearer->ends.empty());
}

TEST_CASE("edge: once finished, all that was sent goes out, and what the peer says still comes",
          "[unit]") {
  Pair pair;
  std::string sent;
  // More than the sockets hold.
  for (int i = 0; i < 1000; i++) {
    sent += encode_rows(std::vector<Row>(200));
    pair.edge->send(encode_rows(std::vector<Row>(200)));
  }
  pair.edge->finish();
  pair.edge->send(encode_beat(1));
  CHECK((pair.read_to_end() == sent));
  CHECK(pair.hearer->ends.empty());
  pair.say(encode_beat(2));
  pair.far.close();
  CHECK(pair.until([&] { return !pair.hearer->ends.empty(); }));
  CHECK(pair.hearer->frames == Texts{heard(encode_beat(2))});
  CHECK(pair.hearer->ends == Texts{"its control connection closed"});
}

TEST_CASE("edge: a peer that does not read is dropped, and the reason says how much it left",
          "[unit]") {
  Pair pair;
  const std::string frame(std::size_t{1} << 20, 'x');
  for (std::size_t i = 0; i < Edge::kMaxBacklog / frame.size(); i++) pair.edge->send(frame);
  pair.until([turns = 3]() mutable { return turns-- == 0; });
  CHECK(pair.hearer->ends.empty());
  // The sockets have taken some.
  for (int i = 0; i < 16; i++) pair.edge->send(frame);
  CHECK(pair.until([&] { return !pair.hearer->ends.empty(); }));
  CHECK_THAT(pair.hearer->ends.front(),
             Catch::StartsWith("its control connection broke (it has left ") &&
                 Catch::EndsWith(" bytes unread)"));
}

TEST_CASE("edge: what its owner throws is no fault of the peer", "[unit]") {
  Pair pair;
  pair.hearer->at_frame = [](Edge& edge) -> Status {
    edge.send(encode_beat(5));
    throw std::runtime_error("thrown");
  };
  pair.say(encode_beat(1) + encode_beat(2));
  CHECK(pair.read_to_end() == encode_beat(5));
  CHECK(pair.hearer->failures == Texts{"thrown"});
  CHECK(pair.hearer->ends.empty());
  CHECK(pair.hearer->frames.size() == 1);
}

TEST_CASE("edge: a frame over the limit ends it, unless the limit was raised", "[unit]") {
  Pair pair;
  const bool is_raised = GENERATE(false, true);
  const std::string frame = encode_rows(std::vector<Row>(kFrameLimit / kRowBytes + 10));
  if (is_raised) pair.edge->set_frame_limit(2 * kFrameLimit);
  pair.say(frame);
  const auto& frames = pair.hearer->frames;
  CHECK(pair.until([&] { return !frames.empty() || !pair.hearer->ends.empty(); }));
  CHECK(frames.size() == (is_raised ? 1 : 0));
}

TEST_CASE("edge: silence adds up from check to check, until the peer speaks", "[unit]") {
  Pair pair;
  Edge& edge = *pair.edge;
  const auto made = shown;
  CHECK(edge.last_heard() == made);
  CHECK(edge.is_due(10ms));
  CHECK(edge.is_due(20ms));
  CHECK(edge.silent_for() == 30ms);
  shown += 1h;
  edge.send(encode_beat(1));
  CHECK_FALSE(edge.is_due(1ms));
  CHECK(edge.silent_for() == 31ms);
  CHECK(edge.last_heard() == made);
  // Half a frame is a sign of life, too.
  pair.say(encode_beat(1).substr(0, 3));
  REQUIRE(pair.until([&] { return edge.last_heard() != made; }));
  CHECK(edge.last_heard() == made + 1h);
  CHECK(edge.is_due(10ms));
  CHECK(edge.silent_for() == 0ms);
  CHECK(edge.is_due(10ms));
  CHECK(edge.silent_for() == 10ms);
}

}  // namespace ccoll::control
