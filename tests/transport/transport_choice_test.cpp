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

namespace {
constexpr std::uint64_t kJob = 77;
}

TEST_CASE("transport choice: small jobs open links ahead, where these are cheap and cores are free",
          "[transport][unit]") {
  TransportContext context;
  context.job = kJob;
  context.table.resize(8);
  for (std::size_t rank = 0; rank < context.table.size(); rank++) {
    context.table[rank].host = 1;
    context.table[rank].process = rank;
  }
  const auto opens = [](const TransportContext& of, const char* allowed = "tcp",
                        std::uint64_t communicator = kJob) {
    return TransportSet(of, allowed).opens_ahead(communicator, 1);
  };
  CHECK(opens(context));
  CHECK_FALSE(opens(context, "tcp", kJob + 1));
  auto jobless = context;
  jobless.job = 0;
  CHECK_FALSE(opens(jobless, "tcp", 0));

  auto oversubscribed = context;
  oversubscribed.oversubscribed = true;
  CHECK_FALSE(opens(oversubscribed));
  auto large = context;
  large.table.resize(9, context.table[7]);
  CHECK_FALSE(opens(large));
  auto threads = context;
  for (auto& rank : threads.table) rank.process = 0;
  CHECK_FALSE(opens(threads, "inproc"));

  const auto* const shm = find_transport("shm");
  CHECK(shm->may_open_ahead(context));
  context.slot_memory_bytes = std::size_t{8} << 20;
  CHECK_FALSE(shm->may_open_ahead(context));
}

}  // namespace ccoll
