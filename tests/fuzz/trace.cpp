// SPDX-License-Identifier: Apache-2.0
// Trace files and their texts.
#include <algorithm>

#include "comm/record/trace/texts.hpp"
#include "fuzz/target.hpp"
#include "trace/read.hpp"

namespace ccoll::trace {
namespace {

/// The promises of docs/trace_format.md for a trace that could be read.
void check(const Trace& trace) {
  for (std::size_t i = 0; i < trace.calls.size(); i++) {
    const auto& call = trace.calls[i];
    fuzz::require(i == 0 || trace.calls[i - 1].sequence < call.sequence, "calls are in order");
    fuzz::require(call.plan < trace.plans.size(), "a call's plan is there");
    for (const auto& step : call.steps)
      fuzz::require(
          step.peer < trace.about.size && step.begin <= step.moved && step.moved <= step.end,
          "a step waits for a rank, and ends after it has begun");
  }
  for (const auto& message : trace.messages)
    fuzz::require(message.peer < trace.about.size && message.begin <= message.end,
                  "a message has a peer, and ends after it has begun");
}

/// Printed text is read back and prints the same. (User-given names are printed without characters
/// that a line cannot contain, so the first reading may differ.)
template <typename Parse>
void require_stable(const std::string& printed, Parse parse) {
  const auto again = parse(printed);
  fuzz::require(again.has_value(), "what was printed is read");
  fuzz::require(to_text(*again) == printed, "what was printed is printed alike");
}

}  // namespace
}  // namespace ccoll::trace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  const auto bytes = fuzz::text_of(data, size);
  if (const auto trace = trace::parse_trace("trace", bytes)) {
    trace::check(*trace);
    for (const auto& plan : trace->plans)
      trace::require_stable(trace::to_text(plan), [&](std::string_view text) {
        return trace::parse_planned(text, trace->about);
      });
  }
  if (const auto about = trace::parse_about(bytes))
    trace::require_stable(trace::to_text(*about), trace::parse_about);
  return 0;
}
