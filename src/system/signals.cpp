// SPDX-License-Identifier: Apache-2.0
#include "system/signals.hpp"

#include <signal.h>

#include <charconv>

namespace ccoll {

Result<int> signal_named(const std::string& name) {
  constexpr std::string_view kRealTime = "RTMIN+";
  std::string_view word = name;
  if (word.starts_with("SIG")) word.remove_prefix(3);
  if (word == "USR1") return SIGUSR1;
  if (word == "USR2") return SIGUSR2;
  if (word == "QUIT") return SIGQUIT;
  if (word.starts_with(kRealTime)) {
    const char* const end = word.data() + word.size();
    int number = -1;
    const auto [rest, error] = std::from_chars(word.data() + kRealTime.size(), end, number);
    if (error == std::errc() && rest == end && number >= 0 && SIGRTMIN + number <= SIGRTMAX)
      return SIGRTMIN + number;
  }
  return fail(ErrorKind::invalid_argument,
              "'{}': expected USR1, USR2, QUIT, or RTMIN+0 to RTMIN+{}", name, SIGRTMAX - SIGRTMIN);
}

}  // namespace ccoll
