// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/self.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

CommunicatorOptions named(std::string name) {
  CommunicatorOptions options;
  options.name = std::move(name);
  return options;
}

}  // namespace

TEST_CASE("self: a culprit has its number here, and the text says both", "[comm][unit]") {
  const Parts part(1, {4, 5, 7}, 31);
  const auto told = part.self.for_caller({ErrorKind::peer_lost, "a link broke", 7});
  CHECK(told.culprit == 2U);
  CHECK(told.message == "a link broke (rank 7 of the job is rank 2 here)");
  // One that is not here has no number to tell.
  const auto other = part.self.for_caller({ErrorKind::peer_lost, "a link broke", 6});
  CHECK_FALSE(other.culprit);
  CHECK(other.message == "a link broke");
}

TEST_CASE("self: texts that use this communicator's numbers get no other", "[comm][unit]") {
  const Parts part(1, {4, 5, 7}, 31);
  const auto kind = GENERATE(ErrorKind::timed_out, ErrorKind::mismatch);
  const auto told = part.self.for_caller({kind, "rank 2 is late", 7});
  CHECK(told.culprit == 2U);
  CHECK(told.message == "rank 2 is late");
}

TEST_CASE("self: in a group with the job's numbers there is one number", "[comm][unit]") {
  const Parts whole(1, {0, 1, 2}, 31);
  CHECK(whole.self.for_caller({ErrorKind::peer_lost, "a link broke", 2}).message == "a link broke");
}

TEST_CASE("self: the call's label comes first, then a name that was given", "[comm][unit]") {
  const Parts part(0, {0, 1}, 31, named("experts")), unnamed(0, {0, 1}, 32);
  const Failure failure{ErrorKind::aborted, "enough", std::nullopt};
  CHECK_THAT(part.self.for_caller(failure, "gradients").message,
             StartsWith("\"gradients\"") && EndsWith("experts: enough"));
  CHECK(unnamed.self.for_caller(failure).message == "enough");
  CHECK(unnamed.self.name() == "world");
}

TEST_CASE("self: what fails here names this rank to the others", "[comm][unit]") {
  const Parts part(1, {4, 5, 7}, 31);
  const auto told = part.self.failed_here({ErrorKind::exhausted, "no memory", std::nullopt});
  CHECK(told.kind == ErrorKind::exhausted);
  CHECK(told.message == "rank 1 failed: no memory");
  CHECK(told.culprit == 5U);
}

TEST_CASE("self: a call's name has its number, its algorithm and its label", "[comm][unit]") {
  const Parts part(1, {4, 5, 7}, 31);
  Signature signature;
  signature.kind = static_cast<std::uint8_t>(Kind::all_reduce);
  signature.type = static_cast<std::uint8_t>(DataType::float32);
  signature.algorithm = static_cast<std::uint8_t>(Algorithm::ring);
  signature.count = 8;
  CHECK_THAT(part.self.name_of(3, signature, "gradients"),
             StartsWith("all_reduce of 8 float32") && Contains("by ring (call 3") &&
                 Contains("gradients") && EndsWith("on rank 1"));
}

TEST_CASE("self: few ranks are named with their processes, more by their numbers", "[comm][unit]") {
  const Parts part(1, {4, 5, 7}, 31);
  CHECK(part.self.ranks_text({}) == "nobody");
  CHECK_THAT(part.self.ranks_text({0, 2}),
             Contains("rank 0 (in the job rank 4") && Contains("rank 2 (in the job rank 7"));
  std::vector<std::uint32_t> many(40);
  std::iota(many.begin(), many.end(), 0);
  const Parts large(0, many, 31);
  CHECK_THAT(large.self.ranks_text(many), Contains("pid") && EndsWith("ranks 16-39"));
}

TEST_CASE("self: the transport to a rank is the job's to that rank's number there",
          "[comm][unit]") {
  const Parts part(1, {4, 5, 7}, 31);
  CHECK(part.self.transport_to(2).value() == "inproc");
}

}  // namespace ccoll::test
