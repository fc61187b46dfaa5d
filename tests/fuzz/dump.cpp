// SPDX-License-Identifier: Apache-2.0
// Dumps of flight recorders, and the reports made from them.
#include "comm/record/dump/dump.hpp"
#include "dumps/diagnosis.hpp"
#include "dumps/read.hpp"
#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  const auto bytes = fuzz::text_of(data, size);
  fuzz::require_round_trip(bytes, dump::parse, dump::to_json);
  const auto parsed = dump::parse(bytes);
  if (!parsed) return 0;
  // As one of two ranks: the other has died, or dumps the same.
  auto other = *parsed;
  other.rank = (parsed->rank + 1) % parsed->size;
  dump::Process lost;
  lost.rank = parsed->job_rank;
  lost.process = parsed->process;
  lost.end = dump::Process::End::signal;
  lost.with = "SIGKILL";
  for (const auto& dumps : {std::vector{*parsed}, std::vector{*parsed, other}}) {
    fuzz::require(dump::diagnose(dumps, {}).size() <= dump::kMostLines, "a diagnosis is short");
    fuzz::require(dump::diagnose(dumps, {lost}).size() <= dump::kMostLines, "a diagnosis is short");
  }
  return 0;
}
