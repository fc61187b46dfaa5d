// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_frame.hpp"

#include <catch2/catch.hpp>

using namespace ccoll;

TEST_CASE("message frames: what is written is read, and what no sender writes is refused",
          "[comm][unit][hostile]") {
  const Frame head{.kind = Frame::Kind::eager, .id = 7, .bytes = 100, .tag = 3, .type = 1};
  const auto read = decode(encode(head, 100), 2);
  REQUIRE(read);
  CHECK(
      (read->kind == Frame::Kind::eager && read->id == 7 && read->bytes == 100 && read->tag == 3));

  const auto refused = [](const SliceHeader& header) {
    const auto frame = decode(header, 2);
    return !frame && frame.error().kind == ErrorKind::corrupt;
  };
  // If it requests no clear to send, no data follows: it must hold all the bytes it announces.
  CHECK(refused(encode(head, 99)));
  CHECK(refused(encode(head, 0)));
  CHECK(refused(encode(head, 101)));
  auto requested = head;
  requested.requests_to_send = true;
  CHECK_FALSE(refused(encode(requested, 0)));
  CHECK(refused(encode(requested, 101)));
  auto clear_to_send = head;
  clear_to_send.kind = Frame::Kind::clear_to_send;
  CHECK_FALSE(refused(encode(clear_to_send, 0)));
  clear_to_send.in_slots = true;
  CHECK(decode(encode(clear_to_send, 0), 2)->in_slots);
  CHECK(refused(encode(clear_to_send, 1)));
  auto in_slots = head;
  in_slots.in_slots = true;
  CHECK(refused(encode(in_slots, 100)));
  in_slots.requests_to_send = true;
  CHECK(decode(encode(in_slots, 0), 2)->in_slots);
  auto header = encode(head, 100);
  header.signature.op = 4;
  CHECK(refused(header));
  header = encode(head, 100);
  header.signature.kind = 0;
  CHECK(refused(header));
}

TEST_CASE("message frames: whole is what is all there, charged, and waits for nothing",
          "[comm][unit]") {
  using Kind = Frame::Kind;
  for (const auto kind : {Kind::eager, Kind::clear_to_send, Kind::credit, Kind::payload}) {
    for (const bool requests_to_send : {false, true}) {
      for (const bool charged : {false, true}) {
        for (const std::size_t payload : {0, 99, 100, 101}) {
          const Frame frame{.kind = kind,
                            .id = 7,
                            .bytes = 100,
                            .requests_to_send = requests_to_send,
                            .charged = charged};
          const bool expected =
              kind == Kind::eager && !requests_to_send && charged && payload == 100;
          CHECK(is_whole_message(encode(frame, payload)) == expected);
        }
      }
    }
  }
  auto header = encode({.bytes = 8, .charged = true}, 8);
  CHECK(is_whole_message(header));
  header.signature.kind = 0;
  CHECK_FALSE(is_whole_message(header));
}
