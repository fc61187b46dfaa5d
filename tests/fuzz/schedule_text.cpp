// SPDX-License-Identifier: Apache-2.0
// Schedules as text: one program, and a whole schedule.
#include "fuzz/target.hpp"
#include "schedule/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  const auto text = fuzz::text_of(data, size);
  fuzz::require_round_trip(text, parse_program,
                           [](const Program& program) { return to_string(program); });
  fuzz::require_round_trip(text, parse_programs, [](const std::vector<Program>& programs) {
    return to_string(programs);
  });
  return 0;
}
