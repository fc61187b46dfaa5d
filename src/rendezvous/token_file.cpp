// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/open_store.hpp"

#include "system/read_file.hpp"

namespace ccoll {

Result<std::string> read_token_file(const std::string& path, std::string_view what) {
  constexpr std::size_t kMostTokenBytes = 4096;
  auto token = read_private_file(what, path, kMostTokenBytes);
  if (!token) return token;
  token->erase(token->find_last_not_of(" \t\r\n") + 1);
  if (token->empty()) {
    return fail(ErrorKind::invalid_argument, "{} {}: it holds no token", what, path);
  }
  return token;
}

}  // namespace ccoll
