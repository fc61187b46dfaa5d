// SPDX-License-Identifier: Apache-2.0
// The tuning file, which rank 0 also sends to all others.
#include "comm/groups/tuning.hpp"
#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  const auto tuning = parse_tuning(fuzz::text_of(data, size));
  if (!tuning) return 0;
  // Numbers are rounded to four digits, so only printed text is read back unchanged.
  const auto printed = to_text(*tuning);
  const auto again = parse_tuning(printed);
  fuzz::require(again && again->size() == tuning->size(), "what is printed is accepted");
  fuzz::require(to_text(*again) == printed, "what is printed is printed alike");
  return 0;
}
