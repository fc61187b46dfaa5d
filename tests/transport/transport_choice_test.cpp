// SPDX-License-Identifier: Apache-2.0
#include "transport/transport.hpp"

#include <catch2/catch.hpp>

#include "transport/transport_set.hpp"

namespace ccoll {
namespace {

/// The names that a text allows, in the order of the table.
std::string allowed_by(const std::string& text) {
  const auto choice = TransportChoice::parse(text);
  REQUIRE(choice);
  std::string names;
  for (const auto& kind : transports())
    if (choice->allows(kind)) names += std::string(kind.name) + " ";
  return names;
}

std::string refusal(const std::string& text) {
  const auto choice = TransportChoice::parse(text);
  REQUIRE_FALSE(choice);
  CHECK(choice.error().kind == ErrorKind::invalid_argument);
  return choice.error().message;
}

}  // namespace

TEST_CASE("transport choice: one, several, or all but some", "[transport][unit]") {
  CHECK(allowed_by("") == "inproc shm verbs tcp ");
  CHECK(allowed_by("tcp") == "tcp ");
  CHECK(allowed_by("tcp,shm") == "shm tcp ");
  CHECK(allowed_by("^verbs") == "inproc shm tcp ");
  CHECK(allowed_by("^verbs,shm") == "inproc tcp ");
  for (const auto* text : {"", "tcp", "tcp,shm", "^verbs", "^verbs,shm"}) {
    const auto choice = TransportChoice::of(text);
    CHECK(TransportChoice(choice.excluded()).text() == choice.text());
  }
  CHECK(TransportChoice().text() == "by reach");
  CHECK(TransportChoice::of("tcp").text() == "tcp");
  CHECK(TransportChoice::of("^verbs,inproc").text() == "shm or tcp");
}

TEST_CASE("transport choice: what is none, and what leaves none, is refused by its name",
          "[transport][unit]") {
  CHECK(refusal("tpc") ==
        "no transport 'tpc' (CCOLL_TRANSPORT); there are inproc, shm, verbs, tcp");
  CHECK(refusal("^ib,shm") ==
        "no transport 'ib' (CCOLL_TRANSPORT=^ib,shm); there are inproc, shm, verbs, tcp");
  CHECK(refusal("shm,") ==
        "no transport '' (CCOLL_TRANSPORT=shm,); there are inproc, shm, verbs, tcp");
  CHECK(refusal("^") == "no transport '' (CCOLL_TRANSPORT=^); there are inproc, shm, verbs, tcp");
  CHECK(refusal("^tcp,verbs,shm,inproc") ==
        "CCOLL_TRANSPORT=^tcp,verbs,shm,inproc leaves no transport; there are inproc, shm, verbs, "
        "tcp");
}

TEST_CASE("transport choice: a rank that RDMA does not reach is told of with the reason",
          "[transport][unit]") {
  TransportContext context;
  context.service = net::Service::shared();
  context.table.resize(2);
  for (auto& rank : context.table) rank.port = 1;
  context.table[1].host = context.table[0].host + 1;
  const auto kind = TransportSet(context, "verbs").between(1);
  REQUIRE_FALSE(kind);
  CHECK_THAT(
      kind.error().message,
      Catch::StartsWith("transport verbs does not reach rank 1 from rank 0, on another host; "
                        "verbs: ") &&
          Catch::EndsWith(": choose another or leave the choice to ccoll (CCOLL_TRANSPORT, "
                          "transport)"));
}

}  // namespace ccoll
