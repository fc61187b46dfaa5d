// SPDX-License-Identifier: Apache-2.0
// Calls that need memory beside their buffers, more of it than there can be. They are not made
// under sanitizers, whose operator new ends the process then.
#include <catch2/catch.hpp>

#include "comm/call/call.hpp"
#include "comm/collectives/input_copy.hpp"
#include "comm/collectives/premultiplication.hpp"
#include "comm/collectives/widening.hpp"

using namespace ccoll;

namespace {

/// More than processors can address.
constexpr std::size_t kTooMany = std::size_t{1} << 56;

/// The error, if the run has stayed as it was.
template <typename Made>
std::string error_of(const Call& call) {
  std::byte input{}, output{};
  PlanRun run;
  run.input.data = &input;
  run.output.data = &output;
  const auto made = Made::make(call, 0, 4, run);
  if (made) return "there is memory";
  if (made.error().kind != ErrorKind::exhausted) return "another kind";
  if (run.input.data != &input || run.output.data != &output) return "the run has changed";
  return made.error().message;
}

}  // namespace

TEST_CASE("scarce memory: a call that finds none says for what, and leaves its run alone",
          "[comm][unit]") {
  Call call;
  call.kind = Kind::reduce_scatter;
  call.type = DataType::float16;
  call.count = kTooMany / 4;
  call.op = ReduceOp::avg;
  CHECK(error_of<Widening>(call) ==
        "reduce_scatter: there is no memory to convert 90071992547409920 elements to float32");
  call.op = Reduction::premultiplied_sum(0.5);
  CHECK(error_of<Premultiplication>(call) ==
        "reduce_scatter: no memory for 144115188075855872 bytes of multiplied input");
  call.kind = Kind::all_to_all;
  CHECK(error_of<InputCopy>(call) ==
        "all_to_all: input and output overlap, and there is no memory to copy the input "
        "(144115188075855872 bytes)");
}
