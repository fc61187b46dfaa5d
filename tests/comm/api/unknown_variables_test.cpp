// SPDX-License-Identifier: Apache-2.0
// An unknown variable causes one warning per process, by one of its ranks. It has a process of its
// own because of that; no Catch2, which may write to standard error.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "ccoll/ccoll.hpp"

using namespace ccoll;

int main() {
  ::setenv("CCOLL_SOTRE", "tcp://127.0.0.1:1", 1);
  int said[2];
  if (::pipe(said) != 0 || ::dup2(said[1], STDERR_FILENO) < 0) return 2;
  for (int round = 0; round < 2; round++) Communicator::create(UniqueId::create(), 0, 1);
  (void)!::write(said[1], "\n", 1);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(::read(said[0], text.data(), text.size())));
  const auto first = text.find("did you mean CCOLL_STORE?");
  if (first != text.npos && text.find("CCOLL_SOTRE", first) == text.npos) return 0;
  std::cout << "failed: one warning is due, not: " << text << std::endl;
  return 1;
}
